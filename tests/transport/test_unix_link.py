"""Unix link: what strangers send, and what a signal cuts, harms nobody."""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from appbackplane.transport import unix_link
from appbackplane.transport.batching import SendResult
from appbackplane.transport.codec import FRAME_BYTES_MAX
from appbackplane.transport.errors import FrameLost, MalformedFrame
from appbackplane.transport.link import Link
from appbackplane.transport.local_links import connected, kind_at
from appbackplane.transport.unix_link import BURST, GREETING, IDENTITY_BYTES_MAX, PART_BYTES, SILENT_MAX, UnixLink
from tests.waiting import wait_until

HEAD = b"\x00\x00\x00\x00"


@pytest.fixture
def server(run_dir: Path) -> Iterator[UnixLink]:
    link = UnixLink("server-1")
    link.bind(run_dir / "server.sock")
    yield link
    link.close(0)


@pytest.fixture
def client() -> Iterator[UnixLink]:
    link = UnixLink("client-1")
    yield link
    link.close(0)


@pytest.fixture
def stranger(server: UnixLink, run_dir: Path) -> Iterator[socket.socket]:
    """A connection that has said nothing."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        stranger.connect(str(run_dir / "server.sock"))
        yield stranger


class Cut:
    """A method; its first call is done, and then interrupted."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method, self.is_cut = method, False

    def __call__(self, *arguments: Any) -> Any:
        done = self.method(*arguments)
        if not self.is_cut:
            self.is_cut = True
            raise KeyboardInterrupt
        return done


def is_closed(stranger: socket.socket) -> bool:
    """Whether the other end has closed the connection."""
    stranger.setblocking(False)
    try:
        return stranger.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def assert_serves(server: UnixLink, client: UnixLink, run_dir: Path) -> None:
    """The others are served all the while."""
    peer = client.connect(run_dir / "server.sock")
    assert client.send(peer, b"hello") is SendResult.SENT
    assert server.receive() == (client.known_as(peer), b"hello")
    assert server.send(client.known_as(peer), b"welcome") is SendResult.SENT
    assert client.receive() == (peer, b"welcome")


@pytest.mark.parametrize(
    "greeting",
    [
        b"x",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff" * 64,
        GREETING,
        GREETING + b"x" * (IDENTITY_BYTES_MAX + 1),
        GREETING + b"\x01own",
    ],
)
def test_who_does_not_greet_is_cut_off(
    greeting: bytes, server: UnixLink, client: UnixLink, stranger: socket.socket, run_dir: Path
) -> None:
    """A name that begins like those of our own connections could be taken for one of them."""
    stranger.send(greeting)
    assert server.receive() is None and is_closed(stranger)
    assert_serves(server, client, run_dir)


def test_who_bears_the_name_of_a_connection_that_lives_is_cut_off(
    server: UnixLink, client: UnixLink, stranger: socket.socket, run_dir: Path
) -> None:
    """Its replies would go to a stranger. Once the first has gone, the name is free."""
    peer = client.connect(run_dir / "server.sock")
    client.send(peer, b"hello")
    name = client.known_as(peer)
    assert server.receive() == (name, b"hello")
    stranger.send(GREETING + name)
    assert server.receive() is None and is_closed(stranger)
    assert server.send(name, b"for the first") is SendResult.SENT and client.receive() == (peer, b"for the first")
    client.disconnect(peer)
    assert server.receive() is None
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as next_one:
        next_one.connect(str(run_dir / "server.sock"))
        next_one.send(GREETING + name)
        next_one.send(HEAD + b"again")
        assert server.receive() == (name, b"again")


@pytest.mark.parametrize(
    "packet",
    [
        b"x",
        HEAD + b"x" * (PART_BYTES + 1),
        HEAD + b"x" * (PART_BYTES + 50_000),
        b"\x00\x00\x00\x80" + b"a short part",
    ],
)
def test_a_packet_of_another_shape_ends_its_connection(
    packet: bytes, server: UnixLink, client: UnixLink, stranger: socket.socket, run_dir: Path
) -> None:
    stranger.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    stranger.send(GREETING + b"stranger")
    stranger.send(packet)
    with pytest.raises(MalformedFrame, match="bytes from b'stranger'"):
        server.receive()
    assert server.receive() is None and is_closed(stranger)
    assert_serves(server, client, run_dir)


