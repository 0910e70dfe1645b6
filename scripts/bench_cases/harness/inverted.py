"""Inverted: everything that the cases of priority inversion need, on one core.

An object runs low-priority work of 50 ms CPU when something urgent comes to it and has to wait for the rest of it; a hog of
middle priority in another backplane would rather have the core. What is measured is how long the urgent call takes: with
nobody else there; with the hog; and how long the low-priority work itself takes beside the hog when nothing urgent waits
for it, which is what the urgent call would take if nothing were inherited.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from appbackplane.runtime import Component, operation
from appbackplane.transport.client import Client, PendingCall

from .bulk import Tally, compute, new_tally
from .case import Sides
from .machine import one_core
from .systems import running

WORK_S = 0.05
#: Priorities of the low work, the hog and what is urgent, and the nice that goes with them.
LOW, MIDDLE, HIGH = 4, 2, 0
NICE = "nice = [-10, -5, 0, 5, 10]"
POLL_S, BEGIN_S_MAX = 0.0005, 10.0
MODULE = __name__


class Callee(Component):
    """Where the low work is done, and something urgent may come."""

    calls_next: str | None = None

    @operation(priority=LOW)
    async def work(self, tally: str) -> None:
        """50 ms of CPU here, or at the end of the chain; says in the tally that it has begun."""
        if self.calls_next is not None:
            await self.call(self.calls_next, tally=tally)
            return
        Tally(Path(tally)).count()
        compute(WORK_S)

    @operation(priority=HIGH)
    def ping(self) -> None: ...


class LimitedCallee(Callee):
    """The same, for a backplane with a limit."""


class Middle(Callee):
    calls_next = "callee.work"


class Front(Callee):
    calls_next = "middle.work"


class Hog(Component):
    """Wants the core for itself."""

    @operation(priority=MIDDLE)
    def spin(self, tally: str) -> None:
        """Until the tally moves."""
        spun = Tally(Path(tally))
        count, _ = spun.read()
        while spun.read()[0] == count:
            pass


class LimitedHog(Hog):
    """The same, for a backplane with a limit."""


@contextmanager
def hogging(client: Client, hog: str | None) -> Iterator[None]:
    """Beside a hog, if there is one: "hog" or "limited_hog"."""
    if hog is None:
        yield
        return
    with new_tally() as (tally, path):
        spinning = client.submit(f"{hog}.spin", tally=str(path))
        client.flush()
        time.sleep(0.02)  # however long it takes to begin, it is in the way from then on
        try:
            yield
        finally:
            tally.count()
            spinning.result()


def urgent_ms(client: Client, target: str, hog: str | None) -> float:
    """How long an urgent call takes that finds low work running in `target`."""
    with new_tally() as (tally, path), hogging(client, hog):
        low = begin(client, target, tally, path)
        began = time.perf_counter()
        client.call(f"{target}.ping")
        spent = time.perf_counter() - began
        low.result()
    return spent * 1e3


def low_ms(client: Client, target: str, hog: str | None) -> float:
    """How long the low work takes from its begin, with nothing urgent behind it."""
    with new_tally() as (tally, path), hogging(client, hog):
        low = begin(client, target, tally, path)
        began = time.perf_counter()
        low.result()
        return (time.perf_counter() - began) * 1e3


def begin(client: Client, target: str, tally: Tally, path: Path) -> PendingCall:
    low = client.submit(f"{target}.work", tally=str(path))
    client.flush()
    end = time.perf_counter() + BEGIN_S_MAX
    while not tally.read()[0]:
        if time.perf_counter() > end:
            raise RuntimeError(f"{target}.work has not begun after {BEGIN_S_MAX} s")
        time.sleep(POLL_S)
    return low


def beside_a_hog(target: str, *others: str) -> Callable[[bool], AbstractContextManager[Sides]]:
    """Opens a case, for the class of the component that is called, and those of the others that it needs besides the hog."""
    tables = {name.lower(): f'components = ["{MODULE}:{name}"]' for name in (target, *others, "Hog")}
    called = target.lower()

    @contextmanager
    def both(is_quick: bool) -> Iterator[Sides]:
        with one_core(), running(tables, NICE) as system:
            client = system.client
            yield Sides(
                lambda: {
                    "inherited_ms": urgent_ms(client, called, "hog"),
                    "not_inherited_ms": low_ms(client, called, "hog"),
                },
                lambda: {"inherited_ms": urgent_ms(client, called, None)},
            )

    return both
