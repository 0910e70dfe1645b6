"""Rates: how fast a counter of the kernel's grows, such as bytes of a disk or microjoules of a processor. Pure."""

from __future__ import annotations

from .model import S


class CounterRate:
    """wraps_at: the counter begins at 0 again after this value; None: it only falls when its device was replaced."""

    def __init__(self, wraps_at: int | None = None) -> None:
        self._wraps_at = wraps_at
        self._count: int | None = None
        self._time_ns = 0

    def take(self, count: int | None, time_ns: int) -> float | None:
        """What it grew by per second since the last time. `count`: its value now, None: there is none.

        None for the first value, for one behind a gap, and for one that fell.
        """
        before, since_ns = self._count, time_ns - self._time_ns
        self._count, self._time_ns = count, time_ns
        if count is None or before is None or since_ns <= 0:
            return None
        grown = count - before
        if grown < 0 and self._wraps_at is not None:
            grown += self._wraps_at + 1
        return None if grown < 0 else grown * S / since_ns
