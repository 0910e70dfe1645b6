"""Timer dispatch: turns due timers into actions (law 8). An action takes over its timer's place in `max_posted`."""

from __future__ import annotations

import logging

from ..scheduling.timers import Timer
from .inheritance import Inheritance
from .method_action import MethodAction

log = logging.getLogger("appbackplane.runtime")


def fire(inheritance: Inheritance, timer: Timer, now_ns: int) -> None:
    """Queue the action that a due timer becomes, if it makes one. Needs the lead."""
    if timer.make is None:
        action = MethodAction(timer.object, timer.name, timer.priority, timer.function, timer.arguments)
        action.timer = timer
        action.throttle, timer.account = timer.account, None
        inheritance.post(action, now_ns)
        return
    made = None
    try:
        made = timer.make()
    except Exception:  # the edge: `make` may be a user's code; the worker that fires timers goes on
        log.exception("%s: the timer's action could not be created", timer.name)
    account = None
    if not timer.interval_ns:
        account, timer.account = timer.account, None
    if made is not None:
        made.throttle = account
        inheritance.post(made, now_ns)
        return
    timer.is_pending = False
    if account is not None:
        account.ended(now_ns)
