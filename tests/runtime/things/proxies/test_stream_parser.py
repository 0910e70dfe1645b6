"""Server-sent events from bytes, however they are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from appbackplane.runtime.things.proxies.stream_parser import (
    EVENT_BYTES_MAX,
    StreamEvent,
    StreamOverflow,
    StreamParser,
)

STREAM = (
    b": open\n\nid: e-1\ndata: 1\n\nevent: lost\ndata: null\n\nid:e-2\r\ndata: a\r\ndata:b\r\n\r\n\n"
    b'id: e-3\ndata: "c"\n\nda'
)
EVENTS = [
    StreamEvent("message", "1"),
    StreamEvent("lost", "null"),
    StreamEvent("message", "a\nb"),
    StreamEvent("message", '"c"'),
]


@given(some.lists(some.integers(0, len(STREAM)), max_size=8))
def test_events_do_not_depend_on_how_they_arrive(cuts: list[int]) -> None:
    """Comments, empty events and an event that is not complete are none."""
    parser, places = StreamParser(), [0, *sorted(cuts), len(STREAM)]
    found = [each for a, b in pairwise(places) for each in parser.feed(STREAM[a:b])]
    assert found == EVENTS and parser.last_id == "e-3"


def test_another_connection_begins_anew() -> None:
    """The last id is kept, for its header."""
    parser = StreamParser()
    assert parser.feed(b"id: 7\ndata: 1\n\ndata: half") == [StreamEvent("message", "1")]
    parser.restart()
    assert parser.feed(b"\n\ndata: 2\n\n") == [StreamEvent("message", "2")] and parser.last_id == "7"


@pytest.mark.parametrize("data", [b"x" * (EVENT_BYTES_MAX + 1), b"data: 12345678\n" * (EVENT_BYTES_MAX // 14 + 1)])
def test_an_event_is_bounded(data: bytes) -> None:
    """In one line, and in many."""
    with pytest.raises(StreamOverflow):
        StreamParser().feed(data)
