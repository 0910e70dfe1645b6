"""RemoteLink and Visitors: both ends of a client's connection, on loopback, in one thread that takes turns for both."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appbackplane.transport import codec
from appbackplane.transport.batching import PEER_BYTES_MAX, SendResult
from appbackplane.transport.codec import FRAME_BYTES_MAX
from appbackplane.transport.envelope import CAST, Envelope
from appbackplane.transport.errors import FailedPrecondition, PeerDown, Unavailable
from appbackplane.transport.peers.lines import Came, Lines
from appbackplane.transport.remote import remote_link
from appbackplane.transport.remote.greeting import (
    CLOCK,
    HELLO,
    SILENCE_MS,
    ClientHello,
    ClientRefused,
    Welcome,
    answer,
    heard,
    said,
)
from appbackplane.transport.remote.remote_link import ATTEMPT_NS, BACKOFF_MAX_NS, RemoteLink
from appbackplane.transport.remote.target import Target
from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.security.links import LinkLimits
from appbackplane.transport.security.ring import Holder
from appbackplane.transport.security.roll import held
from tests.descriptors import none_left
from tests.figures import Stopwatch, judge
from tests.waiting import LIMIT_S, Limit, Span

ANY = Path()
#: Where in `struct tcp_info` (Linux) the count of segments with data that have come is.
DATA_SEGMENTS_IN = 152


class Door:
    """A node, as far as its door goes: it welcomes whoever greets, and keeps what else comes."""

    def __init__(self, folder: Path) -> None:
        self.keyring = Keyring(folder)
        self.key = self.keyring.make_own()
        self.lines = Lines(self.keyring, "tcp://127.0.0.1:0", lambda _: None)
        self.answer: Callable[[ClientHello], Welcome | ClientRefused | None] = answer
        self.clients: list[str] = []
        self.gone: list[str] = []
        self.heard: list[Envelope] = []
        self.is_closed = False

    def close(self) -> None:
        """Once is enough."""
        if not self.is_closed:
            self.is_closed = True
            self.lines.close()

    def turn(self) -> None:
        for event in self.lines.turn(time.monotonic_ns()):
            assert isinstance(event, Came)
            for envelope in codec.decode(event.frame):
                word = heard(envelope)
                self.heard.append(envelope)
                if isinstance(word, ClientHello):
                    self.clients.append(event.client)
                    told = self.answer(word)
                    if told is not None:
                        self.say(said(told))
        self.gone += self.lines.visitors.gone()
        self.lines.flush()

    def say(self, envelope: Envelope) -> bool:
        """To the client that came last."""
        return self.lines.visitors.say(self.clients[-1], codec.Encoder().encode(envelope))

    def numbers(self) -> list[int]:
        """What came, beside greetings."""
        return [envelope.body["n"] for envelope in self.heard if envelope.route == "any"]


class Caller:
    """A client's end."""

    def __init__(self, folder: Path, door: Door) -> None:
        self.keyring = Keyring(folder)
        own = self.keyring.make_own()
        self.keyring.change(lambda ring: ring.trusting(Holder("b", door.key)))
        door.keyring.change(lambda ring: ring.trusting(Holder("k", own)))
        self.at = door.lines.address
        #: Added to the clock.
        self.passed_ns = 0
        self.make()

    def make(self) -> None:
        """A link, to where it is now."""
        self.link = RemoteLink(Target("b", self.at), self.keyring, self.now_ns, lambda: 1.0)
        self.peer = b""
        self.lifeline_fd = -1
        self.heard: list[int] = []

    def now_ns(self) -> int:
        return time.monotonic_ns() + self.passed_ns

    def dial(self) -> None:
        if self.peer:
            self.link.disconnect(self.peer)
        if self.lifeline_fd >= 0:
            os.close(self.lifeline_fd)
        self.lifeline_fd = self.link.open()
        self.peer = self.link.connect(ANY)

    def turn(self) -> None:
        while (received := self.link.receive()) is not None:
            assert received[0] == self.peer
            self.heard += [envelope.body["n"] for envelope in codec.decode(received[1])]

    def say(self, number: int, size: int = 0) -> SendResult:
        return self.link.send(self.peer, codec.batch([codec.Encoder().encode(numbered(number, size))]))

    @property
    def is_over(self) -> bool:
        """Whether its owner has been told."""
        return bool(select.select([self.lifeline_fd], [], [], 0)[0])


