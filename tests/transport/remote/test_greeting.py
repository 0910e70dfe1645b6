"""Greeting: who understands whom, and words that make no sense."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.transport import codec
from appbackplane.transport.envelope import CALL, CAST, Envelope
from appbackplane.transport.errors import MalformedFrame
from appbackplane.transport.remote import greeting
from appbackplane.transport.remote.greeting import (
    CLOCK,
    HELLO,
    PROTOCOL,
    PROTOCOL_OLDEST,
    REFUSED,
    WELCOME,
    ClientClock,
    ClientHello,
    ClientRefused,
    Welcome,
    Word,
    answer,
    heard,
    hello,
    said,
)


@pytest.mark.parametrize("word", [hello("b", 5), ClientClock(7), Welcome(PROTOCOL), ClientRefused("no")], ids=str)
def test_a_word_comes_out_as_what_it_was(word: Word) -> None:
    """Through the wire."""
    (envelope,) = codec.decode(codec.batch([codec.Encoder().encode(said(word))]))
    assert heard(envelope) == word


@pytest.mark.parametrize(
    ("protocol", "oldest", "because"),
    [
        (PROTOCOL, PROTOCOL_OLDEST, None),
        (PROTOCOL + 1, PROTOCOL, None),
        (PROTOCOL_OLDEST - 1, 0, "bring the client up to date"),
        (PROTOCOL + 9, PROTOCOL + 1, "bring the node up to date"),
    ],
)
def test_versions_that_overlap_understand_each_other(protocol: int, oldest: int, because: str | None) -> None:
    """Who is to be brought up to date is said, by whichever is asked."""
    told = answer(ClientHello(protocol, oldest, "b", 0))
    if because is None:
        assert told == Welcome(PROTOCOL)
    else:
        assert isinstance(told, ClientRefused)
        assert because in told.because


BAD: list[tuple[str, Any]] = [
    (HELLO, {}),
    (HELLO, {"protocol": -1, "oldest": 0, "node": "b", "clock_ns": 0}),
    (HELLO, {"protocol": 1, "oldest": 0, "node": "b/x", "clock_ns": 0}),
    (HELLO, {"protocol": 1, "oldest": 0, "node": "b", "clock_ns": 1 << 63}),
    (CLOCK, {"clock_ns": "now"}),
    (WELCOME, {"protocol": None}),
    (REFUSED, {"because": "x" * 2_000}),
]


@pytest.mark.parametrize(("route", "body"), BAD)
def test_what_makes_no_sense_is_refused(route: str, body: Any) -> None:
    """Field by field: who is trusted may still be wrong."""
    with pytest.raises(MalformedFrame, match=route):
        heard(Envelope(CAST, 0, 0, route, body=body))


def test_all_else_is_no_word() -> None:
    """Calls and casts, also of a route that is called so."""
    assert heard(Envelope(CALL, 1, 0, HELLO, body={})) is None
    assert heard(Envelope(CAST, 0, 0, "calc.add", body={})) is None
    assert greeting.PROTOCOL_OLDEST <= greeting.PROTOCOL
