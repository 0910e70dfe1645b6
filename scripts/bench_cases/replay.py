"""replay: recorded actions simulated a second (spark/replay), so that a dozen proposals can be tried while one waits.

A busy backplane of four threads: eight priorities, fifty objects, half of the time blocked, reliefs and the GIL as they are.
Absolute: it is interpreted Python and the real scheduler. A surprise would be less than 100,000.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

from appbackplane.spark.replay import NEVER, Costs, Load, ReplaySetting, simulate

from .harness.case import Case, Figures, Requirement, Sides, ours

COUNT = 50_000
#: Of one worker each; four do not keep up with less.
RUN_NS, APART_NS = 100_000, 30_000


@contextmanager
def one(is_quick: bool) -> Iterator[Sides]:
    load = made(COUNT)

    def figures() -> Figures:
        began = time.perf_counter()
        replayed = simulate(load, ReplaySetting(threads=4), Costs(between_ns=10_000))
        spent = time.perf_counter() - began
        assert all(replayed.end)
        return {"per_s": COUNT / spent}

    yield Sides(figures)


def made(count: int) -> Load:
    """The same each time."""
    chance = random.Random(1)
    at = 0
    arrival = []
    for _ in range(count):
        at += round(chance.expovariate(1 / APART_NS))
        arrival.append(at)
    run = [round(chance.expovariate(1 / RUN_NS)) for _ in range(count)]
    return Load(
        arrival=arrival,
        operation=[n % 8 for n in range(count)],
        object=[chance.randrange(50) for _ in range(count)],
        priority=[n % 8 for n in range(count)],
        run=run,
        cpu=[ns // 5 for ns in run],
        awaited=[0] * count,
        deadline=[NEVER] * count,
        wait=[0] * count,
    )


CASE = Case(
    name="replay",
    what="recorded actions simulated, four threads, eight priorities",
    requirements=(Requirement("actions/s", ours("per_s"), at_least=100_000),),
    open=one,
    rounds=10,
    quick_rounds=3,
)
