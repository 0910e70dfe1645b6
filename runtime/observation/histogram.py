"""Histogram: durations in logarithmic buckets, so that the figures of many processes can be merged.

Eight buckets to each doubling, for any duration from 1 ns to a day: a percentile read back is at most 12.5 % above the true
one, and never below it by more than a bucket. Merging is adding counts. Source: HdrHistogram's idea with a fixed three-bit
mantissa. Recording costs about 100 ns, and allocates only for a duration longer than all before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

#: Buckets to a doubling, as a power of two.
_BITS: Final = 3
_SUB: Final = 1 << _BITS


def bucket_of(ns: int) -> int:
    """The bucket of a duration; 0 for durations below 1 ns."""
    if ns < _SUB:
        return ns if ns > 0 else 0
    shift = ns.bit_length() - _BITS - 1
    return (shift << _BITS) + (ns >> shift)


def upper_ns(bucket: int) -> int:
    """The largest duration in a bucket, in ns."""
    if bucket < 2 * _SUB:
        return bucket
    shift = (bucket >> _BITS) - 1
    return (((bucket & (_SUB - 1)) + _SUB + 1) << shift) - 1


class Histogram:
    """Counts by bucket, up to the longest duration recorded: 1 us takes 80 of them, 1 s 220, at 8 bytes each."""

    __slots__ = ("_counts", "max_ns", "total_ns")

    def __init__(self) -> None:
        self._counts: list[int] = []
        self.total_ns = 0
        self.max_ns = 0

    @property
    def count(self) -> int:
        """How many durations were recorded. Summed up on each read, because recording must be cheap."""
        return sum(self._counts)

    @property
    def counts(self) -> dict[int, int]:
        """The counts by bucket, without zeros."""
        return {bucket: count for bucket, count in enumerate(self._counts) if count}

    def record(self, ns: int) -> None:  # hot: scripts/bench inproc
        """Count one duration, in about 100 ns."""
        if ns < _SUB:
            bucket = ns if ns > 0 else 0
        else:
            shift = ns.bit_length() - _BITS - 1
            bucket = (shift << _BITS) + (ns >> shift)
        counts = self._counts
        if bucket >= len(counts):
            counts.extend([0] * (bucket + 1 - len(counts)))
        counts[bucket] += 1
        self.total_ns += ns
        if ns > self.max_ns:
            self.max_ns = ns

    def merge(self, other: Histogram) -> None:
        """Add another's counts to this one's."""
        self._counts.extend([0] * (len(other._counts) - len(self._counts)))
        for bucket, count in enumerate(other._counts):
            self._counts[bucket] += count
        self.total_ns += other.total_ns
        self.max_ns = max(self.max_ns, other.max_ns)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Histogram:
        """Rebuild a histogram from `summary(with_buckets=True)`, also of another process."""
        histogram = cls()
        for bucket, count in data["buckets"]:
            histogram._counts.extend([0] * (bucket + 1 - len(histogram._counts)))
            histogram._counts[bucket] += count
        histogram.total_ns = data["total_ns"]
        histogram.max_ns = round(data["max_us"] * 1e3)
        return histogram

    def since(self, before: Histogram) -> Histogram:
        """The durations recorded since `before`, an earlier copy. The maximum is only accurate to a bucket."""
        result = Histogram()
        result._counts = self._counts.copy()
        for bucket, count in enumerate(before._counts[: len(self._counts)]):
            result._counts[bucket] = max(0, result._counts[bucket] - count)
        result.total_ns = max(0, self.total_ns - before.total_ns)
        result.max_ns = min(self.max_ns, upper_ns(max(result.counts, default=0)))
        return result

    def percentiles_ns(self, ranks: Iterable[float]) -> list[int]:
        """The durations below which each share (0..1) of the counts lies; 0 where nothing was counted."""
        buckets, total = sorted(self.counts.items()), self.count
        result: list[int] = []
        for rank in ranks:
            left = rank * total
            found = 0
            for bucket, count in buckets:
                left -= count
                if left <= 0:
                    found = min(upper_ns(bucket), self.max_ns)
                    break
            result.append(found)
        return result

    def summary(self, *, with_buckets: bool = False) -> dict[str, Any]:
        """Count, mean, p50, p90, p99 and max, in microseconds; `with_buckets` adds the data that `from_data` needs."""
        p50, p90, p99 = self.percentiles_ns((0.5, 0.9, 0.99))
        count = self.count
        mean = self.total_ns / count if count else 0.0
        summary: dict[str, Any] = {
            "count": count,
            "mean_us": round(mean / 1e3, 1),
            "p50_us": p50 / 1e3,
            "p90_us": p90 / 1e3,
            "p99_us": p99 / 1e3,
            "max_us": self.max_ns / 1e3,
        }
        if with_buckets:
            summary |= {"total_ns": self.total_ns, "buckets": [[bucket, n] for bucket, n in self.counts.items()]}
        return summary
