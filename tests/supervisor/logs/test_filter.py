"""What of a log somebody asks for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.observation.log_line import LEVELS, LogLine, encode
from appbackplane.supervisor.logs.filter import LogFilter, may_match, since

NOW = datetime(2025, 7, 1, 12, 0, 0, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10m", NOW - timedelta(minutes=10)),
        ("1.5 h", NOW - timedelta(minutes=90)),
        ("30s", NOW - timedelta(seconds=30)),
        ("2d", NOW - timedelta(days=2)),
        ("1w", NOW - timedelta(weeks=1)),
        ("2025-07-01", datetime(2025, 7, 1, tzinfo=NOW.tzinfo)),
        ("2025-07-01T11:30", datetime(2025, 7, 1, 11, 30, tzinfo=NOW.tzinfo)),
        ("2025-07-01 11:30:15.5", datetime(2025, 7, 1, 11, 30, 15, 500_000, tzinfo=NOW.tzinfo)),
        ("2025-07-01T09:30:00Z", datetime(2025, 7, 1, 9, 30, tzinfo=UTC)),
        ("99999999d", datetime.min.replace(tzinfo=UTC)),
    ],
)
def test_since(text: str, expected: datetime) -> None:
    """Ago, or an instant in the reader's own zone unless it says another."""
    assert since(text, NOW) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "10", "m", "-5m", "10 minutes", "12:30", "2025-13-01"])
def test_since_what_is_no_time(text: str) -> None:
    """With an example of one."""
    with pytest.raises(ValueError, match='such as "10m"'):
        since(text, NOW)


NAMES = st.sampled_from(["query", "index", 'a"b', "ü"])
TEXTS = st.sampled_from(["hello", '"level":"ERROR"', '"backplane":"query"', "INFO"])
LINES = st.builds(
    LogLine,
    time=st.just(NOW),
    level=st.sampled_from([*LEVELS, "NOTICE"]),
    backplane=NAMES,
    message=TEXTS,
    component=NAMES | st.just(""),
    extra=st.dictionaries(st.sampled_from(["component", "level"]), NAMES),
    severity=st.sampled_from([0, 25, 45]),
)
FILTERS = st.builds(
    LogFilter, backplane=st.none() | NAMES, component=st.none() | NAMES, level=st.none() | st.sampled_from(list(LEVELS))
)


@given(LINES, FILTERS)
def test_the_quick_look_misses_nothing(line: LogLine, wanted: LogFilter) -> None:
    """A megabyte in which nothing was found is never read: there must be nothing in it."""
    if wanted.matches(line):
        assert may_match(encode(line), wanted.marks())


def test_the_quick_look_is_not_fooled_by_what_was_said() -> None:
    """Or a log full of quotations would be slow to read."""
    line = encode(LogLine(time=NOW, level="INFO", backplane="a", message='"level":"ERROR" "component":"x"'))
    for wanted in (LogFilter(level="ERROR"), LogFilter(component="x")):
        assert not may_match(line, wanted.marks())


def test_each_condition_counts() -> None:
    """All must be met."""
    line = LogLine(time=NOW, level="WARNING", backplane="query", message="x", component="shard")
    assert LogFilter("query", "shard", "WARNING", NOW).matches(line)
    for wanted in (
        LogFilter(backplane="other"),
        LogFilter(component="other"),
        LogFilter(level="ERROR"),
        LogFilter(since=NOW + timedelta(seconds=1)),
    ):
        assert not wanted.matches(line)


def test_a_name_that_replicas_have_in_common_means_all_of_them() -> None:
    """And nobody else whose name begins so."""
    wanted = LogFilter(backplane="web", replicas=("web-1", "web-2"))
    lines = {name: LogLine(time=NOW, level="INFO", backplane=name, message="x") for name in ("web-1", "web-2", "web-3")}
    assert [name for name, line in lines.items() if wanted.matches(line)] == ["web-1", "web-2"]
    assert [name for name, line in lines.items() if may_match(encode(line), wanted.marks())] == ["web-1", "web-2"]
