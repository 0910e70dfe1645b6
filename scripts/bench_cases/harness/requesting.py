"""Requesting: two request kernels, one with threads as workers and one with processes, for a case to load."""

from __future__ import annotations

import time

from appbackplane.runtime import operation
from appbackplane.runtime.requests import Context, KernelPolicy, RequestKernel, Runnable

#: One a core of the machines that the promises are for.
WORKERS = 2
#: As many as wait at most on either side of the workers: enough that nobody waits for the poster to be scheduled.
POOL = 2000


class Nothing(Runnable):
    """An empty request: what is measured is all around it."""

    def execute(self, request: int, kernel: Context) -> int:
        return request


class Compute(Runnable):
    def execute(self, request: float, kernel: Context) -> int:
        return spin(request)


def spin(seconds: float) -> int:
    """Use so much CPU time, without a system call a turn."""
    turns, end = 0, time.thread_time() + seconds
    while time.thread_time() < end:
        for _ in range(2_000):
            turns += 1
    return turns


class Kernel(RequestKernel):
    """What both have. Who posts is as urgent as what he posts: else requests would step aside for each of his steps."""

    runnables = (Nothing, Compute)

    @operation(priority=7, is_long=True)
    def empty(self, count: int) -> float:
        """Post and rejoin so many empty requests; seconds it took."""
        began = time.perf_counter()
        total = sum(done.result for done in self.kernel.map_unordered(range(count), Nothing))
        took = time.perf_counter() - began
        assert total == count * (count - 1) // 2, "a request is missing, or came twice"
        return took

    @operation(priority=7, is_long=True)
    def compute(self, count: int, seconds: float) -> float:
        """Have so many requests use so much CPU time each; seconds it took."""
        began = time.perf_counter()
        assert sum(1 for done in self.kernel.map_unordered([seconds] * count, Compute) if done.result) == count
        return time.perf_counter() - began


class Threads(Kernel):
    """Its workers are threads of its backplane."""

    policy = KernelPolicy(workers=WORKERS, ready=POOL, rejoin=POOL)


class Processes(Kernel):
    """Its workers are processes."""

    policy = KernelPolicy(kind="processes", workers=WORKERS, ready=POOL, rejoin=POOL)


_MODULE = "bench_cases.harness.requesting"
#: What a case runs, by name.
BACKPLANES = {
    "threads": f'components = ["{_MODULE}:Threads"]',
    "processes": f'components = ["{_MODULE}:Processes"]',
    "worker": (
        'components = ["appbackplane.runtime.requests:RequestWorker"]\n'
        # As the documentation advises for workers that compute.
        f'replicas = {WORKERS}\nmax_latency = "250ms"\n[backplane.worker.settings.RequestWorker]\n'
        f'kernel = "{_MODULE}:Processes"'
    ),
}
