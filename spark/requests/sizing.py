"""Sizing: how many requests a job takes, and into how many tasks it splits them. Pure.

A task costs 10 ms and a job 30 ms regardless of their size, so small ones are waste. But requests in a job can no longer be
overtaken by more urgent ones, and a slow request delays the others in its task. So a task is just long enough to keep its cost
low. A job has as many tasks as keep all cores busy, and no more is taken. Run times and result sizes are learned from ended
requests.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

from .settings import SparkSettings
from .task import TASK_BYTES_MAX

#: Work in a task: with this, its own 10 ms are 4 %, and the slowest task ends a quarter of a second after the others.
TASK_NS: Final = 250_000_000
#: With less work than this, a second task costs as much as it saves.
TASK_NS_MIN: Final = 20_000_000
#: Tasks of all jobs together. With one, a core is idle between its last task and the next job; more than four gain nothing.
TASKS_PER_CORE: Final = 4
#: Results of all jobs together: above 1 GiB (`spark.driver.maxResultSize`) Spark aborts the job.
JOBS_BYTES_MAX: Final = 512 << 20
#: Weight of a new measurement in the moving average.
_NEW_WEIGHT: Final = 0.3


class Sizing:
    """Estimates of one executor, shared by its workers."""

    def __init__(self, settings: SparkSettings, count_cores: Callable[[], int]) -> None:
        """`count_cores`: called for each job, because Spark's executors register one after the other, and come and go."""
        self._settings, self._count_cores = settings, count_cores
        self._cores = 1
        #: Average run time of a request; 0: none has ended yet.
        self.request_ns = 0.0
        #: Average size of a result.
        self.result_bytes = 0.0

    def learn(self, count: int, run_ns: int, bytes_count: int) -> None:
        """Add run time and result size of `count` requests. No lock: a race loses one of two equally good figures."""
        if count:
            self.request_ns = _learned(self.request_ns, run_ns / count)
            self.result_bytes = _learned(self.result_bytes, bytes_count / count)

    def take_count(self, workers: int) -> int:
        """Requests to take for one of `workers` concurrent jobs, given the present number of cores."""
        self._cores = self._count_cores()
        in_a_task = max(1, min(int(TASK_NS / self.request_ns), self._fit(TASK_BYTES_MAX))) if self.request_ns else 1
        return max(
            1, min(self._settings.batch, self._tasks_max(workers) * in_a_task, self._fit(JOBS_BYTES_MAX) // workers)
        )

    def tasks(self, count: int, workers: int) -> int:
        """Number of tasks for a job of `count` requests."""
        if self._settings.slices:
            return min(count, self._settings.slices)
        worthwhile = int(count * self.request_ns / TASK_NS_MIN) if self.request_ns else count
        worthwhile = max(worthwhile, -(-count // max(1, self._fit(TASK_BYTES_MAX))))
        return max(1, min(count, worthwhile, self._tasks_max(workers)))

    def _fit(self, bytes_count: int) -> int:
        """Number of requests whose results have this size together."""
        return int(bytes_count / max(1.0, self.result_bytes))

    def _tasks_max(self, workers: int) -> int:
        return self._settings.slices or -(-self._cores * TASKS_PER_CORE // workers)


def _learned(known: float, mean: float) -> float:
    mean = max(mean, 1.0)
    return known + _NEW_WEIGHT * (mean - known) if known else mean


def cut(count: int, pieces: int) -> list[tuple[int, int]]:
    """Split `count` items into (start, stop) ranges, none empty; the first ones are at most one longer."""
    short, long_count = divmod(count, pieces)
    ends = [number * short + min(number, long_count) for number in range(pieces + 1)]
    return [(start, stop) for start, stop in itertools.pairwise(ends) if start < stop]
