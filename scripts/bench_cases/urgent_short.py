"""urgent_short: what an urgent call waits for while a thousand bulk calls of 200 us are outstanding, always.

One backplane with one thread; another process keeps the bulk window full. Against the same urgent calls while the
backplane is idle. A surprise would be a loaded p99 of several bulk calls: then something waits in a FIFO.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .harness.bulk import COMPONENT, bulk_load
from .harness.case import Case, Figures, Requirement, Sides, ratio
from .harness.systems import running
from .harness.timing import periodic_us, summary
from .peers import urgent_figures

BULK_S = 0.0002
SLICE_S, QUICK_SLICE_S = 2.0, 1.0


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    seconds = QUICK_SLICE_S if is_quick else SLICE_S
    with running({"worker": COMPONENT}) as system, bulk_load(system.run_dir, "work.compute", BULK_S) as load:

        def idle() -> Figures:
            return summary(periodic_us(lambda: system.client.call("work.ping"), seconds))

        def loaded() -> Figures:
            load.start()
            figures: Figures = {}
            figures["bulk_per_s"] = load.rate(lambda: figures.update(idle()))
            load.stop()
            return figures

        yield Sides(loaded, idle)


CASE = Case(
    name="urgent_short",
    what="an urgent call each 20 ms, 1000 bulk calls of 200 µs CPU outstanding; reference: the same on an idle backplane",
    requirements=(Requirement("p99 to idle p99", ratio("p99_us"), at_most=1.5),),
    open=both,
    rounds=6,
    quick_rounds=2,
    peers=lambda name, is_quick: urgent_figures(name, BULK_S, QUICK_SLICE_S if is_quick else SLICE_S),
)
