"""lanes: items a second of a sink with `parallel="auto"`, over those with the number that is right for its function.

One function blocks for 1 ms an item, and eight threads are right for it; the other computes, and one lane is. Both run in a
backplane with eight threads, beside the same with the right number. Where they compute, the two take turns of a second, by
their sources: the speed of a core changes from one ten seconds to the next by more than is in question. A surprise would be
that looking for the number costs more than a few per cent.
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
SECONDS, QUICK_SECONDS = 40.0, 10.0
#: Much longer than a period of the search, and than the computing of the items that were given before (20 ms).
TURN_S = 1.0
#: Until the number has settled: eight threads take some twenty periods.
SETTLES_S = 10.0
#: Additions for an item: 20 us on a machine of 2024.
ADDITIONS = 1_000


@source
def lines(wanted: int) -> list[int]:
    return [*range(wanted)]


@source(poll=0.005)
def even(wanted: int) -> list[int]:
    return [] if is_odd() else [*range(wanted)]


@source(poll=0.005)
def odd(wanted: int) -> list[int]:
    return [*range(wanted)] if is_odd() else []


def is_odd() -> bool:
    """Whose turn it is."""
    return int(time.monotonic() / TURN_S) % 2 == 1


def blocks(_: int) -> None:
    time.sleep(0.001)


def computes(number: int) -> None:
    for each in range(ADDITIONS):
        number += each


blocking_auto = Flow("auto", lines >> sink(parallel="auto")(blocks), credits=CREDITS)
blocking_right = Flow("right", lines >> sink(parallel=THREADS)(blocks), credits=CREDITS)
computing_auto = Flow("auto", even >> sink(parallel="auto")(computes))
computing_right = Flow("right", odd >> sink(computes))


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    seconds = QUICK_SECONDS if is_quick else SECONDS
    yield Sides(
        lambda: {
            **measured("blocking", ("lines", "lines"), "blocks", seconds),
            **measured("computing", ("even", "odd"), "computes", seconds),
        },
        None,
    )


def measured(kind: str, sources: tuple[str, str], end: str, seconds: float) -> Figures:
    """Items a second of both flows, once they have settled, and the lanes that were found."""
    flows = {"auto": sources[0], "right": sources[1]}
    backplanes = {
        name: f'components = ["{__name__}:{kind}_{name}.{source}", "{__name__}:{kind}_{name}.{end}"]\nthreads = {THREADS}'
        for name, source in flows.items()
    }
    with running(backplanes) as system:
        time.sleep(SETTLES_S)
        before = {name: ended(system, name, f"{name}_{source}") for name, source in flows.items()}
        time.sleep(seconds)
        after = {name: ended(system, name, f"{name}_{source}") for name, source in flows.items()}
        auto, right = ((after[name][1] - before[name][1]) / (after[name][0] - before[name][0]) * 1e9 for name in flows)
        lanes = float(lanes_of(system, f"auto_{end}"))
    return {
        f"{kind}_per_s": auto, f"{kind}_right_per_s": right, f"{kind}_share": auto / right, f"{kind}_lanes": lanes,
    }  # fmt: skip


def lanes_of(system: System, component: str) -> int:
    """Chunks that the sink serves at the same time."""
    told = system.client.call("backplane.auto.statistics")
    return int(told["flows"][component]["parallel"])


CASE = Case(
    name="lanes",
    what='items a second of a sink with parallel="auto", over those with the right number; no other reference',
    requirements=(
        Requirement("of eight lanes, blocking", ours("blocking_share"), at_least=0.9),
        Requirement("of one lane, computing", ours("computing_share"), at_least=0.95),
    ),
    open=both,
    rounds=2,
    quick_rounds=1,
)
