"""Parked actions: actions that wait for neither a reply nor a time, such as a lock, in the wait queue like any other (law 6).

A `ParkableAction` returns WAITING from `run`, and the holder of the awaited resource calls `resume`, from any thread. If that
comes before the worker has parked the action, it is not parked at all. While it waits, the actions that it waits for inherit
its priority (law 10). An action with a stack to return to blocks its thread instead; inheritance treats both alike.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from appbackplane.transport.errors import BackplaneError

from ...objects.action import Action, ParkableAction
from ...scheduling.scheduler import Scheduler
from ..urgency.priority_publisher import PriorityPublisher
from ..workers.current import current
from ..workers.poll_leader import PollLeader
from .completion import Completion
from .inheritance import Inheritance


class ParkedActions:
    """Parked and blocked actions. Used under the lead."""

    def __init__(
        self, *, lead: threading.RLock, scheduler: Scheduler, poll_leader: PollLeader, priority_publisher: PriorityPublisher,
        inheritance: Inheritance, completion: Completion, hand_over: Callable[[], None],
    ) -> None:  # fmt: skip
        """`hand_over`: hands the duties of the calling worker over, because it is about to block (`Engine.hand_over`)."""
        self._lead = lead
        self._scheduler = scheduler
        self._poll_leader = poll_leader
        self._priority_publisher = priority_publisher
        self._inheritance = inheritance
        self._completion = completion
        self._hand_over = hand_over
        #: The parked actions, by identity: an action may compare equal to others.
        self.parked: dict[int, ParkableAction] = {}
        #: Actions that block their threads now, and the highest number so far: that many spare threads are kept.
        self._blocked_count = self.spares = 0
        #: Why a blocked action waits, by its identity, where a reason was given.
        self.blocked_by: dict[int, str] = {}
        #: Called when `spares` has grown: starts the spare threads.
        self.on_spares: Callable[[], None] | None = None

    def park(self, action: ParkableAction, now_ns: int) -> None:
        """`action` has returned WAITING and its object is in the wait queue: keep it until `resume`."""
        if action.is_resumed:
            action.is_resumed = False
            self._scheduler.resume_first(action, now_ns)
            return
        self.parked[id(action)] = action
        if action.throttle is not None and not action.has_begun:
            action.throttle.may_be_refused(action.priority)
        asked = action.priority
        self._inheritance.awaits(action)
        if action.priority != asked:  # more urgent work has queued behind it
            action.priority_changed()
        self.hurry(action, now_ns)

    def resume(self, action: ParkableAction, now_ns: int) -> None:
        """The wait of `action` is over: queue it in front.

        Wakes no worker if it is the only ready action and the calling regular worker is between two actions: that one takes it.
        """
        if self.parked.pop(id(action), None) is None:  # it is about to be parked, or was cancelled
            action.is_resumed = True
            return
        self._inheritance.goes_on(action)
        is_first = not self._scheduler.ready.count
        self._scheduler.resume_first(action, now_ns)
        worker = current.worker
        is_taken = worker is not None and worker.lead is self._lead and not worker.is_relief and not worker.started_ns
        if not (is_first and is_taken):
            self._poll_leader.notify()

    def hurry(self, action: ParkableAction, now_ns: int) -> None:
        """The actions that `action` now waits for inherit its priority."""
        for each in action.waits_for():
            self._inheritance.inherit(each, action.priority, now_ns)

    def take_back(self, action: ParkableAction, error: BackplaneError, now_ns: int) -> bool:
        """End a parked action that has not begun. False: it is not parked, or a part of it is done."""
        if action.has_begun or self.parked.pop(id(action), None) is None:
            return False
        self._inheritance.goes_on(action)
        in_its_way = [*action.waits_for()]
        self._scheduler.resume(action, now_ns)
        self._scheduler.withdraw(action)
        self._completion.refuse(action, error, now_ns)
        self._inheritance.settle(in_its_way, now_ns)
        return True

    # -- blocking waiters: the scheduler still counts them as running -------------------------------------------------

    def begins_to_block(self, action: Action, now_ns: int, what: str = "") -> None:
        """`action` is about to block its thread, whose other duties pass to other workers. `what`: the reason, for `why`."""
        if what:
            self.blocked_by[id(action)] = what
        asked = action.priority
        self._inheritance.awaits(action)
        self._inheritance.blocked_count += 1
        if isinstance(action, ParkableAction):
            if action.priority != asked:
                action.priority_changed()
            self.hurry(action, now_ns)
        self._blocked_count += 1
        if self._blocked_count > self.spares:  # one spare thread for each blocked one, or no worker might be left
            self.spares = self._blocked_count
            if self.on_spares is not None:
                self.on_spares()
        worker = current.worker
        if worker is not None and worker.lead is self._lead:
            worker.is_blocked = True
            self._priority_publisher.show(worker)
        self._hand_over()

    def blocks_no_more(self, action: Action) -> None:
        """The blocking wait of `action` has ended."""
        self.blocked_by.pop(id(action), None)
        worker = current.worker
        if worker is not None and worker.lead is self._lead:
            worker.is_blocked = False
            self._priority_publisher.show(worker)
        self._inheritance.goes_on(action)
        self._inheritance.blocked_count -= 1
        self._blocked_count -= 1
