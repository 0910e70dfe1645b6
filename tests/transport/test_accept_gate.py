"""Accept gate: a listener takes one connection at a time, and its process never runs out of descriptors by them."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import zmq

from appbackplane.transport import accept_gate
from appbackplane.transport.accept_gate import LOOK_NS, REPORT_EVERY_NS, RESERVE, AcceptGate
from appbackplane.transport.link import READ_AHEAD, Link
from tests.waiting import Limit, wait_until

MUTE = 20
PLENTY = 1 << 16


@pytest.fixture
def server(run_dir: Path) -> Iterator[Link]:
    """A link that listens."""
    link = Link("server-1")
    link.bind(run_dir / "server.sock")
    yield link
    link.close()


@pytest.fixture
def gate(server: Link, run_dir: Path) -> Iterator[AcceptGate]:
    """Its gate."""
    made = AcceptGate(run_dir / "server.sock")
    yield made
    made.close()


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Descriptors that are left, of very many."""
    left = [PLENTY]
    monkeypatch.setattr(accept_gate, "descriptors_max", lambda: PLENTY)
    monkeypatch.setattr(accept_gate, "open_count", lambda most: most - left[0])
    return left


class Talker:
    """A client that is answered: until then ZeroMQ's thread has done all that came before its question."""

    def __init__(self, server: Link, path: Path) -> None:
        self.link, self._server = Link("talker"), server
        self._peer = self.link.connect(path)

    def is_answered(self, gate: AcceptGate | None = None) -> None:
        """Ask, and wait for the answer."""
        self.link.send(self._peer, b"ask")
        limit = Limit()
        while (asked := self._server.receive()) is None:
            limit.check()
            if gate is not None:
                gate.look(0)
        self._server.send(asked[0], b"answer")
        while self.link.receive() is None:
            limit.check()


@pytest.fixture
def talker(server: Link, gate: AcceptGate, run_dir: Path) -> Iterator[Talker]:
    """It is connected."""
    made = Talker(server, run_dir / "server.sock")
    made.is_answered(gate)
    gate.look(0)  # a permission may be left that was given while ZeroMQ was accepting
    yield made
    made.link.close(0)


def knock(held: ExitStack, path: Path, count: int) -> None:
    """So many connections that say nothing, at once."""
    for _ in range(count):
        one = held.enter_context(socket.socket(socket.AF_UNIX))
        one.setblocking(False)
        one.connect(os.fspath(path))


