"""urgent_same_client: as `urgent_short`, but bulk and urgent calls come from one process, over one connection.

A thread of the client keeps the bulk window full, another one makes the urgent calls. What is new is what they share: the
client's lock, its link, its interpreter, and the frames in which bulk replies travel. A surprise would be a p99 of the
interpreter's switch interval, 5 ms.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .harness.bulk import COMPONENT, OUTSTANDING, TIMEOUT_S, Window, new_tally, rate
from .harness.case import Case, Figures, Requirement, Sides, ratio
from .harness.systems import running
from .harness.timing import periodic_us, summary
from .urgent_short import BULK_S, QUICK_SLICE_S, SLICE_S


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    seconds = QUICK_SLICE_S if is_quick else SLICE_S
    with running({"worker": COMPONENT}) as system, new_tally() as (tally, _):
        client = system.client

        def idle() -> Figures:
            return summary(periodic_us(lambda: client.call("work.ping"), seconds))

        def loaded() -> Figures:
            window = Window(
                lambda: client.submit("work.compute", seconds=BULK_S, timeout=TIMEOUT_S), tally, OUTSTANDING
            )
            window.fill()
            figures: Figures = {}
            figures["bulk_per_s"] = rate(tally, lambda: figures.update(idle()))
            window.stop()
            return figures

        yield Sides(loaded, idle)


CASE = Case(
    name="urgent_same_client",
    what="urgent_short with bulk and urgent calls from one client process over one connection; reference: idle",
    requirements=(Requirement("p99 to idle p99", ratio("p99_us"), at_most=1.5),),
    open=both,
    rounds=6,
    quick_rounds=2,
)
