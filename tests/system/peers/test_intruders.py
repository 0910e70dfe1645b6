"""Intruders: one whose key is trusted sends what no node of ours would say. The others are served meanwhile, and afterwards."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import msgpack
import psutil
import pytest
import zmq

from appbackplane.transport import Client, codec
from appbackplane.transport.batching import PEER_BYTES_MAX
from appbackplane.transport.envelope import BOOST, CALL, CAST, Envelope
from appbackplane.transport.errors import InvalidArgument
from appbackplane.transport.peers.lines import Came, Lines, Lost, PeerConnected
from appbackplane.transport.peers.messages import KINDS, Hello, body_of
from appbackplane.transport.security import links
from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.security.ring import Holder
from tests.figures import LONG, judge
from tests.transport.security.house import REDIAL_MS
from tests.waiting import LIMIT_S, Limit, wait_until

from .conftest import Nodes
from .urgent import ping

FRAMES, FRAMES_LONG = 15_000, 100_000
#: Connections that say nothing.
SILENT, SILENT_LONG = 500, 2_000
#: What a good peer's p99 may become, and calls by which it is measured.
P99_TIMES_MAX, CALLS = 2.0, 150
#: Less is no figure on a machine that others use.
P99_S_MIN = 0.02
#: What a node may take up while it hears nonsense, bytes.
GROWTH_MAX = 64 << 20
#: For a door that is slow to take more: a hang.
SEND_MS = round(1e3 * LIMIT_S)
ROUTES = (
    None, "calc.add", "calc.secret", "b/calc.add", "peers.say", "peers.broken", "backplane.main.stop", "supervisor.down",
)  # fmt: skip


@contextmanager
def intruder(both: Nodes) -> Iterator[zmq.Socket[bytes]]:
    """A DEALER at the door of `b`, under a key that is trusted there. Without heartbeats: where a machine is so busy that
    they come late, ZeroMQ would cut the connection, and nobody here makes another. It dials until it is let in: a handshake
    that takes a second fails.
    """
    house, own = Keyring(both.folder / "keys-b"), Keyring(both.folder / "keys-intruder")
    key = own.make_own(is_replacing=True)
    house.change(lambda ring: ring.trusting(Holder("intruder", key)))
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        limit, dealer = Limit(), dialled(context, both, own, house)
        while not dealer.poll(REDIAL_MS, zmq.POLLOUT):
            limit.check("it was not let in")
            dealer.close(linger=0)
            dealer = dialled(context, both, own, house)
        yield dealer
    finally:
        context.destroy(linger=0)
        house.change(lambda ring: ring.revoking("intruder"))


def dialled(context: zmq.Context[zmq.Socket[bytes]], both: Nodes, own: Keyring, house: Keyring) -> zmq.Socket[bytes]:
    """A connection that is being made."""
    dealer = context.socket(zmq.DEALER)
    links.client(dealer, own, house.own().public, links.LinkLimits(heartbeat_ms=0, silence_ms=0))
    links.connect(dealer, both.address("b"))
    return dealer


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
        frame = bytes(msgpack.packb([row] * chance.randrange(1, 4)))
        if chance.random() < 0.3:  # in parts, or what looks like it
            frame = bytes((0xC1, chance.randrange(9))) + chance.randbytes(chance.choice((0, 3, 8, 16))) + frame
        return frame

    def _said(self) -> bytes:
        body = dict(self._hello)
        for _ in range(self._random.randrange(3)):
            body[self._random.choice(list(body))] = self._value()
        if self._random.random() < 0.5:
            body["kind"] = self._random.choice(list(KINDS))
        kind = self._random.randint(CALL, BOOST)
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


@pytest.mark.parametrize("frames", [FRAMES, pytest.param(FRAMES_LONG, marks=LONG)])
def test_nonsense_of_a_trusted_peer_ends_nothing(both: Nodes, client: Client, frames: int) -> None:
    """Counted, or refused, frame by frame: the node lives, its memory is bounded, and who asks properly is answered."""
    node = psutil.Process(both.systems["b"].pids()["node"])
    before = node.memory_info().rss
    is_over = threading.Event()
    sent = answered = 0

    def send(socket: zmq.Socket[bytes]) -> None:
        nonlocal sent
        nonsense = Nonsense(7, both.address("b"))
        while sent < frames or answered < 10:
            with suppress(InvalidArgument):
                socket.send(nonsense.frame())
                sent += 1
        is_over.set()

    with intruder(both) as socket:
        socket.sndtimeo = SEND_MS
        sender = threading.Thread(target=send, args=(socket,), daemon=True)
        sender.start()
        while not is_over.is_set():
            assert client.call("b/calc.add", x=answered, y=1) == answered + 1
            answered += 1
            assert sender.is_alive() or is_over.is_set(), "the door takes nothing more"
        sender.join()
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
        socket.sndtimeo = SEND_MS
        for _ in range(2):  # before and after the node has met it
            for body in (nonsense._hello, *said):
                socket.send(codec.batch([pack(Envelope(CAST, 0, 0, "peers.say", body=body))]))
            call = Envelope(CALL, 7, None, "calc.add", deadline=2**63 - 1, body={"x": 1, "y": 1})
            socket.send(codec.batch([pack(call)]))
            assert client.call("b/calc.add", x=1, y=1) == 2


def assert_served(client: Client, before_s: float) -> None:
    """A good peer's calls are answered, each; `scripts/long` judges whether as quickly as before."""
    judge("p99 of a good peer's calls", ping(client, CALLS).p99, max(P99_TIMES_MAX * before_s, P99_S_MIN))


