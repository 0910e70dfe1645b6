"""A line of the log: whatever was said is one line of JSON that can be read again, and never too long."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.observation.log_line import LINE_BYTES_MAX, LogLine, cut, decode, encode

WHEN = datetime(2025, 7, 1, 12, 30, 0, 250_000, tzinfo=UTC)


def line(message: str = "hello", **more: Any) -> LogLine:
    """One of a backplane."""
    return LogLine(time=WHEN, level="INFO", backplane="query", message=message, **more)


class Strange:
    """Cannot even be looked at."""

    def __repr__(self) -> str:
        raise ValueError("no")


def test_what_is_not_known_is_left_out() -> None:
    """Half of a log would be empty fields."""
    assert json.loads(encode(line())) == {
        "time": "2025-07-01T12:30:00.250000Z", "level": "INFO", "backplane": "query", "message": "hello",
    }  # fmt: skip


@given(
    st.text(),
    st.dictionaries(st.text(), st.none() | st.integers() | st.floats() | st.text() | st.binary() | st.builds(Strange)),
)
def test_whatever_is_said_is_one_line_that_can_be_read(message: str, extra: dict[str, Any]) -> None:
    """A program that reads the log must not stumble over what a component was given by a stranger."""
    raw = encode(line(message, extra=extra))
    assert b"\n" not in raw
    back = decode(raw)
    assert back is not None
    assert back.message == message.encode(errors="backslashreplace").decode()
    assert set(back.extra) == {str(key).encode(errors="backslashreplace").decode() for key in extra}


def test_values_without_a_place_in_json_are_said_in_words() -> None:
    """`extra` takes any object."""
    back = decode(encode(line(extra={"set": {1}, "object": Strange(), "deep": {"a": [1, None]}, "key": {(1, 2): 3}})))
    assert back is not None
    assert back.extra["object"] == "'(Strange: its __repr__ failed: ValueError)'" or "failed" in back.extra["object"]
    assert "1" in str(back.extra["set"])


@given(st.text(min_size=1, max_size=3), st.integers(1, 300_000))
def test_a_line_has_a_bound(piece: str, times: int) -> None:
    """One line that fills a ring would cost all that are said behind it."""
    text = cut(piece * times)
    raw = encode(line(text, error=text, stack=text, extra={"more": piece * times}))
    assert len(raw) <= LINE_BYTES_MAX
    assert decode(raw) is not None


def test_what_is_cut_says_so() -> None:
    """Or its reader believes that it ended there."""
    assert cut("x" * 20_000).endswith(" (cut: 20,000 characters)")
    assert cut("short") == "short"


def test_what_is_no_line_is_no_error() -> None:
    """A file that ends in the middle of one, or that somebody has edited."""
    for raw in (b"", b'{"time":"2025', b"hello", b"{}", b"\xff\xfe", b'{"time":"never","level":"INFO"}'):
        assert decode(raw) is None


def test_levels_of_ones_own_are_compared_by_number() -> None:
    """`logging.addLevelName(25, "NOTICE")`."""
    assert line().level_number == 20
    notice = LogLine(time=WHEN, level="NOTICE", backplane="query", message="x", severity=25)
    assert notice.level_number == 25
