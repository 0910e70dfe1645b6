"""contexts: an object that interleaves, with 10,000 requests that await a reply, and priorities that share the time.

First how long an urgent request takes while the others wait; reference: while nothing waits. Then three classes of work that
keep the process busy, with shares of 80 and 20 percent, and none for the third, which may starve for half a second: the time
that each got, and the longest time in which nothing of the third was done. A surprise: a wait that grows with the number of
contexts, or shares that follow the lengths of the actions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from appbackplane.runtime import AppObject, Component, Replies, operation
from appbackplane.transport.client import Client

from .harness.bulk import compute
from .harness.case import Case, Requirement, Sides, ours, ratio
from .harness.systems import running
from .harness.timing import percentile, periodic_us

CONTEXTS = 10_000
SLICE_S, QUICK_SLICE_S = 10.0, 4.0
WAIT_S_MAX = 60.0
SHARES = (80, 20)
STARVATION_MS = 500
#: Run times of the three classes. The bulk of the second is twelve times as long as that of the first.
RUNS_S = (0.001, 0.012, 0.002)
#: Objects of each class that always have work.
BUSY = 4


class Belt(AppObject):
    """Awaits the reply of an archive for each request."""

    interleaves = True

    def __init__(self) -> None:
        self.wrong_count = self.done_count = 0

    @operation(priority=3)
    async def inspect(self, number: int) -> None:
        found = await self.call("archive.look", number=number, timeout=600.0)
        self.wrong_count += found != number
        self.done_count += 1

    @operation(priority=0)
    def stop(self) -> list[int]:
        return [self.done_count, self.wrong_count]


class Station(Component):
    max_requests = 2 * CONTEXTS

    def setup(self) -> None:
        self.add(Belt())


class Shelves(AppObject):
    """Answers when it is told to."""

    interleaves = True

    def __init__(self) -> None:
        self.replies = Replies(self)

    @operation()
    async def look(self, number: int) -> int:
        await self.replies.wait(number, timeout=600.0)
        return number

    @operation(priority=0)
    def waiting(self) -> int:
        return len(self.replies)

    @operation(priority=0)
    def answer_all(self) -> None:
        for number in self.replies:
            self.replies.put(number)


class Archive(Component):
    max_requests = 2 * CONTEXTS

    def setup(self) -> None:
        self.add(Shelves())


class Class(AppObject):
    """Work of one class that never ends."""

    def __init__(self, priority: int, busy: Busy) -> None:
        self.priority, self.busy = priority, busy

    def work(self) -> None:
        self.busy.began(self.priority)
        compute(RUNS_S[self.priority])
        if self.busy.is_on:
            self.busy.again(self)


class Busy(Component):
    """Three classes of work, and the time that each has got."""

    max_posted = 10 * BUSY * len(RUNS_S)

    def setup(self) -> None:
        self.is_on = False
        self.classes = [
            self.add(Class(priority, self), key=f"{priority}-{n}")
            for priority in range(len(RUNS_S))
            for n in range(BUSY)
        ]

    def again(self, each: Class) -> None:
        each._host.after(each, 0, each.work, (), each.priority)

    def began(self, priority: int) -> None:
        now_s = time.perf_counter()
        self.gaps_s[priority] = max(self.gaps_s[priority], now_s - self.last_s[priority])
        self.last_s[priority] = now_s
        self.counts[priority] += 1

    @operation(priority=0)
    def on(self) -> None:
        self.counts = [0] * len(RUNS_S)
        self.gaps_s = [0.0] * len(RUNS_S)
        self.last_s = [time.perf_counter()] * len(RUNS_S)
        self.is_on = True
        for each in self.classes:
            self.again(each)

    @operation(priority=0)
    def off(self) -> dict[str, float]:
        """Its figures."""
        self.is_on = False
        used = [count * run_s for count, run_s in zip(self.counts, RUNS_S, strict=True)]
        shared_s = sum(used[: len(SHARES)])
        return {
            "share_percent": 100 * used[0] / shared_s,
            "starved_ms": 1e3 * self.gaps_s[2],
            "third_percent": 100 * used[2] / sum(used),
        }


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    seconds = QUICK_SLICE_S if is_quick else SLICE_S
    shares = f'order = "shares"\nshares = {list(SHARES)}\nmax_starvation = "{STARVATION_MS}ms"\npriorities = 3'
    backplanes = {
        "station": f'components = ["{__name__}:Station"]',
        "archive": f'components = ["{__name__}:Archive"]',
        "busy": f'components = ["{__name__}:Busy"]\n{shares}',
    }
    with running(backplanes) as system:
        client = system.client
        yield Sides(
            lambda: {**with_contexts(client, seconds), **shared(client, seconds)},
            lambda: {"p99_us": urgent_p99_us(client, seconds)},
        )


def with_contexts(client: Client, seconds: float) -> dict[str, float]:
    """An urgent request beside the contexts; then all of them end."""
    began, (before, _) = time.perf_counter(), client.call("station.stop")
    for number in range(CONTEXTS):
        client.cast("station.inspect", number=number)
    wait_for(lambda: client.call("archive.waiting") == CONTEXTS)
    p99_us = urgent_p99_us(client, seconds)
    client.call("archive.answer_all")
    wait_for(lambda: client.call("station.stop") == [before + CONTEXTS, 0])
    return {"p99_us": p99_us, "contexts_s": time.perf_counter() - began - seconds}


def wait_for(is_so: Callable[[], bool]) -> None:
    """Raises RuntimeError after `WAIT_S_MAX`."""
    end = time.perf_counter() + WAIT_S_MAX
    while not is_so():
        if time.perf_counter() > end:
            raise RuntimeError("the contexts are not as many as they should be: see `appbackplane status --stats`")
        time.sleep(0.05)


def urgent_p99_us(client: Client, seconds: float) -> float:
    return percentile(periodic_us(lambda: client.call("station.stop"), seconds), 0.99)


def shared(client: Client, seconds: float) -> dict[str, float]:
    """What each class gets of a process that is busy."""
    client.call("busy.on")
    time.sleep(seconds)
    figures: dict[str, float] = client.call("busy.off")
    return figures


CASE = Case(
    name="contexts",
    what="an urgent request beside 10,000 that await replies in the same object; reference: with none",
    requirements=(
        Requirement("p99 ratio", ratio("p99_us"), at_most=1.5),
        Requirement(
            "share of 80 %", ours("share_percent"), at_least=0.95 * SHARES[0], at_most=1.05 * SHARES[0], unit="%"
        ),
        Requirement("longest starvation", ours("starved_ms"), at_most=STARVATION_MS, unit="ms"),
    ),
    open=both,
    rounds=3,
    quick_rounds=2,
)
