"""Hold: the setting stays, and two things are watched: has the load changed, and has the top moved away?

A changed load shows as a shift of the throughput at one and the same setting, told from noise by a two-sided CUSUM (Page,
1954) in units of the noise seen. A top that moved without that is found by a rare look one step up or down, between two
looks at the setting itself, so that drift cancels; it takes several such looks that agree to leave. What comes and goes as
noise therefore moves nothing. Costs one interval in `PROBE_EVERY` at a neighbouring setting.
"""

from __future__ import annotations

import math
from collections import deque

#: Intervals between two looks aside; each costs a few per cent of one interval.
PROBE_EVERY = 8
#: CUSUM in units of noise: what is allowed (slack), and how much beyond it is a change. 3 units (a third, at 12 % noise) are
#: noticed in 3 intervals; by noise alone less than once in ten thousand.
SLACK, ALARM = 1.0, 5.0
#: One interval counts for so many units at most: never alarm for one alone.
UNITS_MAX = 4.0
#: Of the throughput from interval to interval: before any was seen, and never taken for less (what is counted has steps).
NOISE_DEFAULT, NOISE_MIN = 0.12, 0.05
#: Looks that the reference remembers: slow drift is followed, a step is not.
MEMORY = 24
#: How much better, in standard errors, a neighbour must be over at least `AGREE_MIN` looks at it.
SURE, AGREE_MIN = 2.4, 2
#: Looks aside in a row that were each better by more than noise, and are believed whatever the noise: 0.2 ** 4 by chance.
IN_A_ROW = 4
#: Looks aside that the mean advantage remembers: more, and a top that moved would be outvoted by what was true before.
EVIDENCE_MAX = 3


class Noise:
    """How much the level varies from look to look at one setting; outlives the holds."""

    def __init__(self) -> None:
        self._variance = NOISE_DEFAULT**2
        self._count = 8  # the default counts as so many looks

    @property
    def units(self) -> float:
        """One standard deviation of the level."""
        return max(NOISE_MIN, math.sqrt(self._variance))

    def add(self, deviation: float) -> None:
        """How far one look was from what was expected. Far outliers count as `UNITS_MAX`."""
        self._count = min(self._count + 1, MEMORY)
        squared = min(deviation**2, (UNITS_MAX * self.units) ** 2)
        self._variance += (squared - self._variance) / self._count


class Hold:
    """One setting of workers, held."""

    def __init__(self, workers: int, level: float, noise: Noise, patience: float = 1.0) -> None:
        self.workers = workers
        self.noise = noise
        self.patience = patience
        #: What is expected here. The search's estimate counts as two looks.
        self.level, self._look_count = level, 2
        self._above = self._below = 0.0
        self._recent: deque[float] = deque(maxlen=3)  # at the setting itself
        self._since_probe = 0
        self._aside: tuple[int, float] | None = None  # (step, level) seen aside, until the look after it
        self._turn = -1  # up first: a hold that is too low loses most
        self._promising: int | None = None  # the step whose last look was better by more than noise: again, at once
        self._in_a_row = 0  # such looks
        self._evidence: dict[int, tuple[int, float]] = {}  # step to (looks, mean advantage)

    def look(self, level: float) -> bool:
        """The level at the setting itself; whether the load has changed."""
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
        """The level at `workers + step`; judged when the setting itself was looked at again."""
        self._aside = (step, level)

    def probe(self, least: int, most: int) -> int | None:
        """The step to look at now (workers more or fewer), or None: stay."""
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
        """Judges the look aside by the looks before and after it."""
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
