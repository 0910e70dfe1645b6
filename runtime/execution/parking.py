"""Parking: actions that wait for something which is neither a reply nor the clock, in the wait queue like any other (law 6).

A `ParkableAction` returns WAITING from `run`, and whoever has what it waits for calls `resume`, from any thread, perhaps
before the worker has put the action aside: then it is not put aside at all. While it waits, those that it waits for inherit its
priority (law 10). What has a stack to come back to waits in its thread; for inheritance it is all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from appbackplane.transport.errors import BackplaneError

from ..objects.action import Action, ParkableAction
from .current import current
from .method_action import MethodAction

if TYPE_CHECKING:
    from .engine import Engine


class Parking:
    """Part of the engine: whoever holds the lead owns it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        #: What waits, by identity: an action may compare equal to others.
        self.parked: dict[int, ParkableAction] = {}
        #: Actions that wait in their threads now, and the most there ever were: as many threads are spare.
        self._blocked_count = self.spares = 0
        #: For what these wait, and others that run and wait in their threads, by identity, as far as they say.
        self.blocked_by: dict[int, str] = {}
        #: Sees to it that there are that many.
        self.on_spares: Callable[[], None] | None = None

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
        self.parked[id(action)] = action
        if action.throttle is not None and not action.has_begun:
            action.throttle.may_be_refused(action.priority)
        asked = action.priority
        engine.inheritance.awaits(action)
        if action.priority != asked:  # something more urgent has queued behind it
            action.boosted()
        self.hurry(action, now_ns)

    def resume(self, action: ParkableAction, now_ns: int) -> None:
        """What it waited for has come.

        A regular worker between two actions takes it next, or leaves something that others were woken for: nobody is woken.
        """
        engine = self._engine
        if self.parked.pop(id(action), None) is None:  # it is still on its way there, or was taken back
            action.is_resumed = True
            return
        engine.inheritance.goes_on(action)
        is_first = not engine.scheduler.ready.count
        engine.scheduler.resume_first(action, now_ns)
        worker = current.worker
        is_taken = worker is not None and worker.engine is engine and not worker.is_relief and not worker.started_ns
        if not (is_first and is_taken):
            engine.watch.notify()

    def hurry(self, action: ParkableAction, now_ns: int) -> None:
        """Whoever stands in its way inherits its priority: it waits from now on, or for somebody else."""
        for each in action.waits_for():
            self._engine.inheritance.boost(each, action.priority, now_ns)

    def take_back(self, action: ParkableAction, error: BackplaneError, now_ns: int) -> bool:
        """End what waits and has not begun; False: it does not wait, or something of it is done."""
        engine = self._engine
        if action.has_begun or self.parked.pop(id(action), None) is None:
            return False
        engine.inheritance.goes_on(action)
        in_its_way = [*action.waits_for()]
        engine.scheduler.resume(action, now_ns)
        engine.scheduler.withdraw(action)
        engine.endings.refuse(action, error, now_ns)
        engine.inheritance.settle(in_its_way, now_ns)
        return True

    # -- blocking waiters: to the scheduler they run ------------------------------------------------------------------

    def begins_to_block(self, action: Action, now_ns: int, what: str = "") -> None:
        """`action` is about to wait in its thread; what else that one would have done is somebody else's."""
        engine = self._engine
        if what:
            self.blocked_by[id(action)] = what
        asked = action.priority
        engine.inheritance.awaits(action)
        engine.inheritance.blocked_count += 1
        if isinstance(action, ParkableAction):
            if action.priority != asked:
                action.boosted()
            self.hurry(action, now_ns)
        self._spare()
        worker = current.worker
        if worker is not None and worker.engine is engine:
            worker.is_blocked = True
            engine.presence.show(worker)
        if engine.outbox:
            engine.flush(now_ns)
        engine.watch.hand_over()
        engine.nudge()

    def blocks_no_more(self, action: Action) -> None:
        """It goes on."""
        self.blocked_by.pop(id(action), None)
        engine, worker = self._engine, current.worker
        if worker is not None and worker.engine is engine:
            worker.is_blocked = False
            engine.presence.show(worker)
        engine.inheritance.goes_on(action)
        engine.inheritance.blocked_count -= 1
        self._blocked_count -= 1

    def _spare(self) -> None:
        """An action waits in its thread: a spare one does what that one would have done, or nobody might be left to do it."""
        self._blocked_count += 1
        if self._blocked_count > self.spares:
            self.spares = self._blocked_count
            if self.on_spares is not None:
                self.on_spares()
