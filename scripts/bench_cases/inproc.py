"""inproc: actions a second inside one backplane, with priorities, order by object and full statistics.

No-ops are posted to 1000 objects and run by the real worker (harness/inside.py). Against as many asyncio tasks, made and
gathered in one loop, which have neither. A surprise would be a ratio below 1.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .harness.case import Case, Requirement, Sides, ratio
from .harness.inside import BATCH, inside

OBJECTS = 1000
BATCHES = 20


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    with inside(OBJECTS) as backplane:
        yield Sides(lambda: {"per_s": backplane.per_s(BATCHES)}, lambda: {"per_s": asyncio.run(tasks_per_s())})


async def tasks_per_s() -> float:
    """The same number of tasks."""
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
    requirements=(Requirement("actions/s ratio", ratio("per_s"), at_least=1.6),),
    open=both,
    rounds=30,
    quick_rounds=10,
)
