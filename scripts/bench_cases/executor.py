"""executor: the same work given to ProcessPoolExecutor with one worker, the standard library's way to another process.

One call, many outstanding, and an urgent call each 20 ms beside bulk calls: of 200 us with a thousand outstanding, and of
20 ms with a hundred (with a thousand, one urgent call would take the executor twenty seconds). A surprise would be an urgent
p99 of ours that is not a tenth of the executor's, or fewer bulk calls served.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from appbackplane.transport.client import Client

from .harness import echo
from .harness.bulk import COMPONENT, TIMEOUT_S, Window, compute, new_tally, rate
from .harness.case import Case, Figures, Requirement, Sides, ratio
from .harness.systems import running
from .harness.timing import percentile, periodic_us, pipelined_per_s, round_trips_us, summary

CALLS, PIPELINED, WINDOW = 300, 5_000, 1_000
#: Bulk calls: name, length and how many outstanding.
BULK = (("short", 0.0002, 1000), ("long", 0.02, 100))
SLICE_S, QUICK_SLICE_S = 2.0, 0.5


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    seconds = QUICK_SLICE_S if is_quick else SLICE_S
    with running({"echo": echo.COMPONENT, "work": COMPONENT}) as system, ProcessPoolExecutor(1) as pool:
        yield Sides(lambda: ours(system.client, seconds), lambda: executor(pool, seconds))


def ours(client: Client, seconds: float) -> Figures:
    found = calls(lambda: client.submit("echo.echo", text="x"))
    for name, bulk_s, outstanding in BULK:
        found |= urgent(
            name, lambda: client.call("work.ping"),
            partial(client.submit, "work.compute", seconds=bulk_s, timeout=TIMEOUT_S), outstanding, seconds,
        )  # fmt: skip
    return found


def executor(pool: ProcessPoolExecutor, seconds: float) -> Figures:
    found = calls(lambda: pool.submit(str, "x"))
    for name, bulk_s, outstanding in BULK:
        found |= urgent(
            name, lambda: pool.submit(nothing).result(), partial(pool.submit, compute, bulk_s), outstanding, seconds
        )
    return found


def nothing() -> None: ...


def calls(submit: Callable[[], Any]) -> Figures:
    """One after the other, and many outstanding."""
    taken = round_trips_us(lambda: submit().result(), CALLS)
    return {"call_us": summary(taken)["p50_us"], "pipelined_per_s": pipelined_per_s(submit, PIPELINED, WINDOW)}


def urgent(name: str, call: Callable[[], Any], submit: Callable[[], Any], outstanding: int, seconds: float) -> Figures:
    """Beside a bulk window that a thread of this process keeps full."""
    with new_tally() as (tally, _):
        window = Window(submit, tally, outstanding)
        window.fill()
        taken: list[float] = []
        per_s = rate(tally, lambda: taken.extend(measured(call, seconds)))
        window.stop()
    return {f"{name}_p99_ms": percentile(taken, 0.99) / 1e3, f"{name}_bulk_per_s": per_s}


def measured(call: Callable[[], Any], seconds: float) -> list[float]:
    """Urgent calls for so long; if one alone takes longer, that one."""
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while not taken or time.perf_counter() < end:
        taken += periodic_us(call, 0.02)
        time.sleep(0.02)
    return taken


CASE = Case(
    name="executor",
    what="calls, and urgent calls beside bulk calls of 200 µs and 20 ms; reference: ProcessPoolExecutor(1)",
    requirements=(
        Requirement("urgent p99 beside 200 µs", ratio("short_p99_ms"), at_most=0.1),
        Requirement("urgent p99 beside 20 ms", ratio("long_p99_ms"), at_most=0.1),
        Requirement("bulk calls/s", ratio("short_bulk_per_s"), at_least=0.9),
        Requirement("one call", ratio("call_us"), at_most=1.0),
        Requirement("calls/s with 1000 outstanding", ratio("pipelined_per_s"), at_least=1.0),
    ),
    open=both,
    rounds=2,
    quick_rounds=1,
    is_warmed_up=False,
)
