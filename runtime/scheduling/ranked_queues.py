"""Ranked queues: ready queues in which the object of the lowest rank goes first; equal ranks in the order of arrival.

A heap per priority instead of a FIFO: an action costs about 1 us more. Dead entries stay in the heap, as in ready_queues.py,
with None as their object.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from typing import Any

from ..objects.schedulable import Schedulable
from . import ready_queues

#: A heap entry: rank, turn (order of arrival), a unique number, and the object (None once the entry is dead). A list,
#: because heapq compares lists in C: with a class of its own an action cost 0.6 us more.
Entry = list[Any]
RANK, _TURN, _OBJECT = 0, 1, 3


class RankedQueues(ready_queues.Ready):
    """Ready queues in the order of ranks."""

    def __init__(self, priorities: int) -> None:
        super().__init__([[] for _ in range(priorities)])
        self.entries: dict[int, Entry] = {}  # by id(): users may give their objects an __eq__
        self._turns = itertools.count()
        self._numbers = itertools.count()

    def push(self, object: Schedulable) -> None:
        """Put an object into the queue of its priority, by its rank."""
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
                del self.entries[id(object)]
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
        own, queue = self.entries[id(object)], self.queues[object._priority]
        looked_at = itertools.islice(queue, look_max)
        return sum(entry < own and entry[_OBJECT] is not None for entry in looked_at), len(queue) <= look_max

    def rank(self, object: Schedulable) -> int:
        """The rank of a ready object."""
        raise NotImplementedError

    def changed(self, object: Schedulable) -> None:
        """Re-sort a ready object whose actions have changed. It keeps its turn among equal ranks."""
        entry = self.entries.get(id(object))
        if entry is not None and self.rank(object) != entry[RANK]:
            self._bury(object, object._priority)
            self._enter(object, entry[_TURN])

    def _enter(self, object: Schedulable, turn: int) -> None:
        entry = self.entries[id(object)] = [self.rank(object), turn, next(self._numbers), object]
        heapq.heappush(self.queues[object._priority], entry)

    def _bury(self, object: Schedulable, priority: int) -> None:
        self.entries.pop(id(object))[_OBJECT] = None
        self._dead[priority] += 1
        queue = self.queues[priority]
        if self._dead[priority] > max(ready_queues.DEAD_MAX, len(queue) // 2):
            queue[:] = [entry for entry in queue if entry[_OBJECT] is not None]
            heapq.heapify(queue)
            self._dead[priority] = 0
