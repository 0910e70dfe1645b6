"""Deadline order: within one priority, the object whose work has the nearer deadline goes first (`order = "deadline"`).

Earliest deadline first (Liu and Layland, 1973) among objects of one rank; priorities, quotas and the order within an object
stay as they are (laws 1 to 3). What counts for an object is the nearest deadline among its first `LOOK_AHEAD_MAX` actions of
the priority for which it stands there: those before it are in its way. Work without a deadline counts as if it had the
default one from when it was queued, so it is overtaken for that long and then overtakes: nothing starves.

A heap a priority instead of a FIFO, in classes of its own: the default order pays nothing for it (about 1 us more an
action here). Dead entries stay behind, as in ready_queues.py, and are known by having lost their object.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from typing import Any

from ..objects.action import DEADLINE_DEFAULT_NS, Action
from ..objects.schedulable import Schedulable
from . import ready_queues
from .object_queue import READY
from .scheduler import Policy, Scheduler

#: Actions of an object that are looked at: 40 ns each. An action further behind counts once it has moved up.
LOOK_AHEAD_MAX = 32
#: The deadline of work that has none, from when it was queued: that of calls which come without.
PATIENCE_NS = DEADLINE_DEFAULT_NS
_NEVER_NS = 1 << 63


#: A place in a queue: when it is due, its turn, a number of its own, and the object; None once it is dead. A list, because
#: heapq compares lists in C: with a class of its own an action cost 0.6 us more.
Entry = list[Any]
_DUE, _TURN, _OBJECT = 0, 1, 3


class DeadlineQueues(ready_queues.Ready):
    """Ready queues in the order of deadlines; of equal ones, first come, first served."""

    def __init__(self, priorities: int) -> None:
        super().__init__([[] for _ in range(priorities)])
        self._entries: dict[int, Entry] = {}  # by id(): users may give their objects an __eq__
        self._turns = itertools.count()
        self._numbers = itertools.count()

    def push(self, object: Schedulable) -> None:
        """Put an object where it belongs in the queue of its priority."""
        self._enter(object, next(self._turns))
        self.count += 1

    def move(self, object: Schedulable, old_priority: int) -> None:
        """The object's priority has changed while it was ready."""
        self._bury(object, old_priority)
        self._enter(object, next(self._turns))

    def take(self, left: list[int], end: int) -> Schedulable | None:
        """Take the first object of the highest priority that has quota `left`, above `end`, and spend one; or None."""
        for priority, queue in enumerate(self.queues):
            while queue and left[priority] > 0:
                if priority >= end:
                    return None
                object: Schedulable | None = heapq.heappop(queue)[_OBJECT]
                if object is None:
                    self._dead[priority] -= 1
                    continue
                del self._entries[id(object)]
                self.count -= 1
                left[priority] -= 1
                return object
        return None

    def standing(self, priority: int) -> Iterator[Schedulable]:
        """Those who stand in one queue, first to last; sorted as far as one looks."""
        heap = self.queues[priority].copy()
        while heap:
            object: Schedulable | None = heapq.heappop(heap)[_OBJECT]
            if object is not None:
                yield object

    def ahead_of(self, object: Schedulable, look_max: int) -> tuple[int, bool]:
        """How many stand before a ready object in its queue; True: that is all, and not only those that were looked at."""
        own, queue = self._entries[id(object)], self.queues[object._priority]
        looked_at = itertools.islice(queue, look_max)
        return sum(entry < own and entry[_OBJECT] is not None for entry in looked_at), len(queue) <= look_max

    def joined(self, action: Action) -> None:
        """An action has joined those of a ready object."""
        entry = self._entries.get(id(action.object))
        if entry is not None and due_ns(action) < entry[_DUE]:
            self.changed(action.object)

    def changed(self, object: Schedulable) -> None:
        """Its actions have changed: another place among its equals, if need be, and no loss of its turn."""
        entry = self._entries.get(id(object))
        if entry is not None and nearest_ns(object) != entry[_DUE]:
            self._bury(object, object._priority)
            self._enter(object, entry[_TURN])

    def _enter(self, object: Schedulable, turn: int) -> None:
        entry = self._entries[id(object)] = [nearest_ns(object), turn, next(self._numbers), object]
        heapq.heappush(self.queues[object._priority], entry)

    def _bury(self, object: Schedulable, priority: int) -> None:
        self._entries.pop(id(object))[_OBJECT] = None
        self._dead[priority] += 1
        queue = self.queues[priority]
        if self._dead[priority] > max(ready_queues.DEAD_MAX, len(queue) // 2):
            queue[:] = [entry for entry in queue if entry[_OBJECT] is not None]
            heapq.heapify(queue)
            self._dead[priority] = 0


class DeadlineScheduler(Scheduler):
    """The scheduler, with its ready queues in the order of deadlines."""

    def __init__(self, policy: Policy, now_ns: int) -> None:
        super().__init__(policy, now_ns)
        self.ready = self._queues = DeadlineQueues(policy.priorities)

    def post(self, action: Action, now_ns: int) -> None:
        """Queue a request; see `Scheduler.post`."""
        was_ready = action.object._state == READY
        super().post(action, now_ns)
        if was_ready:
            self._queues.joined(action)

    def _place(self, object: Schedulable, old_priority: int) -> None:
        super()._place(object, old_priority)
        if object._state == READY:
            self._queues.changed(object)


def due_ns(action: Action) -> int:
    """When an action should be done."""
    return action.posted_ns + PATIENCE_NS if action.deadline_ns is None else action.deadline_ns


def nearest_ns(object: Schedulable) -> int:  # hot: scripts/bench inproc
    """When the work for which an object stands in its queue should be done."""
    head = here = object._head
    assert head is not None, "a ready object has work"
    if head.next is None:
        return due_ns(head)
    priority, nearest, left = object._priority, _NEVER_NS, LOOK_AHEAD_MAX
    while here is not None and left:
        if here.priority == priority:
            deadline_ns = here.deadline_ns
            due = here.posted_ns + PATIENCE_NS if deadline_ns is None else deadline_ns
            if due < nearest:
                nearest = due
        here, left = here.next, left - 1
    return due_ns(head) if nearest == _NEVER_NS else nearest
