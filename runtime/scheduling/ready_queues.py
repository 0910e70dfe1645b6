"""Ready queues: objects with work, one FIFO a priority (law 3).

An object whose priority changes while it is ready must move at once. Taking it out of the middle of a deque is linear, so
its old entry stays behind and is counted in the object: entries of one object leave a FIFO in the order they came,
hence the first `stale[p]` of them are the dead ones, and skipping them needs no search and no tickets.
"""

from __future__ import annotations

from collections import deque

from ..objects.app_object import AppObject


class ReadyQueues:
    """N queues of objects; 0 is highest."""

    def __init__(self, priorities: int) -> None:
        self.queues: list[deque[AppObject]] = [deque() for _ in range(priorities)]
        #: Live entries.
        self.count = 0

    def push(self, object: AppObject) -> None:
        """Put an object last in the queue of its priority."""
        self.queues[object._priority].append(object)
        self.count += 1

    def move(self, object: AppObject, old_priority: int) -> None:
        """The object's priority has changed while it was ready: its place in the old queue is dead."""
        _note_stale(object, old_priority)
        self.queues[object._priority].append(object)

    def discard(self, object: AppObject, priority: int) -> None:
        """The object is no longer ready: its last action was taken back."""
        _note_stale(object, priority)
        self.count -= 1

    def pop(self, priority: int) -> AppObject | None:  # hot: scripts/bench inproc
        """Take the first object of one queue, or None."""
        queue = self.queues[priority]
        while queue:
            object = queue.popleft()
            if object._stale is None or not _was_stale(object, priority):
                self.count -= 1
                return object
        return None

    def highest(self) -> int | None:
        """The highest priority that has work."""
        for priority, queue in enumerate(self.queues):
            while queue:
                object = queue[0]
                if object._stale is None or not _was_stale(object, priority):
                    return priority
                queue.popleft()
        return None

    def depths(self) -> list[int]:
        """Entries a queue; an object that was raised may count twice until its old entry is reached."""
        return [len(queue) for queue in self.queues]


def _note_stale(object: AppObject, priority: int) -> None:
    stale = object._stale
    if stale is None:
        stale = object._stale = {}
    stale[priority] = stale.get(priority, 0) + 1


def _was_stale(object: AppObject, priority: int) -> bool:
    stale = object._stale
    assert stale is not None
    left = stale.get(priority)
    if left is None:
        return False
    if left > 1:
        stale[priority] = left - 1
    else:
        del stale[priority]
        if not stale:
            object._stale = None
    return True
