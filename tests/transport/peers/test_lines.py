"""Lines: real sockets on loopback, in one thread that takes turns for both ends."""

from __future__ import annotations

import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import zmq

from appbackplane.transport import codec
from appbackplane.transport.envelope import CAST, Envelope
from appbackplane.transport.errors import FailedPrecondition, InvalidArgument
from appbackplane.transport.peers.lines import DROPPED_MAX, Came, Lines, Lost, PeerConnected
from appbackplane.transport.security import links
from appbackplane.transport.security.gatekeeper import Gatekeeper
from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.security.keys import PublicKey
from appbackplane.transport.security.ring import Holder
from tests.descriptors import none_left
from tests.waiting import EVERY_S, LIMIT_S, Limit

LISTEN = "tcp://127.0.0.1:0"


@dataclass
class End:
    """One node's lines, and what has happened to them."""

    keyring: Keyring
    lines: Lines
    events: list[PeerConnected | Lost | Came] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    #: Of the events that `bodies` has looked at: frames are up to a megabyte, and there are many.
    numbers: list[int] = field(default_factory=list)
    looked_count: int = 0

    @property
    def key(self) -> str:
        return str(self.keyring.own().public)

    @property
    def address(self) -> str:
        return self.lines.address

    def bodies(self) -> list[int]:
        """What came, in order: the number in each envelope."""
        new, self.looked_count = self.events[self.looked_count :], len(self.events)
        frames = [event.frame for event in new if isinstance(event, Came)]
        self.numbers += [envelope.body["n"] for frame in frames for envelope in codec.decode(frame)]
        return [*self.numbers]

    def turn(self) -> None:
        self.events += self.lines.turn(time.monotonic_ns())


@pytest.fixture
def end(tmp_path: Path) -> Iterator[Callable[[str], End]]:
    made: list[End] = []

    def make(name: str) -> End:
        keyring = Keyring(tmp_path / name)
        keyring.make_own()
        log: list[str] = []
        made.append(End(keyring, Lines(keyring, LISTEN, log.append), log=log))
        return made[-1]

    yield make
    for each in made:
        each.lines.close()


def trust(one: End, other: End, name: str) -> None:
    one.keyring.change(lambda ring: ring.trusting(Holder(name, other.keyring.own().public)))


def until(is_so: Callable[[], object], *ends: End) -> None:
    """Turns for these, until it is so."""
    limit = Limit()
    while not is_so():
        limit.check([each.events for each in ends])
        for each in ends:
            each.lines.flush()
            each.turn()
        if not any(each.lines.has_more for each in ends):
            # ZeroMQ's threads need the processor that this one would spin on.
            select.select([each.lines for each in ends], [], [], EVERY_S)


def packed(number: int, size: int = 0) -> bytes:
    return codec.Encoder().encode(Envelope(CAST, 0, 0, "any", body={"n": number, "ballast": bytes(size)}))


@pytest.fixture
def pair(end: Callable[[str], End]) -> tuple[End, End]:
    """Two that trust each other; lines between them stand, both ways: what was taken in is told over one's own."""
    a, b = end("a"), end("b")
    trust(a, b, "b")
    trust(b, a, "a")
    a.lines.dial(b.address, b.key)
    b.lines.dial(a.address, a.key)

    def are_met() -> bool:
        for one, other in ((a, b), (b, a)):
            if any(isinstance(event, Lost) for event in one.events):  # a handshake of a second, on a busy machine
                one.events.clear()
                one.lines.dial(other.address, other.key)
        return PeerConnected(b.address) in a.events and PeerConnected(a.address) in b.events

    until(are_met, a, b)
    return a, b


def test_what_is_said_comes_under_the_key_of_who_says_it(pair: tuple[End, End]) -> None:
    a, b = pair
    for number in range(3):
        assert a.lines.say(b.address, packed(number))
    until(lambda: b.bodies() == [0, 1, 2], a, b)
    (came,) = (event for event in b.events if isinstance(event, Came))
    assert (came.holder.name, str(came.holder.key)) == ("a", a.key), "and all of it as one frame"


