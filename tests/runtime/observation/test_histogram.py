"""Histogram: accurate to an eighth, mergeable, small; against a sorted list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.observation.histogram import Histogram, bucket_of, upper_ns

DAY_NS = 86_400_000_000_000
DURATIONS = st.integers(0, DAY_NS) | st.integers(0, 200)
RANKS = (0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0)


def histogram_of(durations: list[int]) -> Histogram:
    histogram = Histogram()
    for ns in durations:
        histogram.record(ns)
    return histogram


def exact(durations: list[int], rank: float) -> int:
    """The smallest duration that at least this share of all are not above."""
    ordered = sorted(durations)
    return next(ns for count, ns in enumerate(ordered, 1) if count >= rank * len(ordered))


@given(st.lists(DURATIONS, min_size=1, max_size=200))
def test_percentiles_are_at_most_an_eighth_above_the_truth(durations: list[int]) -> None:
    """Law 11. A p99 that may be off by a factor is no reason to change anything."""
    for rank, found in zip(RANKS, histogram_of(durations).percentiles_ns(RANKS), strict=True):
        truth = exact(durations, rank)
        assert truth <= found <= truth * 1.125


@given(st.lists(st.lists(DURATIONS, max_size=50), max_size=6))
def test_merging_is_as_if_one_had_recorded_all(parts: list[list[int]]) -> None:
    """Percentiles of many processes are added up; averages of percentiles would be a number without a meaning."""
    merged, whole = Histogram(), histogram_of([ns for part in parts for ns in part])
    for part in parts:
        merged.merge(histogram_of(part))
    assert (merged.counts, merged.count, merged.total_ns, merged.max_ns) == (
        whole.counts,
        whole.count,
        whole.total_ns,
        whole.max_ns,
    )
    assert merged.summary() == whole.summary()


def test_merging_leaves_the_other_as_it_was() -> None:
    """The live view merges every second what goes on being recorded."""
    mine, other = histogram_of([1, 2]), histogram_of([5])
    mine.merge(other)
    mine.record(5)
    assert (other.count, other.counts) == (1, {5: 1})


@given(DURATIONS)
def test_a_duration_lies_in_its_bucket(ns: int) -> None:
    """Recording, looking up and reading back are three places that must agree."""
    bucket = bucket_of(ns)
    assert ns <= upper_ns(bucket)
    assert bucket == 0 or ns > upper_ns(bucket - 1)
    assert list(histogram_of([ns]).counts) == [bucket]


def test_buckets_lie_side_by_side() -> None:
    """A gap between two buckets would make percentiles jump; an overlap would count in the wrong one."""
    assert [bucket_of(ns) for ns in range(8192)] == sorted(bucket_of(ns) for ns in range(8192))
    for bucket in range(200):
        assert bucket_of(upper_ns(bucket)) == bucket
        assert bucket_of(upper_ns(bucket) + 1) == bucket + 1


@given(st.lists(DURATIONS, max_size=100))
def test_the_summary_tells_the_truth(durations: list[int]) -> None:
    """What people read: count, mean and maximum are exact."""
    summary = histogram_of(durations).summary()
    assert summary["count"] == len(durations)
    assert summary["max_us"] == max(durations, default=0) / 1e3
    assert summary["mean_us"] == (round(sum(durations) / len(durations) / 1e3, 1) if durations else 0.0)


@given(st.lists(DURATIONS, max_size=60), st.lists(DURATIONS, max_size=60))
def test_an_interval_is_what_was_recorded_in_it(before: list[int], after: list[int]) -> None:
    """A p99 since the beginning of time hides the bad minute that somebody is looking for."""
    histogram = histogram_of(before)
    first = Histogram.from_data(histogram.summary(with_buckets=True))
    for ns in after:
        histogram.record(ns)
    interval = Histogram.from_data(histogram.summary(with_buckets=True)).since(first)
    assert (interval.counts, interval.total_ns) == (histogram_of(after).counts, sum(after))
    assert max(after, default=0) <= interval.max_ns <= max(after, default=0) * 1.125
    for rank, found in zip(RANKS, interval.percentiles_ns(RANKS) if after else (), strict=bool(after)):
        assert exact(after, rank) <= found <= exact(after, rank) * 1.125


@given(st.lists(DURATIONS, max_size=60))
def test_what_is_told_with_its_buckets_is_whole(durations: list[int]) -> None:
    """The live view and the metrics add up what processes tell; without its buckets a summary cannot be added."""
    histogram = histogram_of(durations)
    again = Histogram.from_data(histogram.summary(with_buckets=True))
    assert (again.counts, again.total_ns, again.max_ns) == (histogram.counts, histogram.total_ns, histogram.max_ns)


def test_nothing_recorded_is_zero() -> None:
    """A new operation must not break the table it is shown in."""
    assert Histogram().percentiles_ns(RANKS) == [0] * len(RANKS)


def test_it_stays_small() -> None:
    """Two a backplane and operation, always on: from a nanosecond to a day is a few hundred counts, however many come."""
    histogram = histogram_of([1 << shift for shift in range(47)] * 20 + list(range(20_000)))
    assert len(histogram.counts) < 8 * 47
