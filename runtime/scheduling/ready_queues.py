"""Ready queues: objects with work, one FIFO per priority (law 3).

An object whose priority changes while it is ready must move at once. Removing it from the middle of a deque is linear, so
its old entry stays behind and is counted in the object's `_stale`. Entries of one object leave a FIFO in the order they
came, so its first `_stale[p]` entries are the dead ones: skipping them needs no search and no tickets. A queue of mostly
dead entries is swept, so one that is never reached (priority 7 behind endless urgent work) cannot grow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any

from ..objects.schedulable import Schedulable

#: Dead entries that even a short queue may hold. Sweeping is linear and happens when half of a queue is dead. With this
#: minimum it costs a few nanoseconds an entry; without it every second move would sweep a short queue.
DEAD_MAX = 64


class Ready:
    """One queue of objects per priority; 0 is highest. The part that does not depend on the order within a queue."""

    def __init__(self, queues: list[Any]) -> None:
        #: One sequence per priority, of live and dead entries.
        self.queues = queues
        #: Live entries.
        self.count = 0
        #: Dead entries by priority.
        self._dead = [0] * len(queues)

    def push(self, object: Schedulable) -> None:
        """Put an object into the queue of its priority."""
        raise NotImplementedError

    def push_first(self, object: Schedulable) -> None:
        """Put an object first in the queue of its priority, if the order allows that; else as `push`."""
        self.push(object)

    def move(self, object: Schedulable, old_priority: int) -> None:
        """Move a ready object, whose priority has changed, to its new queue."""
        raise NotImplementedError

    def take(self, left: list[int], end: int) -> Schedulable | None:
        """Take the first object of the highest priority with quota `left`, above `end`, and spend one of it; None: no such."""
        raise NotImplementedError

    def standing(self, priority: int) -> Iterator[Schedulable]:
        """The objects in one queue, first to last, for inspection. The queue must not change meanwhile."""
        raise NotImplementedError

    def ahead_of(self, object: Schedulable, look_max: int) -> tuple[int, bool]:
        """How many objects are before a ready object in its queue, and whether the count is complete (`look_max` sufficed)."""
        raise NotImplementedError

    def discard(self, object: Schedulable, priority: int) -> None:
        """Remove an object that is no longer ready, because its last action was withdrawn."""
        self._bury(object, priority)
        self.count -= 1

    def highest(self) -> int | None:
        """The highest priority that has work; None: there is no work."""
        for priority, queue in enumerate(self.queues):
            if queue and len(queue) > self._dead[priority]:
                return priority
        return None

    def has_above(self, end: int, left: list[int] | None = None) -> bool:
        """Whether there is work above priority `end` with quota `left`. Dead entries may cause a false yes."""
        for priority, queue in enumerate(self.queues):
            if priority >= end:
                return False
            if queue and (left is None or left[priority] > 0):
                return True
        return False

    def depths(self) -> list[int]:
        """The number of objects in each queue, without dead entries."""
        return [len(queue) - dead for queue, dead in zip(self.queues, self._dead, strict=True)]

    def _bury(self, object: Schedulable, priority: int) -> None:
        """Mark the object's entry in this queue as dead."""
        raise NotImplementedError


class ReadyQueues(Ready):
    """Ready queues that are first in, first out within a priority; the default order."""

    def __init__(self, priorities: int) -> None:
        super().__init__([deque() for _ in range(priorities)])

    def push(self, object: Schedulable) -> None:
        self.queues[object._priority].append(object)
        self.count += 1

    def push_first(self, object: Schedulable) -> None:
        """Put an object first in its queue. If it has a dead entry there, it takes the place of that entry instead."""
        self.queues[object._priority].appendleft(object)
        self.count += 1

    def move(self, object: Schedulable, old_priority: int) -> None:
        """Move a ready object, whose priority has changed, to the end of its new queue; its old entry is dead."""
        self._bury(object, old_priority)
        self.queues[object._priority].append(object)

    def take(self, left: list[int], end: int) -> Schedulable | None:  # hot: scripts/bench inproc
        for priority, queue in enumerate(self.queues):
            while queue and left[priority] > 0:
                if priority >= end:
                    return None
                object: Schedulable = queue.popleft()
                if object._stale is None or not self._unbury(object, priority):
                    self.count -= 1
                    left[priority] -= 1
                    return object
        return None

    def standing(self, priority: int) -> Iterator[Schedulable]:
        passed: dict[int, int] = {}
        queue: deque[Schedulable] = self.queues[priority]
        for object in queue:
            dead = object._stale.get(priority, 0) if object._stale is not None else 0
            if dead and passed.get(id(object), 0) < dead:
                passed[id(object)] = passed.get(id(object), 0) + 1
            else:
                yield object

    def ahead_of(self, object: Schedulable, look_max: int) -> tuple[int, bool]:
        ahead_count = 0
        for other in islice(self.standing(object._priority), look_max):
            if other is object:
                return ahead_count, True
            ahead_count += 1
        return ahead_count, False

    def _bury(self, object: Schedulable, priority: int) -> None:
        stale = object._stale
        if stale is None:
            stale = object._stale = {}
        stale[priority] = stale.get(priority, 0) + 1
        self._dead[priority] += 1
        queue: deque[Schedulable] = self.queues[priority]
        if self._dead[priority] > max(DEAD_MAX, len(queue) // 2):
            living = [each for each in queue if each._stale is None or not self._unbury(each, priority)]
            queue.clear()
            queue.extend(living)

    def _unbury(self, object: Schedulable, priority: int) -> bool:
        """Whether this entry of the object is dead; if so, remove it from the counts of dead entries."""
        stale = object._stale
        assert stale is not None
        left = stale.get(priority)
        if left is None:
            return False
        self._dead[priority] -= 1
        if left > 1:
            stale[priority] = left - 1
        else:
            del stale[priority]
            if not stale:
                object._stale = None
        return True
