"""urgent_long: what an urgent call waits for behind bulk handlers that spin for 20 ms and never yield.

The bulk window is full all the time; urgent calls come and go by turns, and the bulk rate beside them is compared with the
bulk rate without. A surprise would be a p99 of 20 ms: then the sentinel sleeps.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from .harness.bulk import COMPONENT, bulk_load
from .harness.case import Case, Figures, Requirement, Sides, ours, ratio
from .harness.systems import running
from .harness.timing import periodic_us, summary

BULK_S = 0.02
SLICE_S, QUICK_SLICE_S = 2.5, 1.0


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    seconds = QUICK_SLICE_S if is_quick else SLICE_S
    with running({"worker": COMPONENT}) as system, bulk_load(system.run_dir, "work.compute", BULK_S) as load:
        load.start()

        def with_urgent() -> Figures:
            taken: list[float] = []
            bulk_per_s = load.rate(lambda: taken.extend(periodic_us(lambda: system.client.call("work.ping"), seconds)))
            found = summary(taken)
            return {"p50_ms": found["p50_us"] / 1e3, "p99_ms": found["p99_us"] / 1e3, "bulk_per_s": bulk_per_s}

        def alone() -> Figures:
            return {"bulk_per_s": load.rate(lambda: time.sleep(seconds))}

        yield Sides(with_urgent, alone)


CASE = Case(
    name="urgent_long",
    what="an urgent call each 20 ms behind bulk handlers that spin 20 ms; reference: the bulk calls alone",
    requirements=(
        Requirement("bulk throughput to bulk alone", ratio("bulk_per_s"), at_least=0.95),
        Requirement("urgent p99", ours("p99_ms"), at_most=5.0, unit="ms"),
    ),
    open=both,
    rounds=5,
    quick_rounds=3,
)
