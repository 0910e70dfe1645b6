"""The slow twin of thread-held resources: one list of all that is open, and a diary of who used what.

It takes after the rules as they are told (runtime/requests/executing/thread_handles.py): nothing is kept in order. Which
handle was used least recently is looked up in the diary.
"""

from __future__ import annotations

from dataclasses import dataclass

#: A resource's name, and its key if it has one.
Item = tuple[str, ...]


@dataclass(eq=False)
class Copy:
    """One open handle."""

    number: int
    worker: str
    item: Item


class ResourcesModel:
    """All workers."""

    def __init__(self, held_max: dict[str, int], can_be_stale: set[str], ask_every: int) -> None:
        self.held_max, self.can_be_stale, self.ask_every = held_max, can_be_stale, ask_every
        #: In the order of opening.
        self.open: list[Copy] = []
        self.diary: list[tuple[str, object]] = []
        #: What the outside world is like: items that cannot be opened, numbers of handles that are of no use any more.
        self.broken: set[Item] = set()
        self.stale: set[int] = set()
        #: What was done to handles: ("open" | "ask" | "close", number).
        self.done: list[tuple[str, int]] = []
        #: By worker: ends of requests since it asked, and whose turn it is to be asked.
        self.ends: dict[str, int] = {}
        self.turns: dict[str, list[Copy]] = {}
        self.next_number = 0

    def use(self, worker: str, item: Item) -> int | None:
        """The number of the handle that is given; None: it could not be opened."""
        copy = self.find(worker, item)
        if copy is not None and self.is_stale(copy):
            self.close(copy)
            copy = None
        if copy is None:
            own = [each for each in self.of(worker) if each.item[0] == item[0]]
            if len(own) >= self.held_max[item[0]]:
                self.close(min(own, key=self.last_used))
            if item in self.broken:
                return None
            copy = Copy(self.next_number, worker, item)
            self.next_number += 1
            self.open.append(copy)
            self.done.append(("open", copy.number))
            if item[0] in self.can_be_stale:
                self.turns.setdefault(worker, []).append(copy)
        self.diary.append(("used", copy))
        return copy.number

    def end_request(self, worker: str) -> None:
        """Every so often one is asked."""
        turns = self.turns.get(worker, [])
        if turns:
            self.ends[worker] = self.ends.get(worker, 0) + 1
            if self.ends[worker] >= self.ask_every:
                self.ends[worker] = 0
                if self.is_stale(turns[0]):
                    self.close(turns[0])
                else:
                    turns.append(turns.pop(0))

    def end_worker(self, worker: str) -> None:
        """All of its go, the latest first."""
        for copy in reversed(self.of(worker)):
            self.close(copy)
        self.ends.pop(worker, None)

    def close(self, copy: Copy) -> None:
        """Of its worker."""
        self.open.remove(copy)
        if copy in self.turns.get(copy.worker, ()):
            self.turns[copy.worker].remove(copy)
        self.done.append(("close", copy.number))

    def find(self, worker: str, item: Item) -> Copy | None:
        """The worker's own."""
        return next((each for each in self.of(worker) if each.item == item), None)

    def of(self, worker: str) -> list[Copy]:
        """All that it has open, the oldest first."""
        return [each for each in self.open if each.worker == worker]

    def is_stale(self, copy: Copy) -> bool:
        """Whether the world has left it behind; only it can tell."""
        if copy.item[0] not in self.can_be_stale:
            return False
        self.done.append(("ask", copy.number))
        return copy.number in self.stale

    def last_used(self, copy: Copy) -> int:
        """Its latest place in the diary."""
        return max(place for place, entry in enumerate(self.diary) if entry == ("used", copy))
