"""The roll: only the connection that is meant is ended, whatever number it has."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zmq

from appbackplane.transport.errors import FailedPrecondition
from appbackplane.transport.security import links
from appbackplane.transport.security.doorstep import SILENCE_NS, Doorstep
from appbackplane.transport.security.gatekeeper import Gatekeeper
from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.security.ring import Holder
from appbackplane.transport.security.roll import CONNECTIONS_OF_KEY_MAX, AdmittedConnection, Roll
from tests.waiting import Limit

from .house import LIMIT_S, PATIENT, Guest, House, wait_for


def test_a_connection_that_was_made_again_is_the_one_that_is_ended(house: House, friend: Guest) -> None:
    """It has the descriptor of the one before it, and the same name: it would be taken for that, and stay."""
    assert house.roll is not None
    for _ in range(3):
        friend.again()
        events = friend.watch(zmq.EVENT_DISCONNECTED)
        friend.connect(house)
        friend.waits(b"x")
    house.revoke("friend")
    wait_for(events, zmq.EVENT_DISCONNECTED)
    assert house.roll.cut_count == 1


def test_of_two_connections_of_one_key_both_are_ended(
    house: House, friend: Guest, guest: Callable[[str], Guest], tmp_path: Path
) -> None:
    """Urgent and bulk have one each."""
    other = guest("other")
    other.keyring = friend.keyring
    events = [each.watch(zmq.EVENT_DISCONNECTED) for each in (friend, other)]
    other.connect(house)
    other.waits(b"x")
    house.revoke("friend")
    for each in events:
        wait_for(each, zmq.EVENT_DISCONNECTED)
    assert house.roll is not None and house.roll.cut_count == 2


def test_one_key_has_so_many_connections_and_no_more(house: House, friend: Guest, tmp_path: Path) -> None:
    """Or it would take the descriptors of all. When some have ended, there is room again.

    Without heartbeats: a connection that lost them on a busy machine would make room for one more.
    """
    limits = replace(PATIENT, heartbeat_ms=0, silence_ms=0)
    with ExitStack() as stack:
        greedy = stack.enter_context(Guest(tmp_path / "greedy"))
        house.trust("greedy", greedy.key)
        guests = [
            stack.enter_context(Guest(tmp_path / f"greedy{n}", limits)) for n in range(CONNECTIONS_OF_KEY_MAX + 3)
        ]
        for guest in guests:
            guest.keyring = greedy.keyring
            guest.connect(house)
        for guest in guests[:CONNECTIONS_OF_KEY_MAX]:
            assert guest.waits(b"x") == b"x"
        roll = house.roll
        assert roll is not None
        for guest in guests[CONNECTIONS_OF_KEY_MAX:]:
            cut_before, limit = roll.cut_count, Limit()
            while roll.cut_count == cut_before:
                limit.check("one connection too many is not cut")
                assert guest.ask(b"x") is None
                if roll.cut_count == cut_before:  # its handshake failed, as on a busy machine
                    guest.again()
                    guest.connect(house)
        for guest in guests:
            guest.again()
        greedy.connect(house)
        assert greedy.waits(b"y") == b"y"
    assert friend.waits(b"z") == b"z"


def test_who_comes_in_and_says_nothing_is_hung_up_on(tmp_path: Path, guest: Callable[[str], Guest]) -> None:
    """Its key is unknown until it sends: nobody could end the connection when that key is revoked. One that has sent stays."""
    silent, friend = guest("silent"), guest("friend")
    limits = replace(PATIENT, heartbeat_ms=0, silence_ms=0)  # nobody dials again
    keyring = Keyring(tmp_path / "keys")
    key = keyring.make_own()
    for one in (silent, friend):
        House.trust_in(keyring, one.keyring.folder.path.name, one.key)
    with zmq.Context() as context, context.socket(zmq.ROUTER) as bound:
        gatekeeper, events = Gatekeeper(context, keyring), []
        links.server(bound, keyring, limits)
        doorstep = Doorstep(bound, gatekeeper)
        address = links.bind(bound, "tcp://127.0.0.1:0")
        doorstep.listens()
        roll = Roll(gatekeeper, bound)
        for one in (silent, friend):
            events.append(one.watch(zmq.EVENT_DISCONNECTED))
            links.client(one.socket, one.keyring, key, limits)
            links.connect(one.socket, f"tcp://127.0.0.1:{address.rpartition(':')[2]}")
        while not friend.socket.poll(10, zmq.POLLOUT) or not silent.socket.poll(10, zmq.POLLOUT):
            gatekeeper.answer(0)
            doorstep.look(0)
        friend.socket.send(b"here")
        assert roll.admit(bound.recv_multipart(copy=False)[-1]) is not None
        while doorstep.look(0):
            pass
        assert len(doorstep.waiting) == 2
        assert (doorstep.due(SILENCE_NS - 1), roll.sweep(0)) == ([], [])
        due = doorstep.due(SILENCE_NS)
        assert (len(due), doorstep.due(SILENCE_NS)) == (2, []), "each once"
        roll.sweep(0, due)
        wait_for(events[0], zmq.EVENT_DISCONNECTED)
        assert roll.cut_count == 1 and not events[1].poll(0)
        doorstep.close()
        gatekeeper.close()


@pytest.fixture
def roll(tmp_path: Path) -> Iterator[Roll]:
    """Of a socket that nobody is connected to."""
    keyring = Keyring(tmp_path / "keys")
    keyring.make_own()
    with zmq.Context() as context, context.socket(zmq.ROUTER) as bound:
        gatekeeper = Gatekeeper(context, keyring)
        links.server(bound, keyring)
        bound.bind_to_random_port("tcp://127.0.0.1")
        yield Roll(gatekeeper, bound)
        gatekeeper.close()


def test_another_who_has_the_descriptor_by_now_is_left_alone(roll: Roll) -> None:
    """Numbers are used again at once: a good peer's link, or a client of another port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        roll._port = listener.getsockname()[1]
        gone = socket.create_connection(listener.getsockname())
        first, _ = listener.accept()
        fd = first.fileno()
        roll._note(fd, "former/key", 1)
        here = socket.create_connection(listener.getsockname())
        first.close()
        second, _ = listener.accept()
        assert second.fileno() == fd, "the lowest number that is free"
        roll._cut(fd)
        here.settimeout(LIMIT_S)
        second.sendall(b"x")
        assert (here.recv(1), roll.cut_count) == (b"x", 0)
        roll._note(fd, "former/key", 2)
        roll._cut(fd)
        assert (here.recv(1), roll.cut_count) == (b"", 1)
        for each in (gone, here, second):
            each.close()