def waits(gate: AcceptGate) -> bool:
    """Whether its owner would be woken."""
    poll = select.poll()
    poll.register(gate.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def accepted(path: Path) -> int:
    """How many connections this process has accepted there."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found = socket.socket(fileno=int(name))
        except OSError:  # no socket
            continue
        try:
            if found.family == socket.AF_UNIX and found.getsockname() == os.fspath(path):
                count += not found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        finally:
            found.detach()
    return count


def test_each_look_lets_one_connection_in_however_many_come_at_once(
    gate: AcceptGate, talker: Talker, run_dir: Path, free: list[int]
) -> None:
    """A burst of connections within milliseconds aborted a supervisor with a low limit: it counted when all had come."""
    path = run_dir / "server.sock"
    before = accepted(path)
    with ExitStack() as held:
        knock(held, path, MUTE)
        for looks in range(1, 4):
            assert waits(gate)
            assert gate.look(0) is None
            wait_until(lambda looks=looks: accepted(path) >= before + looks)  # type: ignore[misc]
            talker.is_answered()
            assert accepted(path) == before + looks


def test_while_few_descriptors_are_left_connections_wait_and_then_come_in(
    gate: AcceptGate, talker: Talker, server: Link, run_dir: Path, free: list[int]
) -> None:
    """Whoever is connected is served meanwhile, and nobody wakes the owner in vain."""
    free[0] = RESERVE
    with ExitStack() as held:
        knock(held, run_dir / "server.sock", 1)
        before = accepted(run_dir / "server.sock")
        line = gate.look(0)
        shortage = f"{RESERVE} of {PLENTY} file descriptors are left (ulimit -Hn, LimitNOFILE=)"
        assert line == f"{shortage}: new connections wait until others are closed"
        assert gate.is_shut and gate.due_ns == LOOK_NS
        assert not waits(gate)
        talker.is_answered()
        assert accepted(run_dir / "server.sock") == before
        free[0] += 1
        assert gate.look(LOOK_NS - 1) is None
        assert gate.is_shut, "not looked at before it is due"
        assert gate.look(LOOK_NS) is None
        assert not gate.is_shut and gate.due_ns is None
        wait_until(lambda: accepted(run_dir / "server.sock") == before + 1)


def test_a_quarter_of_few_descriptors_is_kept(
    gate: AcceptGate, talker: Talker, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a process with a limit of 256 would take no connection at all."""
    monkeypatch.setattr(accept_gate, "descriptors_max", lambda: 100)
    with ExitStack() as held:
        knock(held, run_dir / "server.sock", 1)
        for used, is_shut in ((75, True), (74, False)):
            monkeypatch.setattr(accept_gate, "open_count", lambda _most, used=used: used)
            gate.look(gate.due_ns or 0)
            assert gate.is_shut is is_shut


def test_a_shortage_is_reported_once_a_minute(gate: AcceptGate, talker: Talker, run_dir: Path, free: list[int]) -> None:
    """It may begin and end ten times a second."""
    said = []
    with ExitStack() as held:
        knock(held, run_dir / "server.sock", 1)
        free[0] = 0
        for now_ns in (0, LOOK_NS, REPORT_EVERY_NS - 1, REPORT_EVERY_NS + LOOK_NS):
            said.append(gate.look(now_ns) is not None)
    assert said == [True, False, False, True]


def test_a_kernel_that_does_not_show_the_listener_is_reported_and_all_are_accepted(
    server: Link, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some sandboxes have a /proc of their own."""
    monkeypatch.setattr(accept_gate, "REGISTERED_MS", 1)
    monkeypatch.setattr(accept_gate, "FDINFO", os.fspath(run_dir))
    for name in os.listdir("/proc/self/fd"):
        (run_dir / name).write_text("pos:\t0\nflags:\t02\n")
    gate = AcceptGate(run_dir / "server.sock")
    assert gate.due_ns == 0
    line = gate.look(0)
    assert line is not None and "nothing limits the connections" in line
    assert gate.look(1) is None and not gate.is_shut
    talker = Talker(server, run_dir / "server.sock")
    talker.is_answered()
    talker.link.close(0)
    gate.close()


FLOODED = """
import os, resource, sys
from pathlib import Path
import select
from appbackplane.transport.accept_gate import AcceptGate
from appbackplane.transport.link import Link

path = Path(sys.argv[1])
link = Link("server-1")
link.bind(path)
gate = AcceptGate(path)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
poll = select.poll()
for fd in (link.fileno(), gate.fileno(), 0):
    poll.register(fd, select.POLLIN)
print("serving", flush=True)
now_ns = 0
while True:
    ready = poll.poll(0 if link.has_input() else 10)
    if any(fd == 0 for fd, _ in ready):
        break
    now_ns += 100_000_000
    if gate.look(now_ns) is not None:
        print("shut", flush=True)
    while (received := link.receive()) is not None:
        print(received[0].decode(), flush=True)
gate.close()
link.close(0)
"""


@pytest.fixture
def flooded(run_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that serves, may have 64 descriptors, and writes whose frames it receives."""
    with subprocess.Popen(
        [sys.executable, "-c", FLOODED, os.fspath(run_dir / "server.sock")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "serving\n"
        yield process
        process.kill()


def test_mute_connections_up_to_the_limit_leave_the_process_alive(
    flooded: subprocess.Popen[str], run_dir: Path
) -> None:
    """ZeroMQ aborted it when it accepted the one for which no descriptor was left."""
    assert flooded.stdout is not None
    with ExitStack() as held:
        knock(held, run_dir / "server.sock", 80)
        assert flooded.stdout.readline() == "shut\n"
        client = Link("client-1")
        client.send(client.connect(run_dir / "server.sock"), b"hello")
    assert flooded.stdout.readline().startswith("client-1-"), flooded.communicate()
    client.close(0)
    assert flooded.communicate("")[1] == ""
    assert flooded.returncode == 0


def test_connections_under_the_identity_of_one_that_lives_end_at_the_gate(
    flooded: subprocess.Popen[str], run_dir: Path
) -> None:
    """ZeroMQ ignores them, and never closes the descriptor of one that has sent more than is read ahead."""
    assert flooded.stdout is not None
    client = Link("client-1")
    peer = client.connect(run_dir / "server.sock")
    client.send(peer, b"hello")
    assert flooded.stdout.readline().startswith("client-1-")
    with zmq.Context() as context, ExitStack() as others:
        for _ in range(64):
            other = others.enter_context(context.socket(zmq.DEALER))
            other.linger = 0
            other.routing_id = client.known_as(peer)
            other.connect(f"ipc://{run_dir}/server.sock")
            for _ in range(2 * READ_AHEAD):
                other.send(b"never read", zmq.NOBLOCK)
        assert flooded.stdout.readline() == "shut\n"
    client.send(peer, b"still there")
    assert flooded.stdout.readline().startswith("client-1-"), flooded.communicate()
    client.close(0)
    assert flooded.communicate("")[1] == ""
    assert flooded.returncode == 0
