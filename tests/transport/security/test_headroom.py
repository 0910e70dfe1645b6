"""Headroom: strangers are let in as long as they leave descriptors to those of this host, and no longer."""

from __future__ import annotations

import select
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
#: An option that no kernel has.
NO_OPTION = 9_999
#: When they came.
MANY = dict.fromkeys(range(NEWCOMERS_MIN), 0)
FEW = dict.fromkeys(range(NEWCOMERS_MIN - 1), 0)
NOBODY: dict[int, int] = {}


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A port."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.fixture(params=["filter", "epoll"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How new connections are held up: by a socket filter, or where that is not permitted by ZeroMQ's epoll set."""
    found: str = request.param
    if found == "epoll":
        monkeypatch.setattr(headroom, "_SO_ATTACH_FILTER", NO_OPTION)
        return found
    with socket.create_server(("127.0.0.1", 0)) as tried:
        room = Headroom(tried.fileno())
        try:
            room._filter(is_paused=True)
        except PermissionError:
            pytest.skip("this kernel lets only privileged users attach a socket filter")
        finally:
            room.close()
    return found


@pytest.fixture
def epoll(listener: socket.socket) -> Iterator[select.epoll]:
    """The set in which the listener is waited for, as ZeroMQ does."""
    with select.epoll() as made:
        made.register(listener.fileno(), select.EPOLLIN)
        yield made


@pytest.fixture
def room(listener: socket.socket, way: str, epoll: select.epoll) -> Iterator[Headroom]:
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
    listener: socket.socket, room: Headroom, used: list[int], way: str, epoll: select.epoll
) -> None:
    """TCP tries again by itself, or the kernel keeps it in a queue of which nobody is told."""
    with socket.create_connection(listener.getsockname(), timeout=LIMIT_S) as friend, socket.socket() as newcomer:
        served_by, _ = listener.accept()
        room.look(MANY, 0)
        newcomer.setblocking(False)
        newcomer.connect_ex(listener.getsockname())
        friend.sendall(b"still")
        assert served_by.recv(9) == b"still"
        if way == "filter":
            assert newcomer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == SYN_SENT
        assert epoll.poll(0) == []
        room.look(NOBODY, 0)
        assert epoll.poll(LIMIT_S) == [(listener.fileno(), select.EPOLLIN)]
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


def test_where_neither_is_possible_that_is_said(
    listener: socket.socket, used: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node serves as it would without."""
    monkeypatch.setattr(headroom, "_SO_ATTACH_FILTER", NO_OPTION)
    room = Headroom(listener.fileno())
    sentence = room.look(MANY, 0)
    room.close()
    assert sentence == "connections that have shown no key cannot be limited: Protocol not available"
    assert not room.is_paused


@pytest.mark.parametrize("house", [links.LIMITS], ids=["a second"], indirect=True)
def test_those_who_are_served_do_not_notice(
    way: str, house: House, friend: Guest, guest: Callable[[str], Guest], used: list[int]
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
