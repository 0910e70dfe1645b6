"""Deadline order: within one priority, the object with the nearest deadline goes first (`order = "deadline"`).

Earliest deadline first (Liu and Layland, 1973) among objects of one priority; priorities, quotas and the order within an
object stay the same (laws 1 to 3). An object's deadline is the nearest among its first `LOOK_AHEAD_MAX` actions of the
object's priority: the actions before that one delay it. An action without a deadline gets the default one, counted from when
it was queued: it is overtaken for at most that long, so nothing starves.

It has a heap per priority instead of a FIFO: an action costs about 1 us more. It is in classes of its own, so the default
order pays nothing. Dead entries stay in the heap, as in ready_queues.py, with None as their object.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from typing import Any

from appbackplane.transport.call_checks import TIMEOUT_DEFAULT_NS

from ..objects.action import Action
from ..objects.schedulable import Schedulable
from . import ready_queues
from .object_queue import READY
from .scheduler import Policy, Scheduler

#: Actions of an object that are scanned: 40 ns each. An action further behind counts once it has moved up.
LOOK_AHEAD_MAX = 32
#: The assumed deadline of an action without one, from when it was queued: the default deadline of calls.
PATIENCE_NS = TIMEOUT_DEFAULT_NS
_NEVER_NS = 1 << 63


#: A heap entry: deadline, turn (order of arrival), a unique number, and the object (None once the entry is dead). A list,
#: because heapq compares lists in C: with a class of its own an action cost 0.6 us more.
Entry = list[Any]
_DUE, _TURN, _OBJECT = 0, 1, 3


class DeadlineQueues(ready_queues.Ready):
    """Ready queues in the order of deadlines; equal deadlines in the order of arrival."""

    def __init__(self, priorities: int) -> None:
        super().__init__([[] for _ in range(priorities)])
        self._entries: dict[int, Entry] = {}  # by id(): users may give their objects an __eq__
        self._turns = itertools.count()
        self._numbers = itertools.count()

    def push(self, object: Schedulable) -> None:
        """Put an object into the queue of its priority, by its deadline."""
        self._enter(object, next(self._turns))
        self.count += 1

    def move(self, object: Schedulable, old_priority: int) -> None:
        self._bury(object, old_priority)
        self._enter(object, next(self._turns))

    def take(self, left: list[int], end: int) -> Schedulable | None:
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
        """The objects in one queue, first to last. Sorted lazily, on a copy of the heap."""
        heap = self.queues[priority].copy()
        while heap:
            object: Schedulable | None = heapq.heappop(heap)[_OBJECT]
            if object is not None:
                yield object

    def ahead_of(self, object: Schedulable, look_max: int) -> tuple[int, bool]:
        own, queue = self._entries[id(object)], self.queues[object._priority]
        looked_at = itertools.islice(queue, look_max)
        return sum(entry < own and entry[_OBJECT] is not None for entry in looked_at), len(queue) <= look_max

    def joined(self, action: Action) -> None:
        """Re-sort a ready object that got `action`, if that has a nearer deadline."""
        entry = self._entries.get(id(action.object))
        if entry is not None and due_ns(action) < entry[_DUE]:
            self.changed(action.object)

    def changed(self, object: Schedulable) -> None:
        """Re-sort a ready object whose actions have changed. It keeps its turn among equal deadlines."""
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
    """A `Scheduler` with ready queues in the order of deadlines; about 1 us more an action."""

    def __init__(self, policy: Policy, now_ns: int) -> None:
        super().__init__(policy, now_ns)
        self.ready = self._queues = DeadlineQueues(policy.priorities)

    def post(self, action: Action, now_ns: int) -> None:
        was_ready = action.object._state == READY
        super().post(action, now_ns)
        if was_ready:
            self._queues.joined(action)

    def _place(self, object: Schedulable, old_priority: int) -> None:
        super()._place(object, old_priority)
        if object._state == READY:
            self._queues.changed(object)


def due_ns(action: Action) -> int:
    """The monotonic ns by which an action should be done; without a deadline, `PATIENCE_NS` after it was queued."""
    return action.posted_ns + PATIENCE_NS if action.deadline_ns is None else action.deadline_ns


def nearest_ns(object: Schedulable) -> int:  # hot: scripts/bench inproc
    """The nearest deadline (`due_ns`) among the first actions of the object's priority."""
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
