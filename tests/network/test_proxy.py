"""A FaultProxy as its users see it: what it carries, what cuts and ends do, and that nothing of it is left."""

from __future__ import annotations

import os
import random
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Literal

import pytest

from tests.figures import judge
from tests.network.carrier import Carrier
from tests.network.faults import Direction, Faults
from tests.network.measuring import Answerer, Pinger, receive
from tests.network.proxy import ROOT, FaultProxy
from tests.waiting import LIMIT_S

#: How long nothing must come for "nothing comes": a thousand times what a round trip here takes.
SILENCE_S = 0.2
Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """An upstream address that the test itself serves."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        sock.settimeout(LIMIT_S)
        yield sock


@pytest.fixture
def link(listener: socket.socket) -> Iterator[FaultProxy]:
    """A link to it."""
    with FaultProxy(listener.getsockname()) as between:
        yield between


@pytest.fixture
def join(link: FaultProxy, listener: socket.socket) -> Iterator[Callable[[], Ends]]:
    """Makes connections across it: the client's end and the server's."""
    made: list[socket.socket] = []

    def joined() -> Ends:
        client = socket.create_connection(link.address, LIMIT_S)
        server, _ = listener.accept()
        server.settimeout(LIMIT_S)
        made.extend((client, server))
        return client, server

    yield joined
    for sock in made:
        sock.close()


def is_silent(sock: socket.socket) -> bool:
    """Whether neither a byte nor an end comes."""
    return not select.select([sock], [], [], SILENCE_S)[0]


def has_news(sock: socket.socket) -> bool:
    """Whether something comes, however late on a machine that does much else."""
    return bool(select.select([sock], [], [], LIMIT_S)[0])


def is_reset(sock: socket.socket) -> bool:
    """Whether the next that comes is an RST."""
    try:
        return sock.recv(1) == b"never"
    except ConnectionResetError:
        return True


def test_with_nothing_wrong_it_is_not_there(link: FaultProxy, join: Callable[[], Ends]) -> None:
    """Bytes both ways, one way closed before the other, and it has counted what there was."""
    client, server = join()
    sent = random.Random(1).randbytes(1 << 20)
    client.sendall(sent)
    client.shutdown(socket.SHUT_WR)
    assert receive(server, 2 << 20) == sent, "to the end, and no more"
    server.sendall(b"an answer")
    server.close()
    assert receive(client, 100) == b"an answer"
    counts = link.wait_for(closed=1)
    assert (counts.accepted, counts.open, counts.reset) == (1, 0, 0)
    assert (counts.up_taken, counts.up_bytes, counts.down_bytes) == (1 << 20, 1 << 20, 9)


def test_an_end_by_force_is_passed_on(link: FaultProxy, join: Callable[[], Ends]) -> None:
    """A peer that is killed with bytes unread sends RST; who is told FIN instead would take half a message for whole."""
    for number in (1, 2):
        ends = join()
        dying, other = ends if number == 1 else ends[::-1]
        dying.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        dying.close()
        assert is_reset(other)
        assert link.wait_for(reset=number).open == 0


def test_sending_to_the_dead_ends_it(link: FaultProxy, join: Callable[[], Ends]) -> None:
    """Where the other way had been closed before, nothing more would ever be read from there."""
    client, server = join()
    server.shutdown(socket.SHUT_WR)
    assert client.recv(1) == b""
    server.close()

    def send_on() -> None:
        while True:
            client.sendall(bytes(1000))

    with pytest.raises(OSError):
        send_on()
    link.wait_for(reset=1)


def test_without_an_upstream_the_client_is_refused(link: FaultProxy, listener: socket.socket) -> None:
    """It is connected by then, or about to be told so: that is what a proxy can do."""
    listener.close()

    def connect_and_hear() -> None:
        with socket.create_connection(link.address, LIMIT_S) as client:
            client.recv(1)

    with pytest.raises(ConnectionResetError):
        connect_and_hear()
    assert link.wait_for(refused=1).open == 0


@pytest.mark.parametrize(
    ("direction", "up", "down"), [("up", False, True), ("down", True, False), ("both", False, False)]
)
def test_a_cut_is_silent_and_one_way_if_asked(
    link: FaultProxy, join: Callable[[], Ends], direction: Direction, up: bool, down: bool
) -> None:
    """The side that still hears must find out by itself that it is not heard. Nothing is lost when it heals."""
    client, server = join()
    link.cut(direction)
    client.sendall(b"up")
    server.sendall(b"down")
    assert has_news(server) if up else is_silent(server)
    assert has_news(client) if down else is_silent(client)
    link.heal()
    assert (receive(server, 2), receive(client, 4)) == (b"up", b"down")


def test_an_end_is_not_seen_through_a_cut(link: FaultProxy, join: Callable[[], Ends]) -> None:
    """A crash behind a cut is a crash that nobody hears of."""
    (closing, one), (dying, other) = join(), join()
    link.cut()
    closing.close()
    dying.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    dying.close()
    assert is_silent(one) and is_silent(other)
    link.heal()
    assert one.recv(1) == b"" and is_reset(other)


def test_nobody_connects_through_a_cut(link: FaultProxy, join: Callable[[], Ends], listener: socket.socket) -> None:
    """Neither connected nor refused; the client's kernel tries again after 1 s, and is heard after the heal."""
    join()
    for direction in ("both", "up"):
        link.cut(direction)
        with pytest.raises(TimeoutError):
            socket.create_connection(link.address, SILENCE_S)
        link.heal()
    link.cut()
    with socket.socket() as patient:
        patient.setblocking(False)
        patient.connect_ex(link.address)
        assert not select.select([], [patient], [], SILENCE_S)[1]
        link.heal()
        listener.accept()[0].close()
        assert select.select([], [patient], [], LIMIT_S)[1]


