"""Bytes that are not taken in as messages are bounded for all connections of a key; who has much to say is not hung up on."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import zmq

from appbackplane.transport.security import endless, links
from appbackplane.transport.security.doorstep import Doorstep
from appbackplane.transport.security.endless import Brought, Endless
from appbackplane.transport.security.gatekeeper import Gatekeeper
from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.security.keys import PublicKey
from appbackplane.transport.security.roll import LOOK_NS, Roll
from tests.waiting import Limit

from .house import LIMIT_S, PATIENT, Guest, House, wait_for

BYTES_MAX = 1 << 20
LARGE = bytes(2 << 20)
#: Two of them are beyond the bound, and one is not.
BELOW = bytes(BYTES_MAX * 3 // 4)
SECOND_NS = 1_000_000_000
#: Nobody dials again, and nobody else than the roll ends a connection.
LIMITS = replace(PATIENT, heartbeat_ms=0, silence_ms=0)


class Door:
    """One who listens, and reads when a test says so."""

    def __init__(self, folder: Path) -> None:
        self.keyring = Keyring(folder)
        self.key: PublicKey = self.keyring.make_own()
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.gatekeeper = Gatekeeper(self.context, self.keyring)
        links.server(self.socket, self.keyring, LIMITS)
        self.doorstep = Doorstep(self.socket, self.gatekeeper)
        self.port = int(links.bind(self.socket, "tcp://127.0.0.1:0").rpartition(":")[2])
        self.doorstep.listens()
        self.roll = Roll(self.gatekeeper, self.socket)
        self._now_ns = 0

    def lets_in(self, guest: Guest) -> None:
        """Who is trusted from here on."""
        House.trust_in(self.keyring, guest.keyring.folder.path.name, guest.key)
        links.client(guest.socket, guest.keyring, self.key, LIMITS)
        links.connect(guest.socket, f"tcp://127.0.0.1:{self.port}")
        self.until(lambda: bool(guest.socket.poll(10, zmq.POLLOUT)))

    def reads(self) -> None:
        """The next message."""
        assert self.socket.poll(int(LIMIT_S * 1000))
        assert self.roll.admit(self.socket.recv_multipart(copy=False)[-1]) is not None

    def sweep(self) -> None:
        """As an owner does, with a look at each connection."""
        self._now_ns += LOOK_NS
        self.gatekeeper.answer(0)
        while self.doorstep.look(0):
            pass
        self.roll.sweep(self._now_ns, waiting=self.doorstep.waiting)

    def until(self, is_so: Callable[[], bool]) -> None:
        """Sweep until it is so."""
        limit = Limit()
        while not is_so():
            limit.check("it has not come to that")
            self.sweep()


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    """With a smaller bound."""
    monkeypatch.setattr(endless, "ENDLESS_BYTES", BYTES_MAX)
    door = Door(tmp_path / "door")
    yield door
    door.doorstep.close()
    door.gatekeeper.close()
    door.context.destroy(linger=0)


def test_who_sends_more_than_anybody_may_and_no_message_is_cut_off(door: Door, guest: Callable[[str], Guest]) -> None:
    """No message comes here as none is read: for the roll it is the same. Another who is idle stays."""
    greedy, idle = guest("greedy"), guest("idle")
    events = [one.watch(zmq.EVENT_DISCONNECTED) for one in (greedy, idle)]
    for one in (greedy, idle):
        door.lets_in(one)
        one.socket.send(b"here")
        door.reads()
    greedy.socket.send(LARGE)
    door.until(lambda: bool(events[0].poll(0)))
    wait_for(events[0], zmq.EVENT_DISCONNECTED)
    assert door.roll.cut_count == 1 and not events[1].poll(0)


@pytest.mark.parametrize("has_spoken", [True, False])
def test_what_one_key_leaves_is_counted_for_its_connections_together(
    door: Door, guest: Callable[[str], Guest], *, has_spoken: bool
) -> None:
    """Each of them below the bound: 30 connections of one key had 2.7 GiB. Nor does it help to say nothing before."""
    greedy = [guest("greedy"), guest("other")]
    greedy[1].keyring, greedy[1].key = greedy[0].keyring, greedy[0].key
    events = [one.watch(zmq.EVENT_DISCONNECTED) for one in greedy]
    for one in greedy:
        door.lets_in(one)
        if has_spoken:
            one.socket.send(b"here")
            door.reads()
    for one in greedy:
        one.socket.send(BELOW)
    door.until(lambda: door.roll.cut_count == 1)
    door.until(lambda: any(each.poll(0) for each in events))
    for _ in range(5):
        door.sweep()
    assert door.roll.cut_count == 1, "the other is within the bound alone"


def test_who_has_not_come_to_the_end_of_his_first_message_is_cut_off_too(
    door: Door, guest: Callable[[str], Guest]
) -> None:
    """Before he is known: else he had ten seconds."""
    greedy = guest("greedy")
    events = greedy.watch(zmq.EVENT_DISCONNECTED)
    door.lets_in(greedy)
    greedy.socket.send(LARGE)
    door.until(lambda: bool(events.poll(0)))
    wait_for(events, zmq.EVENT_DISCONNECTED)
    for _ in range(5):
        door.sweep()
    assert door.roll.cut_count == 1


def test_who_has_much_to_say_and_comes_to_ends_stays(door: Door, guest: Callable[[str], Guest]) -> None:
    """However much it is; and who was not read for a while, as the reader stood still, has that time made good."""
    friend = guest("friend")
    events = friend.watch(zmq.EVENT_DISCONNECTED)
    door.lets_in(friend)
    for _ in range(10):
        friend.socket.send(LARGE)
        assert door.socket.poll(int(LIMIT_S * 1000))  # all of it is here
        door.sweep()
        door.reads()
        door.sweep()
    assert door.roll.cut_count == 0 and not events.poll(0)


def test_many_messages_leave_nothing_behind(
    door: Door, guest: Callable[[str], Guest], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a message is longer on the wire would add up to the bound, and end a connection that says much."""
    monkeypatch.setattr(endless, "ENDLESS_BYTES", 1_000)  # a handshake has 600
    friend = guest("friend")
    door.lets_in(friend)
    for size in (0, 1, 222, 223, 300) * 50:
        friend.socket.send(bytes(size))
        door.reads()
    for _ in range(2):
        door.sweep()
    assert door.roll.cut_count == 0


