"""idle: what eight backplanes cost that have nothing to do.

CPU of all of them together, resident memory of the largest. Against as many bare processes that wait on a pyzmq socket. A
surprise would be 1 % each: then somebody polls.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from .harness.case import Case, Figures, Requirement, Sides, ours
from .harness.machine import cpu_s, rss_mib
from .harness.parts import COUNT, backplanes
from .harness.processes import program
from .harness.systems import running

#: What a start leaves to do is over by then.
SETTLE_S = 1.0
SLICE_S, QUICK_SLICE_S = 5.0, 2.0


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    seconds = QUICK_SLICE_S if is_quick else SLICE_S
    with running(backplanes(COUNT)) as system, ExitStack() as stack:
        folder = Path(system.run_dir)
        bare = [stack.enter_context(program("harness.raw", f"ipc://{folder}/raw{n}")) for n in range(COUNT)]
        pids = list(system.pids().values())
        time.sleep(SETTLE_S)
        yield Sides(lambda: used(pids, seconds), lambda: used([child.pid for child in bare], seconds))


def used(pids: Sequence[int], seconds: float) -> Figures:
    began, before_s = time.perf_counter(), cpu_s(pids)
    time.sleep(seconds)
    share = (cpu_s(pids) - before_s) / (time.perf_counter() - began)
    return {"cpu_percent": 100 * share, "rss_mib": max(rss_mib(pid) for pid in pids)}


CASE = Case(
    name="idle",
    what="8 idle backplanes; reference: 8 bare processes that wait on a pyzmq socket",
    requirements=(
        Requirement("CPU of all", ours("cpu_percent"), at_most=1.0, unit="% of a core"),
        Requirement("RSS of the largest", ours("rss_mib"), at_most=40, unit="MiB"),
    ),
    open=both,
    rounds=2,
    quick_rounds=1,
    is_warmed_up=False,
)