def numbered(number: int, size: int = 0) -> Envelope:
    return Envelope(CAST, 0, 0, "any", body={"n": number, "ballast": bytes(size)})


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    made = Door(tmp_path / "door")
    yield made
    made.close()


@pytest.fixture
def caller(tmp_path: Path, door: Door) -> Iterator[Caller]:
    made = Caller(tmp_path / "caller", door)
    yield made
    made.link.close(linger_ms=0)
    if made.lifeline_fd >= 0:
        os.close(made.lifeline_fd)


@pytest.fixture
def connected(door: Door, caller: Caller) -> Caller:
    """One that was greeted."""
    caller.dial()

    def is_sent() -> bool:
        if caller.is_over:  # a handshake of a second, on a busy machine
            caller.dial()
        return caller.say(0) is SendResult.SENT

    until(is_sent, door, caller)
    until(lambda: door.numbers() == [0], door, caller)
    return caller


def until(is_so: Callable[[], object], *ends: Door | Caller) -> None:
    limit = Limit()
    while not is_so():
        limit.check([vars(end) for end in ends])
        for end in ends:
            end.turn()


def test_what_is_said_is_heard_on_both_ends(door: Door, connected: Caller) -> None:
    """In order, after a greeting; what is said before that waits with whoever says it."""
    assert [envelope.route for envelope in door.heard] == [HELLO, "any"]
    for number in range(1, 4):
        assert connected.say(number) is SendResult.SENT
        assert door.say(numbered(number))
    until(lambda: door.numbers() == [0, 1, 2, 3] and connected.heard == [1, 2, 3], door, connected)
    assert not connected.is_over


