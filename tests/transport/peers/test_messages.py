"""Messages: they come back as they were said, and whatever else comes is told to be malformed, and nothing worse."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appbackplane.transport import codec
from appbackplane.transport.envelope import CAST, Envelope
from appbackplane.transport.errors import MalformedFrame
from appbackplane.transport.peers.effects import Send
from appbackplane.transport.peers.membership import Membership
from appbackplane.transport.peers.messages import (
    KINDS,
    RECORDS_MAX,
    Heartbeat,
    Hello,
    Inquiry,
    Leave,
    ListChange,
    NodeRecord,
    PeerMessage,
    Refusal,
    Routes,
    RoutesWanted,
    Sync,
    Vouch,
    body_of,
    message_from,
)
from appbackplane.transport.peers.node import PeerNode
from appbackplane.transport.peers.view import Identity

HEAD = {"name": "b", "incarnation": 2_000, "to": 1_000, "beat": 7, "sent_ns": 5, "echo_ns": 6}
BEAT = {"digest": (1 << 63) - 1, "session": 1, "is_up": True, "routes": 3, "load": 0.5}
RECORD = NodeRecord("c", 3, "tcp://c", "key", "dead", 4, 5)
MESSAGES: list[PeerMessage] = [
    Heartbeat(**HEAD, **BEAT),
    Hello(
        **HEAD, **BEAT, protocol=1, protocol_oldest=0, address="tcp://b", dialled="tcp://a", reached_as="tcp://alias"
    ),
    Refusal(**HEAD, reason="no", dialled="tcp://a", known=4, holder="tcp://x"),
    Leave(**HEAD),
    Inquiry(**HEAD, names=("c", "d")),
    Vouch(**HEAD, records=(RECORD,)),
    Sync(**HEAD, records=(RECORD, RECORD), is_answer=True),
    RoutesWanted(**HEAD, since=3),
    Routes(**HEAD, since=3, version=4, operations=ListChange(("a.b",), ("c.d",)), topics=ListChange()),
]


def kind_of(message: PeerMessage) -> str:
    """For the names of tests."""
    return type(message).__name__


@pytest.mark.parametrize("message", MESSAGES, ids=kind_of)
def test_a_message_comes_back_as_it_was_said(message: PeerMessage) -> None:
    """Through the codec that all envelopes pass."""
    frame = codec.batch([codec.Encoder().encode(Envelope(CAST, 1, None, "peers.said", body=body_of(message)))])
    (envelope,) = codec.decode(frame)
    assert message_from(envelope.body) == message


def test_every_kind_is_tried() -> None:
    """One that is added is added here."""
    assert {type(message) for message in MESSAGES} == set(KINDS.values())


def test_a_heartbeat_is_small() -> None:
    """63 peers, five times a second."""
    assert len(codec.Encoder().encode(Envelope(CAST, 1, None, "peers.said", body=body_of(MESSAGES[0])))) < 200


WRONG: list[tuple[str, object]] = [
    ("name", "a/b"), ("name", ""), ("name", "x" * 65), ("name", None), ("incarnation", -1), ("incarnation", 1 << 63),
    ("beat", 1.5), ("load", -1.0), ("load", float("nan")), ("load", float("inf")), ("digest", "x"), ("kind", "nothing"),
    ("is_up", 3),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_a_field_that_cannot_be_is_malformed(field: str, value: object) -> None:
    """A peer is trusted to be who it is, not to be right."""
    body = body_of(MESSAGES[0]) | {field: value}
    with pytest.raises(MalformedFrame, match="not a message between nodes"):
        message_from(body)


def test_lists_have_a_bound() -> None:
    """Before anything is made of them."""
    for message in (Sync(**HEAD, records=(RECORD,)), Inquiry(**HEAD, names=("c",))):
        body = body_of(message)
        field = "records" if "records" in body else "names"
        with pytest.raises(MalformedFrame):
            message_from(body | {field: list(body[field]) * (RECORDS_MAX + 1)})
    with pytest.raises(MalformedFrame):
        message_from(
            body_of(Vouch(**HEAD, records=(RECORD,))) | {"records": [["c", 3, "tcp://c", "key", "undead", 4, 5]]}
        )


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.sampled_from(MESSAGES), st.data())
def test_whatever_comes_is_a_message_or_malformed(message: PeerMessage, data: st.DataObject) -> None:
    """And a message that passes, from a peer that is let in, is taken in without an error."""
    body = body_of(message)
    body[data.draw(st.sampled_from(sorted(body)))] = data.draw(anything)
    try:
        said = message_from(data.draw(st.sampled_from([body, data.draw(anything)])))
    except MalformedFrame:
        return
    me = Identity("a", 1_000, "tcp://a", "k")
    node = PeerNode(Membership(me, dict, 0, random=random.Random(1).random, unix_ns=lambda: 1_000), 0)
    hello = MESSAGES[1]
    assert isinstance(hello, Hello)
    node.received("key", hello, 10)
    effects = [*node.received("key", said, 20), *node.tick(400_000_000)]
    for effect in effects:
        if isinstance(effect, Send):
            message_from(body_of(effect.message))


@pytest.mark.parametrize("text", ["tcp://b\n", "b\x1b[2Jb", "\x9bm"])
def test_no_word_of_a_peer_breaks_a_line_or_gives_a_terminal_orders(text: str) -> None:
    """They stand in logs, and in the tables of `appbackplane peers`: one wrote lines there in whose name it liked."""
    hello, refusal, routes = (body_of(each) for each in (MESSAGES[1], MESSAGES[2], MESSAGES[8]))
    for body, field in (
        (hello, "name"), (hello, "address"), (hello, "dialled"), (hello, "reached_as"), (refusal, "reason"),
        (refusal, "dialled"), (refusal, "holder"),
    ):  # fmt: skip
        with pytest.raises(MalformedFrame):
            message_from(body | {field: text})
    with pytest.raises(MalformedFrame):
        message_from(routes | {"operations": [[text], []]})
    with pytest.raises(MalformedFrame):
        message_from(body_of(MESSAGES[6]) | {"records": [["c", 3, text, "key", "dead", 4, 5]]})
