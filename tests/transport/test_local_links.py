"""What every link between the processes of one host does, whatever carries its frames."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appbackplane.transport.batching import SendResult
from appbackplane.transport.codec import FRAME_BYTES_MAX
from appbackplane.transport.link import HIGH_WATER_MARK, LARGE_BYTES_MAX, PATH_BYTES_MAX, Link
from appbackplane.transport.unix_link import UnixLink
from tests.waiting import Limit, wait_until

LIMIT_MS = 20_000
LocalLink = Link | UnixLink


@pytest.fixture(params=[Link, UnixLink], ids=["zeromq", "unix"])
def make(request: pytest.FixtureRequest) -> Iterator[Callable[[str], LocalLink]]:
    """Makes a link of one kind; all are closed at the end."""
    made: list[LocalLink] = []

    def make(name: str) -> LocalLink:
        made.append(request.param(name))
        return made[-1]

    yield make
    for each in made:
        each.close(0)


@pytest.fixture
def server(make: Callable[[str], LocalLink], run_dir: Path) -> LocalLink:
    """A link that listens."""
    link = make("server-1")
    link.bind(run_dir / "server.sock")
    return link


@pytest.fixture
def client(make: Callable[[str], LocalLink]) -> LocalLink:
    """A link that connects."""
    return make("client-1")


def receive(link: LocalLink) -> tuple[bytes, bytes]:
    """Wait for the next frame as its owners do: on the descriptor, after having looked."""
    poll = select.poll()
    poll.register(link.fileno(), select.POLLIN)
    while (received := link.receive()) is None:
        assert poll.poll(LIMIT_MS), "nothing came"
    return received


def read(link: LocalLink, sender: LocalLink) -> tuple[bytes, bytes]:
    """The next frame, while the sender's owner goes on, too."""
    limit = Limit()
    while (received := link.receive()) is None:
        assert sender.receive() is None
        limit.check("nothing came")
    return received


def descriptors() -> int:
    """How many this process has open."""
    return len(os.listdir("/proc/self/fd"))


def test_a_frame_arrives_and_is_answered(server: LocalLink, client: LocalLink, run_dir: Path) -> None:
    """The far end knows us by an identity, we know it by a name of our own."""
    peer = client.connect(run_dir / "server.sock")
    assert client.send(peer, b"hello") is SendResult.SENT
    caller, frame = receive(server)
    assert (caller, frame) == (client.known_as(peer), b"hello") and caller.startswith(b"client-1-")
    assert server.process() == os.getpid()
    assert server.send(caller, b"welcome") is SendResult.SENT
    assert receive(client) == (peer, b"welcome")
    assert client.receive() is None and server.receive() is None
    assert not client.has_input() and not server.has_input()


def test_a_token_makes_an_identity_that_the_peer_knows_before(make: Callable[[str], LocalLink], run_dir: Path) -> None:
    """By it the supervisor recognises a process that it has started."""
    server = make("server-1")
    server.bind(run_dir / "server.sock")
    own = type(server)("own", "secret")
    peer = own.connect(run_dir / "server.sock")
    own.send(peer, b"hello")
    assert receive(server)[0] == b"own-secret"
    own.close(0)


def test_frames_keep_their_order(server: LocalLink, client: LocalLink, run_dir: Path) -> None:
    """Large and small ones, more than the kernel takes at once."""
    peer = client.connect(run_dir / "server.sock")
    frames = [b"%d" % number * (30_000 if number % 50 == 0 else 1) for number in range(500)]
    received = []
    for frame in frames:
        while client.send(peer, frame) is not SendResult.SENT:
            received.append(read(server, client)[1])
    while len(received) < len(frames):
        received.append(read(server, client)[1])
    assert [bytes(each) for each in received] == frames


def test_a_frame_may_be_as_large_as_the_codec_makes_it(server: LocalLink, client: LocalLink, run_dir: Path) -> None:
    peer = client.connect(run_dir / "server.sock")
    client.send(peer, b"x" * FRAME_BYTES_MAX)
    assert len(read(server, client)[1]) == FRAME_BYTES_MAX


def test_a_stranger_is_unreachable(server: LocalLink) -> None:
    assert server.send(b"nobody", b"hello") is SendResult.UNREACHABLE


def test_a_peer_that_does_not_read_is_full_and_nothing_is_lost(
    server: LocalLink, client: LocalLink, run_dir: Path
) -> None:
    peer = client.connect(run_dir / "server.sock")
    count = 0
    while client.send(peer, b"%d" % count) is SendResult.SENT:
        count += 1
        assert count < 20 * HIGH_WATER_MARK
    assert client.send(peer, b"one more") is SendResult.FULL
    received = list[bytes]()
    while len(received) < count:
        received.append(read(server, client)[1])
    assert received == [b"%d" % number for number in range(count)]
    wait_until(lambda: client.receive() or client.send(peer, b"room again") is SendResult.SENT)
    assert receive(server)[1] == b"room again"