@pytest.mark.parametrize("act", ["send", "receive"])
def test_a_connection_at_which_a_signal_strikes_is_over(
    door: Door, connected: Caller, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the frame has left, or was lost, nobody knows; sent twice, it would be executed twice."""
    assert door.say(numbered(1))
    socket = connected.link._line.socket
    assert socket is not None
    until(lambda: bool(socket.poll(0)), door)
    name = "send" if act == "send" else "recv"
    method = getattr(type(socket), name)

    def struck(*arguments: Any, **keywords: Any) -> None:
        method(*arguments, **keywords)
        raise KeyboardInterrupt

    monkeypatch.setattr(type(socket), name, struck)
    with pytest.raises(KeyboardInterrupt):
        connected.say(2) if act == "send" else connected.link.receive()
    monkeypatch.undo()
    assert connected.say(3) is SendResult.FULL
    assert connected.is_over and isinstance(connected.link.trouble, PeerDown)
    assert "an exception from a signal handler interrupted" in connected.link.trouble.message
    until(lambda: door.gone, door)
    assert 3 not in door.numbers()


def test_nothing_is_sent_before_the_greeting_is_answered(door: Door, caller: Caller) -> None:
    """Another version might take it for something else."""
    door.answer = lambda _: None
    caller.dial()
    until(lambda: door.clients, door, caller)
    assert caller.say(1) is SendResult.FULL
    caller.passed_ns += ATTEMPT_NS
    until(lambda: caller.is_over, door, caller)
    assert str(caller.link.trouble) == f"node 'b' at {caller.at}: connected, but nobody answers within 2 s"
    assert isinstance(caller.link.trouble, Unavailable)
    assert door.numbers() == []


def test_who_is_one_too_many_is_told_what_it_may_be(door: Door, caller: Caller) -> None:
    """A node hangs up without a word on a key that has all connections that it can."""
    door.answer = lambda _: None
    caller.dial()
    until(lambda: door.clients, door, caller)
    door.lines.visitors.hang_up(door.clients[-1].encode())
    until(lambda: caller.is_over, door, caller)
    assert "it hung up at the greeting: this key may have as many connections" in str(caller.link.trouble)


def test_a_version_that_is_not_understood_is_told_by_both(
    door: Door, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node says why; the client's owner reads it."""
    monkeypatch.setattr(remote_link, "hello", lambda node, clock_ns: ClientHello(0, 0, node, clock_ns))
    caller.dial()
    until(lambda: caller.is_over, door, caller)
    assert isinstance(caller.link.trouble, FailedPrecondition)
    assert "it refuses this client: it speaks protocol 1" in caller.link.trouble.message
    assert "bring the client up to date" in caller.link.trouble.message


def test_each_way_not_to_be_connected_says_why(door: Door, caller: Caller, tmp_path: Path) -> None:
    """And which of them waiting mends."""
    door.keyring.change(lambda ring: ring.revoking("k"))
    caller.dial()
    until(lambda: caller.is_over, door, caller)
    assert isinstance(caller.link.trouble, FailedPrecondition)
    key = caller.keyring.own().public
    assert caller.link.trouble.message.endswith(
        f"it does not trust this host's key (there: appbackplane keys trust NAME {key})"
    )
    caller.keyring.change(lambda ring: ring.revoking("b"))
    caller.passed_ns += BACKOFF_MAX_NS
    caller.dial()
    until(lambda: caller.is_over, door, caller)
    assert isinstance(caller.link.trouble, FailedPrecondition)
    assert "no trusted key is named 'b'" in caller.link.trouble.message
    other = Keyring(tmp_path / "other").make_own()
    caller.keyring.change(lambda ring: ring.trusting(Holder("b", other)))
    caller.passed_ns += BACKOFF_MAX_NS
    caller.dial()
    until(lambda: caller.is_over, door, caller)
    assert "it may have another key by now" in caller.link.trouble.message
    caller.link.close()
    with socket.create_server(("127.0.0.1", 0)) as mute:  # accepts, and says nothing
        caller.at = f"tcp://127.0.0.1:{mute.getsockname()[1]}"
        caller.make()
        caller.dial()
        caller.passed_ns += ATTEMPT_NS
        until(lambda: caller.is_over, caller)
        assert caller.link.trouble.message.endswith("no connection within 2 s")
        caller.link.close()
    caller.make()
    caller.dial()
    until(lambda: caller.is_over, caller)
    assert isinstance(caller.link.trouble, Unavailable)
    assert caller.link.trouble.message.endswith("nobody listens there")


def test_a_dial_without_descriptors_may_be_repeated(door: Door, connected: Caller) -> None:
    """The program that has opened too many files may close some."""
    connected.passed_ns += BACKOFF_MAX_NS
    connected.link.disconnect(connected.peer)
    with none_left():
        connected.peer = connected.link.connect(ANY)
    assert connected.is_over and isinstance(connected.link.trouble, Unavailable)
    assert "no file descriptor is left" in str(connected.link.trouble) and "ulimit -n" in str(connected.link.trouble)
    connected.passed_ns += BACKOFF_MAX_NS
    connected.dial()
    until(lambda: connected.say(1) is SendResult.SENT, door, connected)


def test_who_dials_again_waits_for_longer_each_time(door: Door, caller: Caller) -> None:
    """What is nowhere is not looked for all the time."""
    door.close()
    waits = []
    for _ in range(9):
        caller.dial()
        until(lambda: caller.is_over, caller)
        assert caller.link.trouble.retry_after is not None
        waits.append(caller.link.trouble.retry_after)
        caller.dial()
        caller.turn()
        assert not caller.is_over, "it has not been dialled yet"
        caller.link.disconnect(caller.peer)
        caller.peer = b""
        caller.passed_ns += int(waits[-1] * 1e9) + 1
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]


