"""Durations: logarithmic histograms, sums and maxima for many groups at once, which can be added up.

A bucket is the upper bits of the duration as a float32: its exponent and six bits of its mantissa, so 64 buckets to each
doubling. A percentile is reported as the middle of its bucket, so its error is at most `ERROR`, for any duration up to 292
years. Below 128 ns it is exact; sums, means and maxima always are. Between two records it is interpolated in the way of numpy
and SQL's quantile_cont. Cost: 3 ns a duration, 32 KB a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

#: Buckets to a doubling, as a power of two.
_BITS: Final = 6
_SHIFT: Final = 23 - _BITS
#: The bits of 1.0, shifted, so that 1 ns falls into bucket 1, and less into bucket 0.
_ONE: Final = (127 << _BITS) - 1
#: Buckets of a group: 63 doublings of 64, and some for invalid durations. A power of two.
WIDTH: Final = 4096
#: Largest relative error of a percentile: half a bucket, plus rounding to float32 and to a whole ns.
ERROR: Final = 0.0079
#: Durations at a time: intermediate arrays stay in the second-level cache (65,536: 1.6 ns each; 8,192: 2.6; a million: 2.4).
BLOCK: Final = 1 << 16


def buckets_of(ns: np.ndarray) -> np.ndarray:
    """Bucket index of each duration, int32."""
    bits = ns.astype(np.float32).view(np.int32)
    bits >>= _SHIFT
    bits -= _ONE
    np.maximum(bits, 0, out=bits)
    return bits


def _lower(buckets: np.ndarray) -> np.ndarray:
    found: np.ndarray = ((buckets.astype(np.int32) + _ONE) << _SHIFT).view(np.float32).astype(np.float64)
    return found


def _middles() -> np.ndarray:
    """Value reported for each bucket: its middle, or its only whole number."""
    lower, upper = _lower(np.arange(WIDTH)), _lower(np.arange(1, WIDTH + 1))
    first, last = np.ceil(lower), np.ceil(upper) - 1
    middle: np.ndarray = np.where(last - first <= 0, first, (first + last) / 2)
    middle[0] = 0.0
    return middle


_MIDDLE: Final = _middles()


class Durations:
    """For each group (numbered from 0): a histogram of durations, their sum, and the longest."""

    __slots__ = ("counts", "maxima", "totals")

    def __init__(self, groups: int = 0) -> None:
        #: (groups, WIDTH). Pages of zeros take no memory until written.
        self.counts = np.zeros((groups, WIDTH), dtype=np.int64)
        #: Sums may reach 292 years for each group.
        self.totals = np.zeros(groups, dtype=np.int64)
        self.maxima = np.zeros(groups, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.totals)

    def grow(self, groups: int) -> None:
        """Make room for so many groups; at least doubles the room, so that it is seldom needed."""
        if groups > len(self):
            bigger = Durations(max(groups, 2 * len(self), 16))
            bigger.counts[: len(self)] = self.counts
            bigger.totals[: len(self)] = self.totals
            bigger.maxima[: len(self)] = self.maxima
            self.counts, self.totals, self.maxima = bigger.counts, bigger.totals, bigger.maxima

    def add(self, groups: np.ndarray, ns: np.ndarray) -> None:  # hot: scripts/bench spark_stats
        """Count durations (int64), each in its group (intp). Pass at most a few `BLOCK` at a time, to stay in the cache."""
        index = groups * WIDTH
        index += buckets_of(ns)
        # ufunc.at with one index of the native size and the same type on both sides is a plain loop since numpy 1.25:
        # 0.7 ns each, and nothing is allocated; bincount needs a table of its own each time.
        np.add.at(self.counts.reshape(-1), index, 1)
        np.add.at(self.totals, groups, ns)
        np.maximum.at(self.maxima, groups, ns)

    def add_packed(self, group: int, packed: bytes) -> None:
        """Add one group's counts from another task, in the form of `pack`."""
        told = np.frombuffer(packed, dtype="<i8")
        first, total, longest = told[:3].tolist()
        self.counts[group, first : first + len(told) - 3] += told[3:]
        self.totals[group] += total
        self.maxima[group] = max(int(self.maxima[group]), longest)

    def pack(self, group: int) -> bytes:
        """Serialize one group without leading and trailing zeros: some 10 KB for durations between 1 us and 1 s."""
        counts = self.counts[group]
        found = np.flatnonzero(counts)
        first, end = (int(found[0]), int(found[-1]) + 1) if len(found) else (0, 0)
        head = np.array([first, self.totals[group], self.maxima[group]], dtype="<i8")
        packed: bytes = head.tobytes() + counts[first:end].astype("<i8").tobytes()
        return packed

    def numbers(self) -> np.ndarray:
        """Number of durations in each group."""
        found: np.ndarray = self.counts.sum(axis=1)
        return found

    def means(self) -> np.ndarray:
        """Exact mean of each group; 0 if the group is empty."""
        found: np.ndarray = self.totals / np.maximum(self.numbers(), 1)
        return found

    def percentiles(self, ranks: Sequence[float]) -> np.ndarray:
        """(groups, ranks): percentiles of each group for ranks in 0..1, accurate to `ERROR`; 0 for an empty group."""
        result = np.zeros((len(self), len(ranks)))
        for group in range(len(self)):
            result[group] = percentiles_of(self.counts[group], ranks, float(self.maxima[group]))
        return result


def percentiles_of(counts: np.ndarray, ranks: Sequence[float], longest: float = np.inf) -> np.ndarray:
    """Percentiles from one group's histogram, capped at `longest`."""
    below = np.cumsum(counts)
    if not len(below) or not below[-1]:
        return np.zeros(len(ranks))
    at = np.asarray(ranks, dtype=np.float64) * (below[-1] - 1)
    under = np.floor(at)
    # Both neighbours are accurate to half a bucket, and so is any value between them.
    low = np.minimum(_MIDDLE[np.searchsorted(below, under, side="right")], longest)
    high = np.minimum(_MIDDLE[np.searchsorted(below, np.ceil(at), side="right")], longest)
    found: np.ndarray = low + (high - low) * (at - under)
    return found
