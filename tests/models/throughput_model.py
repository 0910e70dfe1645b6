"""A kernel as the optimiser sees it: throughput by worker count under a given kind of load, with noise, in samples.

CPU-bound work is bounded by the cores, blocking work by the workers; too many workers contend. Requests run `cpu_ns` on a
core and wait `block_ns` without one. Slow, obvious arithmetic; nothing of it is shared with what it tests.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from appbackplane.runtime.requests.optimiser import KernelSample, Optimiser, Setting, SettingMove

SECOND = 1_000_000_000


@dataclass(frozen=True)
class Load:
    """A kind of request on a machine."""

    cpu_ns: int
    block_ns: int
    cores: int = 2
    #: Share of the throughput that is lost for each worker beyond `knee`.
    contention: float = 0.0
    knee: int = 0

    def per_s(self, workers: int) -> float:
        """Requests a second that so many workers end, when there are always some waiting."""
        by_workers = workers * SECOND / (self.cpu_ns + self.block_ns)
        by_cores = self.cores * SECOND / self.cpu_ns if self.cpu_ns else math.inf
        # Both bounds at once, rounded off where they meet, as queues do it.
        bound = by_workers if by_cores == math.inf else (by_workers**-6 + by_cores**-6) ** (-1 / 6)
        return bound / (1 + self.contention * max(0, workers - max(self.knee, self.cores)))


def best(curve: Callable[[int], float], most: int) -> tuple[int, float]:
    """The fewest workers of highest throughput, and that."""
    return max(((w, curve(w)) for w in range(1, most + 1)), key=lambda pair: (pair[1], -pair[0]))


class SimulatedKernel:
    """Answers each interval with a sample, and applies what the optimiser says."""

    def __init__(
        self, optimiser: Optimiser, curve: Callable[[int], float], *, seed: int = 1, noise: float = 0.12
    ) -> None:
        self.optimiser, self.curve, self.noise = optimiser, curve, noise
        self.random = random.Random(seed)
        self.offered_per_s = math.inf
        self.moves: list[SettingMove] = []
        self.workers_seen: list[int] = []
        self.blocked = 0  # workers whose requests wait for sub-requests
        self.ready_needed = 0  # places below which the workers run dry

    def run(self, intervals: int) -> None:
        """So many intervals."""
        for _ in range(intervals):
            self.workers_seen.append(self.optimiser.setting.workers)
            if move := self.optimiser.observe(self.sample(self.optimiser.setting)):
                self.moves.append(move)

    def sample(self, setting: Setting) -> KernelSample:
        """One interval under a setting."""
        capacity = self.curve(setting.workers) * math.exp(self.random.gauss(0.0, self.noise))
        is_dry = setting.ready < self.ready_needed
        if is_dry:
            capacity *= setting.ready / self.ready_needed
        is_backlog = self.offered_per_s >= capacity
        ended = round(min(capacity, self.offered_per_s))
        run_ns = round(setting.workers / capacity * SECOND)
        busy = setting.workers if is_backlog else min(setting.workers, round(ended * run_ns / SECOND))
        if is_dry:
            busy = max(0, busy - 1)
        return KernelSample(
            interval_ns=SECOND, ended_count=ended, ready_count=setting.ready if is_backlog and not is_dry else 0,
            posting_count=1 if is_backlog else 0, rejoinable_count=0, workers=setting.workers, executing_count=busy,
            blocked_count=self.blocked, run_ns=run_ns, wait_ns=0,
        )  # fmt: skip
