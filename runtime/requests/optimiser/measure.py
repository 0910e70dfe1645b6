"""Measure: which intervals say something about the setting, and what: the level, the logarithm of the throughput.

Not those without backlog at both ends (the throughput was what was offered), nor those in which requests of the setting
before still ran for a good part. Where few requests end in an interval, several intervals make one look.
"""

from __future__ import annotations

import math

from .sample import Sample

#: A look is at so many ended requests, or at `SPAN_MAX` intervals: fewer vary by more than a quarter by chance.
ENOUGH, SPAN_MAX = 16, 4
#: Workers are busy from here on, though nothing waits at the ends of the interval: the throughput then is the setting's.
BUSY = 0.85
#: After a change of workers, what ended in an interval began before it, for as long as a request runs. Intervals are dropped
#: until that is less than this share of one: it hides an eighth of a doubling, which is still a doubling.
UNSETTLED = 0.25


class Measure:
    """The look under way."""

    def __init__(self) -> None:
        self._was_pressed = False
        self._unsettled_ns = 0
        self._ended_count = self._span = self._span_ns = 0

    def restart(self, unsettled_ns: int) -> None:
        """The setting has changed; requests begun before run so long."""
        self._unsettled_ns = unsettled_ns
        self._ended_count = self._span = self._span_ns = 0

    def is_telling(self, sample: Sample) -> bool:
        """Whether there was enough to do all through this interval, as far as its two ends and the busy time show."""
        was_pressed, self._was_pressed = self._was_pressed, sample.is_pressed
        return (was_pressed and sample.is_pressed) or sample.busy_workers >= BUSY * sample.workers

    def level(self, sample: Sample) -> float | None:
        """The level, once enough was seen since the last."""
        if self._unsettled_ns > UNSETTLED * sample.interval_ns:
            self._unsettled_ns -= sample.interval_ns
            return None
        self._ended_count += sample.ended_count
        self._span_ns += sample.interval_ns
        self._span += 1
        if self._ended_count < ENOUGH and self._span < SPAN_MAX:
            return None
        level = math.log(max(self._ended_count, 0.5) / self._span_ns)
        self._ended_count = self._span = self._span_ns = 0
        return level