def test_large_frames_for_a_peer_that_does_not_read_are_bounded_by_their_bytes(
    server: LocalLink, client: LocalLink, run_dir: Path
) -> None:
    peer = client.connect(run_dir / "server.sock")
    frame = bytes(1 << 20)
    count = 0
    while client.send(peer, frame) is SendResult.SENT:
        count += 1
    # The kernel, and ZeroMQ at the other end, hold some as well.
    assert count >= LARGE_BYTES_MAX // len(frame)
    assert count <= 4 * LARGE_BYTES_MAX // len(frame)


def test_a_forgotten_peer_is_unreachable(server: LocalLink, client: LocalLink, run_dir: Path) -> None:
    peer = client.connect(run_dir / "server.sock")
    client.send(peer, b"first")
    client.disconnect(peer)
    client.disconnect(peer)
    assert client.send(peer, b"again") is SendResult.UNREACHABLE and client.known_as(peer) == b""


def test_who_connects_again_is_heard_at_once(server: LocalLink, client: LocalLink, run_dir: Path) -> None:
    """And of those who have gone nothing is left."""
    before = descriptors()
    for number in range(300):
        peer = client.connect(run_dir / "server.sock")
        client.send(peer, b"%d" % number)
        caller, frame = receive(server)
        assert frame == b"%d" % number
        assert server.send(caller, frame) is SendResult.SENT
        assert receive(client) == (peer, frame)
        client.disconnect(peer)
    wait_until(lambda: server.receive() is None and descriptors() <= before + 3)


def test_what_was_sent_just_before_closing_still_leaves(
    server: LocalLink, make: Callable[[str], LocalLink], run_dir: Path
) -> None:
    """A program that says something and exits has said it."""
    client = make("client-2")
    peer = client.connect(run_dir / "server.sock")
    for word in (b"last", b"words"):
        client.send(peer, word)
    client.close()
    assert [receive(server)[1] for _ in range(2)] == [b"last", b"words"]


def test_what_waits_leaves_before_the_end(server: LocalLink, make: Callable[[str], LocalLink], run_dir: Path) -> None:
    """More than the kernel takes, for a peer that reads slowly."""
    client = make("client-2")
    peer = client.connect(run_dir / "server.sock")
    count = 100
    assert {client.send(peer, b"x" * 50_000) for _ in range(count)} == {SendResult.SENT}
    received = list[bytes]()
    reading = threading.Thread(target=lambda: received.extend(receive(server)[1] for _ in range(count)))
    reading.start()
    client.close(LIMIT_MS)
    reading.join()
    assert len(received) == count


def test_a_frame_stays_behind_those_that_wait(server: LocalLink, client: LocalLink, run_dir: Path) -> None:
    """Although there is room again, and nobody has looked yet."""
    peer = client.connect(run_dir / "server.sock")
    frames = [b"%d" % number * 10_000 for number in range(100)]
    assert {client.send(peer, frame) for frame in frames} == {SendResult.SENT}
    received = [receive(server)[1] for _ in range(3)]
    assert client.send(peer, b"last") is SendResult.SENT
    while len(received) <= len(frames):
        received.append(read(server, client)[1])
    assert received == [*frames, b"last"]


def test_who_has_closed_is_unreachable_once_all_it_has_sent_was_read(
    server: LocalLink, client: LocalLink, run_dir: Path
) -> None:
    """Also if it has not read what it was sent."""
    peer = client.connect(run_dir / "server.sock")
    client.send(peer, b"hello")
    caller, _ = receive(server)
    server.send(caller, b"unread")
    client.send(peer, b"goodbye")
    client.close()
    assert receive(server) == (caller, b"goodbye")
    wait_until(lambda: server.receive() or server.send(caller, b"late") is SendResult.UNREACHABLE)


def test_closing_takes_the_socket_file_along(make: Callable[[str], LocalLink], run_dir: Path) -> None:
    link = make("server-2")
    link.bind(run_dir / "gone.sock")
    assert (run_dir / "gone.sock").exists()
    link.close()
    link.close()
    assert not (run_dir / "gone.sock").exists()


def test_a_path_that_is_too_long_is_said_with_the_remedy(client: LocalLink, run_dir: Path) -> None:
    with pytest.raises(ValueError, match="run_dir"):
        client.bind(run_dir / ("x" * PATH_BYTES_MAX))
