"""inproc: actions a second inside one backplane, with priorities, order by object and full statistics.

No-ops are posted to 1000 objects and run by the real worker (harness/inside.py). Against as many asyncio tasks, made and
gathered in one loop, which have neither. A surprise would be a ratio below 1. And the same with its actions recorded
(runtime/observation/recorder.py), beside it in the same round: what that costs an action.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .harness.case import Case, Figures, Requirement, Sides, ratio
from .harness.inside import BATCH, inside

OBJECTS = 1000
BATCHES = 20


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    with (
        tempfile.TemporaryDirectory(prefix="appbackplane-") as folder,
        inside(OBJECTS) as backplane,
        inside(OBJECTS, Path(folder)) as recorded,
    ):

        def ours() -> Figures:
            per_s, recorded_per_s = backplane.per_s(BATCHES), recorded.per_s(BATCHES)
            assert recorded.recorded_count, "nothing was recorded"
            return {"per_s": per_s, "recorded_per_s": recorded_per_s}

        yield Sides(ours, lambda: {"per_s": asyncio.run(tasks_per_s())})


def recording_us(ours: Figures, _reference: Figures) -> float:
    """What recording adds to an action."""
    return 1e6 / ours["recorded_per_s"] - 1e6 / ours["per_s"]


async def tasks_per_s() -> float:
    done = 0

    async def nothing() -> None:
        nonlocal done
        done += 1

    began = time.perf_counter()
    for _ in range(BATCHES):
        await asyncio.gather(*[asyncio.create_task(nothing()) for _ in range(BATCH)])
    spent = time.perf_counter() - began
    assert done == BATCHES * BATCH
    return done / spent


CASE = Case(
    name="inproc",
    what="post and run no-ops on 1000 objects, full statistics on; reference: asyncio tasks",
    requirements=(
        Requirement("actions/s ratio", ratio("per_s"), at_least=1.6),
        Requirement("recording an action", recording_us, at_most=1.0, unit="us"),
    ),
    open=both,
    rounds=30,
    quick_rounds=10,
)