def test_nothing_can_be_said_before_the_line_stands(end: Callable[[str], End]) -> None:
    a, b = end("a"), end("b")
    trust(b, a, "a")
    a.lines.dial(b.address, b.key)
    assert not a.lines.say(b.address, packed(1))
    assert not a.lines.say("tcp://127.0.0.1:1", packed(1))
    until(lambda: PeerConnected(b.address) in a.events, a, b)
    assert a.lines.say(b.address, packed(2))


def test_each_way_not_to_be_connected_says_why(end: Callable[[str], End]) -> None:
    a, b = end("a"), end("b")
    trust(a, b, "b")
    a.lines.dial("tcp://127.0.0.1:9", b.key)
    a.lines.dial("tcp://somewhere:7000", b.key)
    a.lines.dial(b.address, b.key)  # which does not know a
    until(lambda: len([event for event in a.events if isinstance(event, Lost)]) >= 3, a, b)
    why = {event.address: event.because for event in a.events if isinstance(event, Lost)}
    assert why["tcp://127.0.0.1:9"] == "nobody listens there"
    assert "expected tcp:// and a numeric host" in why["tcp://somewhere:7000"]
    assert "trust this node's key" in why[b.address]
    until(lambda: b.log, a, b)
    assert "127.0.0.1" in b.log[0]
    a.keyring.change(lambda ring: ring.revoking("b"))
    a.events.clear()
    a.lines.dial(b.address, b.key)
    until(lambda: a.events, a, b)
    assert isinstance(a.events[0], Lost) and "revoked here" in a.events[0].because


def test_a_dial_without_descriptors_fails_and_is_repeated(pair: tuple[End, End]) -> None:
    """It is no bug of the runtime, which would end the node; and a line for bulk is dialled while its peer is served."""
    a, b = pair
    a.events.clear()
    with none_left():
        a.lines.say(b.address, packed(1), is_bulk=True)
        a.lines.flush()
        a.lines.dial(b.address, b.key)
        a.turn()
    (*_, lost) = [event for event in a.events if isinstance(event, Lost)]
    assert "Too many open files (raise the limit: ulimit -Hn, or LimitNOFILE)" in lost.because
    a.lines.dial(b.address, b.key)
    until(lambda: PeerConnected(b.address) in a.events, a, b)


def test_an_end_is_told_once_and_a_hang_up_not_at_all(pair: tuple[End, End], end: Callable[[str], End]) -> None:
    a, b = pair
    a.lines.hang_up(b.address)
    a.lines.dial(b.address, b.key)
    until(lambda: a.events.count(PeerConnected(b.address)) == 2, a, b)
    assert not [event for event in a.events if isinstance(event, Lost)]
    c = end("c")
    trust(c, a, "a")
    a.lines.dial(c.address, c.key)
    until(lambda: PeerConnected(c.address) in a.events, a, c)
    b.keyring.change(lambda ring: ring.revoking("a"))
    a.lines.say(b.address, packed(1))
    until(lambda: [event for event in a.events if isinstance(event, Lost)], a, b, c)
    until(lambda: a.lines.say(c.address, packed(7)) and 7 in c.bodies(), a, b, c)
    assert [event.address for event in a.events if isinstance(event, Lost)] == [b.address]
    assert not b.bodies(), "nothing is heard of a key that is revoked"
    assert not a.lines.say(b.address, packed(1))


def test_bulk_that_is_on_its_way_is_overtaken(pair: tuple[End, End]) -> None:
    """What the peer has not read yet is beside what is urgent, not before it."""
    a, b = pair
    count = 0
    while a.lines.say(b.address, packed(count, 1 << 20), is_bulk=True) and count < 8:
        count += 1
        a.lines.flush()
    assert a.lines.say(b.address, packed(-1))
    a.lines.flush()
    until(lambda: -1 in b.bodies() and len(b.bodies()) > count, a, b)
    bodies = b.bodies()
    assert bodies.index(-1) < count // 2, bodies
    bodies.remove(-1)
    assert bodies == sorted(bodies), "and bulk in its order"


