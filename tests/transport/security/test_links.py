"""Links: their limits, what becomes of one that is cut, and the traps of ZeroMQ that the options are chosen around."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zmq

from appbackplane.transport.errors import FailedPrecondition, InvalidArgument
from appbackplane.transport.security import links
from appbackplane.transport.security.gatekeeper import Gatekeeper
from appbackplane.transport.security.keyring import Keyring
from tests.figures import Stopwatch, judge
from tests.waiting import wait_until

from .house import LIMIT_S, PATIENT, Guest, House, Tap, wait_for

#: A reader that stops for longer than the heartbeats bear, and goes on: with RECONNECT_IVL 10 and IMMEDIATE 0, as ZeroMQ has
#: it, it is aborted three times of four.
STOPS = """
import sys, zmq
from pathlib import Path
from appbackplane.transport.security import links
from appbackplane.transport.security.gatekeeper import Gatekeeper
from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.security.ring import Holder
ours, theirs = Keyring(Path(sys.argv[1])), Keyring(Path(sys.argv[2]))
key = theirs.make_own()
ours.make_own()
ours.change(lambda ring: ring.trusting(Holder("reader", key)))
patient = links.LinkLimits(handshake_ms=int(sys.argv[3]), connect_ms=int(sys.argv[3]))
context = zmq.Context()
context.linger = 0
gatekeeper = Gatekeeper(context, ours)
listener, reader = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
links.server(listener, ours, patient)
listener.sndhwm, reader.rcvhwm = 10_000, 10
port = listener.bind_to_random_port("tcp://127.0.0.1")
links.client(reader, theirs, ours.own().public, patient)
reader.connect(f"tcp://127.0.0.1:{port}")
while not listener.poll(10):
    gatekeeper.answer(0)
    if reader.poll(0, zmq.POLLOUT):
        reader.send(b"here", zmq.NOBLOCK)
peer = listener.recv_multipart()[0]
for _ in range(500):
    listener.send_multipart([peer, bytes(20_000)])
for _ in range(20):
    gatekeeper.answer(0)
    listener.poll(100)
count = 0
while reader.poll(500):
    reader.recv()
    gatekeeper.answer(0)
    count += 1
