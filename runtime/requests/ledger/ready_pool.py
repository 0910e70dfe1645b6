"""ReadyPool: requests that wait for a worker, the most urgent first; with ageing they grow more urgent as they wait.

The source's scheduler thread visits every entry at each interval and makes it more urgent by 1, and by the boost on top for
boosted requests (seed 001, section 5.2). There larger is more urgent; here 0 is, so ageing subtracts. All plain requests age
alike, so their order among themselves never changes, and the same holds for the boosted. So each lane has a heap of either
kind, keyed by priority at age 0: no entry is visited, and only the heads are compared. Equal requests go in the order in which
they were posted; or in turns of their owners (`fair_by`): the third request of an owner goes in the third turn from when it was
posted, with the third of each other (start-time fair queuing, as in scheduling/fair_order.py).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Final

from .element import LANES, Element
from .owners import Account

#: A request's sequence: its turn, and below it the number of requests that came before, which nobody lives to see overflow.
_TURN_BITS: Final = 40
#: Heap item (the least comes first): key, sequence, request.
_Place = tuple[int, int, Element]


class ReadyPool:
    """Ready requests by lane. The lanes bound their number (lanes.py)."""

    __slots__ = ("_heaps", "_sequence", "_turn", "age", "boost", "count", "is_fair")

    def __init__(self, boost: int, *, is_fair: bool = False) -> None:
        """`is_fair`: whether owners take turns. It may be changed; requests that are here keep their places."""
        self.is_fair = is_fair
        #: How much more urgent a boosted request becomes at each interval, beside the 1 of all requests.
        self.boost = boost
        #: Intervals of ageing that have passed.
        self.age = 0
        self.count = 0
        self._sequence = 0
        #: The turn of the request that was taken last.
        self._turn = 0
        #: By lane: plain requests, and boosted ones.
        self._heaps: list[tuple[list[_Place], list[_Place]]] = [([], []) for _ in range(LANES)]

    def add(self, element: Element) -> None:  # hot: scripts/bench requests
        """Add a request that has become ready, behind those that are as urgent."""
        self._sequence += 1
        element.sequence = self._turn_of(element) << _TURN_BITS | self._sequence
        element.key = element.priority + self.age * (1 + self.boost if element.is_boosted else 1)
        self.put_back(element)

    def put_back(self, element: Element) -> None:
        """Return a taken request to its old place: as old as it is, and before those posted after it."""
        heapq.heappush(self._heaps[element.lane][element.is_boosted], (element.key, element.sequence, element))
        self.count += 1

    def head(self, lane: int) -> Element | None:  # hot: scripts/bench requests
        """The most urgent request of a lane; None: it is empty."""
        plain, marked = self._heaps[lane]
        if not marked:
            return plain[0][2] if plain else None
        if not plain:
            return marked[0][2]
        return min(plain[0][2], marked[0][2], key=self._rank)

    def best(self, lanes: list[int]) -> Element | None:  # hot: scripts/bench requests
        """The most urgent request of these lanes; None: they are empty."""
        found: Element | None = None
        for lane in lanes:
            head = self.head(lane)
            if head is not None and (found is None or self._rank(head) < self._rank(found)):
                found = head
        return found

    def take(self, element: Element) -> None:  # hot: scripts/bench requests
        """Remove a request, which must be the first of its heap."""
        heap = self._heaps[element.lane][element.is_boosted]
        place = heapq.heappop(heap)
        assert place[2] is element, "only the head of a lane is taken"
        self.count -= 1
        self._turn = max(self._turn, element.sequence >> _TURN_BITS)

    def remove_of(self, account: Account, *, is_all: bool = True) -> list[Element]:
        """Remove all requests of an owner that has ended, in one pass through the pool, however many there are.

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

    def aged_priority(self, element: Element) -> int:
        """The present priority of a request: as posted, less what it has gained by ageing. May be below 0."""
        return element.key - self.age * (1 + self.boost if element.is_boosted else 1)

    def change_boost(self, boost: int, taken: Iterable[Element] = ()) -> None:
        """Change the boost from now on; earlier gains stay. `taken`: requests with workers, which may be put back."""
        for element in taken:
            if element.is_boosted:
                element.key += self.age * (boost - self.boost)
        for _, marked in self._heaps:
            for _, _, element in marked:
                element.key += self.age * (boost - self.boost)
            marked[:] = [(element.key, sequence, element) for _, sequence, element in marked]
            heapq.heapify(marked)
        self.boost = boost

    def copied(self) -> list[list[_Place]]:
        """Copies of the heaps by lane, in no order: a long scan of these need not hold the kernel's mutex."""
        return [plain + marked for plain, marked in self._heaps]

    def __iter__(self) -> Iterator[Element]:
        for heaps in self._heaps:
            for heap in heaps:
                for _, _, element in heap:
                    yield element

    def _turn_of(self, element: Element) -> int:
        account: Account | None = element.account
        if not self.is_fair or account is None:
            return self._turn
        turn = max(self._turn, account.next_turn)
        account.next_turn = turn + 1
        return turn

    def _rank(self, element: Element) -> tuple[int, int]:
        return (self.aged_priority(element), element.sequence)