def test_an_event_from_before_a_cut_lets_nobody_in(listener: socket.socket) -> None:
    """It comes in the same turn after the command, and tells of the connection that was there; now another one is."""
    with select.epoll() as epoll:
        carrier = Carrier("127.0.0.1", listener.getsockname(), 1, epoll)
        fd = carrier.listening.fd
        carrier.cut(0, ["up", "down"])
        carrier.serve(fd, select.EPOLLIN, 0)
        with pytest.raises(TimeoutError):
            socket.create_connection(carrier.listening.address, SILENCE_S)
        carrier.listening.close()


def test_after_a_cut_all_connect_at_once(far: Answerer, proxy: FaultProxy) -> None:
    """Who comes then is not turned away for a second: the repair of a partition is measured by when a node is back."""
    for _ in range(2):
        proxy.cut()
        proxy.heal()
        with ExitStack() as stack:
            clients = [stack.enter_context(socket.socket()) for _ in range(40)]
            for client in clients:
                client.setblocking(False)
                client.connect_ex(proxy.address)
            while late := [client for client in clients if not select.select([], [client], [], 0)[1]]:
                assert select.select([], late, [], 0.9)[1], f"{len(late)} have to try again"


def test_a_reset_ends_all_and_refuses_until_healed(link: FaultProxy, join: Callable[[], Ends]) -> None:
    """As a firewall that restarts; the address stays the proxy's meanwhile."""
    ends = [*join(), *join()]
    assert (link.reset().open, link.counts().reset) == (0, 2)
    assert all(is_reset(sock) for sock in ends)
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(link.address, LIMIT_S)
    link.heal()
    client, server = join()
    client.sendall(b"again")
    assert receive(server, 5) == b"again"


@pytest.mark.parametrize("gone", ["client", "upstream"])
def test_half_open_connections_stay_for_one_side(
    link: FaultProxy, join: Callable[[], Ends], gone: Literal["client", "upstream"]
) -> None:
    """Thousands of these are what a node must bear; only its own heartbeats can tell that nobody is there."""
    ends = join()
    left, other = ends[::-1] if gone == "client" else ends
    assert (link.forget(gone).forgotten, link.counts().open) == (1, 0)
    assert is_reset(other)
    left.sendall(b"anybody?")
    assert is_silent(left)
    join()
    link.heal()
    assert is_reset(left)


def test_a_stall_is_over_by_itself(far: Answerer, proxy: FaultProxy) -> None:
    """As long as TCP takes to repair a loss, which `scripts/long` judges, and nobody has to end it."""
    with Pinger(proxy.address) as pinger:
        pinger.ping()
        for direction in ("up", "down"):
            proxy.stall(0.1, direction)
            judge("a stall of 0.1 s, less what it took", 0.1 - pinger.ping().p50, 0.01)
            judge("round trips after it", pinger.ping(9).p50, 0.09)


