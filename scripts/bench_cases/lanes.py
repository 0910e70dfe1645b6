"""lanes: items a second of a sink with `parallel="auto"`, over those with the number that is right for its function.

One function blocks for 1 ms an item, and eight threads are right for it; the other computes, and one lane is. Both run in a
backplane with eight threads. Measured once the numbers have settled, each beside its reference. A surprise would be that
looking for the number costs more than a few per cent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from appbackplane.runtime import Flow, sink, source

from .flows import ended
from .harness.case import Case, Figures, Requirement, Sides, ours
from .harness.systems import System, running

THREADS = 8
#: So many chunks that a declared number of lanes has work, too.
CREDITS = 8_192
SECONDS, QUICK_SECONDS = 8.0, 4.0
#: Until the number has settled: eight threads take some twenty periods.
SETTLES_S = 10.0
#: Additions for an item: 20 us on a machine of 2024.
ADDITIONS = 1_000


@source
def lines(wanted: int) -> list[int]:
    return [*range(wanted)]


def blocks(_: int) -> None:
    time.sleep(0.001)


def computes(number: int) -> None:
    for each in range(ADDITIONS):
        number += each


blocking_auto = Flow("ingest", lines >> sink(parallel="auto")(blocks), credits=CREDITS)
blocking_8 = Flow("ingest", lines >> sink(parallel=THREADS)(blocks), credits=CREDITS)
computing_auto = Flow("ingest", lines >> sink(parallel="auto")(computes), credits=CREDITS)
computing_1 = Flow("ingest", lines >> sink(computes), credits=CREDITS)


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    seconds = QUICK_SECONDS if is_quick else SECONDS

    def measure() -> Figures:
        figures: Figures = {}
        for kind, right in (("blocking", "8"), ("computing", "1")):
            auto, lanes = measured(f"{kind}_auto", kind, seconds)
            reference, _ = measured(f"{kind}_{right}", kind, seconds)
            figures |= {
                f"{kind}_per_s": auto, f"{kind}_right_per_s": reference, f"{kind}_share": auto / reference,
                f"{kind}_lanes": float(lanes),
            }  # fmt: skip
        return figures

    yield Sides(measure, None)


def measured(flow: str, kind: str, seconds: float) -> tuple[float, int]:
    """Items a second of a flow that has settled, and its lanes in the end."""
    sink_name = {"blocking": "blocks", "computing": "computes"}[kind]
    components = [f"{__name__}:{flow}.{part}" for part in ("lines", sink_name)]
    with running({"main": f"components = {components!r}\nthreads = {THREADS}"}) as system:
        time.sleep(SETTLES_S)
        before_ns, before = ended(system, "main")
        time.sleep(seconds)
        after_ns, after = ended(system, "main")
        return (after - before) / (after_ns - before_ns) * 1e9, lanes_of(system, sink_name)


def lanes_of(system: System, sink_name: str) -> int:
    """Chunks that the sink serves at the same time."""
    told = system.client.call("backplane.main.statistics")
    return int(told["flows"][f"ingest_{sink_name}"]["parallel"])


CASE = Case(
    name="lanes",
    what='items a second of a sink with parallel="auto", over those with the right number; no other reference',
    requirements=(
        Requirement("of eight lanes, blocking", ours("blocking_share"), at_least=0.9),
        Requirement("of one lane, computing", ours("computing_share"), at_least=0.95),
    ),
    open=both,
    rounds=3,
    quick_rounds=1,
)
