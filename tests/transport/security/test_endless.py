"""Who sends and never comes to the end of a message is cut off; who has much to say is not."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from appbackplane.transport.security import endless, links, roll
from appbackplane.transport.security.doorstep import Doorstep
from appbackplane.transport.security.gatekeeper import Gatekeeper
from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.security.keys import PublicKey
from appbackplane.transport.security.roll import Roll
from tests.waiting import Limit

from .house import LIMIT_S, Guest, House, wait_for

BYTES_MAX = 1 << 20
LARGE = bytes(2 << 20)


class Door:
    """One who listens, and reads when a test says so."""

    def __init__(self, folder: Path) -> None:
        self.keyring = Keyring(folder)
        self.key: PublicKey = self.keyring.make_own()
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.gatekeeper = Gatekeeper(self.context, self.keyring)
        links.server(self.socket, self.keyring)
        self.doorstep = Doorstep(self.socket, self.gatekeeper)
        self.port = int(links.bind(self.socket, "tcp://127.0.0.1:0").rpartition(":")[2])
        self.doorstep.listens()
        self.roll = Roll(self.gatekeeper, self.socket)

    def lets_in(self, guest: Guest) -> None:
        """Who is trusted from here on."""
        House.trust_in(self.keyring, guest.keyring.folder.path.name, guest.key)
        links.client(guest.socket, guest.keyring, self.key)
        links.connect(guest.socket, f"tcp://127.0.0.1:{self.port}")
        self.until(lambda: bool(guest.socket.poll(10, zmq.POLLOUT)))

    def reads(self) -> None:
        """The next message."""
        assert self.socket.poll(int(LIMIT_S * 1000))
        assert self.roll.admit(self.socket.recv_multipart(copy=False)[-1]) is not None

    def sweep(self) -> None:
        """As an owner does."""
        self.gatekeeper.answer(0)
        while self.doorstep.look(0):
            pass
        self.roll.sweep(waiting=self.doorstep.waiting)

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
    monkeypatch.setattr(roll, "SWEEPS_A_LOOK", 1)
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
