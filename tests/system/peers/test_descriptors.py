"""Descriptors: strangers who open as many connections as they can do not end a node that may have few."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from tests.waiting import LIMIT_S

from .conftest import Meet

#: What `ulimit -n` is by default, and where many containers have their hard limit.
DESCRIPTORS = 1_024
HALF_OPEN = 4_000
#: Clients of this host, one after the other; each has a connection to the node's process.
CLIENTS = 100


@contextmanager
def strangers(host: str, port: int) -> Iterator[Event]:
    """So many half-open connections, each made anew when it was hung up on. The event: as many as that were begun."""
    have_come, is_over = Event(), Event()

    def come() -> None:
        connections: dict[int, socket.socket] = {}
        poll = select.epoll()
        begun = 0
        while not is_over.is_set():
            while len(connections) < HALF_OPEN:
                stranger = socket.socket()
                stranger.setblocking(False)
                stranger.connect_ex((host, port))
                connections[stranger.fileno()] = stranger
                poll.register(stranger, select.EPOLLRDHUP)
                begun += 1
            if begun > HALF_OPEN:
                have_come.set()
            for fd, _ in poll.poll(0.05):
                connections.pop(fd).close()
        for stranger in connections.values():
            stranger.close()
        poll.close()

    thread = Thread(target=come)
    thread.start()
    try:
        yield have_come
    finally:
        is_over.set()
        thread.join()


def test_strangers_leave_descriptors_for_those_of_this_host(meet: Meet) -> None:
    """ZeroMQ ends a process whose local listener has none left, and five ends are as many as a supervisor permits."""
    few = ("sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "sh")
    nodes = meet("ab", prefixes={"b": few})
    b = nodes.systems["b"]
    before = b.pids()
    host, _, port = nodes.address("b").removeprefix("tcp://").rpartition(":")
    with nodes.client("a") as peer, strangers(host, int(port)) as have_come:
        assert have_come.wait(LIMIT_S)
        for number in range(CLIENTS):
            with b.connect() as client:
                assert client.call("a/prices.told", timeout=LIMIT_S)["deaf"] == []
            assert peer.call("b/calc.add", x=number, y=1, timeout=LIMIT_S) == number + 1
    assert b.pids() == before