def test_who_was_connected_begins_with_the_shortest_wait(door: Door, caller: Caller) -> None:
    """However long it took before."""
    for _ in range(6):
        door.answer = lambda _: None
        door.clients.clear()
        caller.dial()
        until(lambda: door.clients, door, caller)
        caller.passed_ns += ATTEMPT_NS
        until(lambda: caller.is_over, door, caller)
    assert caller.link.trouble.retry_after == 1.6
    door.answer = answer
    caller.passed_ns += BACKOFF_MAX_NS
    caller.dial()
    until(lambda: caller.say(0) is SendResult.SENT, door, caller)
    door.close()
    until(lambda: caller.is_over, caller)
    caller.dial()
    until(lambda: caller.is_over, caller)
    assert caller.link.trouble.retry_after == 0.1, "the second"


def test_a_connection_that_ends_is_told(door: Door, connected: Caller) -> None:
    """Once, and with why; what is said then waits with whoever says it, for another one."""
    assert door.say(numbered(7))
    until(lambda: connected.heard == [7], door, connected)
    door.close()
    until(lambda: connected.is_over, connected)
    assert isinstance(connected.link.trouble, PeerDown)
    assert "whether the work ran is not known" in connected.link.trouble.message
    assert connected.say(1) is SendResult.FULL


def test_a_node_that_sends_several_frames_in_one_message_is_hung_up_on(door: Door, connected: Caller) -> None:
    """A message of a million frames takes seconds to receive, in which no deadline of the client's calls would be kept."""
    door.lines.visitors._door.send_multipart([door.clients[-1].encode(), b"", b""])
    until(lambda: connected.is_over, door, connected)
    assert "several frames" in connected.link.trouble.message
    assert isinstance(connected.link.trouble, PeerDown)


def test_the_clock_is_told_now_and_then(door: Door, connected: Caller) -> None:
    """Before what is said by it: not with every frame."""
    connected.say(1)
    connected.passed_ns += remote_link.CLOCK_EVERY_NS
    with Span() as span:
        connected.say(2)
    connected.say(3)
    until(lambda: door.numbers() == [0, 1, 2, 3], door, connected)
    assert [envelope.route for envelope in door.heard] == [HELLO, "any", "any", CLOCK, "any", "any"]
    clock = next(envelope for envelope in door.heard if envelope.route == CLOCK)
    assert clock.body["clock_ns"] - connected.passed_ns in span


def test_a_client_that_has_gone_is_told_of_once(door: Door, connected: Caller) -> None:
    """And cannot be written to any more."""
    (client,) = door.clients
    assert len(door.lines.visitors) == 1
    connected.link.disconnect(connected.peer)
    until(lambda: door.gone, door)
    assert door.gone == [client]
    assert not door.say(numbered(1))
    assert len(door.lines.visitors) == 0


STOPPED = """
import os, select, signal, sys, time
from pathlib import Path
from appbackplane.transport.batching import SendResult
from appbackplane.transport.codec import Encoder, batch
from appbackplane.transport.envelope import CAST, Envelope
from appbackplane.transport.remote.remote_link import RemoteLink
from appbackplane.transport.remote.target import Target
from appbackplane.transport.security.keyring import Keyring

link = RemoteLink(Target("b", sys.argv[1]), Keyring(Path(sys.argv[2])), time.monotonic_ns, lambda: 0.5)
fd, peer = link.open(), link.connect(Path())
frame = batch([Encoder().encode(Envelope(CAST, 0, 0, "any", body={"n": 1}))])
while link.send(peer, frame) is not SendResult.SENT:
    if select.select([fd], [], [], 0)[0]:  # a handshake of a second, on a busy machine
        link.disconnect(peer)
        os.close(fd)
        fd, peer = link.open(), link.connect(Path())
sys.stdin.readline()
for _ in range(100):
    link.send(peer, frame)
signal.pause()
"""