class Frame:
    """One that was read ahead, before its connection was ended."""

    def __init__(self, fd: int, user_id: str = "former/key") -> None:
        self._fd, self._user_id = fd, user_id

    def __len__(self) -> int:
        return 1

    def get(self, what: str | int) -> str | int:
        """Its name is nobody's who is trusted."""
        return self._fd if what == zmq.SRCFD else self._user_id


def test_what_was_read_ahead_of_one_that_was_ended_does_not_end_its_successor(roll: Roll) -> None:
    """A thousand frames of a key that was revoked, and a good peer that connects among them, by the same descriptor."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        roll._port = listener.getsockname()[1]
        gone = socket.create_connection(listener.getsockname())
        first, _ = listener.accept()
        frame: Any = Frame(first.fileno())
        assert roll.admit(frame) is None
        assert (gone.recv(1), roll.cut_count) == (b"", 1)
        here = socket.create_connection(listener.getsockname())
        first.close()
        second, _ = listener.accept()
        assert second.fileno() == frame.get(zmq.SRCFD)
        for _ in range(10):
            assert roll.admit(frame) is None
        second.sendall(b"x")
        assert (here.recv(1), roll.cut_count, roll.refused_count) == (b"x", 1, 11)
        for each in (gone, here, second):
            each.close()


def test_what_was_read_ahead_does_not_end_a_successor_that_has_spoken(
    roll: Roll, guest: Callable[[str], Guest]
) -> None:
    """The frames of both are read in turn: those of the one that was revoked are not the successor's."""
    key = guest("friend").keyring.own().public
    ring = roll._keyring.change(lambda ring: ring.trusting(Holder("friend", key)))
    (friend,) = (one for one in ring.holders if one.name == "friend")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        roll._port = listener.getsockname()[1]
        gone = socket.create_connection(listener.getsockname())
        first, _ = listener.accept()
        late: Any = Frame(first.fileno())
        fresh: Any = Frame(first.fileno(), friend.user_id)
        roll._gatekeeper.admissions.update({"former/key": 1, friend.user_id: 2})
        assert roll.admit(late) is None
        assert (gone.recv(1), roll.cut_count) == (b"", 1)
        here = socket.create_connection(listener.getsockname())
        first.close()
        second, _ = listener.accept()
        assert second.fileno() == late.get(zmq.SRCFD)
        for _ in range(10):
            assert roll.admit(fresh) is not None
            assert roll.admit(late) is None
        second.sendall(b"x")
        assert (here.recv(1), roll.cut_count, roll.refused_count) == (b"x", 1, 11)
        roll._keyring.change(lambda ring: ring.revoking("friend"))
        assert roll.sweep(0) == [friend.user_id]
        assert (here.recv(1), roll.cut_count) == (b"", 2)
        for each in (gone, here, second):
            each.close()


