"""Taking: whether owners would take results faster if more of them could wait to be taken.

A full rejoin pool that is larger holds more results, and is as full, where owners are slower than workers; it bridges the
time where they take many at once, now and then. Which of the two it is shows by trying: the pool is doubled, and again as
long as each step raised what was taken. The first that did not is the last: somebody bounded his memory by it.
"""

from __future__ import annotations

from collections import deque

from .sample import Sample, Setting

#: A rejoin pool is full from here on: the last places go within one interval.
FULL = 0.9
#: Intervals before and after a step that are compared: some more than from one time that owners take to the next, or one such
#: time more or fewer would count for more than the step.
SPAN = 12
#: What a step that helps raises: one of many nearly doubles what is taken. Noise of 12 % an interval does so by chance never.
GAIN = 1.2


class Taking:
    """Of one kernel, since somebody last chose the size of its rejoin pool."""

    def __init__(self) -> None:
        self._rejoinable_count: int | None = None  # at the last look
        self._was_behind = False
        self._recent: deque[tuple[int, int]] = deque(maxlen=SPAN)  # what was taken, in ns, since the last step
        self._rate = 0.0  # before it
        self._is_known = False  # that more room does nothing
        #: Whether owners had not taken what posters waited for, at either end of the last interval: what ended in it says
        #: how fast they are, and nothing about the workers.
        self.is_bound = False

    def restart(self) -> None:
        """The next interval does not follow on the last."""
        self._rejoinable_count, self._was_behind = None, False

    def observe(self, sample: Sample, setting: Setting, *, is_telling: bool) -> bool:
        """One interval has passed. Whether to try a larger rejoin pool."""
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


def is_behind(sample: Sample, setting: Setting) -> bool:
    """Whether posters wait, with nothing ready, because the rejoin pool is full."""
    return sample.posting_count > 0 and not sample.ready_count and sample.rejoinable_count >= FULL * setting.rejoin
