"""A window over simulated links: it keeps each of them busy, with little that waits before it, and never shuts for good."""

from __future__ import annotations

import heapq
import itertools
import random
from dataclasses import dataclass, field

import pytest

from appbackplane.transport.peers.window import (
    QUEUE_NS,
    WINDOW_BYTES_FIRST,
    WINDOW_BYTES_MAX,
    WINDOW_BYTES_MIN,
    FlowWindow,
)

SECOND_NS = 1_000_000_000
HEAD_BYTES = 10
TEN_MBIT = 1_250_000


@dataclass
class Link:
    """One queue, a rate, a delay each way; at its end a reader who takes in at once and tells if asked."""

    rate: int
    delay_ns: int
    window: FlowWindow = field(default_factory=FlowWindow)
    now_ns: int = 0
    taken: int = 0
    #: What the last byte of each part waited for and took on the wire, and when that was.
    waits: list[tuple[int, int]] = field(default_factory=list)
    _free_ns: int = 0
    _events: list[tuple[int, int, bool, int]] = field(default_factory=list)
    _number: itertools.count[int] = field(default_factory=itertools.count)
    _asked: set[int] = field(default_factory=set)

    def send(self, size: int, *, is_asked: bool) -> None:
        self.window.send(size, self.now_ns, is_asked=is_asked)
        self._free_ns = max(self._free_ns, self.now_ns) + size * SECOND_NS // self.rate
        self.waits.append((self.now_ns, self._free_ns - self.now_ns))
        number = next(self._number)
        if is_asked:
            self._asked.add(number)
        heapq.heappush(self._events, (self._free_ns + self.delay_ns, number, True, size))

    def run(self, until_ns: int) -> None:
        """Bulk without end."""
        window = self.window
        if not window.sent:
            self.send(HEAD_BYTES, is_asked=True)
        while self.now_ns < until_ns:
            while window.is_open:
                size = window.part_bytes + HEAD_BYTES
                self.send(size, is_asked=window.is_to_tell(size))
            assert self._events, "it is shut for good"
            self.now_ns, number, is_arrival, size = heapq.heappop(self._events)
            if not is_arrival:
                assert window.took(size, self.now_ns)
                continue
            self.taken += size
            if number in self._asked:
                heapq.heappush(self._events, (self.now_ns + self.delay_ns, next(self._number), False, self.taken))

    def used(self, seconds: int) -> float:
        """The share of the rate that comes through."""
        begin, until_ns = self.taken, self.now_ns + seconds * SECOND_NS
        self.run(until_ns)
        return (self.taken - begin) / (self.rate * seconds)


LINKS = [
    (TEN_MBIT, 0.1, 20), (TEN_MBIT, 5, 30), (TEN_MBIT, 40, 90), (10 * TEN_MBIT, 10, 30), (100 * TEN_MBIT, 0.1, 15),
]  # fmt: skip


@pytest.mark.parametrize(("rate", "delay_ms", "wait_ms_max"), LINKS)
def test_a_link_is_kept_busy_and_next_to_nothing_waits_before_it(rate: int, delay_ms: float, wait_ms_max: int) -> None:
    """What does wait stands before all that shares the link."""
    link = Link(rate, int(delay_ms * 1_000_000))
    link.run(5 * SECOND_NS)
    link.waits.clear()
    assert link.used(10) > 0.75
    assert max(wait_ns for _, wait_ns in link.waits) <= wait_ms_max * 1_000_000


def test_a_link_that_has_become_longer_is_learnt_anew() -> None:
    """Else its delay would be taken for a queue for ever, and the window kept at its least."""
    link = Link(TEN_MBIT, 100_000)
    link.run(3 * SECOND_NS)
    link.delay_ns = 40_000_000
    link.run(8 * SECOND_NS)
    assert link.used(10) > 0.75


def test_a_link_that_has_become_slower_is_not_stuffed() -> None:
    link = Link(100 * TEN_MBIT, 1_000_000)
    link.run(2 * SECOND_NS)
    assert link.window.limit > 500_000
    link.rate = TEN_MBIT
    link.run(5 * SECOND_NS)
    link.waits.clear()
    assert link.used(3) > 0.85
    assert max(wait_ns for _, wait_ns in link.waits) <= 4 * QUEUE_NS


def test_who_is_told_of_nothing_stops_at_the_first_window() -> None:
    """A peer that never reads: so much is lost on it and no more."""
    window = FlowWindow()
    while window.is_open:
        size = window.part_bytes
        window.send(size, 0, is_asked=window.is_to_tell(size))
    assert window.sent < WINDOW_BYTES_FIRST + 10_000


def test_nothing_that_cannot_be_is_believed() -> None:
    """More than was sent; less than before; nothing."""
    window = FlowWindow()
    window.send(100, 1, is_asked=True)
    window.send(100, 1, is_asked=False)
    assert not window.took(201, 2) and not window.took(-1, 2)
    assert window.took(150, 3) and window.took(150, 4) and window.took(10, 5)
    assert window.taken == 150


@pytest.mark.parametrize("seed", range(50))
def test_it_never_shuts_for_good(seed: int) -> None:
    """Whatever is sent and whenever it is told of: as long as each question is answered at last it opens again."""
    chance = random.Random(seed)
    window, now_ns = FlowWindow(), 1
    asked: list[int] = []
    for _ in range(3_000):
        now_ns += chance.choice((1_000, 1_000_000, 50_000_000, 3 * SECOND_NS if chance.random() < 0.01 else 1))
        if window.is_open and chance.random() < 0.8:
            size = chance.choice((11, 200, window.part_bytes + HEAD_BYTES))
            is_asked = window.is_to_tell(size)
            window.send(size, now_ns, is_asked=is_asked)
            if is_asked:
                asked.append(window.sent)
        elif asked and chance.random() < 0.5:
            total = asked[chance.randrange(len(asked))]
            assert window.took(total, now_ns)
            asked = [each for each in asked if each > total]
        assert window.is_open or asked
        assert WINDOW_BYTES_MIN <= window.limit <= WINDOW_BYTES_MAX
        assert window.sent - window.taken <= WINDOW_BYTES_MAX + window.part_bytes + HEAD_BYTES
