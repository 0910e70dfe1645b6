"""Lanes: what of each level may be executing, and ready; the source's own numbers, and all small cases (seed 001, 5.1.3)."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from appbackplane.runtime.requests import Context, KernelPolicy, RequestKernel, Runnable
from appbackplane.runtime.requests.ledger.lanes import Lanes, shares
from appbackplane.transport.errors import Busy

from .conftest import LIMIT_S, Live

#: The source's example: lanes 0 %, 20 %, 20 %.
SOURCE = (0, 20, 20)


def fits(counts: tuple[int, ...], own: list[int], total: int) -> bool:
    """Whether each request finds a place of its own: one of its lane's or of a lane's above; those of lane 3 anywhere.

    Worked out by trying, as signals above a motorway would: places are given away one by one, in every way.
    """
    places = [lane for lane, count in enumerate(own) for _ in range(count)]
    places += [3] * (total - len(places))
    waiting = [lane for lane, count in enumerate(counts) for _ in range(count)]

    def place(at: int, free: tuple[int, ...]) -> bool:
        if at == len(waiting):
            return True
        return any(
            place(at + 1, free[:index] + free[index + 1 :])
            for index in {free.index(kind) for kind in free}
            if free[index] <= waiting[at] or waiting[at] == 3
        )

    return place(0, tuple(places))


@pytest.mark.parametrize(
    ("own", "total"),
    [
        (own, total)
        for own in [(0, 1, 1), (1, 1, 1), (0, 2, 0), (1, 0, 2), (0, 0, 0), (2, 1, 0)]
        for total in range(sum(own) + 1, 6)  # something is left to lane 3
    ],
)
def test_a_lane_has_its_own_places_and_those_above(own: tuple[int, ...], total: int) -> None:
    """In every state that can be reached: one more may come exactly if then all that there are still find a place."""
    limits = list(itertools.accumulate(own))
    seen: set[tuple[int, ...]] = set()
    front: list[tuple[int, ...]] = [(0, 0, 0, 0)]
    while front:
        counts = front.pop()
        if counts in seen:
            continue
        seen.add(counts)
        lanes = Lanes(total, limits)
        for lane, count in enumerate(counts):
            for _ in range(count):
                lanes.add(lane)
        for lane in range(4):
            more = tuple(count + (each == lane) for each, count in enumerate(counts))
            assert lanes.has_room(lane) == fits(more, list(own), total), (counts, lane)
            if lanes.has_room(lane):
                front.append(more)
    assert len(seen) > 1


@pytest.mark.parametrize(("total", "first", "second"), [(10, 2, 4), (100, 20, 40)])
def test_the_numbers_of_the_source(total: int, first: int, second: int) -> None:
    """10 workers and 100 entries: 2 and 20 for lane 1; 4 and 40 for lane 2 with lane 1 empty; lane 3 all; lane 0 none."""
    limits = shares(SOURCE, total)
    for lane, most in ((0, 0), (1, first), (2, second), (3, total)):
        lanes = Lanes(total, limits)
        while lanes.has_room(lane):
            lanes.add(lane)
        assert lanes.counts[lane] == most
    # For each of lane 1, one of lane 2 less; and the other way round, but for those that only lane 2 may have.
    for ones in range(first + 1):
        lanes = Lanes(total, limits)
        for _ in range(ones):
            lanes.add(1)
        while lanes.has_room(2):
            lanes.add(2)
        assert lanes.counts[2] == second - ones
        while lanes.has_room(3):
            lanes.add(3)
        assert lanes.total == total
    lanes = Lanes(total, limits)
    for _ in range(second):
        lanes.add(2)
    assert not lanes.has_room(1), "lane 2 has all of lane 1's, until one of it ends"


def test_a_share_is_at_least_one() -> None:
    """20 % of 4 workers would be none, and requests of that lane would wait for ever."""
    for total in range(1, 12):
        for percent in range(1, 34):
            assert all(each >= 1 for each in shares((percent, 0, 0), total))


class Held(Runnable):
    """Executes until the test lets it."""

    begun = threading.Semaphore(0)
    may_end = threading.Event()
    lock = threading.Lock()
    now = 0
    most = 0

    def execute(self, request: int, kernel: Context) -> int:
        with self.lock:
            Held.now += 1
            Held.most = max(Held.most, Held.now)
        self.begun.release()
        assert self.may_end.wait(LIMIT_S)
        with self.lock:
            Held.now -= 1
        return request


class Kernel(RequestKernel):
    """The source's example."""

    runnables = (Held,)
    policy = KernelPolicy(workers=10, ready=100, mode="lanes", lanes=SOURCE)