def test_a_peer_that_never_reads_is_bounded(pair: tuple[End, End]) -> None:
    """At the bound of its outbox `say` says no, and nothing more is kept."""
    a, b = pair
    said = 0
    while a.lines.say(b.address, packed(said, 1 << 20), is_bulk=True):
        said += 1
        a.lines.flush()
        assert said < 400
    assert not a.lines.flush(), "it waits for what it is told, not for a time"
    assert a.lines.say(b.address, packed(-1)), "for bulk alone"
    until(lambda: len(b.bodies()) == said + 1, a, b)
    assert not a.lines.flush()


def test_what_nodes_say_of_themselves_goes_between_the_parts(pair: tuple[End, End]) -> None:
    """A large frame that is urgent would else keep heartbeats waiting, until its sender is taken for dead."""
    a, b = pair
    for number in range(3):
        assert a.lines.say(b.address, packed(number, 4 << 20))
    a.lines.flush()
    assert a.lines.say(b.address, packed(-1), is_control=True)
    until(lambda: len(b.bodies()) == 4, a, b)
    assert b.bodies() == [-1, 0, 1, 2]


def test_what_was_taken_in_is_told_when_it_can_be(end: Callable[[str], End]) -> None:
    """A line back that comes later, or comes again, goes on where the other had stopped."""
    a, b = end("a"), end("b")
    trust(a, b, "b")
    trust(b, a, "a")
    a.lines.dial(b.address, b.key)
    until(lambda: PeerConnected(b.address) in a.events, a, b)
    assert a.lines.say(b.address, packed(1, 1 << 20))
    for _ in range(50):
        a.lines.flush()
        a.turn()
        b.turn()
    assert not b.bodies(), "a window's worth of it is there"
    b.lines.dial(a.address, a.key)
    until(lambda: b.bodies() == [1], a, b)
    assert a.lines.say(b.address, packed(2, 1 << 20))
    a.lines.flush()
    b.lines.hang_up(a.address)
    b.lines.dial(a.address, a.key)
    until(lambda: b.bodies() == [1, 2], a, b)


def test_who_says_nothing_is_not_taken_for_a_stranger(pair: tuple[End, End]) -> None:
    """The doorstep hangs up on those of whom it is not known who they are; lines say so when they stand."""
    a, b = pair
    assert a.lines.say(b.address, packed(1))
    until(lambda: b.bodies() == [1], a, b)
    now_ns = time.monotonic_ns() + 11_000_000_000
    for shift_ns in range(0, 2_000_000_000, 200_000_000):
        b.events += b.lines.turn(now_ns + shift_ns)
        a.turn()
    assert not [event for event in a.events if isinstance(event, Lost)]


def test_what_cannot_be_listened_at_is_said_and_nothing_is_left(end: Callable[[str], End], tmp_path: Path) -> None:
    a = end("a")
    with pytest.raises(FailedPrecondition, match="cannot be listened at"):
        Lines(a.keyring, a.address)
    with pytest.raises(InvalidArgument, match="expected"):
        Lines(a.keyring, "tcp://nowhere")
    with pytest.raises(FailedPrecondition, match="appbackplane keys new"):
        Lines(Keyring(tmp_path / "none"), LISTEN)


