"""uneven: twenty jobs of alternately 0.5 and 0.01 seconds on two replicas that share a queue (`balance = "pull"`).

Against ProcessPoolExecutor with two workers, which has such a queue by nature. Where calls take turns among the replicas, one
of them gets all the long jobs. Beside it: short calls of one length, a thousand outstanding, against two replicas that take
turns. A surprise would be a queue that costs more than it saves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from appbackplane.runtime import Component, operation
from appbackplane.transport.client import Client

from .harness.bulk import compute
from .harness.case import Case, Figures, Requirement, Sides, ratio
from .harness.systems import running
from .harness.timing import pipelined_per_s

JOBS_S = (0.5, 0.01) * 10
#: Calls of each slice: empty ones, and ones that compute.
EMPTY, QUICK_EMPTY = 100_000, 30_000
SHORT, QUICK_SHORT = 10_000, 4_000
SHORT_S, WINDOW = 0.0002, 1_000


class Desk(Component):
    """Does one job at a time."""

    @operation()
    def work(self, seconds: float) -> None:
        time.sleep(seconds)

    @operation()
    def compute(self) -> None:
        compute(SHORT_S)

    @operation()
    def echo(self, text: str) -> str:
        return text


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    empty, short = (QUICK_EMPTY, QUICK_SHORT) if is_quick else (EMPTY, SHORT)
    desk = f'components = ["{__name__}:Desk"]\nreplicas = 2\n'
    with (
        running({"desk": f'{desk}balance = "pull"'}) as pulled,
        running({"desk": desk}) as turns,
        ProcessPoolExecutor(2) as pool,
    ):
        yield Sides(
            lambda: (
                jobs(lambda seconds: pulled.client.submit("desk.work", seconds=seconds))
                | even(pulled.client, empty, short)
            ),
            lambda: jobs(lambda seconds: pool.submit(time.sleep, seconds)) | even(turns.client, empty, short),
        )


def jobs(submit: Callable[[float], Any]) -> Figures:
    """All of them at once."""
    began = time.perf_counter()
    for pending in [submit(seconds) for seconds in JOBS_S]:
        pending.result()
    return {"uneven_s": time.perf_counter() - began}


def even(client: Client, empty: int, short: int) -> Figures:
    return {
        "short_per_s": pipelined_per_s(lambda: client.submit("desk.compute"), short, WINDOW),
        "empty_per_s": pipelined_per_s(lambda: client.submit("desk.echo", text="x"), empty, WINDOW),
    }


CASE = Case(
    name="uneven",
    what='20 jobs of 0.5 and 0.01 s, and short calls, on two replicas with balance = "pull"; references: '
    "ProcessPoolExecutor(2), and replicas that take turns",
    requirements=(
        Requirement("time of the uneven jobs", ratio("uneven_s"), at_most=1.1),
        Requirement("short calls/s", ratio("short_per_s"), at_least=0.97),
    ),
    open=both,
    rounds=4,
    quick_rounds=2,
)
