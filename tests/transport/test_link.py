"""Link: frames over real sockets, never blocking, and what has no reader is said to have none."""

import gc
import os
import select
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from appbackplane.transport.batching import SendResult
from appbackplane.transport.codec import FRAME_BYTES_MAX, batch
from appbackplane.transport.errors import FrameLost, MalformedFrame
from appbackplane.transport.link import (
    ANSWERS_READ_AHEAD,
    HIGH_WATER_MARK,
    LARGE_BYTES_MAX,
    PARTS_DROPPED_MAX,
    PATH_BYTES_MAX,
    READ_AHEAD,
    Link,
)
from tests.waiting import LIMIT_S, wait_until

LIMIT_MS = round(1e3 * LIMIT_S)


@pytest.fixture
def server(run_dir: Path) -> Iterator[Link]:
    """A link that listens."""
    link = Link("server-1")
    link.bind(run_dir / "server.sock")
    yield link
    link.close()


@pytest.fixture
def client() -> Iterator[Link]:
    """A link that connects."""
    link = Link("client-1")
    yield link
    link.close()


def receive(link: Link) -> tuple[bytes, bytes]:
    """Wait for the next frame as its owners do: on the descriptor, after having looked."""
    poll = select.poll()
    poll.register(link.fileno(), select.POLLIN)
    while (received := link.receive()) is None:
        assert poll.poll(LIMIT_MS), "nothing came"
    return received


def test_a_frame_arrives_and_is_answered(server: Link, client: Link, run_dir: Path) -> None:
    """One ROUTER both binds and connects; the far end knows us by an identity, we know it by an alias of our own."""
    peer = client.connect(run_dir / "server.sock")
    assert client.send(peer, b"hello") is SendResult.SENT
    caller, frame = receive(server)
    assert (caller, frame) == (client.known_as(peer), b"hello")
    assert caller.startswith(b"client-1-")
    assert server.send(caller, b"welcome") is SendResult.SENT
    assert receive(client) == (peer, b"welcome")
    assert client.receive() is None and server.receive() is None


def test_frames_keep_their_order(server: Link, client: Link, run_dir: Path) -> None:
    """Between one pair, at one priority, order holds (DESIGN 12.7): it begins here."""
    peer = client.connect(run_dir / "server.sock")
    for n in range(500):
        assert client.send(peer, b"%d" % n) is SendResult.SENT
    assert [receive(server)[1] for _ in range(500)] == [b"%d" % n for n in range(500)]


def test_a_frame_may_be_as_large_as_the_codec_makes_it(server: Link, client: Link, run_dir: Path) -> None:
    """If the two bounds differed, the connection would be cut for a frame that was just allowed."""
    peer = client.connect(run_dir / "server.sock")
    client.send(peer, b"x" * FRAME_BYTES_MAX)
    assert len(receive(server)[1]) == FRAME_BYTES_MAX


def test_a_stranger_is_unreachable(server: Link) -> None:
    """TRAPS 3. Without mandatory routing it would be a silent drop."""
    assert server.send(b"nobody", b"hello") is SendResult.UNREACHABLE


def test_a_peer_that_does_not_read_is_full_and_nothing_is_lost(server: Link, client: Link, run_dir: Path) -> None:
    """TRAPS 3. Full is said, and what was accepted arrives once there is a reader."""
    peer = client.connect(run_dir / "nobody-yet.sock")
    count = 0
    while client.send(peer, b"%d" % count) is SendResult.SENT:
        count += 1
        assert count <= HIGH_WATER_MARK
    assert client.send(peer, b"one more") is SendResult.FULL
    late = Link("late-1")
    late.bind(run_dir / "nobody-yet.sock")
    assert [receive(late)[1] for _ in range(count)] == [b"%d" % n for n in range(count)]
    late.close()


def test_a_peer_may_be_as_slow_as_it_likes(server: Link, client: Link, run_dir: Path) -> None:
    """With heartbeats, one that did not read for 16 s was aborted by ZeroMQ when it did (docs/decisions/no_heartbeats.md)."""
    for link in (server, client):
        assert link._socket.getsockopt(zmq.HEARTBEAT_IVL) == 0


