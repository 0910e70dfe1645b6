"""Calls through a network that is bad for a while: each is answered or ends, and what is answered was done once."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from appbackplane.transport import BackplaneError, Client
from appbackplane.transport.errors import Busy, DeadlineExceeded, NotFound, PeerDown, Unavailable
from tests.figures import ControlTimer, Stopwatch, judge
from tests.waiting import Limit

from ..conftest import LIMIT_S
from .conftest import Nodes

#: What a call may take, and by how much a busy machine may be late with telling that it is over.
TIMEOUT_S, LATE_S_MAX = 1.0, 1.5
#: Behind a call that has failed: without it four callers take the CPU from what heals the network.
PAUSE_S = 0.005
#: Within which all are up after a partition (docs/concepts/membership.md).
HEALED_S_MAX = 5.0
#: In what a call may end that a bad network has met.
TROUBLE = (PeerDown, Unavailable, Busy, DeadlineExceeded, NotFound)

#: Where each begins to count. No number serves two tests: what was stuck in a link of one may be done in the next.
_FIRST = itertools.count(0, 1_000_000)


class Caller:
    """Books one number after the other, each once, and notes what became of it."""

    def __init__(self, client: Client, first: int) -> None:
        self._client, self._number = client, first
        self.answered: list[int] = []
        self.failed: list[tuple[int, BackplaneError]] = []
        #: How long the longest call took, without what the control timer was late meanwhile; and that call in words.
        self.longest = 0.0, ""

    def call_until(self, is_over: Callable[[], bool], control: ControlTimer) -> None:
        """One call at a time, and at least one."""
        pause = threading.Event()
        while True:
            number, self._number = self._number, self._number + 1
            watch, late_s, end = Stopwatch(), control.late_s, "an answer"
            try:
                assert self._client.call("ledger.book", number=number, timeout=TIMEOUT_S, retry=False) == number
                self.answered.append(number)
            except TROUBLE as error:
                # Without its frames: with those of 8,000 errors a garbage collection took 0.2 s of CPU, stopping all threads.
                self.failed.append((number, error.with_traceback(None)))
                end = repr(error)
                pause.wait(PAUSE_S)
            taken_s, late_s = watch.taken_s, control.late_s - late_s
            said = f"call {number}: {taken_s:.3g} s to {end}, the control timer late by {late_s:.3g} s"
            self.longest = max(self.longest, (taken_s - late_s, said))
            if is_over():
                return


def booked(nodes: Nodes) -> Counter[int]:
    """How often each number was booked."""
    return Counter(map(int, (nodes.folder / "booked").read_text().split()))


def call_through(
    nodes: Nodes,
    strike: Callable[[], object],
    heal: Callable[[], object],
    lasts_s: float,
    callers: list[Caller] | None = None,
) -> list[Caller]:
    """Four callers, before, while and after the links are bad: until each is answered again. On each node that only asks.

    `callers`: those of another time, who go on.
    """
    asking = [name for name in nodes.systems if name != "b"]
    callers = callers or [Caller(nodes.client(asking[which % len(asking)]), next(_FIRST)) for which in range(4)]
    with ThreadPoolExecutor(len(callers)) as pool, ControlTimer() as control:

        def all_call_until(is_over: Callable[[Caller], bool]) -> None:
            for each in [pool.submit(one.call_until, lambda one=one: is_over(one), control) for one in callers]:
                each.result(2 * LIMIT_S)

        all_call_until(lambda one: len(one.answered) >= 20)
        strike()
        is_over = threading.Event()
        threading.Timer(lasts_s, is_over.set).start()
        all_call_until(lambda _: is_over.is_set())
        heal()
        watch, limit = Stopwatch(), Limit()
        counts = {one: len(one.answered) for one in callers}
        all_call_until(lambda one: len(one.answered) >= counts[one] + 20 or not limit.left_s)
        assert all(len(one.answered) >= counts[one] + 20 for one in callers), [one.failed[-1:] for one in callers]
        judge("from the end of a partition to 20 answers for each caller", watch.taken_s, HEALED_S_MAX + LATE_S_MAX)
    return callers


def assert_once(nodes: Nodes, callers: list[Caller]) -> None:
    """What was answered was done once, and nothing else more often."""
    done = booked(nodes)
    assert {number: count for number, count in done.items() if count > 1} == {}
    assert all(done[number] == 1 for one in callers for number in one.answered)
    longest_s, said = max(one.longest for one in callers)
    print(said)
    judge("the longest call, less what the control timer was late", longest_s, TIMEOUT_S + LATE_S_MAX)
