"""Headroom: strangers are let in as long as they leave descriptors to those of this host, and no longer."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import zmq

from appbackplane.transport.security import headroom, links
from appbackplane.transport.security.headroom import NEWCOMER_NS, NEWCOMERS_MIN, SAID_NS, Headroom
from appbackplane.transport.security.keyring import Keyring

from .house import LIMIT_S, Guest, House, raw
from .test_intrusion import served

#: `tcpi_state` of a connection whose first packet was not answered (Linux, tcp_states.h).
SYN_SENT = 2
#: When they came.
MANY = dict.fromkeys(range(NEWCOMERS_MIN), 0)
FEW = dict.fromkeys(range(NEWCOMERS_MIN - 1), 0)
NOBODY: dict[int, int] = {}


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A port."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.fixture
def room(listener: socket.socket) -> Iterator[Headroom]:
    """Its headroom."""
    made = Headroom(listener.fileno())
    yield made
    made.close()


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Descriptors that are open, of a hundred."""
    count = [50]
    monkeypatch.setattr(headroom, "descriptors_max", lambda: 100)
    monkeypatch.setattr(headroom, "open_count", lambda _limit: count[0])
    return count


@pytest.mark.parametrize(
    ("arrivals", "open_count", "now_ns", "is_paused"),
    [
        (MANY, 50, 0, True), (MANY, 100, NEWCOMER_NS - 1, True), (MANY, 49, 0, False), (MANY, 100, NEWCOMER_NS, False),
        (FEW, 100, 0, False), (NOBODY, 100, 0, False),
    ],
)  # fmt: skip
def test_newcomers_wait_while_others_have_half(
    room: Headroom, used: list[int], arrivals: dict[int, int], open_count: int, now_ns: int, is_paused: bool
) -> None:
    """Some are let in whatever others hold; and who has stayed for longer than a handshake is no stranger."""
    used[0] = open_count
    room.look(arrivals, now_ns)
    assert room.is_paused is is_paused


def test_who_is_dropped_gets_in_later_and_who_is_in_stays(
    listener: socket.socket, room: Headroom, used: list[int]
) -> None:
    """TCP tries again by itself."""
    with socket.create_connection(listener.getsockname(), timeout=LIMIT_S) as friend, socket.socket() as newcomer:
        served_by, _ = listener.accept()
        room.look(MANY, 0)
        newcomer.setblocking(False)
        newcomer.connect_ex(listener.getsockname())
        friend.sendall(b"still")
        assert served_by.recv(9) == b"still"
        assert newcomer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == SYN_SENT
        room.look(NOBODY, 0)
        listener.settimeout(LIMIT_S)
        accepted, _ = listener.accept()
        assert accepted.getpeername() == newcomer.getsockname()
        accepted.close()
        served_by.close()


def test_it_is_logged_once_a_minute(room: Headroom, used: list[int]) -> None:
    """Strangers decide how often newcomers wait."""
    said = []
    for now_ns in (0, 1, SAID_NS):
        many = dict.fromkeys(range(NEWCOMERS_MIN), now_ns)
        said += [room.look(many, now_ns), room.look(NOBODY, now_ns)]
    sentence = (
        "new connections wait: half of 100 descriptors are open, and many connections have not shown a key yet (raise the "
        "limit, "
        "ulimit -Hn or LimitNOFILE, or keep strangers from the port)"
    )
    assert said == [sentence, None, None, None, sentence, None]


def test_a_kernel_without_filters_is_told_of(room: Headroom, used: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The node serves as it would without."""
    monkeypatch.setattr(headroom, "_SO_ATTACH_FILTER", 9_999)
    sentence = room.look(MANY, 0)
    assert sentence == "connections that have shown no key cannot be limited: Protocol not available"
    assert not room.is_paused


def test_those_who_are_served_do_not_notice(
    house: House, friend: Guest, guest: Callable[[str], Guest], used: list[int]
) -> None:
    """And whoever is trusted comes in when the strangers have had their time."""
    other = guest("other")
    house.trust("other", other.key)
    with ExitStack() as stack:
        for _ in range(2 * NEWCOMERS_MIN):
            stranger = stack.enter_context(socket.socket())
            stranger.setblocking(False)
            stranger.connect_ex(("127.0.0.1", house.port))
        assert house.says("new connections wait")
        served(house, friend)
        other.connect(house)
        assert other.waits(b"at last") == b"at last"


def test_the_port_is_free_when_its_owner_has_closed_it(tmp_path: Path) -> None:
    """A second descriptor of a listening socket keeps it listening, and nobody would accept."""
    with House(tmp_path / "house") as house:
        pass
    with pytest.raises(ConnectionRefusedError):
        raw(house)


def test_fewer_wait_in_the_kernel_where_there_are_few_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are accepted still when new ones are dropped."""
    keyring = Keyring(tmp_path)
    keyring.make_own()
    monkeypatch.setattr(links, "descriptors_max", lambda: 1_024)
    with zmq.Context() as context, context.socket(zmq.ROUTER) as bound:
        links.server(bound, keyring)
        assert bound.getsockopt(zmq.BACKLOG) == 64
