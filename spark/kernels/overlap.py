"""Overlap: how long intervals lie within windows, and how many begin there, without comparing each interval with each window.

The intervals are sorted by start and by end. Their total time before t is the sum of (t − start) over the started ones less
the sum of (t − end) over the ended ones: two look-ups. The time within a window is the difference between its two ends. Cost:
n log n for all windows together.
"""

from __future__ import annotations

import numpy as np


class Intervals:
    """A set of intervals, [start, end) in ns, to be queried with many windows."""

    def __init__(self, starts: np.ndarray, ends: np.ndarray) -> None:
        # Relative to the earliest start. Sums may wrap around at 64 bits; their differences, the only results, are right.
        self._zero = int(starts.min()) if len(starts) else 0
        self._starts, self._ends = np.sort(starts - self._zero), np.sort(ends - self._zero)
        self._start_sums = np.concatenate([[0], np.cumsum(self._starts)])
        self._end_sums = np.concatenate([[0], np.cumsum(self._ends)])

    def __len__(self) -> int:
        return len(self._starts)

    def within(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """For each window [begin, end): total time of the intervals within it."""
        found: np.ndarray = self._until(end - self._zero) - self._until(begin - self._zero)
        return found

    def begun(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """For each window: number of intervals that begin within (begin, end)."""
        after = np.searchsorted(self._starts, begin - self._zero, side="right")
        before = np.searchsorted(self._starts, end - self._zero, side="left")
        found: np.ndarray = np.maximum(before - after, 0)
        return found

    def _until(self, at: np.ndarray) -> np.ndarray:
        begun = np.searchsorted(self._starts, at, side="right")
        ended = np.searchsorted(self._ends, at, side="right")
        found: np.ndarray = (begun * at - self._start_sums[begun]) - (ended * at - self._end_sums[ended])
        return found
