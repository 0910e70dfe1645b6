"""Posters: requests that wait for an entry of the ready pool, by lane; the most urgent first, then by arrival.

A request without room waits here, and exists for its owner all the same. None overtakes a request of its lane that is as
urgent. With ageing on, all that wait gain alike, so that none is overtaken for ever by later ones.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from .element import LANES, Element


class Posters:
    """Requests that have been posted and are not ready."""

    __slots__ = ("_turn", "_waiting", "age", "count")

    def __init__(self) -> None:
        self.count = 0
        #: Intervals of ageing that have passed.
        self.age = 0
        self._turn = 0
        self._waiting: list[list[tuple[int, int, Element]]] = [[] for _ in range(LANES)]

    def __iter__(self) -> Iterator[Element]:
        for waiting in self._waiting:
            for _, _, element in list(waiting):
                yield element

    def goes_before(self, element: Element) -> bool:  # hot: scripts/bench requests
        """Whether a request of its lane that is as urgent waits already."""
        waiting = self._waiting[element.lane]
        return bool(waiting) and waiting[0][0] <= self.age + element.priority

    def add(self, element: Element) -> None:
        """Add a request, behind those of its lane that are as urgent."""
        self._turn += 1
        heapq.heappush(self._waiting[element.lane], (self.age + element.priority, self._turn, element))
        self.count += 1

    def remove(self, element: Element) -> None:
        """Remove a request that is not to be admitted any more."""
        waiting = self._waiting[element.lane]
        waiting[:] = [place for place in waiting if place[2] is not element]
        heapq.heapify(waiting)
        self.count -= 1

    def pop(self, has_room: Callable[[int], bool]) -> Element | None:
        """Remove and return the most urgent request whose lane has room; None: there is none."""
        best: list[tuple[int, int, Element]] | None = None
        for lane, waiting in enumerate(self._waiting):
            if waiting and (best is None or waiting[0][:2] < best[0][:2]) and has_room(lane):
                best = waiting
        if best is None:
            return None
        self.count -= 1
        return heapq.heappop(best)[2]