def test_another_connection_has_no_credit_for_the_messages_of_the_one_before_it() -> None:
    """It has the descriptor of that one, and brings a message without an end instead."""
    one = Endless()
    one.begins(7, ("here", 1))
    one.took(7, 2 * endless.ENDLESS_BYTES)
    one.look([Brought(7, "key", ("here", 1), 2 * endless.ENDLESS_BYTES)], SECOND_NS)
    newcomer = Brought(7, "", ("here", 2), 2 * endless.ENDLESS_BYTES)
    assert one.look([newcomer], SECOND_NS) == [], "that may still be read"
    assert one.look([newcomer], SECOND_NS) == [7]
    assert one.look([newcomer], SECOND_NS) == [], "each is told once"


def test_those_that_leave_the_most_are_hung_up_on() -> None:
    """Until the rest of the key is within the bound; what waits for less than a look is not counted."""
    one, third = Endless(), endless.ENDLESS_BYTES // 3
    three = [Brought(fd, "key", fd_ends(fd), third + fd) for fd in (1, 2, 3)]
    others = [Brought(fd, "other", fd_ends(fd), third) for fd in (4, 5, 6)]
    assert one.look([*three, *others], 0) == []
    assert one.look([*three, *others], 0) == [3]
    more = [each._replace(received=each.received + endless.ENDLESS_BYTES) for each in others]
    assert one.look([*three[:2], *more], 0) == []


def test_heartbeats_do_not_add_up() -> None:
    """Or each idle connection would end after some weeks; and one of which no look came for long, at once."""
    one, received = Endless(), 600
    for seconds in (1, 3_600, 86_400) * 100:
        received += 210 * seconds
        assert one.look([Brought(7, "key", fd_ends(7), received)], seconds * SECOND_NS) == []


def fd_ends(fd: int) -> endless.Ends:
    """Those of a connection."""
    return "here", fd


def test_zeromq_gathers_the_parts_of_one_message_without_bound() -> None:
    """Why all this is. Should it fail, ZeroMQ has found a bound of its own, and endless.py can go."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as bound:
        bound.setsockopt(zmq.RCVHWM, 4)
        port = bound.bind_to_random_port("tcp://127.0.0.1")
        with socket.create_connection(("127.0.0.1", port), LIMIT_S) as peer:
            peer.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
            ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
            peer.sendall(b"\x04" + bytes((len(ready),)) + ready)
            part = b"\x03" + struct.pack(">Q", 1 << 20) + bytes(1 << 20)
            for _ in range(64):  # more than buffers hold: it would not return
                peer.sendall(part)
            assert not bound.poll(0)
