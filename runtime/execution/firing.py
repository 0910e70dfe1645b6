"""Firing: turns due timers into actions (law 8). An action takes over its timer's place in the component's `max_posted`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..objects.action import Action
from .method_action import MethodAction

if TYPE_CHECKING:
    from ..scheduling.timers import Timer
    from .engine import Engine

log = logging.getLogger("appbackplane.runtime")


def fire(engine: Engine, timer: Timer, now_ns: int) -> None:
    """Queue the action that a due timer becomes, if it makes one. Needs the lead."""
    if timer.make is None:
        action = MethodAction(timer.object, timer.name, timer.priority, timer.function, timer.arguments)
        action.timer = timer
        action.throttle, timer.account = timer.account, None
        _post(engine, action, now_ns)
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
        _post(engine, made, now_ns)
        return
    timer.is_pending = False
    if account is not None:
        account.ended(now_ns)


def _post(engine: Engine, action: Action, now_ns: int) -> None:
    engine.scheduler.post(action, now_ns)
    engine.inheritance.queued(action, now_ns)