@pytest.fixture
def kernel(live: Callable[..., Live]) -> Any:
    """With 10 real threads as workers; whatever is held goes on at the end."""
    Held.begun, Held.may_end = threading.Semaphore(0), threading.Event()
    Held.now = Held.most = 0
    made = Kernel()
    live(made)
    yield made
    Held.may_end.set()


@pytest.mark.parametrize(("lane", "executing", "ready"), [(1, 2, 20), (2, 4, 40), (3, 10, 100)])
def test_the_numbers_of_the_source_in_a_real_run(kernel: Kernel, lane: int, executing: int, ready: int) -> None:
    """As many as may be are executing at the same time, as many more are ready, and no more of either, ever."""
    posted = 0
    for _ in range(executing):
        kernel.kernel.post(posted, Held, lane=lane)
        posted += 1
        assert Held.begun.acquire(timeout=LIMIT_S)
    for _ in range(ready):
        kernel.kernel.post(posted, Held, lane=lane, wait=False)
        posted += 1
    with pytest.raises(Busy):
        kernel.kernel.post(posted, Held, lane=lane, wait=False)
    figures = kernel.figures()
    assert (figures.executing_lanes[lane], figures.ready[lane], posted) == (executing, ready, executing + ready)
    assert Held.most == executing, "all that were begun are counted, and none has ended"
    assert not Held.begun.acquire(blocking=False)
    Held.may_end.set()
    assert {done.result for done in kernel.kernel.joined()} == set(range(posted))
    assert Held.most == executing


def test_below_a_full_lane_there_is_room(kernel: Kernel) -> None:
    """Feeders and transactions have all that they may; parts of transactions still have 6 workers and 60 entries."""
    for lane, count in ((1, 2), (2, 2)):
        for _ in range(count):
            kernel.kernel.post(0, Held, lane=lane)
            assert Held.begun.acquire(timeout=LIMIT_S)
    for lane, count in ((1, 20), (2, 20)):
        for _ in range(count):
            kernel.kernel.post(0, Held, lane=lane, wait=False)
    for lane in (1, 2):
        with pytest.raises(Busy, match=f"lane {lane} is full"):
            kernel.kernel.post(0, Held, lane=lane, wait=False)
    for _ in range(6):
        kernel.kernel.post(0, Held, lane=3)
        assert Held.begun.acquire(timeout=LIMIT_S)
    for _ in range(60):
        kernel.kernel.post(0, Held, lane=3, wait=False)
    with pytest.raises(Busy, match="ready pool is full"):
        kernel.kernel.post(0, Held, lane=3, wait=False)
    figures = kernel.figures()
    assert (figures.executing_lanes, figures.ready) == ((0, 2, 2, 6), (0, 20, 20, 60))
    Held.may_end.set()
    assert sum(1 for _ in kernel.kernel.joined()) == 110


def test_priority_decides_within_what_lanes_leave(kernel: Kernel) -> None:
    """The most urgent goes first; where its lane is full, the next does, and nobody of its lane goes past it."""
    for _ in range(2):
        kernel.kernel.post(0, Held, lane=1)
        assert Held.begun.acquire(timeout=LIMIT_S)
    urgent = kernel.kernel.post(0, Held, lane=1, priority=0)
    kernel.kernel.post(0, Held, lane=3)
    assert Held.begun.acquire(timeout=LIMIT_S)
    assert urgent.state.value == "ready"
    Held.may_end.set()
    assert sum(1 for _ in kernel.kernel.joined()) == 4
