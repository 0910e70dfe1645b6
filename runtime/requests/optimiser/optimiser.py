"""Optimiser: from one sample an interval to the next setting, or to none.

It searches (search.py) until the top of throughput over workers is known, holds it (hold.py), and searches again from there
when the load has changed. An interval without backlog says nothing about the setting, because its throughput is the offered
load: it is left out (idle.py). So is an interval in which workers asked for are not up yet, or in which many requests begun
under the old setting still run (measure.py).
"""

from __future__ import annotations

from collections import deque

from . import pools
from .curve import Curve
from .hold import Hold, Noise
from .idle import Idle
from .measure import Measure
from .policy import OptimiserPolicy
from .sample import KernelSample, Setting, SettingMove
from .search import chosen, next_look, percent
from .taking import Taking

#: Measurements of one search at most: with noticing the change and moving to the result, it is over within 20 intervals.
LOOKS_MAX = 16
#: Intervals that workers may take to come or go; then the optimiser goes on with those that are there.
LATE_MAX = 6
#: A search that ends this near (a ratio) to its start was for nothing: the next alarm takes twice as much to believe, and at
#: most so many times as much.
SAME, PATIENCE_MAX = 1.3, 4.0
#: Samples whose blocked workers count: a request that waits for sub-requests holds a worker, and one must be left for those.
BLOCKED_MEMORY = 30

#: Workers to go on with, and why.
Step = tuple[int, str]


