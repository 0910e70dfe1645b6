"""Sizing: how many requests a job takes, and how many tasks it cuts them into. Pure.

A task costs 10 ms whatever it does, and a job 30 ms, so small ones are waste; but a request that is in a job can no longer be
overtaken by a more urgent one, and a slow one holds up those of its task. So tasks are made as long as they have to be to
cost little, jobs of as many as keep all cores busy, and no more is taken than that. What requests take, and how large their
results are, is learned as they end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

from .settings import SparkSettings
from .task import TASK_BYTES_MAX

#: Of work in a task: its own 10 ms are 4 % then, and the slowest task ends a quarter of a second after the others.
TASK_NS: Final = 250_000_000
#: Below this, a second task costs as much as it saves.
TASK_NS_MIN: Final = 20_000_000
#: Of all jobs together. With one, a core is idle from its last task to the next job; with more than four, nothing is gained.
TASKS_PER_CORE: Final = 4
#: Of results, of all jobs together: of more than 1 GiB (`spark.driver.maxResultSize`) Spark gives up the job.
JOBS_BYTES_MAX: Final = 512 << 20
#: How much what has just ended counts against what was known before.
_NEW_WEIGHT: Final = 0.3


class Sizing:
    """Of one executor; its workers share what they learn."""

    def __init__(self, settings: SparkSettings, count_cores: Callable[[], int]) -> None:
        """`count_cores`: asked for each job, because executors register one after the other, and come and go."""
        self._settings, self._count_cores = settings, count_cores
        self._cores = 1
        #: How long a request takes; 0: none has ended yet.
        self.request_ns = 0.0
        #: How much comes back of it.
        self.result_bytes = 0.0

    def learn(self, count: int, run_ns: int, bytes_count: int) -> None:
        """So many requests took so long, and brought so much, together. (A race of two threads loses one of two figures that
        are as good.)
        """
        if count:
            self.request_ns = _learned(self.request_ns, run_ns / count)
            self.result_bytes = _learned(self.result_bytes, bytes_count / count)

    def take_count(self, workers: int) -> int:
        """Requests for one job of `workers` at a time, on the cores that there are now."""
        self._cores = self._count_cores()
        in_a_task = max(1, min(int(TASK_NS / self.request_ns), self._fit(TASK_BYTES_MAX))) if self.request_ns else 1
        return max(
            1, min(self._settings.batch, self._tasks_max(workers) * in_a_task, self._fit(JOBS_BYTES_MAX) // workers)
        )

    def tasks(self, count: int, workers: int) -> int:
        """Tasks for a job of `count` requests."""
        if self._settings.slices:
            return min(count, self._settings.slices)
        worthwhile = int(count * self.request_ns / TASK_NS_MIN) if self.request_ns else count
        worthwhile = max(worthwhile, -(-count // max(1, self._fit(TASK_BYTES_MAX))))
        return max(1, min(count, worthwhile, self._tasks_max(workers)))

    def _fit(self, bytes_count: int) -> int:
        """Requests whose results are so large together."""
        return int(bytes_count / max(1.0, self.result_bytes))

    def _tasks_max(self, workers: int) -> int:
        return self._settings.slices or -(-self._cores * TASKS_PER_CORE // workers)


def _learned(known: float, mean: float) -> float:
    mean = max(mean, 1.0)
    return known + _NEW_WEIGHT * (mean - known) if known else mean


def cut(count: int, pieces: int) -> list[tuple[int, int]]:
    """From where to where each of so many pieces goes, none of them empty, the first ones at most one longer."""
    short, long_count = divmod(count, pieces)
    ends = [number * short + min(number, long_count) for number in range(pieces + 1)]
    return [(start, stop) for start, stop in itertools.pairwise(ends) if start < stop]