def test_a_forgotten_peer_is_unreachable_and_the_next_generation_hears_nothing_of_it(
    client: Link, run_dir: Path
) -> None:
    """TRAPS 5. What was meant for the dead must not be executed by the living."""
    first = client.connect(run_dir / "x-1.sock")
    client.send(first, b"for the first")
    client.disconnect(first)
    client.disconnect(first)
    assert client.send(first, b"again") is SendResult.UNREACHABLE
    second = Link("x-2")
    second.bind(run_dir / "x-1.sock")
    client.send(client.connect(run_dir / "x-1.sock"), b"for the second")
    assert receive(second)[1] == b"for the second"
    second.close()


@pytest.mark.parametrize("frames", [[b"one", b"two"], [b"x"] * 1_000])
def test_a_message_of_several_frames_is_malformed_and_the_next_one_fine(
    server: Link, run_dir: Path, frames: list[bytes]
) -> None:
    """TRAPS 4. It must be consumed whole, or its second frame would be taken for somebody's identity."""
    context = zmq.Context()
    context.linger = 0
    stranger = context.socket(zmq.DEALER)
    stranger.connect(f"ipc://{run_dir}/server.sock")
    stranger.send_multipart(frames)
    stranger.send(b"sense")
    with pytest.raises(MalformedFrame, match=f"{len(frames)} frames"):
        receive(server)
    assert receive(server)[1] == b"sense"
    context.destroy(linger=0)


def test_a_message_of_many_frames_is_dropped_bit_by_bit(server: Link, run_dir: Path) -> None:
    """One of a million empty frames takes 2 MB on the wire. Read at once it took seconds, in which nothing else was done."""
    context = zmq.Context()
    context.linger = 0
    stranger = context.socket(zmq.DEALER)
    stranger.connect(f"ipc://{run_dir}/server.sock")
    stranger.send_multipart([b""] * (2 * PARTS_DROPPED_MAX + 10))
    stranger.send(b"sense")
    for is_first in (True, False):
        with pytest.raises(
            MalformedFrame, match=f"{PARTS_DROPPED_MAX + 1} frames or more" if is_first else "too many frames"
        ):
            receive(server)
    assert receive(server)[1] == b"sense"
    context.destroy(linger=0)


def test_who_connects_again_is_heard_at_once(server: Link, client: Link, run_dir: Path) -> None:
    """TRAPS 6. Under the same identity it would be ignored for ever: the first connection's end is seen late."""
    for n in range(300):
        peer = client.connect(run_dir / "server.sock")
        client.send(peer, b"%d" % n)
        caller, frame = receive(server)
        assert frame == b"%d" % n
        assert server.send(caller, frame) is SendResult.SENT
        assert receive(client) == (peer, frame)
        client.disconnect(peer)


def test_who_bears_the_identity_of_a_connection_that_lives_gets_nothing_that_is_meant_for_it(
    server: Link, client: Link, run_dir: Path
) -> None:
    """It took its place: a client's replies went to a stranger, and a backplane was cut off from others for ever."""
    peer = client.connect(run_dir / "server.sock")
    client.send(peer, b"hello")
    caller, _ = receive(server)
    with zmq.Context() as context, context.socket(zmq.DEALER) as stranger:
        stranger.linger = 0
        watched = stranger.get_monitor_socket(zmq.Event.HANDSHAKE_SUCCEEDED)
        stranger.routing_id = caller
        stranger.connect(f"ipc://{run_dir}/server.sock")
        has_arrived = watched.poll(LIMIT_MS)
        stranger.disable_monitor()
        watched.close(linger=0)
        assert has_arrived
        # Its handshake is over; so is the server's side of it, when what comes after it has come.
        client.send(client.connect(run_dir / "server.sock"), b"after it")
        assert receive(server)[1] == b"after it"
        assert server.send(caller, b"for the first") is SendResult.SENT
        assert receive(client) == (peer, b"for the first")
        client.send(peer, b"still there")
        assert receive(server) == (caller, b"still there")


def test_who_comes_again_and_again_leaves_no_descriptor_with_one_that_is_behind(server: Link, run_dir: Path) -> None:
    """A connection replaced by another of the same identity kept its descriptor, and what was unread, for ever."""
    before, rounds, frames = descriptors(), 20, READ_AHEAD + 8
    for _ in range(rounds):
        client = Link("client-1")
        peer = client.connect(run_dir / "server.sock")
        for _ in range(frames):  # more than is read ahead: nobody sees the end of the connection
            assert client.send(peer, b"unread") is SendResult.SENT
        client.close()
    read = 0

    def has_read_all_and_closed() -> bool:
        nonlocal read
        while (received := server.receive()) is not None:
            assert received[1] == b"unread"
            read += 1
        return descriptors() <= before  # fewer, if what other tests have left is collected now

    wait_until(has_read_all_and_closed)
    # Of the rest, what the socket still held when the end of the connection was seen is lost: see `Link.read_ahead`.
    assert rounds * READ_AHEAD <= read <= rounds * frames