class Optimiser:
    """The controller of one kernel."""

    def __init__(self, policy: OptimiserPolicy, setting: Setting) -> None:
        """Starts from the setting in force, moved into the policy's bounds. The caller is to apply `setting`."""
        self.policy = policy
        self.setting = policy.within(setting)
        self._least, self._most = policy.workers_min, policy.workers_max
        self._noise, self._idle, self._measure, self._taking = Noise(), Idle(), Measure(), Taking()
        self._blocked: deque[int] = deque(maxlen=BLOCKED_MEMORY)
        self._late_count = 0
        self._patience = 1.0
        self._began = self.setting.workers  # where this search began
        self._curve = Curve()
        self._hold: Hold | None = None  # None: searching

    @property
    def is_searching(self) -> bool:
        """Whether it searches for the top, instead of holding it."""
        return self._hold is None

    @property
    def workers_held(self) -> int:
        """Workers that are held, also during a probe, or after some were given back; in a search, the present ones."""
        return self._hold.workers if self._hold else self.setting.workers

    def review(self, policy: OptimiserPolicy) -> SettingMove | None:
        """Apply other bounds, and search for the top again. Returns the move into the bounds, if one is needed."""
        self.policy = policy
        setting = policy.within(self.setting)
        is_moved, self.setting = setting != self.setting, setting
        self._search_again()
        return SettingMove(setting, "the bounds have changed") if is_moved else None

    def adopt(self, setting: Setting) -> None:
        """Somebody else has changed the setting: go on from there, even beyond the bounds."""
        if setting.rejoin != self.setting.rejoin:
            self._taking = Taking()
        self.setting = setting
        self._search_again()

    def go_on(self) -> None:
        """Intervals have passed without samples: the next one does not follow on the last."""
        self._measure = Measure()
        self._taking.restart()

    def observe(self, sample: KernelSample) -> SettingMove | None:
        """Take one interval's sample. Returns the setting to apply now, and why; None: leave everything as it is."""
        is_telling = self._measure.is_telling(sample)
        self._blocked.append(sample.blocked_count)
        is_late = self._is_late(sample)
        tries_rejoin = self._taking.observe(sample, self.setting, is_telling=is_telling and not is_late)
        if is_late:
            return None
        step: Step | None = None
        if sample.blocked_count >= sample.workers and sample.ready_count:
            step = self._freed(sample)
        elif (sample.is_pressed or is_telling) and (full := self._idle.wanted_again()):
            step = full, "there is a backlog again: as many workers as before"
        elif not is_telling:
            step = self._rest(sample)
        else:
            self._idle.ended()
            level = None if self._is_dry(sample) or self._taking.is_bound else self._measure.level(sample)
            if level is not None:
                step = self._held(self._hold, level) if self._hold else self._searched(level)
        return self._moved(step, sample, is_telling=is_telling, tries_rejoin=tries_rejoin)

    def _fewest(self) -> int:
        """Workers that there must be: one more than were blocked at a time, or a hierarchy of requests stops dead."""
        return min(max(self._least, max(self._blocked, default=0) + 1), self._most)

    def _is_dry(self, sample: KernelSample) -> bool:
        """Whether the ready pool was the bottleneck, and can be larger: then this was not the workers' throughput."""
        return pools.is_dry(sample, self.setting) and self.setting.ready < self.policy.ready_max

    def _freed(self, sample: KernelSample) -> Step:
        """All workers wait for requests that none is left to execute: double their number."""
        workers = min(2 * self.setting.workers, self._most)
        self._search_again()
        return workers, f"all {sample.workers} workers were blocked while {sample.ready_count} requests were ready"

    def _moved(
        self, step: Step | None, sample: KernelSample, *, is_telling: bool, tries_rejoin: bool
    ) -> SettingMove | None:
        """The move of this step, with larger pools where they are needed."""
        workers, why = step or (self.setting.workers, "")
        setting = Setting(workers, self.setting.ready, self.setting.rejoin)
        if is_telling and (larger := pools.grown(sample, setting, self.policy, tries_rejoin=tries_rejoin)):
            setting, because = larger
            why = f"{why}; {because}" if why else because
        if setting == self.setting:
            return None
        if workers != self.setting.workers:
            why = f"workers {self.setting.workers} -> {workers}: {why}"
            self._measure.restart(sample.run_ns)
        self.setting = setting
        return SettingMove(setting, why)

    def _searched(self, level: float) -> Step | None:
        """Take one measurement of the search. Returns the next step, which may be its end."""
        self._curve.add(self.setting.workers, level)
        points, tolerance = self._curve.points(), self.policy.significance
        look = next_look(points, self._fewest(), self._most, tolerance)
        if look and self._curve.look_count < LOOKS_MAX:
            return look
        return self._hold_best()

    def _hold_best(self) -> Step:
        """End the search, and hold its result."""
        best = chosen(self._curve.points(), self.policy.significance)
        workers = max(best.workers, self._fewest())
        is_same = 1 / SAME < workers / self._began < SAME
        self._patience = min(2 * self._patience, PATIENCE_MAX) if is_same else 1.0
        self._hold = Hold(workers, best.level, self._noise, self._patience)
        return workers, f"the fewest workers with the best throughput, after {self._curve.look_count} measurements"

    def _held(self, hold: Hold, level: float) -> Step | None:
        """Take one measurement, or a probe, while the setting is held."""
        aside = self.setting.workers - hold.workers
        if aside:
            hold.look_aside(aside, level)
            return hold.workers, "the probe has ended"
        expected = hold.level
        if hold.look(level):
            self._search_again()
            self._began = self.setting.workers
            why = f"the load has changed (throughput {percent(level - expected)} at the same setting)"
            workers, because = self._searched(level) or (self.setting.workers, "")
            return workers, f"{why}: {because}"
        if better := hold.better(self.policy.significance):
            step, advantage = better
            self._search_again()
            return (
                hold.workers + step,
                f"probes showed more throughput there ({percent(advantage)}): the search goes on from there",
            )
        step_aside = hold.probe(self._fewest(), self._most)
        return (hold.workers + step_aside, "a probe: is another number of workers better now?") if step_aside else None

    def _rest(self, sample: KernelSample) -> Step | None:
        """Take an interval without backlog."""
        hold = self._hold
        if hold is None and self._idle.is_long and self._curve.look_count:
            return self._hold_best()
        if hold and self.setting.workers != hold.workers and not self._idle.has_given_back:
            return hold.workers, "the probe has ended: there is too little work to measure"
        fewer = self._idle.rest(sample, self.setting.workers, self._fewest())
        return (fewer, f"no backlog for {self._idle.count} intervals: fewer workers are enough") if fewer else None

    def _search_again(self) -> None:
        """Forget all measurements, and search from the present setting."""
        self._least, self._most = self.policy.workers_min, self.policy.workers_max
        self._curve, self._hold = Curve(), None
        self._began = self.setting.workers
        self._idle = Idle()
        self._late_count = 0
        self._measure.restart(0)

    def _is_late(self, sample: KernelSample) -> bool:
        """Whether workers asked to come or go have not done so yet; after `LATE_MAX` intervals they never will."""
        if sample.workers == self.setting.workers:
            self._late_count = 0
            return False
        self._late_count += 1
        if self._late_count <= LATE_MAX:
            return True
        is_short = sample.workers < self.setting.workers
        self.setting = Setting(sample.workers, self.setting.ready, self.setting.rejoin)
        self._search_again()
        self._least, self._most = (self._least, sample.workers) if is_short else (sample.workers, self._most)
        return False
