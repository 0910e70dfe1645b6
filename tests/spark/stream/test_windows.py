"""Each window is told once, when all that belongs to it has been read; what comes later all the same is told as late."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.spark.kernels.histogram import ERROR, buckets_of
from appbackplane.spark.stream.windows import Key, Sums, Windows

SIZE = 10


def some(count: int = 1, errors: int = 0, ns: int = 1000) -> Sums:
    """So many actions of the same length."""
    bucket = int(buckets_of(np.array([ns]))[0])
    return Sums(count, errors, count * ns, ns, count * ns, ns, {bucket: count}, {bucket: count})


def key(window_ns: int, operation: str = "shop.buy") -> Key:
    return window_ns, operation.partition(".")[0], operation


def names(rows: list[dict[str, object]]) -> list[tuple[object, object]]:
    return [(row["window_ns"], row["count"]) for row in rows]


def test_a_window_closes_when_all_that_was_recorded_until_its_lateness_has_been_read() -> None:
    """Closed too early it would be wrong; and a step knows only what was recorded before the step before it."""
    windows = Windows(SIZE, lateness_ns=2)
    assert names(windows.step([(key(0), some())], 11).open) == [(0, 1)]
    told = windows.step([(key(0), some(2)), (key(10), some())], 12)
    assert names(told.closed) == [], "at 11 the lateness of 2 was not over"
    assert names(told.open) == [(0, 3), (10, 1)]
    told = windows.step([(key(0), some())], 30)
    assert names(told.closed) == [(0, 4)]
    assert names(told.open) == []
    assert names(windows.step([], 31).closed) == [(10, 1)]
    assert not windows.open


def test_while_not_all_was_read_nothing_closes() -> None:
    """With a bound on a micro-batch, the rest of what was recorded is still to come."""
    windows = Windows(SIZE, lateness_ns=0)
    windows.step([(key(0), some())], 100, has_read_all=False)
    assert names(windows.step([(key(0), some())], 200, has_read_all=False).closed) == []
    assert names(windows.step([(key(0), some())], 300).closed) == [(0, 3)]


def test_what_is_late_is_told_as_what_it_is() -> None:
    """Dropped, it would be missing in the sum; told as the window again, it would be there twice."""
    windows = Windows(SIZE, lateness_ns=0)
    windows.step([(key(0), some(5))], 20)
    assert names(windows.step([], 21).closed) == [(0, 5)]
    told = windows.step([(key(0), some(1)), (key(20), some(1))], 22)
    assert [(row["window_ns"], row["count"], row["late"]) for row in told.closed] == [(0, 1, True)]
    assert names(told.open) == [(20, 1)]


def test_with_more_than_there_is_room_for_the_oldest_close_before_their_time() -> None:
    """The state is bounded; what comes for them later is late, and counted."""
    windows = Windows(SIZE, lateness_ns=0, open_max=3)
    told = windows.step([(key(10 * n, f"shop.{op}"), some()) for n in range(3) for op in "ab"], 5)
    assert {row["window_ns"] for row in told.closed} == {0, 10}
    assert {row["window_ns"] for row in told.open} == {20}
    assert [row["late"] for row in windows.step([(key(10, "shop.a"), some())], 6).closed] == [True]


def test_a_row_says_what_numpy_says() -> None:
    """Percentiles to the bound that is stated, all else exact."""
    run = np.random.default_rng(1).lognormal(14, 1, 5_000).astype(np.int64)
    buckets = dict(Counter(buckets_of(run).tolist()))
    sums = Sums(len(run), 7, int(run.sum()), int(run.max()), int(run.sum()), int(run.max()), buckets, dict(buckets))
    windows = Windows(10_000_000_000, 0)
    row = windows.step([(key(0), sums)], 1).open[0]
    assert (row["count"], row["errors"], row["rate"]) == (5_000, 7, 500.0)
    assert row["run_ms"]["max"] == pytest.approx(run.max() / 1e6, abs=1e-6)
    assert row["wait_ms"]["mean"] == pytest.approx(run.mean() / 1e6, rel=1e-6)
    for rank in (50, 90, 99):
        assert row["run_ms"][f"p{rank}"] == pytest.approx(np.percentile(run, rank) / 1e6, rel=ERROR)


@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.integers(0, 12), st.integers(1, 3)), max_size=4), st.integers(0, 9), st.booleans()
        ),
        max_size=30,
    ),
    st.integers(0, 5),
)
def test_whatever_comes_when_it_is_told_once_and_all_of_it(
    steps: list[tuple[list[tuple[int, int]], int, bool]], lateness: int
) -> None:
    """The sum of all rows is what happened, and a window has one row that is not late."""
    windows, now_ns = Windows(SIZE, lateness, open_max=4), 0
    truth: Counter[int] = Counter()
    told: Counter[int] = Counter()
    on_time: Counter[int] = Counter()
    for found, passed, has_read_all in [*steps, ([], 500, True), ([], 500, True)]:
        now_ns += passed
        for window, count in found:
            truth[window * SIZE] += count
        rows = windows.step(
            [(key(window * SIZE), some(count)) for window, count in found], now_ns, has_read_all=has_read_all
        )
        for row in rows.closed:
            told[row["window_ns"]] += row["count"]
            on_time[row["window_ns"]] += not row["late"]
    assert told == truth
    assert set(on_time.values()) <= {0, 1}
    assert not windows.open