def send_all(link: Link, peer: bytes, frames: int) -> None:
    """Offer so many frames until each has been taken; the other side reads ahead meanwhile."""
    for number in range(frames):
        wait_until(lambda number=number: link.send(peer, b"%d" % number) is SendResult.SENT)


def test_who_has_filled_what_is_read_ahead_is_read_on_whatever_is_called_meanwhile(
    server: Link, client: Link, run_dir: Path
) -> None:
    """A backplane under a flood, whose objects make many calls: it read no further from who had flooded it, for ever."""
    peer = client.connect(run_dir / "server.sock")
    sent_count = full_count = 0

    def is_full() -> bool:
        nonlocal sent_count, full_count
        while client.send(peer, b"x" * 2_000) is SendResult.SENT:
            sent_count, full_count = sent_count + 1, 0
        full_count += 1
        return full_count > 10

    wait_until(is_full)  # the server has read as far ahead as it may
    assert receive(server)[1]
    server.read_ahead(5_000)
    server.connect(run_dir / "server.sock")
    for _ in range(sent_count - 1):
        receive(server)
    client.send(peer, b"and the last")
    assert receive(server)[1] == b"and the last"


def test_answers_are_read_ahead_from_whom_a_server_calls(server: Link, run_dir: Path) -> None:
    """Else they would be lost when the callee ends, where this process has not got round to reading them."""
    frames = 4 * HIGH_WATER_MARK
    assert READ_AHEAD < frames < ANSWERS_READ_AHEAD
    callee = Link("callee-1")
    callee.bind(run_dir / "callee.sock")
    server.send(server.connect(run_dir / "callee.sock"), b"ask")
    caller, _ = receive(callee)
    send_all(callee, caller, frames)
    callee.close()
    assert [receive(server)[1] for _ in range(frames)] == [b"%d" % number for number in range(frames)]


def test_who_listens_does_so_before_it_connects(server: Link, client: Link, run_dir: Path) -> None:
    """The bound of connections that exist must not change."""
    client.connect(run_dir / "server.sock")
    with pytest.raises(AssertionError, match="listen first"):
        client.bind(run_dir / "client.sock")


