"""Taking: whether owners would take results faster if the rejoin pool were larger.

If owners are slower than workers, a larger pool holds more results and is as full. If owners take many results at once, now
and then, a larger pool bridges the time between. A trial tells which: the pool is doubled, and again as long as each step
raised the rate of taking. The first step that did not is the last: the pool's size is somebody's bound on memory.
"""

from __future__ import annotations

from collections import deque

from .sample import KernelSample, Setting

#: Share of its places from which a rejoin pool counts as full: the last places go within one interval.
FULL = 0.9
#: Intervals compared before and after a step: more than between two takings by owners, or one taking more or fewer would count
#: for more than the step.
SPAN = 12
#: Least gain of a step that helps: where many are needed, each nearly doubles the rate. Noise of 12 % an interval never does.
GAIN = 1.2


class Taking:
    """Watches the rejoin pool of one kernel, from when somebody last chose its size."""

    def __init__(self) -> None:
        self._rejoinable_count: int | None = None  # at the last sample
        self._was_behind = False
        self._recent: deque[tuple[int, int]] = deque(maxlen=SPAN)  # (results taken, ns), since the last step
        self._rate = 0.0  # before that step
        self._is_known = False  # whether more room is known to do nothing
        #: Whether posters waited because owners had not taken results, at either end of the last interval: its throughput then
        #: shows the speed of owners, and nothing about workers.
        self.is_bound = False

    def restart(self) -> None:
        """Forget the last sample: the next interval does not follow on it."""
        self._rejoinable_count, self._was_behind = None, False

    def observe(self, sample: KernelSample, setting: Setting, *, is_telling: bool) -> bool:
        """Take one interval's sample. Returns whether to try a larger rejoin pool."""
        is_behind_now = is_behind(sample, setting)
        self.is_bound = is_behind_now or self._was_behind
        before_count, self._rejoinable_count = self._rejoinable_count, sample.rejoinable_count
        self._was_behind = is_behind_now
        if self._is_known or before_count is None or not is_telling:
            return False
        self._recent.append((sample.ended_count + before_count - sample.rejoinable_count, sample.interval_ns))
        total = sum(count for count, _ in self._recent)
        if not is_behind_now or len(self._recent) < SPAN or total <= 0:
            return False
        before, self._rate = self._rate, total / sum(ns for _, ns in self._recent)
        self._recent.clear()
        self._is_known = self._rate < GAIN * before
        return not self._is_known


def is_behind(sample: KernelSample, setting: Setting) -> bool:
    """Whether posters wait, with nothing ready, because the rejoin pool is full."""
    return sample.posting_count > 0 and not sample.ready_count and sample.rejoinable_count >= FULL * setting.rejoin