#: A node that a peer has written more to than its door takes, and that does not come to read while the peer is killed.
STALLED = """
import os, signal, socket as sockets, sys, time
from pathlib import Path
import zmq
from appbackplane.transport import codec
from appbackplane.transport.envelope import CAST, Envelope
from appbackplane.transport.peers.lines import Lines
from appbackplane.transport.security import links
from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.security.keys import PublicKey

folder = Path(sys.argv[1])
to_peer, from_node = os.pipe()
from_peer, to_node = os.pipe()
peer = os.fork()
if not peer:
    address, key = os.read(to_peer, 200).decode().split()
    socket = zmq.Context().socket(zmq.DEALER)
    links.client(socket, Keyring(folder / "a"), PublicKey.parse(key))
    links.connect(socket, address)
    frame = codec.batch([codec.Encoder().encode(Envelope(CAST, 0, 0, "any", body={"ballast": bytes(1000)}))])
    for _ in range(600):
        socket.poll(1000, zmq.POLLOUT)
        socket.send(frame)
    os.write(to_node, b"full")
    signal.pause()
node = Lines(Keyring(folder / "b"), "tcp://127.0.0.1:0")
os.write(from_node, f"{node.address} {Keyring(folder / 'b').own().public}".encode())
while not node._roll._connections:
    next(node.turn(time.monotonic_ns()), None)
os.read(from_peer, 4)
os.kill(peer, signal.SIGKILL)
mute = sockets.create_server(("127.0.0.1", 0))  # says nothing: a second passes in ZeroMQ's thread until it gives up
witness = node._context.socket(zmq.DEALER)
witness.setsockopt(zmq.HANDSHAKE_IVL, 1_000)
events = witness.get_monitor_socket(zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
witness.connect("tcp://127.0.0.1:%d" % mute.getsockname()[1])
events.recv_multipart()
witness.disable_monitor()
witness.close(linger=0)
list(node.turn(time.monotonic_ns()))
print("goes on")
"""


@pytest.mark.systems
def test_a_node_that_is_late_outlives_a_peer_that_is_killed(tmp_path: Path) -> None:
    """ZeroMQ would end its process: with a heartbeat of its own to a connection that it does not read any more."""
    a, b = Keyring(tmp_path / "a"), Keyring(tmp_path / "b")
    keys = a.make_own(), b.make_own()
    a.change(lambda ring: ring.trusting(Holder("b", keys[1])))
    b.change(lambda ring: ring.trusting(Holder("a", keys[0])))
    ended = subprocess.run(
        [sys.executable, "-c", STALLED, str(tmp_path)], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "goes on\n"), ended.stderr


#: The bytes of a peer with heartbeats between its frames are kept, and arrive at once; then its connection is reset.
HEARTBEATS = """
import select, socket as sockets, struct, sys, time
from pathlib import Path
import zmq
from appbackplane.transport.peers.lines import Lines
from appbackplane.transport.security import links
from appbackplane.transport.security.keyring import Keyring

def a_second_passes():
    mute = sockets.create_server(("127.0.0.1", 0))  # says nothing: a second passes in ZeroMQ's thread until it gives up
    witness = node._context.socket(zmq.DEALER)
    witness.setsockopt(zmq.HANDSHAKE_IVL, 1_000)
    events = witness.get_monitor_socket(zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
    witness.connect("tcp://127.0.0.1:%d" % mute.getsockname()[1])
    events.recv_multipart()
    witness.disable_monitor()
    witness.close(linger=0)

folder = Path(sys.argv[1])
node = Lines(Keyring(folder / "b"), "tcp://127.0.0.1:0")
relay = sockets.create_server(("127.0.0.1", 0))
peer = zmq.Context().socket(zmq.DEALER)
limits = links.LinkLimits(heartbeat_ms=1, silence_ms=60_000, handshake_ms=60_000)
links.client(peer, Keyring(folder / "a"), Keyring(folder / "b").own().public, limits)
links.connect(peer, "tcp://127.0.0.1:%d" % relay.getsockname()[1])
near, _ = relay.accept()
far = sockets.create_connection(("127.0.0.1", int(node.address.rpartition(":")[2])))
while not node._roll._connections:
    for one, other in ((near, far), (far, near)):
        if select.select([one], [], [], 0.001)[0]:
            other.sendall(one.recv(65_536))
    list(node.turn(time.monotonic_ns()))
    if peer.poll(0, zmq.POLLOUT):
        peer.send(b"first")
held = b""
for _ in range(400):
    peer.send(bytes(60))
    held += near.recv(65_536)
far.sendall(held)
a_second_passes()
far.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, struct.pack("ii", 1, 0))
far.close()
a_second_passes()
for _ in range(100):
    list(node.turn(time.monotonic_ns()))
a_second_passes()
print("goes on")
"""


