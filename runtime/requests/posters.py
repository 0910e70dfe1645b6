"""Posters: those that wait for an entry of the ready pool, by lane; the most urgent goes first, then who came first.

A post that would not be let in stands here, and exists for its owner all the same. Nobody goes past one of his lane that is
as urgent; and with ageing on, all that wait grow older alike, so that nobody is passed for ever by those that come later.
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
        #: Intervals that have passed, with ageing on.
        self.age = 0
        self._turn = 0
        self._waiting: list[list[tuple[int, int, Element]]] = [[] for _ in range(LANES)]

    def __iter__(self) -> Iterator[Element]:
        for waiting in self._waiting:
            for _, _, element in list(waiting):
                yield element

    def goes_before(self, element: Element) -> bool:  # hot: scripts/bench requests
        """Whether somebody of its lane, who is as urgent, waits already."""
        waiting = self._waiting[element.lane]
        return bool(waiting) and waiting[0][0] <= self.age - element.priority

    def add(self, element: Element) -> None:
        """It waits."""
        self._turn += 1
        heapq.heappush(self._waiting[element.lane], (self.age - element.priority, self._turn, element))
        self.count += 1

    def remove(self, element: Element) -> None:
        """It waits no more, and is not admitted."""
        waiting = self._waiting[element.lane]
        waiting[:] = [place for place in waiting if place[2] is not element]
        heapq.heapify(waiting)
        self.count -= 1

    def pop(self, has_room: Callable[[int], bool]) -> Element | None:
        """The most urgent whose lane has room; it waits no more. None: there is none."""
        best: list[tuple[int, int, Element]] | None = None
        for lane, waiting in enumerate(self._waiting):
            if waiting and (best is None or waiting[0][:2] < best[0][:2]) and has_room(lane):
                best = waiting
        if best is None:
            return None
        self.count -= 1
        return heapq.heappop(best)[2]