print("read on", count)
context.destroy(linger=0)
"""


@pytest.mark.systems
def test_a_reader_that_stopped_for_long_is_cut_and_not_aborted(tmp_path: Path) -> None:
    """It computes, or stands in a debugger, with all it reads ahead waiting: its link ends, the process does not."""
    typed = [
        *(sys.executable, "-c", STOPS),
        *(str(tmp_path / "ours"), str(tmp_path / "theirs"), str(PATIENT.handshake_ms)),
    ]
    ended = subprocess.run(typed, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("read on ")


def test_what_is_sent_by_a_link_that_has_ended_is_refused(house: House, friend: Guest) -> None:
    """Not taken for nobody: a call would hang until its deadline. And another connection is made when the owner says so."""
    events = friend.watch(zmq.EVENT_DISCONNECTED)
    house.revoke("friend")
    wait_for(events, zmq.EVENT_DISCONNECTED)
    wait_until(lambda: not friend.socket.poll(0, zmq.POLLOUT))
    with pytest.raises(zmq.Again):
        friend.socket.send(b"x", zmq.NOBLOCK)


def test_a_link_that_has_ended_is_followed_by_another(house: House, friend: Guest) -> None:
    """Another socket of the same keys; of the one before it nothing is left that could come late."""
    for body in (b"1", b"2", b"3"):
        friend.again()
        friend.connect(house)
        assert friend.waits(body) == body
    assert house.heard[1:] == [("friend", b"1"), ("friend", b"2"), ("friend", b"3")]


def test_a_line_that_goes_dead_is_noticed(house: House, guest: Callable[[str], Guest]) -> None:
    """Nothing is closed, nothing comes any more, and the kernel would wait for a quarter of an hour."""
    friend, tap = guest("friend"), Tap(house)
    house.trust("friend", friend.key)
    events = friend.watch(zmq.EVENT_DISCONNECTED)
    friend.connect(house, port=tap.port)
    friend.waits(b"x")
    tap.is_stalled.set()
    watch = Stopwatch()
    wait_for(events, zmq.EVENT_DISCONNECTED)
    judge("from a dead line to its end", watch.taken_s, 5.0)
    tap.join()  # both ends have hung up


def test_a_frame_beyond_the_limit_ends_the_link(tmp_path: Path, guest: Callable[[str], Guest]) -> None:
    """Before it is in memory: who is trusted is not trusted with all of it."""
    with House(tmp_path / "house", links.LinkLimits(frame_bytes=10_000)) as house:
        friend = guest("friend")
        house.trust("friend", friend.key)
        friend.connect(house)
        assert friend.waits(b"x" * 9_000) == b"x" * 9_000
        events = friend.watch(zmq.EVENT_DISCONNECTED)
        friend.socket.send(b"x" * 11_000)
        wait_for(events, zmq.EVENT_DISCONNECTED)
        assert house.heard == [("friend", b"x" * 9_000)]


def test_a_context_has_one_gatekeeper(tmp_path: Path) -> None:
    """Two rings would be two answers."""
    with zmq.Context() as context:
        first = Gatekeeper(context, Keyring(tmp_path))
        with pytest.raises(FailedPrecondition, match="has a gatekeeper already"):
            Gatekeeper(context, Keyring(tmp_path))
        first.close()


def test_who_was_revoked_here_is_not_connected_to(tmp_path: Path, guest: Callable[[str], Guest]) -> None:
    """Trust is mutual: a stolen key must not answer our calls either."""
    me, thief = guest("me"), Keyring(tmp_path / "thief").make_own()
    House.trust_in(me.keyring, "berlin", thief)
    me.keyring.change(lambda ring: ring.revoking("berlin"))
    with pytest.raises(FailedPrecondition, match="of 'berlin' was revoked here: not connected to"):
        links.client(me.socket, me.keyring, thief)


def test_without_a_pair_there_is_no_link(tmp_path: Path) -> None:
    """And it is said how one is made, before anything is bound."""
    with (
        zmq.Context() as context,
        context.socket(zmq.ROUTER) as socket,
        pytest.raises(FailedPrecondition, match="appbackplane keys new"),
    ):
        links.server(socket, Keyring(tmp_path / "none"))


def test_what_is_not_secured_is_bound_and_connected_on_loopback_alone(tmp_path: Path) -> None:
    """By mistake, as in a program that forgot to make it a server; and one that did listens wherever it is told to."""
    keyring = Keyring(tmp_path / "keys")
    own = keyring.make_own()
    with zmq.Context() as context, context.socket(zmq.ROUTER) as plain, context.socket(zmq.DEALER) as dealer:
        with pytest.raises(InvalidArgument, match="without keys"):
            links.bind(plain, "tcp://*:0")
        with pytest.raises(InvalidArgument, match="without keys"):
            links.connect(dealer, "tcp://10.0.0.1:7000")
        where = links.bind(plain, "tcp://127.0.0.1:0")
        assert int(where.rpartition(":")[2]) > 0
        with context.socket(zmq.ROUTER) as second, pytest.raises(FailedPrecondition, match="in use"):
            links.bind(second, where)
        links.server(plain, keyring)
        with pytest.raises(FailedPrecondition, match="cannot be listened at: Cannot assign requested address"):
            links.bind(plain, "tcp://192.0.2.1:0")
        links.client(dealer, keyring, own)
        links.connect(dealer, "tcp://192.0.2.1:7000")
        with pytest.raises(InvalidArgument, match="expected tcp:// and a numeric host"):
            links.connect(dealer, "tcp://berlin.example:7000")


@pytest.mark.parametrize("is_enforced", [True, False])
def test_keys_without_an_enforced_domain_are_no_security(tmp_path: Path, is_enforced: bool) -> None:
    """They let in everybody: such a socket is held to be plain."""
    keyring = Keyring(tmp_path / "keys")
    keyring.make_own()
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        links.server(socket, keyring)
        if is_enforced:
            assert links.bind(socket, "tcp://*:0")
        else:
            socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 0)
            with pytest.raises(InvalidArgument, match="without keys"):
                links.bind(socket, "tcp://*:0")
