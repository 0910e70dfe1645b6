"""requests: what the request kernel adds to a request, and whether requests that compute use the cores.

Empty requests, posted and rejoined by a component: on threads of its own backplane, and in two worker processes, against the
same number submitted to a ProcessPoolExecutor with two workers, the standard library's way, and their results taken. Then
requests of 5 ms CPU time in the two processes: how much of two cores they had, beside what two processes have on this machine,
just then, that are given all of it at once and are asked for nothing in between. A surprise would be fewer than 60,000/s on
threads, which is 16 us for a post, a turn in the pool, an execution and a rejoin.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

from .harness.case import Case, Figures, Requirement, Sides, ours
from .harness.requesting import BACKPLANES, WORKERS, spin
from .harness.systems import System, running

COUNT, QUICK_COUNT = 40_000, 10_000
#: As many as the executor does in the time.
SUBMITTED, QUICK_SUBMITTED = 8_000, 3_000
COMPUTED, QUICK_COMPUTED, COMPUTE_S = 400, 100, 0.005
LIMIT_S = 60.0


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    with running(BACKPLANES) as system, ProcessPoolExecutor(WORKERS) as pool:
        count, submitted = (QUICK_COUNT, QUICK_SUBMITTED) if is_quick else (COUNT, SUBMITTED)
        computed = QUICK_COMPUTED if is_quick else COMPUTED
        yield Sides(lambda: kernels(system, count, computed), lambda: executor(pool, submitted, computed))


def kernels(system: System, count: int, computed: int) -> Figures:
    call = system.client.call
    threads_s = call("threads.empty", count=count, timeout=LIMIT_S)
    processes_s = call("processes.empty", count=count, timeout=LIMIT_S)
    computing_s = call("processes.compute", count=computed, seconds=COMPUTE_S, timeout=LIMIT_S)
    return {
        "threads_per_s": count / threads_s,
        "processes_per_s": count / processes_s,
        "cores_used": computed * COMPUTE_S / computing_s,
    }


def executor(pool: ProcessPoolExecutor, count: int, computed: int) -> Figures:
    began = time.perf_counter()
    futures = [pool.submit(nothing, number) for number in range(count)]
    assert sum(future.result() for future in futures) == count * (count - 1) // 2
    submitted_s = time.perf_counter() - began
    began = time.perf_counter()
    assert all(pool.map(spin, [COMPUTE_S] * computed, chunksize=computed // WORKERS))
    computing_s = time.perf_counter() - began
    return {"processes_per_s": count / submitted_s, "cores_used": computed * COMPUTE_S / computing_s}


def nothing(request: int) -> int:
    return request


def of_the_cores(ours: Figures, reference: Figures) -> float:
    """That there are for who only computes."""
    return ours["cores_used"] / reference["cores_used"]


def times_the_executor(ours: Figures, reference: Figures) -> float:
    """Processes against processes."""
    return ours["processes_per_s"] / reference["processes_per_s"]


CASE = Case(
    name="requests",
    what="empty requests, on threads and in two processes, and computing ones; reference: ProcessPoolExecutor.submit",
    requirements=(
        Requirement("in processes, times the executor", times_the_executor, at_least=3.0),
        Requirement("on threads", ours("threads_per_s"), at_least=60_000, unit="/s"),
        Requirement("of two cores, as far as the machine has them, used", of_the_cores, at_least=0.9),
    ),
    open=both,
    rounds=7,
    quick_rounds=3,
)
