"""Hold: keeps a setting, and watches for two changes: another load, and a top that has moved.

Another load shows as a shift of the throughput at the same setting. A two-sided CUSUM (Page, 1954) in units of the noise seen
tells it from noise. A top that moved without that is found by rare probes, one step up or down. Each is between two
measurements at the setting itself, so that drift cancels. The setting changes only if several probes agree, so noise alone
moves nothing. Costs one interval in `PROBE_EVERY` at a neighbouring setting.
"""

from __future__ import annotations

import math
from collections import deque

#: Intervals between two probes; each costs a few per cent of one interval.
PROBE_EVERY = 8
#: CUSUM in units of noise: the slack of each interval, and the sum beyond it that means a change. A shift of 3 units (a third,
#: at 12 % noise) is noticed in 3 intervals; noise alone alarms less than once in ten thousand.
SLACK, ALARM = 1.0, 5.0
#: Units that one interval counts for, at most: one alone never alarms.
UNITS_MAX = 4.0
#: Noise of the throughput between intervals: before any was measured, and the least ever assumed (counts have steps).
NOISE_DEFAULT, NOISE_MIN = 0.12, 0.05
#: Measurements that the reference remembers: slow drift is followed, a step is not.
MEMORY = 24
#: How much better, in standard errors, a neighbour must be, over at least `AGREE_MIN` probes of it.
SURE, AGREE_MIN = 2.4, 2
#: Probes in a row, each better by more than noise, that are believed at any noise: 0.2 ** 4 by chance.
IN_A_ROW = 4
#: Probes that the mean advantage remembers: with more, old ones would outvote a top that moved.
EVIDENCE_MAX = 3


class Noise:
    """How much the level varies between measurements at one setting; outlives the holds."""

    def __init__(self) -> None:
        self._variance = NOISE_DEFAULT**2
        self._count = 8  # the default counts as so many measurements

    @property
    def units(self) -> float:
        """One standard deviation of the level."""
        return max(NOISE_MIN, math.sqrt(self._variance))

    def add(self, deviation: float) -> None:
        """Add one measurement's distance from the expected level. Far outliers count as `UNITS_MAX`."""
        self._count = min(self._count + 1, MEMORY)
        squared = min(deviation**2, (UNITS_MAX * self.units) ** 2)
        self._variance += (squared - self._variance) / self._count


class Hold:
    """Watches one worker count, which is held."""

    def __init__(self, workers: int, level: float, noise: Noise, patience: float = 1.0) -> None:
        self.workers = workers
        self.noise = noise
        self.patience = patience
        #: The level expected here. The search's estimate counts as two measurements.
        self.level, self._look_count = level, 2
        self._above = self._below = 0.0
        self._recent: deque[float] = deque(maxlen=3)  # at the setting itself
        self._since_probe = 0
        self._aside: tuple[int, float] | None = None  # (step, level) of a probe, until the measurement after it
        self._turn = -1  # up first: a hold that is too low loses most
        self._promising: int | None = (
            None  # the step whose last probe was better by more than noise: probed again at once
        )
        self._in_a_row = 0  # such probes
        self._evidence: dict[int, tuple[int, float]] = {}  # step to (probes, mean advantage)

    def look(self, level: float) -> bool:
        """Take the level measured at the setting itself. Returns whether the load has changed."""
        self._settle(level)
        units = self.noise.units
        deviation = max(-UNITS_MAX, min((level - self.level) / units, UNITS_MAX))
        self._above = max(0.0, self._above + deviation - SLACK)
        self._below = max(0.0, self._below - deviation - SLACK)
        if max(self._above, self._below) > ALARM * self.patience:
            return True
        self.noise.add(level - self.level)
        self._look_count = min(self._look_count + 1, MEMORY)
        self.level += deviation * units / self._look_count
        self._recent.append(level)
        self._since_probe += 1
        return False

    def look_aside(self, step: int, level: float) -> None:
        """Take the level of a probe at `workers + step`; it is judged at the next measurement at the setting."""
        self._aside = (step, level)

    def probe(self, least: int, most: int) -> int | None:
        """The step to probe now (workers more or fewer), or None: stay."""
        if self._promising is None and (self._since_probe < PROBE_EVERY or max(self._above, self._below) > 0.0):
            return None
        self._turn = -self._turn
        size = max(1, self.workers // 3)
        steps = [step for step in (self._turn * size, -self._turn * size) if least <= self.workers + step <= most]
        if self._promising is not None:
            steps = [self._promising]
        if not steps:
            return None
        self._since_probe = 0
        return steps[0]

    def better(self, tolerance: float) -> tuple[int, float] | None:
        """(step, advantage) that has proved better than the setting, or None."""
        for step, (count, advantage) in self._evidence.items():
            error = self.noise.units * math.sqrt(1.4 / count)
            is_agreed = step == self._promising and self._in_a_row >= IN_A_ROW
            if count >= AGREE_MIN and advantage > max(0.0 if is_agreed else SURE * error, tolerance):
                return step, advantage
        return None

    def _settle(self, level: float) -> None:
        """Judge the last probe by the measurements before and after it."""
        if not self._aside or not self._recent:
            return
        (step, aside), self._aside = self._aside, None
        advantage = aside - (sum(self._recent) / len(self._recent) + level) / 2
        count, mean = self._evidence.get(step, (0, 0.0))
        is_promising = advantage > self.noise.units
        if is_promising and mean < 0.0:
            count, mean = 0, 0.0  # it was worse and is better: the top moved, or this was noise; the past cannot tell
        count = min(count + 1, EVIDENCE_MAX)
        mean += (advantage - mean) / count
        self._evidence[step] = (count, mean)
        self._promising = step if is_promising else None
        self._in_a_row = self._in_a_row + 1 if is_promising else 0
