"""Parking: actions that wait for something which is neither a reply nor the clock, in the wait queue like any other (law 6).

A `ParkableAction` returns WAITING from `run`, and whoever has what it waits for calls `resume`, from any thread, perhaps
before the worker has put the action aside: then it is not put aside at all. While it waits, those that it waits for inherit its
priority (law 10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..objects.action import Action, ParkableAction
from .current import current
from .method_action import MethodAction

if TYPE_CHECKING:
    from .engine import Engine


class Parking:
    """Part of the engine: whoever holds the lead owns it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def begins_to_wait(self, action: Action, now_ns: int) -> None:
        """`action` has returned WAITING, and its object is in the wait queue."""
        if isinstance(action, ParkableAction):
            self._park(action, now_ns)
        else:
            assert isinstance(action, MethodAction), "only a method can await"
            self._engine.outgoing.start(action, now_ns)

    def _park(self, action: ParkableAction, now_ns: int) -> None:
        engine = self._engine
        if action.is_resumed:
            action.is_resumed = False
            engine.scheduler.resume_first(action, now_ns)
            return
        asked = action.priority
        engine.inheritance.awaits(action)
        if action.priority != asked:  # something more urgent has queued behind it
            action.boosted()
        for each in action.waits_for():
            engine.inheritance.boost(each, action.priority, now_ns)

    def resume(self, action: ParkableAction, now_ns: int) -> None:
        """What it waited for has come.

        A regular worker between two actions takes it next, or leaves something that others were woken for: nobody is woken.
        """
        engine = self._engine
        if not action.object._waits:  # it is still on its way there
            action.is_resumed = True
            return
        engine.inheritance.goes_on(action)
        is_first = not engine.scheduler.ready.count
        engine.scheduler.resume_first(action, now_ns)
        worker = current.worker
        if not is_first or worker is None or worker.is_relief or worker.started_ns:
            engine.watch.notify()