def test_losses_hold_their_own_connection(proxy: FaultProxy) -> None:
    """What was asked is answered all the same, and each of them took its time, as test_lane.py has it under a virtual clock."""
    proxy.set(up=Faults(loss=0.3, rto_s=0.02))
    with Pinger(proxy.address) as pinger:
        pinger.ping(40)
    assert proxy.counts().up_losses >= 4


def test_corruption_is_counted(link: FaultProxy, join: Callable[[], Ends]) -> None:
    """So that a test knows that there was some, and how much."""
    client, server = join()
    link.set(up=Faults(corrupt=0.001))
    client.sendall(bytes(100_000))
    client.sendall(bytes(100_000))
    arrived = receive(server, 200_000)
    flips = link.wait_for(up_bytes=200_000).up_flips
    assert flips == sum(byte.bit_count() for byte in arrived) > 0
    server.sendall(bytes(1000))
    assert receive(client, 1000) == bytes(1000), "the other way is another lane"


def test_jitter_keeps_the_order(link: FaultProxy, join: Callable[[], Ends]) -> None:
    """A stream that came out of order would be TCP's fault, and there is none such."""
    client, server = join()
    link.set(up=Faults(delay_s=0.001, jitter_s=0.01))
    numbers = [number.to_bytes(4) for number in range(200)]
    for number in numbers:
        client.sendall(number)
    assert receive(server, 800) == b"".join(numbers)


def test_many_connections_at_once(far: Answerer, proxy: FaultProxy) -> None:
    """Each with its own bytes, and then none of them is left."""
    pingers = [Pinger(proxy.address, size=100 + n) for n in range(50)]
    for pinger in pingers:
        pinger.ping(3)
    assert proxy.counts().open == 50
    for pinger in pingers:
        pinger.sock.close()
    assert proxy.wait_for(closed=50).open == 0


def test_a_count_that_is_not_reached_says_so(proxy: FaultProxy) -> None:
    """With the counts that there are; and the proxy still answers."""
    with pytest.raises(TimeoutError, match=r"waiting for \{'accepted': 1\}: Counts\(accepted=0, "):
        proxy.wait_for(0.05, accepted=1)
    socket.create_connection(proxy.address, LIMIT_S).close()
    assert proxy.wait_for(accepted=1).accepted == 1


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda p: p.cut("sideways"), "direction is 'sideways': give 'up' (from the clients), 'down' or 'both'"),
        (lambda p: p.forget("both"), "side is 'both': give 'client' or 'upstream', the one that is gone"),
        (lambda p: p.wait_for(open=1, bytes=3), "bytes, open: no count that only grows (tests/network/faults.py)"),
    ],
)
def test_what_it_cannot_do_is_said(proxy: FaultProxy, act: Callable[[FaultProxy], object], sentence: str) -> None:
    """And does not end it."""
    with pytest.raises(ValueError) as said:
        act(proxy)
    assert str(said.value) == sentence
    proxy.counts()


def test_nothing_is_left_of_it(far: Answerer) -> None:
    """Neither its process nor its address, nor a connection that it had."""
    with FaultProxy(far.address) as proxy, Pinger(proxy.address) as pinger:
        pinger.ping()
        proxy.close()
        assert proxy.process.returncode == 0
        assert pinger.sock.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(proxy.address, LIMIT_S)


def test_it_ends_with_whoever_started_it() -> None:
    """Also with one that is killed: its end of a pipe is enough."""
    source = (
        "from tests.network.proxy import FaultProxy\n"
        "proxy = FaultProxy(('127.0.0.1', 1))\n"
        "print(proxy.process.pid, flush=True)\n"
        "input()"
    )
    with subprocess.Popen([sys.executable, "-c", source], cwd=ROOT, stdin=-1, stdout=-1) as owner:
        assert owner.stdout is not None
        pidfd = os.pidfd_open(int(owner.stdout.readline()))
        owner.send_signal(signal.SIGKILL)
        assert select.select([pidfd], [], [], LIMIT_S)[0]
        os.close(pidfd)