def segments(door: Door) -> int:
    """How many segments with data have come from the one client of a door."""
    ((_, visitor),) = door.lines.visitors._visitors.items()
    with held(visitor.fd) as connection:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, DATA_SEGMENTS_IN + 4)
    return int.from_bytes(info[DATA_SEGMENTS_IN:], sys.byteorder)


@pytest.mark.systems
def test_a_client_that_says_nothing_any_more_has_gone(door: Door, caller: Caller) -> None:
    """Its connection stands, as when its host is cut off; and one that says nothing for itself has not gone."""
    words = [sys.executable, "-c", STOPPED, caller.at, str(caller.keyring.folder.path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as program:
        try:
            until(lambda: door.numbers() == [1], door)
            heard = segments(door)
            until(lambda: segments(door) > heard + SILENCE_MS // LinkLimits().heartbeat_ms, door)
            assert not door.gone, "heartbeats came"
            assert program.stdin is not None
            program.stdin.write(b"\n")
            program.stdin.flush()
            until(lambda: len(door.numbers()) == 101, door)
            program.send_signal(signal.SIGSTOP)  # what it says last is no heartbeat
            watch = Stopwatch()
            until(lambda: door.gone, door)
            judge("from a client's last word until it has gone", watch.taken_s, 5.0)
            assert not door.say(numbered(1))
        finally:
            program.kill()


def test_a_client_that_does_not_take_its_answers_is_hung_up_on(door: Door, connected: Caller) -> None:
    """Memory is bounded: an answer that was dropped instead would be waited for."""
    (client,) = door.clients
    count = 0
    while door.say(numbered(count, FRAME_BYTES_MAX // 4)):  # and never flushed: nobody takes it
        count += 1
        assert count < 100
    assert (count + 1) * (FRAME_BYTES_MAX // 4 + 100) >= PEER_BYTES_MAX
    assert not door.say(numbered(0)), "nor anything small"
    until(lambda: client in door.gone and connected.is_over, door, connected)


def test_a_descriptor_that_is_another_connection_by_now_is_not_taken_for_the_client(
    door: Door, connected: Caller
) -> None:
    """Numbers of descriptors are used again at once."""
    (client,) = door.clients
    known = door.lines.visitors._visitors[client.encode()]
    known.ends = (known.ends[0], ("127.0.0.1", 1))
    assert door.lines.visitors.gone() == [client]
    for _ in range(100):
        connected.turn()
        door.turn()
    assert not connected.is_over, "and what is not its connection is not ended"


def test_one_id_under_two_keys_is_nobody(door: Door, connected: Caller) -> None:
    """A routing id is what its owner likes; whose it is the key says."""
    (client,) = door.clients
    visitors = door.lines.visitors
    known = visitors._visitors[client.encode()]
    stranger = Holder("other", Keyring(door.keyring.folder.path.parent / "other").make_own())
    assert not visitors.came(client.encode(), stranger, None)  # type: ignore[arg-type]
    assert visitors.gone() == [client]
    assert known.holder.name == "k"
    assert visitors.holder(client) is None


LEFT_BEHIND = """
import gc, sys
from pathlib import Path
from appbackplane.transport.remote.remote_link import RemoteLink
from appbackplane.transport.remote.target import Target
from appbackplane.transport.security.keyring import Keyring

class Holder:
    def __init__(self):
        self.link = RemoteLink(Target("b", "tcp://127.0.0.1:9"), Keyring(Path(sys.argv[1])), lambda: 1, lambda: 0.5)
        self.link.connect(Path())
        self.itself = self  # only the collector can free it, as with a client

Holder()
gc.collect()
print("collected")
kept = Holder()
"""


@pytest.mark.systems
def test_a_link_that_is_collected_does_not_stop_the_program(caller: Caller) -> None:
    """As of a link on one host."""
    words = [sys.executable, "-c", LEFT_BEHIND, str(caller.keyring.folder.path)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (ended.returncode, ended.stdout) == (0, "collected\n"), ended.stderr
