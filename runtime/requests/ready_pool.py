"""ReadyPool: requests that wait for a worker, the most urgent first; those that wait grow older, and so more urgent.

The source's scheduler thread visits every entry at each interval and adds 1 to its priority, and the boost on top for those
that are marked (seed 001, section 5.2). All unmarked ones grow alike, so their order among themselves never changes, and the
same holds for the marked: a heap for either in each lane, keyed by what an element would have had at age 0, keeps the order
without visiting anybody, and only the heads are compared. Equal ones go in the order in which they were posted.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from .element import LANES, Element
from .owners import Account

#: As the heap wants it: the least first.
_Place = tuple[int, int, Element]


class ReadyPool:
    """Ready requests by lane. How many there may be is the lanes' business (lanes.py)."""

    __slots__ = ("_heaps", "_sequence", "age", "boost", "count")

    def __init__(self, boost: int) -> None:
        #: What a marked one gains at each interval beside the 1 of all.
        self.boost = boost
        #: Intervals that have passed, with ageing on.
        self.age = 0
        self.count = 0
        self._sequence = 0
        #: By lane: those that are not marked, and those that are.
        self._heaps: list[tuple[list[_Place], list[_Place]]] = [([], []) for _ in range(LANES)]

    def add(self, element: Element) -> None:  # hot: scripts/bench requests
        """It is ready now."""
        self._sequence += 1
        element.sequence = self._sequence
        element.key = element.priority - self.age * (1 + self.boost if element.is_boosted else 1)
        self._push(element)

    def put_back(self, element: Element) -> None:
        """It was taken, and is ready again where it was: as old as it is, and before those posted after it."""
        self._push(element)

    def head(self, lane: int) -> Element | None:  # hot: scripts/bench requests
        """The most urgent of a lane."""
        plain, marked = self._heaps[lane]
        if not marked:
            return plain[0][2] if plain else None
        if not plain:
            return marked[0][2]
        return min(plain[0][2], marked[0][2], key=self._rank)

    def best(self, lanes: list[int]) -> Element | None:  # hot: scripts/bench requests
        """The most urgent of these lanes."""
        found: Element | None = None
        for lane in lanes:
            head = self.head(lane)
            if head is not None and (found is None or self._rank(head) < self._rank(found)):
                found = head
        return found

    def take(self, element: Element) -> None:  # hot: scripts/bench requests
        """Take out the head of its lane."""
        heap = self._heaps[element.lane][element.is_boosted]
        place = heapq.heappop(heap)
        assert place[2] is element, "only the head of a lane is taken"
        self.count -= 1

    def remove_of(self, account: Account, *, is_all: bool = True) -> list[Element]:
        """Take out all requests of an owner that has ended, in one pass through the pool, however many there are.

        `is_all`: False keeps those that were posted with `rejoin=False`.
        """
        removed: list[Element] = []
        for heaps in self._heaps:
            for heap in heaps:
                found = [place[2] for place in heap if place[2].account is account and (is_all or place[2].is_rejoined)]
                if found:
                    heap[:] = [
                        place
                        for place in heap
                        if place[2].account is not account or not (is_all or place[2].is_rejoined)
                    ]
                    heapq.heapify(heap)
                    removed += found
        self.count -= len(removed)
        return removed

    def urgency(self, element: Element) -> int:
        """Its priority now, grown with its age."""
        return element.key + self.age * (1 + self.boost if element.is_boosted else 1)

    def change_boost(self, boost: int, taken: Iterable[Element] = ()) -> None:
        """From now on; what has been gained stays gained. `taken`: those that may be put back."""
        for element in taken:
            if element.is_boosted:
                element.key -= self.age * (boost - self.boost)
        for _, marked in self._heaps:
            for _, _, element in marked:
                element.key -= self.age * (boost - self.boost)
            marked[:] = [(-element.key, sequence, element) for _, sequence, element in marked]
            heapq.heapify(marked)
        self.boost = boost

    def copied(self) -> list[list[_Place]]:
        """By lane, in no order: for who looks at all of them, and must not hold up the others meanwhile."""
        return [plain + marked for plain, marked in self._heaps]

    def __iter__(self) -> Iterator[Element]:
        for heaps in self._heaps:
            for heap in heaps:
                for _, _, element in heap:
                    yield element

    def _rank(self, element: Element) -> tuple[int, int]:
        return (-self.urgency(element), element.sequence)

    def _push(self, element: Element) -> None:
        heapq.heappush(self._heaps[element.lane][element.is_boosted], (-element.key, element.sequence, element))
        self.count += 1