@pytest.mark.systems
def test_a_node_that_is_late_outlives_heartbeats_of_a_peer_that_is_reset(tmp_path: Path) -> None:
    """A socket that has stopped reading at its mark, and whose peer is gone, answers the heartbeats that it had received when
    it reads on. ZeroMQ aborts the process for that (`Assertion failed: !_io_error`): a client ended the node at will.
    """
    a, b = Keyring(tmp_path / "a"), Keyring(tmp_path / "b")
    keys = a.make_own(), b.make_own()
    a.change(lambda ring: ring.trusting(Holder("b", keys[1])))
    b.change(lambda ring: ring.trusting(Holder("a", keys[0])))
    ended = subprocess.run(
        [sys.executable, "-c", HEARTBEATS, str(tmp_path)], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "goes on\n"), ended.stderr


def test_who_says_something_on_a_line_that_was_dialled_is_hung_up_on(end: Callable[[str], End]) -> None:
    """Nobody reads there. At ZeroMQ's mark the line would have heard no heartbeats, and when the other was killed the next
    of its own aborted the process (`Assertion failed: !_io_error`): 1,000 words of a peer ended this node.
    """
    a, b = end("a"), end("b")
    trust(a, b, "b")
    trust(b, a, "a")
    context = zmq.Context()
    gatekeeper = Gatekeeper(context, b.keyring, b.log.append)
    door: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
    links.server(door, b.keyring)
    address = links.bind(door, LISTEN)

    def said() -> list[bytes] | None:
        gatekeeper.answer(time.monotonic_ns())
        return door.recv_multipart(zmq.NOBLOCK) if int(door.getsockopt(zmq.EVENTS)) & int(zmq.POLLIN) else None

    try:
        a.lines.dial(address, b.key)
        heard: list[list[bytes]] = []
        until(lambda: said() is None and PeerConnected(address) in a.events, a)
        assert a.lines.say(address, b"hello", is_control=True)
        until(lambda: heard.extend(filter(None, [said()])) or heard, a)
        door.send_multipart([heard[0][0], b"a word"])
        lost = Lost(address, "it sends on a connection that is one-way, from this node")
        until(lambda: said() is None and lost in a.events, a)
    finally:
        door.close(linger=0)
        gatekeeper.close()
        context.term()


def test_a_message_of_many_frames_stops_nobody(pair: tuple[End, End]) -> None:
    """Received at once, a message of a million empty frames stopped the thread that serves all peers for 19 s: they gave the
    node up. It is dropped a little at a time, and its connection is cut, as neither nodes nor clients send several frames.
    """
    a, b = pair
    context = zmq.Context()
    flood: zmq.Socket[bytes] = context.socket(zmq.DEALER)
    links.client(flood, b.keyring, PublicKey.parse(a.key))
    events: zmq.Socket[bytes] = flood.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
    busy: list[bool] = []

    def is_so(what: object) -> bool:
        busy.append(a.lines.has_more)
        return bool(what)

    try:
        links.connect(flood, a.address)
        until(lambda: events.poll(0), a)
        events.recv_multipart()
        flood.send_multipart([b""] * (10 * DROPPED_MAX))
        until(lambda: is_so(events.poll(0)), a)
        assert b.lines.say(a.address, packed(1))
        until(lambda: is_so(a.bodies() == [1]), a, b)
        assert sum(busy) >= 9, "at most so many in one turn, and other sockets between"
    finally:
        events.close(linger=0)
        flood.close(linger=0)
        context.term()
