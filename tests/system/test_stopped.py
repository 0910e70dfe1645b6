"""Processes that stand still for a while (SIGSTOP, a debugger, swapping): what was wanted by then is not done late."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from appbackplane.transport import Client
from appbackplane.transport.errors import DeadlineExceeded

from .conftest import System, Up, answer_of, ask_until, wait_asleep, wait_dead, wait_ready

BOOKS = """
[backplane.left]
components = ["components:Ledger"]
[backplane.office]
components = ["components:Clerks"]
"""
#: More than are taken in in one look at the link, so that some would be run before the cancellations behind them are read.
CALLS = 3_000
#: So many fit into the socket: they are on their way when their caller is killed.
WAVE = 500


@pytest.fixture
def system(up: Up) -> System:
    """A ledger, and clerks who have things booked in it."""
    return up(BOOKS)


@pytest.fixture
def client(system: System) -> Iterator[Client]:
    """A client."""
    with system.connect() as client:
        client.call("ledger.total")
        yield client


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Meanwhile a process stands still."""
    os.kill(pid, signal.SIGSTOP)
    try:
        while any(
            stat.read_text().rpartition(")")[2].split()[0] != "T" for stat in Path(f"/proc/{pid}/task").glob("*/stat")
        ):
            pass  # one thread after the other; the last one may still take something in
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def account(client: Client, count: int) -> dict[str, Any]:
    """The figures of `ledger.book`, once so many have ended one way or the other."""

    def figures(told: Any) -> Any:
        return told["operations"].get("ledger.book", {"expired": 0, "cancelled": 0, "count": 0})

    def is_over(told: Any) -> bool:
        book = figures(told)
        return bool(max(book["expired"] + book["cancelled"], book["count"]) >= count)

    found: dict[str, Any] = figures(ask_until(client, "backplane.left.statistics", is_over))
    return found


def test_what_was_wanted_before_a_backplane_went_on_is_not_run_late(client: Client, system: System) -> None:
    """A deadline counts from when the call was made: what it spends in the socket of a stopped process is spent."""
    with stopped(system.pids()["left"]):
        calls = [client.submit("ledger.book", number=number, timeout=0.5) for number in range(CALLS)]
        ends = Counter(type(call.exception()) for call in calls)
    assert ends == {DeadlineExceeded: CALLS}
    book = account(client, CALLS)
    assert client.call("ledger.total") == [0, 0], "run after their deadline"
    assert book["expired"] == CALLS
    assert client.call("ledger.book", number=7) == 7


def test_nor_if_whoever_wanted_it_is_dead(client: Client, system: System) -> None:
    """Nobody takes these calls back: their deadline alone says that they are not wanted any more."""
    program = system.program("hurry", "ledger.book", str(WAVE), "0.5")
    wait_ready(program)
    with stopped(system.pids()["left"]):
        assert program.stdin is not None
        print(file=program.stdin, flush=True)
        wait_ready(program)
        wait_asleep(program.pid)
        program.kill()
        wait_dead(program.pid)
        with pytest.raises(DeadlineExceeded):
            client.call("ledger.total", timeout=1.0)
    book = account(client, 1)  # how many had left before their caller was killed is not known
    assert client.call("ledger.total") == [0, 0], "run for nobody, after their deadline"
    assert book["expired"] > 0


def test_nor_if_an_object_wanted_it(client: Client, system: System) -> None:
    """Between backplanes, as between a client and one."""
    pid = system.pids()["left"]
    with stopped(pid):
        calls = [client.submit("clerks.book", number=number, timeout=0.5) for number in range(200)]
        ends = Counter(type(call.exception()) for call in calls)
    assert ends == {DeadlineExceeded: 200}
    assert client.call("ledger.total") == [0, 0], "run after their deadline"


def test_a_client_that_stood_still_learns_that_its_deadlines_have_passed(client: Client, system: System) -> None:
    """What was not answered in time is over when it goes on; what it had not sent by then is not run."""
    program = system.program("hold", "0.5")
    wait_ready(program)
    with stopped(program.pid):
        ask_until(client, "backplane.office.statistics", lambda told: told["components"]["clerks"]["outstanding"] == 0)
    assert answer_of(program) == {"ends": {"DeadlineExceeded": 10}}
