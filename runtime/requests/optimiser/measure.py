"""Measure: selects intervals that tell about the setting, and measures their level: the logarithm of the throughput.

Intervals without backlog at both ends are left out: their throughput is the offered load. So are those in which requests of
the setting before ran for a good part. Where few requests end in an interval, several intervals make one measurement.
"""

from __future__ import annotations

import math

from .sample import KernelSample

#: A measurement takes so many ended requests, or `SPAN_MAX` intervals: fewer vary by more than a quarter by chance.
ENOUGH, SPAN_MAX = 16, 4
#: Busy share from which the throughput is the setting's, even if nothing waits at the ends of the interval.
BUSY = 0.85
#: After a change of workers, intervals end requests that began before it, for as long as a request runs. Intervals are dropped
#: until that is less than this share of one: it hides an eighth of a doubling, which is still a doubling.
UNSETTLED = 0.25


class Measure:
    """The measurement under way, of one or several intervals."""

    def __init__(self) -> None:
        self._was_pressed = False
        self._unsettled_ns = 0
        self._ended_count = self._span = self._span_ns = 0

    def restart(self, unsettled_ns: int) -> None:
        """The setting has changed; requests begun before run for this time."""
        self._unsettled_ns = unsettled_ns
        self._ended_count = self._span = self._span_ns = 0

    def is_telling(self, sample: KernelSample) -> bool:
        """Whether there was enough to do all through this interval, as far as its two ends and the busy time show."""
        was_pressed, self._was_pressed = self._was_pressed, sample.is_pressed
        return (was_pressed and sample.is_pressed) or sample.busy_workers >= BUSY * sample.workers

    def level(self, sample: KernelSample) -> float | None:
        """The level, once there was enough to measure since the last one."""
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
