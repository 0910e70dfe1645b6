"""What strangers may send to a socket: it is counted and dropped, or answered; a peer's bug must never become ours."""

from __future__ import annotations

import random
import re
import socket
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zmq

from appbackplane.transport import Client, FailedPrecondition, InvalidArgument, NotFound
from appbackplane.transport.codec import Encoder, batch
from appbackplane.transport.envelope import (
    CALL,
    CANCEL,
    CAST,
    FORWARD,
    OPERAND,
    PUBLISH,
    REPLY,
    STATUS,
    Envelope,
    forward,
)

from .conftest import LIMIT_S, LINK, System, ask_until

pytestmark = pytest.mark.skipif(bool(LINK), reason="its strangers speak ZeroMQ")


def call(id: int = 1, priority: Any = 0, route: Any = "shelf.add_up", key: Any = None, deadline: Any = None,
         trace: Any = None, body: Any = None, chain: Any = None) -> bytes:  # fmt: skip
    """A frame of one call, of whatever kind of values."""
    return bytes(msgpack.packb([[CALL, id, priority, route, key, deadline, trace, body or {"numbers": []}, chain]]))


def one(*fields: Any) -> bytes:
    """A frame of one envelope."""
    return batch([Encoder().encode(Envelope(*fields))])


SEED = 20_241
KINDS: list[Any] = [-1, 0, 7, 2**63, None, "CALL", 1.5, []]
FRAMES: dict[str, list[bytes]] = {
    "nothing": [b""],
    "no envelope": [b"\xc0", b"\x01", b"\x90", b"\x80", b"\x91\xc0", b"\x91\x90", b"hello", b"\xc1" * 100],
    "truncated": [call()[:length] for length in range(1, len(call()))],
    "wrong arity": [msgpack.packb([[CALL, 1, 0, "shelf.add_up"]]), msgpack.packb([[CALL] * 10]), msgpack.packb([[]])],
    "wrong kind": [msgpack.packb([[kind, 1, *[None] * 7]]) for kind in KINDS],
    "wrong types": [
        call(route=5), call(route=None), call(body=[1]), call(key=[]), call(priority="x"), call(deadline=1.5),
        call(chain=[["a"]]), call(chain="abc"), call(trace=5), call(id=2**64 - 1, body={1: 2}),
    ],
    "odd values": [
        call(route=""), call(route="\0"), call(route="x" * 15_000_000), call(route="\1" * 5_000_000),
        call(key="k" * 15_000_000), call(id=-1), call(id=0), call(id=2**63), call(priority=-1), call(priority=2**62),
        call(deadline=-(2**63)), call(deadline=2**64 - 1), call(deadline=0), call(chain=[["a", "b"]] * 100_000),
        call(body={"k" * 15_000_000: 1}), call(body={1: 2, None: 3, b"x": 4}),
        call(route="backplane.shelves.add_object", body={"component": "shelf", "kind": "\2" * 5_000_000}),
    ],
    "deep": [b"\x91" * 100_000, b"\x81\xa1a" * 100_000, b"\x91\x99" + b"\x91" * 600 + b"\xc0"],
    "length bombs": [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff"],
    "huge": [bytes(15_000_000), b"\xdd\x00\x20\x00\x00" + b"\x80" * 0x20_0000],
    "answers to nobody": [one(REPLY, 77), one(CANCEL, 77), one(CANCEL, -5), one(REPLY, 2**63), one(
        STATUS, 77, None, None, None, None, None, [5, "no", None, None])],
    "operands": [
        one(OPERAND, 77, None, "numbers", None, None, None, [1]), one(OPERAND, 2**63, None, "", None, None, None, None),
        batch([Encoder().encode(forward(77, "numbers", "nowhere", 1, 5))]),
        msgpack.packb([[CALL, 3, 0, "shelf.add_up", *[None] * 3, {}, *[None] * 6, [5, {"numbers": "x.y"}]]] * 2),
        msgpack.packb([[CALL, 4, 0, "shelf.add_up", *[None] * 3, {}, *[None] * 6, [5, {"nothing": "x.y"}]]]),
        msgpack.packb([[CALL, 5, 0, "shelf.add_up", *[None] * 3, {}, *[None] * 6, [0, {"numbers": 5}]]]),
        msgpack.packb([[OPERAND, 1, None, None, None, None, None, 1, None], [FORWARD, 1, *[None] * 7]]),
    ],
    "other kinds": [
        one(PUBLISH, 1, None, "a..b", None, None, None, {}), one(PUBLISH, 2**63, None, "", None, None, None, {}),
        one(PUBLISH, 1, None, "numbers.x", None, None, None, {"number": "x"}),
        one(CAST, 0, None, "control.stop", None, None, None, {}), one(CAST, 0, None, "nobody.home", None, None, None, {}),
        one(CALL, 1, None, "control.move", None, None, None, {"component": "shelf", "state": "down"}),
    ],
    "random bytes": [random.Random(SEED + n).randbytes(n) for n in range(1, 300)],
    "flipped bits": [
        bytes(byte ^ (1 << bit) if at == place else byte for at, byte in enumerate(call()))
        for place in range(len(call())) for bit in range(8)
    ],
    "after what is good": [batch([call()[1:], b"\xc1"]), batch([call()[1:], b"\x90"])],
}  # fmt: skip


def sockets(system: System) -> list[Path]:
    """The supervisor's, and a backplane's."""
    return [system.run_dir / "supervisor.sock", *system.run_dir.glob("shelves-*.sock")]


@pytest.mark.parametrize("kind", FRAMES)
def test_malformed_frames_end_nothing(shelves: System, client: Client, kind: str) -> None:
    """What is not understood is counted and dropped, or answered; a peer's bug must never become ours."""
    with zmq.Context() as context:
        for path in sockets(shelves):
            with context.socket(zmq.DEALER) as peer:
                peer.linger = 10_000
                peer.connect(f"ipc://{path}")
                for frame in FRAMES[kind]:
                    peer.send(frame)
                # Whatever became of those, this one is answered, behind them.
                route = "supervisor.status" if path.name == "supervisor.sock" else "backplane.shelves.statistics"
                peer.send(one(CALL, 4711, 0, route, None, None, None, {}))
                assert 4711 in answers(peer, until=4711)


def answers(peer: zmq.Socket[bytes], until: int) -> list[int]:
    """The ids that were answered, up to this one."""
    found: list[int] = []
    while until not in found:
        assert peer.poll(LIMIT_S * 1e3), f"no answer; so far {found}"
        found += [envelope[1] for envelope in msgpack.unpackb(peer.recv())]
    return found


def test_messages_of_another_shape_end_nothing(shelves: System, client: Client) -> None:
    """Two frames, many frames, another protocol, no protocol at all, and connections that say nothing."""
    with zmq.Context() as context:
        context.linger = 1_000
        for path in sockets(shelves):
            mute = [socket.socket(socket.AF_UNIX) for _ in range(20)]
            for stranger in mute:
                stranger.connect(str(path))
            mute[0].sendall(b"GET / HTTP/1.1\r\n\r\n")
            mute[1].sendall(random.Random(SEED).randbytes(10_000))
            for kind in (zmq.REQ, zmq.PUB, zmq.PUSH, zmq.PAIR, zmq.SUB):
                with context.socket(kind) as peer:
                    peer.connect(f"ipc://{path}")
            with context.socket(zmq.DEALER) as peer:
                peer.connect(f"ipc://{path}")
                peer.send_multipart([call(), call()])
                peer.send_multipart([b""] * 10_000)
                peer.send(one(CALL, 4711, 0, "shelf.add_up", None, None, None, {"numbers": []}))
                assert answers(peer, until=4711) == [4711]
            for stranger in mute:
                stranger.close()


def test_what_was_malformed_is_counted_and_said_once_a_peer(shelves: System, client: Client) -> None:
    """Who looks for the reason finds it, and is not drowned in it."""
    before = client.call("backplane.shelves.statistics")["links"]["malformed"]
    with zmq.Context() as context, context.socket(zmq.DEALER) as peer:
        peer.linger = 1_000
        peer.routing_id = b"a-certain-stranger"
        peer.connect(f"ipc://{sockets(shelves)[1]}")
        for _ in range(100):
            peer.send(b"\xc1")
        ask_until(client, "backplane.shelves.statistics", lambda told: told["links"]["malformed"] == before + 100)
    line = shelves.wait_for("a-certain-stranger")
    assert re.search(
        r"shelves +\| WARNING .*malformed frame from peer b'a-certain-stranger' dropped: not msgpack", line
    )
    assert sum("a-certain-stranger" in line for line in shelves.said) == 1


def test_nobody_but_the_supervisor_gives_orders(shelves: System, client: Client) -> None:
    """A backplane hears its orders over its control link; on its own socket the routes of control do not exist."""
    for route in ("control.stop", "control.move", "control.directory"):
        with pytest.raises(NotFound, match=re.escape(f"no route {route!r}")):
            client.call(route)
    with pytest.raises((FailedPrecondition, InvalidArgument)):
        client.call("supervisor.register", registration={
            "backplane": "shelves", "generation": 1, "pid": 1, "path": "/tmp/x", "components": [],
        })  # fmt: skip
