"""Overlap: how much of some intervals lies within others, and how many begin there, without comparing each with each.

Of n intervals that are sorted by start and by end, the time that those before a moment t have run, all added up, is the sum of
(t − start) over what has begun less the sum of (t − end) over what has ended: two look-ups. What ran within a window is the
difference of its two ends. Cost: n log n for all windows together.
"""

from __future__ import annotations

import numpy as np


class Intervals:
    """Many intervals, [start, end) in ns, for questions about windows."""

    def __init__(self, starts: np.ndarray, ends: np.ndarray) -> None:
        # Counted from the first. Sums may still wrap around at 64 bits; their differences, which are what is told, are right.
        self._zero = int(starts.min()) if len(starts) else 0
        self._starts, self._ends = np.sort(starts - self._zero), np.sort(ends - self._zero)
        self._start_sums = np.concatenate([[0], np.cumsum(self._starts)])
        self._end_sums = np.concatenate([[0], np.cumsum(self._ends)])

    def __len__(self) -> int:
        return len(self._starts)

    def within(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """For each window [begin, end): how long the intervals lasted within it, all added up."""
        found: np.ndarray = self._until(end - self._zero) - self._until(begin - self._zero)
        return found

    def begun(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """For each window: how many intervals begin within (begin, end)."""
        after = np.searchsorted(self._starts, begin - self._zero, side="right")
        before = np.searchsorted(self._starts, end - self._zero, side="left")
        found: np.ndarray = np.maximum(before - after, 0)
        return found

    def _until(self, at: np.ndarray) -> np.ndarray:
        begun = np.searchsorted(self._starts, at, side="right")
        ended = np.searchsorted(self._ends, at, side="right")
        found: np.ndarray = (begun * at - self._start_sums[begun]) - (ended * at - self._end_sums[ended])
        return found
