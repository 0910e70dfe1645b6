"""Running: `current` for users: the action that the calling thread runs."""

from __future__ import annotations

from ..objects.action import Action
from .current import current as _thread


def current() -> Action:
    """The running action: its `source` and `principal` (who called, and on whose behalf), `priority` and `deadline_ns`.

    Raises RuntimeError in a thread that runs no action.
    """
    action = _thread.action
    if action is None:
        raise RuntimeError("current(): no action runs in this thread; call it in an operation, a timer or a hook")
    return action