@pytest.mark.parametrize("count", [SILENT, pytest.param(SILENT_LONG, marks=LONG)])
def test_connections_that_say_nothing_keep_nobody_waiting(both: Nodes, client: Client, count: int) -> None:
    """As fast as they can be made, once; then they are gone, and nothing of them is left."""
    node = psutil.Process(both.systems["b"].pids()["node"])
    fds, before = node.num_fds(), node.memory_info().rss
    before_s = ping(client, CALLS).p99
    host, _, port = both.address("b").removeprefix("tcp://").rpartition(":")
    with ExitStack() as stack:
        for _ in range(count):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex((host, int(port)))
        assert_served(client, before_s)
    wait_until(lambda: node.num_fds() <= fds + 10, lambda: (fds, node.num_fds()))
    assert_served(client, before_s)
    assert node.memory_info().rss - before < GROWTH_MAX


@pytest.mark.parametrize("size", [100_000, pytest.param(4_000_000, marks=LONG)])
def test_who_asks_for_much_and_reads_nothing_keeps_nobody_waiting(both: Nodes, client: Client, size: int) -> None:
    """What is kept for him is bounded: what is on its way, and his outbox; beyond it his calls end."""
    node = psutil.Process(both.systems["b"].pids()["node"])
    before, before_s = node.memory_info().rss, ping(client, CALLS).p99
    pack = codec.Encoder().encode
    own = Keyring(both.folder / "keys-intruder")
    with intruder(both):  # its keys
        house = Keyring(both.folder / "keys-b").own().public
        own.change(lambda ring: ring.trusting(Holder("b", house)))
        deaf = Lines(own, "tcp://127.0.0.1:0")
        try:
            turn_until(deaf, PeerConnected, lambda: deaf.dial(both.address("b"), str(house)))
            hello = Nonsense(3, both.address("b"))._hello | {"address": deaf.address}
            deaf.say(both.address("b"), pack(Envelope(CAST, 0, 0, "peers.say", body=hello)))
            turn_until(deaf, Came)  # it has dialled back, and is heard no more from here on
            for number in range(1, 401):
                call = Envelope(CALL, number, None, "store.give", deadline=60 * 10**9, body={"size": size})
                deaf.say(both.address("b"), pack(call))
            deaf.flush()
            assert_served(client, before_s)
            assert node.memory_info().rss - before < GROWTH_MAX + PEER_BYTES_MAX
        finally:
            deaf.close()
    assert_served(client, before_s)


def turn_until(lines: Lines, kind: type[PeerConnected] | type[Came], dial: Callable[[], object] = lambda: None) -> None:
    """Until this has happened. `dial`: done at first, and again after each loss."""
    limit, events = Limit(), list[object]()
    dial()
    while not any(isinstance(event, kind) for event in events):
        if any(isinstance(event, Lost) for event in events):
            dial()
        lines.flush()
        limit.check(kind)
        events = [*lines.turn(time.monotonic_ns())]