def descriptors() -> int:
    """How many this process has open."""
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("part", [1, 2])
@pytest.mark.parametrize("is_offered_again", [True, False])
def test_a_message_that_a_signal_cuts_leaves_once(
    server: Link, client: Link, run_dir: Path, part: int, is_offered_again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between the parts: the next message's address would be taken for this one's content. Sent twice, it would be
    executed twice."""
    peer = client.connect(run_dir / "server.sock")
    client.send(peer, b"first")
    caller, _ = receive(server)
    monkeypatch.setattr(server, "_send", Cut(server._send, part))
    frame = batch([b"cut"])
    with pytest.raises(KeyboardInterrupt):
        server.send(caller, frame)
    if is_offered_again:
        assert server.send(caller, frame) is SendResult.SENT
    server.send(caller, b"whole")
    frames = [receive(client)[1]]
    while frames[-1] != b"whole":
        frames.append(receive(client)[1])
    has_left = is_offered_again or part == 2
    assert [one for one in frames if one != batch([])] == [frame] * has_left + [b"whole"]
    assert frames.count(batch([])) == (part == 1), "what only had an address is ended by a frame that means nothing"


@pytest.mark.parametrize("part", [1, 2])
def test_a_message_that_a_signal_takes_away_is_reported(
    server: Link, client: Link, run_dir: Path, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing brings it back; whoever waits for it is told at once."""
    peer = client.connect(run_dir / "server.sock")
    client.send(peer, b"first")
    caller, _ = receive(server)
    server.send(caller, b"cut")
    monkeypatch.setattr(client, "_recv", Cut(client._recv, part))
    with pytest.raises(KeyboardInterrupt):
        receive(client)
    server.send(caller, b"whole")
    with pytest.raises(FrameLost) as caught:
        receive(client)
    assert caught.value.sender == (None if part == 1 else peer)
    assert receive(client) == (peer, b"whole")


def test_a_look_that_a_signal_cuts_takes_nothing_away(
    server: Link, client: Link, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had not begun to receive."""
    peer = client.connect(run_dir / "server.sock")
    client.send(peer, b"first")
    caller, _ = receive(server)
    server.send(caller, b"whole")
    monkeypatch.setattr(client, "_get", Cut(client._get, 1))
    with pytest.raises(KeyboardInterrupt):
        client.receive()
    assert receive(client) == (peer, b"whole")


class Cut:
    """A method of a socket; its `count`-th call is done, and then interrupted."""

    def __init__(self, method: Callable[..., Any], count: int) -> None:
        self.method, self.left = method, count

    def __call__(self, *arguments: Any) -> Any:
        done = self.method(*arguments)
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return done


def test_a_path_that_is_too_long_is_said_with_the_remedy(client: Link, run_dir: Path) -> None:
    """The kernel's own words would be: File name too long."""
    with pytest.raises(ValueError, match="run_dir"):
        client.bind(run_dir / ("x" * PATH_BYTES_MAX))


def test_what_was_sent_just_before_closing_still_leaves(server: Link, run_dir: Path) -> None:
    """A program that says something and exits has said it."""
    client = Link("client-2")
    client.send(client.connect(run_dir / "server.sock"), b"last words")
    client.close()
    assert receive(server)[1] == b"last words"


def test_closing_takes_the_socket_file_along(run_dir: Path) -> None:
    """A file without a listener looks like a system that hangs."""
    link = Link("server-2")
    link.bind(run_dir / "gone.sock")
    assert (run_dir / "gone.sock").exists()
    link.close()
    assert not (run_dir / "gone.sock").exists()


def test_large_frames_for_a_peer_that_does_not_read_are_bounded_by_their_bytes(client: Link, run_dir: Path) -> None:
    """TRAPS 4. ZeroMQ counts frames: a thousand of a megabyte each went to one stopped peer, and all lay in the sender."""
    peer, other = client.connect(run_dir / "nobody-yet.sock"), client.connect(run_dir / "nobody-else.sock")
    frame = b"x" * (1 << 20)
    count = 0
    while client.send(peer, frame) is SendResult.SENT:
        count += 1
        assert count <= LARGE_BYTES_MAX // len(frame)
    assert count == LARGE_BYTES_MAX // len(frame)
    assert client.send(peer, b"a small one") is SendResult.SENT, "small ones are bounded by their number"
    assert client.send(other, frame) is SendResult.SENT, "a bound of its own"
    late = Link("late-1")
    late.bind(run_dir / "nobody-yet.sock")
    assert [len(receive(late)[1]) for _ in range(count)] == [len(frame)] * count
    assert receive(late)[1] == b"a small one"
    while client.send(peer, frame) is not SendResult.SENT:  # as soon as ZeroMQ has let go of them
        assert late.receive() is None
    late.close()


def test_a_frame_larger_than_that_bound_passes_alone(
    server: Link, client: Link, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the codec allows must not wait for ever."""
    monkeypatch.setattr("appbackplane.transport.link.LARGE_BYTES_MAX", 1 << 16)
    peer = client.connect(run_dir / "server.sock")
    for _ in range(3):
        while client.send(peer, b"x" * (1 << 20)) is not SendResult.SENT:
            assert client.receive() is None
        assert len(receive(server)[1]) == 1 << 20


def test_of_a_peer_that_is_forgotten_nothing_is_kept(server: Link, client: Link, run_dir: Path) -> None:
    """Each generation of a backplane is another peer: who lives on meets thousands, and sends large frames to each."""
    before = trackers_count()
    for _ in range(5):
        peer = client.connect(run_dir / "server.sock")
        assert client.send(peer, bytes(100_000)) is SendResult.SENT
        receive(server)
        client.disconnect(peer)
    assert trackers_count() == before


def trackers_count() -> int:
    """What is kept of large frames that have been sent."""
    gc.collect()
    # By its type: `isinstance` reads `__class__`, which crashed at an object that another thread was only making.
    return sum(type(one) is zmq.MessageTracker for one in gc.get_objects())
