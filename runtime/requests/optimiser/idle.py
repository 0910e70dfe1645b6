"""Idle: the answer to less work than the workers could do: nothing for long, and then fewer workers step by step.

A low offered load looks like a bad setting if only the throughput is watched (dotnet/runtime #33669: pools grew because work
ran out). So nothing is concluded from it, and workers are given back for their memory and handles alone: after `IDLE_MIN` such
intervals, a quarter of the surplus at a time. The first backlog brings all of them back at once.
"""

from __future__ import annotations

import math

from .sample import KernelSample

#: Idle intervals before the first worker goes, and between two steps.
IDLE_MIN, STEP_EVERY = 30, 10
#: Workers kept for each busy one: arrivals come in bursts.
SPARE = 1.5


class Idle:
    """The idle intervals in a row, and the workers given back in them."""

    def __init__(self) -> None:
        self.count = 0
        self._busy_most = 0.0
        self._full: int | None = None  # workers before any was given back

    @property
    def is_long(self) -> bool:
        """Whether no measurement is to be expected for a while."""
        return self.count >= IDLE_MIN

    @property
    def has_given_back(self) -> bool:
        """Whether there are fewer workers than the setting that is held."""
        return self._full is not None

    def ended(self) -> None:
        """There was enough work in this interval: count anew."""
        self.count, self._busy_most = 0, 0.0

    def rest(self, sample: KernelSample, workers: int, least: int) -> int | None:
        """Count an idle interval. Returns a lower worker count to go on with, or None."""
        self.count += 1
        self._busy_most = max(self._busy_most, sample.busy_workers, sample.executing_count)
        if self.count < IDLE_MIN or (self.count - IDLE_MIN) % STEP_EVERY:
            return None
        needed = max(least, math.ceil(SPARE * self._busy_most) + 1)
        self._busy_most = 0.0
        if workers <= needed:
            return None
        self._full = self._full or workers
        return workers - max(1, (workers - needed) // 4)

    def wanted_again(self) -> int | None:
        """The workers to return to now that there is a backlog; None when none were given back."""
        full, self._full = self._full, None
        return full
