"""User functions: `pause` and `current`, for operations.

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