def test_those_who_say_nothing_are_bounded(server: UnixLink, client: UnixLink, run_dir: Path) -> None:
    """They hold descriptors; the oldest make room, and whoever greets is served."""
    peer = client.connect(run_dir / "server.sock")
    client.send(peer, b"hello")
    assert server.receive() is not None
    with ExitStack() as stack:
        silent = [
            stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) for _ in range(3 * SILENT_MAX)
        ]
        for each in silent:
            each.connect(str(run_dir / "server.sock"))
            assert server.receive() is None
        assert [is_closed(each) for each in silent] == [True] * 2 * SILENT_MAX + [False] * SILENT_MAX
    client.send(peer, b"still there")
    # So many have gone that one call does not come to the end of them.
    assert wait_until(server.receive) == (client.known_as(peer), b"still there")


def test_a_listener_without_descriptors_listens_again_when_there_are_some(
    server: UnixLink, client: UnixLink, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has freed them."""
    monkeypatch.setattr(unix_link, "descriptors_max", lambda: 10)
    peer = client.connect(run_dir / "server.sock")
    client.send(peer, b"hello")
    assert server.receive() is None and server.is_shut and not server.has_input()
    monkeypatch.undo()
    assert server.has_input() and server.receive() == (client.known_as(peer), b"hello")


def test_what_one_that_has_closed_has_sent_is_read_though_it_is_sent_more(
    server: UnixLink, client: UnixLink, run_dir: Path
) -> None:
    """The answers of a backplane that has ended, to a client that has just begun another call."""
    peer = client.connect(run_dir / "server.sock")
    client.send(peer, b"hello")
    found = server.receive()
    assert found is not None
    for number in range(3):
        server.send(found[0], b"%d" % number)
    server.close(0)
    assert client.send(peer, b"more") is SendResult.FULL
    assert [client.receive() for _ in range(4)] == [(peer, b"0"), (peer, b"1"), (peer, b"2"), None]
    assert client.send(peer, b"more") is SendResult.UNREACHABLE


@pytest.mark.parametrize("step", ["connect_ex", "send", "register"])
def test_a_signal_while_a_connection_is_made_leaves_one(
    step: str, server: UnixLink, client: UnixLink, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was begun is gone on with when the frame is offered again."""
    peer = client.connect(run_dir / "server.sock")

    class Socket(socket.socket):
        """One of its methods is cut."""

        connect_ex = Cut(socket.socket.connect_ex) if step == "connect_ex" else socket.socket.connect_ex
        send = Cut(socket.socket.send) if step == "send" else socket.socket.send

        def __getattribute__(self, name: str) -> Any:
            found = type(self).__dict__.get(name) if name == step else None
            return partial(found, self) if isinstance(found, Cut) else super().__getattribute__(name)

    if step == "register":
        monkeypatch.setattr(client, "_epoll", CutEpoll(client._epoll))
    else:
        monkeypatch.setattr(unix_link.socket, "socket", Socket)
    with pytest.raises(KeyboardInterrupt):
        client.send(peer, b"hello")
    monkeypatch.undo()
    assert client.send(peer, b"hello") is SendResult.SENT
    assert server.receive() == (client.known_as(peer), b"hello") and server.receive() is None
    assert server.send(client.known_as(peer), b"welcome") is SendResult.SENT
    assert client.receive() == (peer, b"welcome") and len(server._by_fd) == 1


class CutEpoll:
    """An epoll set; its first registration is done, and then interrupted."""

    def __init__(self, epoll: Any) -> None:
        self._epoll, self.register = epoll, Cut(epoll.register)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._epoll, name)


def test_a_frame_of_too_many_parts_ends_its_connection(server: UnixLink, stranger: socket.socket) -> None:
    """Or a stranger would fill the memory with one that never ends."""
    stranger.send(GREETING + b"stranger")
    count = FRAME_BYTES_MAX // PART_BYTES
    for number in range(count):
        stranger.send(number.to_bytes(3, "little") + (b"\xc0" if number else b"\x80") + b"x" * PART_BYTES)
        assert server.receive() is None
    stranger.send(count.to_bytes(3, "little") + b"\xc0" + b"x" * PART_BYTES)
    with pytest.raises(MalformedFrame, match="a frame of more than"):
        server.receive()
    assert is_closed(stranger)


def test_what_is_sent_twice_is_heard_once_and_what_is_missing_is_told(
    server: UnixLink, stranger: socket.socket
) -> None:
    """The number of a packet tells."""
    stranger.send(GREETING + b"stranger")
    for number in (0, 1, 1, 0, 3, 4):
        stranger.send(number.to_bytes(4, "little") + b"%d" % number)
    assert [server.receive() for _ in range(2)] == [(b"stranger", b"0"), (b"stranger", b"1")]
    with pytest.raises(FrameLost) as lost:
        server.receive()
    assert lost.value.sender == b"stranger"
    assert [server.receive() for _ in range(3)] == [(b"stranger", b"3"), (b"stranger", b"4"), None]


