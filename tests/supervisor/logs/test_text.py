"""A line of the log for a person: readable, and never a command to the terminal."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.observation.log_line import LogLine
from appbackplane.supervisor.logs.text import shown, told

WHEN = datetime(2025, 7, 1, 12, 30, 0, 250_000, tzinfo=UTC)


def line(message: str = "sold out", **more: Any) -> LogLine:
    """One of a component."""
    values: dict[str, Any] = {"level": "WARNING", "logger": "shop.orders", **more}
    return LogLine(time=WHEN, backplane="main", message=message, **values)


def test_up_shows_what_logging_would() -> None:
    """Level, logger, words, fields; the traceback below."""
    assert shown(line()) == ["WARNING shop.orders: sold out"]
    assert shown(line("a\nb", error="Traceback\nValueError: x", extra={"n": 1, "who": "ann"})) == [
        "WARNING shop.orders: a n=1 who=ann", "b", "Traceback", "ValueError: x",
    ]  # fmt: skip
    assert shown(line("printed", logger="", stream="stdout")) == ["printed"]


def test_logs_tell_when_how_bad_who_and_what() -> None:
    """In columns; what follows is indented, so that a line at the margin is a line of the log."""
    assert told(line(route="orders.sell", object="main/orders"), UTC) == [
        "2025-07-01 12:30:00.250 WARNING  main shop.orders: sold out (orders.sell on main/orders)"
    ]
    assert told(line("a\nb", error="Traceback\nValueError: x"), UTC)[1:] == [
        "    b",
        "    Traceback",
        "    ValueError: x",
    ]


def test_colours_only_where_they_are_asked_for() -> None:
    """A file full of escape sequences is no text."""
    assert "\x1b" not in "".join(told(line(), UTC) + shown(line()))
    assert "\x1b[33mWARNING" in told(line(), UTC, in_colour=True)[0]
    assert shown(line(), in_colour=True) == ["\x1b[33mWARNING shop.orders: sold out\x1b[0m"]


@given(st.text(), st.text(), st.text())
def test_nothing_that_was_said_reaches_the_terminal_as_a_command(message: str, field: str, error: str) -> None:
    """A stranger's words, logged, could rewrite the screen of whoever reads them, or its title, or worse."""
    texts = told(line(message, extra={field: message}, error=error, route=field, logger=field), UTC) + shown(
        line(message)
    )
    for text in texts:
        assert not any((ord(c) < 32 and c != "\t") or 0x7F <= ord(c) < 0xA0 for c in text)
