"""Intruders: one whose key is trusted sends what no node of ours would say. The others are served meanwhile, and afterwards."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgpack
import psutil
import zmq

from appbackplane.transport import Client, codec
from appbackplane.transport.envelope import Envelope, Kind
from appbackplane.transport.errors import InvalidArgument
from appbackplane.transport.peers.messages import KINDS, Hello, body_of
from appbackplane.transport.security import links
from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.security.ring import Holder

from .conftest import Nodes

FRAMES = 15_000
#: What a node may take up while it hears nonsense, bytes.
GROWTH_MAX = 64 << 20
CONNECT_MS = 20_000
ROUTES = (
    None, "calc.add", "calc.secret", "b/calc.add", "peers.say", "peers.broken", "backplane.main.stop", "supervisor.down",
)  # fmt: skip


@contextmanager
def intruder(both: Nodes) -> Iterator[zmq.Socket[bytes]]:
    """A DEALER at the door of `b`, under a key that is trusted there."""
    house, own = Keyring(both.folder / "keys-b"), Keyring(both.folder / "keys-intruder")
    key = own.make_own(is_replacing=True)
    house.change(lambda ring: ring.trusting(Holder("intruder", key)))
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        socket = context.socket(zmq.DEALER)
        links.client(socket, own, house.own().public)
        links.connect(socket, both.address("b"))
        assert socket.poll(CONNECT_MS, zmq.POLLOUT), "it was not let in"
        yield socket
    finally:
        context.destroy(linger=0)
        house.change(lambda ring: ring.revoking("intruder"))


class Nonsense:
    """Frames, from noise to nearly right."""

    def __init__(self, seed: int, at: str) -> None:
        self._random = random.Random(seed)
        now_ns = time.time_ns()
        self._hello = body_of(
            Hello(
                name="intruder", incarnation=now_ns, to=0, beat=1, sent_ns=1, echo_ns=0, digest=0, session=0, is_up=False,
                routes=0, load=0.0, protocol=1, protocol_oldest=0, address="tcp://127.0.0.1:9", dialled=at,
            )
        )  # fmt: skip

    def frame(self) -> bytes:
        chance = self._random
        which = chance.randrange(6)
        if which == 0:
            return chance.randbytes(chance.randrange(200))
        if which == 1:
            return bytes(msgpack.packb(self._value()))
        if which == 2:
            return bytes(msgpack.packb([[self._value() for _ in range(chance.choice((8, 9, 9, 10)))]]))
        if which == 3:
            return self._said()
        row: list[Any] = [
            chance.randrange(9), chance.choice((0, 1, 5, 2**63 - 1)), chance.choice((None, 0, 5, 99, -1)),
            chance.choice(ROUTES), chance.choice((None, "k", "@main")), chance.choice((None, 0, 10**9, -1, 2**62, 2**63 - 1)),
            None, chance.choice((None, {}, {"x": 1, "y": 2}, self._value())), chance.choice((None, [], [["a", "b"]])),
        ]  # fmt: skip
        if chance.random() < 0.3:
            row[chance.randrange(9)] = self._value()
        return bytes(msgpack.packb([row] * chance.randrange(1, 4)))

    def _said(self) -> bytes:
        body = dict(self._hello)
        for _ in range(self._random.randrange(3)):
            body[self._random.choice(list(body))] = self._value()
        if self._random.random() < 0.5:
            body["kind"] = self._random.choice(list(KINDS))
        kind = self._random.choice(list(Kind))
        return codec.batch([codec.Encoder().encode(Envelope(kind, 0, 0, "peers.say", body=body))])

    def _value(self, depth: int = 0) -> Any:
        chance = self._random
        if depth < 3 and chance.random() < 0.3:
            inner = [self._value(depth + 1) for _ in range(chance.randrange(4))]
            return inner if chance.random() < 0.5 else {str(number): value for number, value in enumerate(inner)}
        return chance.choice(
            (
                None,
                True,
                -1,
                chance.randrange(2**64),
                chance.random() * 1e300,
                "x" * chance.randrange(40),
                b"\0",
                "calc.add",
            )
        )


def test_nonsense_of_a_trusted_peer_ends_nothing(both: Nodes, client: Client) -> None:
    """Counted, or refused, frame by frame: the node lives, its memory is bounded, and who asks properly is answered."""
    node = psutil.Process(both.systems["b"].pids()["node"])
    before = node.memory_info().rss
    is_over = threading.Event()
    sent = 0

    def send(socket: zmq.Socket[bytes]) -> None:
        nonlocal sent
        nonsense = Nonsense(7, both.address("b"))
        while sent < FRAMES:
            with suppress(InvalidArgument):
                socket.send(nonsense.frame())
                sent += 1
        is_over.set()

    with intruder(both) as socket:
        socket.sndtimeo = CONNECT_MS
        sender = threading.Thread(target=send, args=(socket,), daemon=True)
        sender.start()
        answered = 0
        while not is_over.is_set():
            assert client.call("b/calc.add", x=answered, y=1) == answered + 1
            answered += 1
            assert sender.is_alive() or is_over.is_set(), "the door takes nothing more"
        sender.join()
        assert answered > 10
        assert client.call("b/calc.add", x=1, y=1) == 2
    assert node.memory_info().rss - before < GROWTH_MAX


def test_what_would_have_ended_a_node_is_refused(both: Nodes, client: Client) -> None:
    """A deadline beyond all time, and news of incarnations after which there is none."""
    nonsense = Nonsense(1, both.address("b"))
    last = 2**62 - 1
    record = ["b", last, both.address("b"), "curve:x", "living", 1, 0]
    news = {"name": "intruder", "incarnation": time.time_ns(), "to": 0, "beat": 2, "sent_ns": 1, "echo_ns": 0}
    said: list[dict[str, Any]] = [
        nonsense._hello | {"incarnation": last},
        news | {"kind": "sync", "records": [record], "is_answer": False},
        news | {"kind": "vouch", "records": [record]},
        news | {"kind": "refusal", "reason": "x", "dialled": "", "known": last},
    ]
    pack = codec.Encoder().encode
    with intruder(both) as socket:
        socket.sndtimeo = CONNECT_MS
        for _ in range(2):  # before and after the node has met it
            for body in (nonsense._hello, *said):
                socket.send(codec.batch([pack(Envelope(Kind.CAST, 0, 0, "peers.say", body=body))]))
            call = Envelope(Kind.CALL, 7, None, "calc.add", deadline=2**63 - 1, body={"x": 1, "y": 1})
            socket.send(codec.batch([pack(call)]))
            assert client.call("b/calc.add", x=1, y=1) == 2
