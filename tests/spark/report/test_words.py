"""Words: figures as people say them, and axes with marks where people look for them."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest

from appbackplane.spark.report.words import (
    count,
    duration,
    marks_of_latency,
    marks_of_time,
    moment,
    nice,
    rate,
    share,
    shown,
)

S = 1_000_000_000
NOON = 1_767_268_800 * S


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "–"), (0, "0"), (12, "12 ns"), (999, "999 ns"), (1_000, "1 µs"), (1_234, "1.23 µs"), (999_900, "1 ms"),
        (12_340_000, "12.3 ms"), (123 * S, "2.05 min"), (119 * S, "119 s"), (7_300 * S, "2.03 h"), (200_000 * S, "2.31 d"),
    ],
)  # fmt: skip
def test_durations(ns: float | None, text: str) -> None:
    """Three digits, and the unit in which they are read at once."""
    assert duration(ns) == text


def test_counts_and_shares() -> None:
    """None of them is rounded to nothing: one error in a million is one."""
    assert [count(n) for n in (0, 1, 99_999, 999_999, 1_234_567, 2.5e9)] == [
        "0",
        "1",
        "99,999",
        "999,999",
        "1.23 M",
        "2.5 G",
    ]
    assert [share(n) for n in (0, 0.00001, 0.0123, 0.5, 1.2)] == ["0 %", "<0.1 %", "1.2 %", "50 %", "120 %"]
    assert [rate(n) for n in (0.5, 12.34, 1234, 2e6)] == ["0.5/s", "12.3/s", "1,234/s", "2 M/s"]
    assert [nice(n) for n in (0, 0.7, 1, 1.1, 30, 70)] == [1, 1, 1, 2, 50, 100]


@pytest.mark.parametrize("span_s", [0.025, 0.3, 1, 5, 60, 3_600, 86_400, 30 * 86_400])
def test_an_axis_of_time_has_some_marks_and_not_too_many(span_s: float) -> None:
    """And each is within it; where it can be, on a whole second, minute, hour or day of the reader's zone."""
    zone = timezone(timedelta(hours=5, minutes=30))
    begin = NOON + 123_456_789
    marks = list(marks_of_time(begin, begin + int(span_s * S), 8, zone))
    assert 2 <= len(marks) <= 9
    assert all(begin <= at <= begin + span_s * S for at, _ in marks)
    assert len({text for _, text in marks}) == len(marks)
    if span_s > 86_400:
        assert all(text.endswith(" 00:00") for _, text in marks)


def test_an_instant_is_told_as_finely_as_matters() -> None:
    """Milliseconds of a second, the date of a week."""
    assert moment(NOON + 5_000_000, S, UTC) == "12:00:00.005"
    assert moment(NOON, 3_600 * S, UTC) == "12:00:00"
    assert moment(NOON, 90_000 * S, UTC) == "01-01 12:00"


def test_marks_of_latency_are_powers_of_ten() -> None:
    """Both ends included, whatever the rounding."""
    assert [text for _, text in marks_of_latency(1_000, 1e7)] == ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms"]
    assert [text for _, text in marks_of_latency(1_414, 9e3)] == []


def test_names_that_move_the_cursor_are_shown() -> None:
    """A report is read on terminals, too."""
    assert shown("a\x1b[2J\nb\udcff") == "a\\x1b[2J\\nb\\udcff"