def test_a_key_that_dials_from_the_port_of_another_is_known_by_its_own_name(
    roll: Roll, guest: Callable[[str], Guest]
) -> None:
    """Both ends are the same, and the descriptor. If it were taken for what was read ahead, its revocation would not end it."""
    user_ids = []
    for name in ("first", "second"):
        key = guest(name).keyring.own().public
        ring = roll._keyring.change(lambda ring, name=name, key=key: ring.trusting(Holder(name, key)))  # type: ignore[misc]
        user_ids.append(ring.named(name).user_id)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        roll._port = listener.getsockname()[1]
        here = socket.create_connection(listener.getsockname())
        there, _ = listener.accept()
        for number, user_id in enumerate(user_ids, 1):
            roll._gatekeeper.admissions[user_id] = number
            frame: Any = Frame(there.fileno(), user_id)
            assert roll.admit(frame) is not None
        roll._keyring.change(lambda ring: ring.revoking("second"))
        assert roll.sweep(0) == [user_ids[1]]
        assert (here.recv(1), roll.cut_count) == (b"", 1)
        here.close()
        there.close()


def test_a_connection_of_another_port_is_never_ended(roll: Roll) -> None:
    """Metrics, a database: whatever the process has besides."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        roll._port = listener.getsockname()[1] + 1
        here = socket.create_connection(listener.getsockname())
        there, _ = listener.accept()
        roll._note(there.fileno(), "former/key", 1)
        roll._cut(there.fileno())
        there.sendall(b"x")
        assert (here.recv(1), roll.cut_count) == (b"x", 0)
        here.close()
        there.close()


def test_what_is_no_connection_at_all_is_nobody(roll: Roll, tmp_path: Path) -> None:
    """A file, or nothing."""
    with (tmp_path / "file").open("w") as file:
        for fd in (file.fileno(), 9_999):
            roll._note(fd, "former/key", 1)
            assert roll._connections[fd] == AdmittedConnection("former/key", 1, None)
            roll._cut(fd)
    assert roll.cut_count == 0


@pytest.mark.parametrize("is_enforced", [True, False])
def test_a_socket_that_does_not_ask_has_no_roll(tmp_path: Path, is_enforced: bool) -> None:
    """Without keys a peer says itself what its User-Id is; without an enforced domain everybody has come in."""
    keyring = Keyring(tmp_path / "keys")
    keyring.make_own()
    with zmq.Context() as context, context.socket(zmq.ROUTER) as bound:
        gatekeeper = Gatekeeper(context, keyring)
        if not is_enforced:
            links.server(bound, keyring)
            bound.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 0)
        bound.bind_to_random_port("tcp://127.0.0.1")
        with pytest.raises(FailedPrecondition, match="only known of a socket that was made a server"):
            Roll(gatekeeper, bound)
        gatekeeper.close()
