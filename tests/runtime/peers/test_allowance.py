"""Allowance: what nodes say of themselves is heard as often as membership says it, and not as often as somebody likes."""

from __future__ import annotations

import msgpack
import pytest

from appbackplane.runtime.peers.allowance import ASKING, BURST, ITEMS_OF_ONE, REFILL_S, SAY_BYTES_MAX, Allowance, weight
from appbackplane.transport import codec
from appbackplane.transport.envelope import CAST, Envelope
from appbackplane.transport.errors import MalformedFrame
from appbackplane.transport.peers.messages import (
    ROUTES_MAX,
    Heartbeat,
    ListChange,
    NodeRecord,
    PeerMessage,
    Routes,
    Sync,
    body_of,
)
from appbackplane.transport.peers.offer import ROUTE_LENGTH_MAX

SECOND_NS = 1_000_000_000
BEAT = {"kind": "heartbeat"}
FROM = {"name": "b", "incarnation": 1, "to": 1, "beat": 1, "sent_ns": 1, "echo_ns": 0}


def wired(message: PeerMessage) -> dict[str, object]:
    """As it comes in."""
    body: dict[str, object] = msgpack.unpackb(msgpack.packb(body_of(message)))
    return body


def view(count: int, *, is_answer: bool = False) -> Sync:
    """Of so many nodes."""
    record = NodeRecord("b" * 20, 1, "tcp://127.0.0.1:7400", "curve:" + "k" * 40, "living", 1, 1)
    return Sync(**FROM, records=(record,) * count, is_answer=is_answer)  # type: ignore[arg-type]


def test_what_is_beyond_it_is_dropped_and_counted_and_it_fills_again() -> None:
    """A peer that says the same 4,096 times in a frame would keep everybody waiting."""
    allowance = Allowance()
    heard = [allowance.takes(b"b", BEAT, 100, 0) for _ in range(4_096)]
    assert heard == [True] * BURST + [False] * (4_096 - BURST)
    assert allowance.dropped_count == 4_096 - BURST
    assert allowance.takes(b"c", BEAT, 100, 0), "another has his own"
    assert sum(allowance.takes(b"b", BEAT, 100, SECOND_NS) for _ in range(4_096)) == REFILL_S
    assert sum(allowance.takes(b"b", BEAT, 100, 60 * SECOND_NS) for _ in range(4_096)) == BURST


def test_it_fills_however_often_it_is_asked() -> None:
    """In fractions, too."""
    allowance = Allowance()
    heard = sum(allowance.takes(b"b", BEAT, 100, ns) for ns in range(0, SECOND_NS, SECOND_NS // 10_000))
    assert heard == pytest.approx(BURST + REFILL_S, abs=1)


def test_a_node_in_order_is_heard_always() -> None:
    """Five heartbeats a second, with each a view of 64 nodes and 128 dead, and that after it has stood still for 5 s."""
    allowance, now_ns = Allowance(), 0
    beat = Heartbeat(**FROM, digest=1, session=1, is_up=True, routes=1, load=0.5)  # type: ignore[arg-type]
    said = [wired(beat), wired(view(192))]
    for _ in range(8):
        assert all(allowance.takes(b"b", body, 20_000, now_ns) for body in said)
    for _ in range(500):
        now_ns += SECOND_NS // 5
        assert all(allowance.takes(b"b", body, 20_000, now_ns) for body in said)


def test_what_costs_more_weighs_more() -> None:
    """Or it would be said that way."""
    assert weight(BEAT) == weight(None) == weight({"kind": ["sync"], "records": 1}) == 1
    assert weight(wired(view(0))) == 1 + ASKING
    assert weight(wired(view(512, is_answer=True))) == 1 + 512 * 8 // ITEMS_OF_ONE
    assert weight({"records": [None] * (1 << 20)}) > BURST


def test_the_largest_that_a_node_may_say_is_heard_and_nothing_larger() -> None:
    """All routes and topics at their longest, and as many that have gone."""
    names = tuple(f"{number:0{ROUTE_LENGTH_MAX}}" for number in range(ROUTES_MAX))
    routes = Routes(**FROM, since=1, version=2, operations=ListChange(names, names), topics=ListChange(names, names))  # type: ignore[arg-type]
    body = wired(routes)
    size = len(codec.batch([codec.Encoder().encode(Envelope(CAST, 0, 0, "peers.say", body=body))]))
    assert size > 0.9 * SAY_BYTES_MAX
    assert Allowance().takes(b"b", body, size, 0)
    with pytest.raises(MalformedFrame, match="bytes of membership messages from a node, limit"):
        Allowance().takes(b"b", body, SAY_BYTES_MAX + 1, 0)