def test_the_rest_of_a_frame_that_has_lost_a_part_is_dropped(server: UnixLink, stranger: socket.socket) -> None:
    """It would be taken for a frame of its own."""
    stranger.send(GREETING + b"stranger")
    a, c, e = (letter * PART_BYTES for letter in (b"a", b"c", b"e"))
    packets = (0, 0x80, a), (2, 0xC0, c), (3, 0x40, b"d"), (4, 0x80, e), (5, 0x40, b"f"), (6, 0, b"g")
    received, lost_count = list[bytes](), 0
    for number, bits, word in packets:  # one by one, as a buffer takes three
        stranger.send(number.to_bytes(3, "little") + bytes([bits]) + word)
        try:
            while (found := server.receive()) is not None:
                received.append(found[1])
        except FrameLost:
            lost_count += 1
            assert server.receive() is None
    assert (received, lost_count) == ([e + b"f", b"g"], 1)


def test_descriptors_that_are_passed_are_not_received(server: UnixLink, stranger: socket.socket) -> None:
    """They would use up those of this process."""
    stranger.send(GREETING + b"stranger")
    server.receive()
    before = len(os.listdir("/proc/self/fd"))
    fds = array.array("i", [stranger.fileno()] * 100)
    for number in range(20):
        try:
            stranger.sendmsg([number.to_bytes(4, "little") + b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        except PermissionError:  # the kernel refuses it, from Linux 6.16 on
            return
        assert server.receive() == (b"stranger", b"x")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_flood_keeps_nobody_waiting(
    server: UnixLink, client: UnixLink, stranger: socket.socket, run_dir: Path
) -> None:
    """Peers take turns."""
    stranger.setblocking(False)
    stranger.send(GREETING + b"stranger")
    server.receive()
    peer = client.connect(run_dir / "server.sock")
    number = 0
    for _ in range(20):
        try:
            while True:
                stranger.send(number.to_bytes(4, "little") + b"x" * 500)
                number += 1
        except BlockingIOError:
            pass
        client.send(peer, b"hello")
        senders = [server.receive()[0] for _ in range(2 * BURST)]  # type: ignore[index]
        assert client.known_as(peer) in senders


@pytest.mark.parametrize("size", [5, 3 * PART_BYTES])
@pytest.mark.parametrize("is_offered_again", [True, False])
def test_a_frame_that_a_signal_cuts_leaves_once(
    server: UnixLink, client: UnixLink, run_dir: Path, size: int, is_offered_again: bool
) -> None:
    """Ctrl-C behind the system call, before anybody knows of its effect."""
    peer = client.connect(run_dir / "server.sock")
    client.send(peer, b"first")
    connection = client._by_peer[peer]
    connection.send = Cut(connection.send)
    frame = b"x" * size
    with pytest.raises(KeyboardInterrupt):
        client.send(peer, frame)
    if is_offered_again:
        assert client.send(peer, frame) is SendResult.SENT
    assert client.send(peer, b"last") is SendResult.SENT
    received = []
    while not received or received[-1] != b"last":
        client.receive()
        if (found := server.receive()) is not None:
            received.append(found[1])
    assert received == [b"first", frame, b"last"]


@pytest.mark.skipif(not str(unix_link.__file__).endswith(".py"), reason="no signal is heard in compiled code there")
def test_a_frame_that_a_signal_interrupts_while_it_is_taken_is_taken_next(
    server: UnixLink, client: UnixLink, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes are in the buffer, and it is known how many there are."""
    peer = client.connect(run_dir / "server.sock")
    for word in (b"first", b"second"):
        client.send(peer, word)
    monkeypatch.setattr(unix_link, "bytes", Cut(bytes), raising=False)
    received = []
    while len(received) < 2:
        try:
            received.append(server.receive())
        except KeyboardInterrupt:
            continue
    assert [each and each[1] for each in received] == [b"first", b"second"]


def test_the_kind_of_a_link_is_seen_from_outside(server: UnixLink, run_dir: Path) -> None:
    """By the type of its socket; a probe that says nothing leaves nothing behind."""
    other = Link("other")
    other.bind(run_dir / "other.sock")
    assert kind_at(run_dir / "server.sock") == "unix" and kind_at(run_dir / "other.sock") == "zeromq"
    assert kind_at(run_dir / "none.sock") == "zeromq"
    for name in ("server", "other"):
        with connected(run_dir / f"{name}.sock", lambda probe: None) as probe:
            assert probe.getpeername() == str(run_dir / f"{name}.sock")
    with pytest.raises(FileNotFoundError):
        connected(run_dir / "none.sock", lambda probe: None)
    assert server.receive() is None and not server._by_fd
    other.close(0)
