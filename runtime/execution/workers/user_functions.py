"""User functions: `pause`, `current` and `change_priority`, for operations.

Not compiled: mypyc would word the errors for bad arguments itself.
"""

from __future__ import annotations

from collections.abc import Awaitable

from appbackplane.transport.call_checks import is_number

from ...objects.action import Action
from ..actions.coroutines import Pause
from .current import current as _thread


def pause(seconds: float) -> Awaitable[None]:
    """`await pause(0.1)`: let `seconds` pass without holding a worker. Raises TypeError if not a number, ValueError below 0."""
    if not is_number(seconds):
        raise TypeError(f"pause({seconds!r}): expected a number of seconds, 0 or more")
    if not seconds >= 0:
        raise ValueError(f"pause({seconds!r}): expected a number of seconds, 0 or more")
    return Pause(round(seconds * 1e9))


def current() -> Action:
    """The running action: its `source` and `principal` (who called, and on whose behalf), `priority` and `deadline_ns`.

    Raises RuntimeError in a thread that runs no action.
    """
    action = _thread.action
    if action is None:
        raise RuntimeError("current(): no action runs in this thread; call it in an operation, a timer or a hook")
    return action


def change_priority(priority: int) -> None:
    """Give the running action another priority for the next phase of its work ("assign priorities to different phases of a
    process", seed 002). It goes on at this priority after its next `await`, and its calls carry it.

    Work that waits for the action, such as its caller, keeps it as urgent as that work is (docs/concepts/inheritance.md).
    Raises RuntimeError in a thread that runs no action, TypeError if `priority` is no integer, ValueError if the backplane does
    not have it.
    """
    worker, action = _thread.worker, _thread.action
    if worker is None or action is None:
        raise RuntimeError(
            "change_priority(): no action runs in this thread; call it in an operation, a timer or a hook"
        )
    if type(priority) is not int:
        raise TypeError(f"change_priority({priority!r}): expected a whole number")
    worker.host.change_priority(worker, action, priority)
