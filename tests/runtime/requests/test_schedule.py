"""Schedule: intervals and times of day, and what becomes of them when the wall clock jumps."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.requests.operating.schedule import DAYS, DayTimes, lines_of, next_at, when_of

MONDAY = datetime(2033, 5, 16)


@pytest.mark.parametrize(
    ("text", "every_s"),
    [("every 30s", 30), ("every 1.5 m", 90), ("Every 250ms", 0.25), ("every 2h", 7200), ("every 1d", 86400)],
)
def test_an_interval(text: str, every_s: float) -> None:
    """In the units that people use."""
    assert when_of(text).every_ns == round(every_s * 1e9)


@pytest.mark.parametrize(
    ("text", "second", "days"),
    [
        ("22:00", 79_200, range(7)),
        ("6:05:30", 21_930, range(7)),
        ("mon-fri 08:00", 28_800, range(5)),
        ("sat,sun 00:00", 0, (5, 6)),
        ("fri-mon 12:00", 43_200, (4, 5, 6, 0)),
        ("mon,wed-thu 12:00", 43_200, (0, 2, 3)),
    ],
)
def test_a_time_of_day(text: str, second: int, days: tuple[int, ...]) -> None:
    """With days, and without."""
    when = when_of(text)
    assert (when.every_ns, when.second, when.days) == (0, second, frozenset(days))


@pytest.mark.parametrize(
    "text", ["", "24:00", "22:60", "22", "22:0", "noon", "every", "every 0s", "every 5", "every 400d", "mo 22:00"]
)
def test_what_is_no_time_is_refused_with_what_is_expected(text: str) -> None:
    """A schedule that was misread would run at night, or never, and nobody would know."""
    with pytest.raises(ValueError, match="expected"):
        when_of(text)


def test_one_time_may_have_several_lines() -> None:
    """In their order."""
    assert [line for _, line in lines_of({"22:00": ["workers 8", "lanes off"], "every 1s": "beat"})] == [
        "workers 8", "lanes off", "beat",
    ]  # fmt: skip


@given(st.integers(0, 86_399), st.sets(st.sampled_from(range(7)), min_size=1), st.integers(0, 14 * 86_400))
def test_the_next_is_found_as_one_who_tries_every_day_finds_it(second: int, days: set[int], offset: int) -> None:
    """Days that are left out are the only hard part."""
    now = MONDAY + timedelta(seconds=offset)
    text = f"{','.join(DAYS[day] for day in days)} {second // 3600}:{second // 60 % 60:02}:{second % 60:02}"
    moments = [MONDAY + timedelta(days=day, seconds=second) for day in range(24)]
    expected = next(each for each in moments if each > now and each.weekday() in days)
    assert next_at(when_of(text), now) == expected


def test_each_falls_due_once_and_in_order() -> None:
    """Looked for twice a second, and at whatever moment that is."""
    times = DayTimes([when_of("22:00"), when_of("21:59:59"), when_of("tue 22:00")], MONDAY + timedelta(hours=21))
    found = []
    for half in range(2 * 3600 + 4):
        found += times.due(MONDAY + timedelta(hours=21, seconds=0.5 + half * 0.5))
    assert found == [1, 0]


def test_what_the_machine_slept_through_is_made_up_for_once() -> None:
    """A laptop that is opened in the morning does not run the commands of three nights, but those of one."""
    times = DayTimes([when_of("22:00"), when_of("06:00")], MONDAY + timedelta(hours=12))
    assert times.due(MONDAY + timedelta(days=3, hours=12)) == [0, 1]
    assert times.due(MONDAY + timedelta(days=3, hours=12, seconds=1)) == []


def test_in_spring_an_hour_is_missing_and_nothing_of_it() -> None:
    """02:30 does not exist: it runs when 03:00 does."""
    times = DayTimes([when_of("02:30")], MONDAY + timedelta(hours=1, minutes=59, seconds=59.5))
    assert times.due(MONDAY + timedelta(hours=3)) == [0]


def test_in_autumn_an_hour_comes_twice_and_nothing_of_it() -> None:
    """02:30 exists twice: it runs the first time."""
    times = DayTimes([when_of("02:30")], MONDAY + timedelta(hours=2))
    assert times.due(MONDAY + timedelta(hours=2, minutes=59, seconds=59)) == [0]
    assert times.due(MONDAY + timedelta(hours=2)) == []
    assert times.due(MONDAY + timedelta(hours=2, minutes=45)) == []
    assert times.due(MONDAY + timedelta(hours=3, minutes=1)) == []


def test_a_clock_that_was_wrong_counts_for_nothing() -> None:
    """Set back by a day, it would otherwise be a day until anything runs."""
    times = DayTimes([when_of("22:00")], MONDAY + timedelta(days=1, hours=21))
    assert times.due(MONDAY + timedelta(hours=21)) == []
    assert times.due(MONDAY + timedelta(hours=22)) == [0]
