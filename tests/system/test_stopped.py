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

from .conftest import System, answer_of, ask_until, standing, wait_asleep, wait_dead, wait_ready

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


@pytest.fixture(scope="module")
def system(_no_ignored_interrupt: None) -> Iterator[System]:
    """A ledger, and clerks who have things booked in it."""
    with standing(BOOKS) as system:
        yield system


@pytest.fixture
def client(system: System) -> Iterator[Client]:
    """A client. Nothing is outstanding."""
    with system.connect() as client:
        ask_until(client, "backplane.office.statistics", lambda told: not told["components"]["clerks"]["outstanding"])
        ask_until(client, "backplane.left.statistics", lambda told: not told["components"]["ledger"]["outstanding"])
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


class LedgerFigures:
    """What the ledger does from now on."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._total = client.call("ledger.total")
        self._before = self._figures(client.call("backplane.left.statistics"))

    def is_untouched(self) -> bool:
        """Whether nothing has been booked."""
        return bool(self._client.call("ledger.total") == self._total)

    def expired(self, count: int) -> int:
        """How many have, once so many have ended one way or the other."""

        def ended(told: Any) -> list[int]:
            return [now - then for now, then in zip(self._figures(told), self._before, strict=True)]

        told = ask_until(self._client, "backplane.left.statistics", lambda told: sum(ended(told)) >= count)
        return ended(told)[0]

    def _figures(self, told: Any) -> tuple[int, int]:
        book = told["operations"].get("ledger.book", {"expired": 0, "cancelled": 0})
        return book["expired"], book["cancelled"]


def test_what_was_wanted_before_a_backplane_went_on_is_not_run_late(client: Client, system: System) -> None:
    """A deadline counts from when the call was made: what it spends in the socket of a stopped process is spent."""
    ledger = LedgerFigures(client)
    with stopped(system.pids()["left"]):
        calls = [client.submit("ledger.book", number=number, timeout=0.5) for number in range(CALLS)]
        ends = Counter(type(call.exception()) for call in calls)
    assert ends == {DeadlineExceeded: CALLS}
    assert ledger.expired(CALLS) == CALLS
    assert ledger.is_untouched(), "run after their deadline"
    assert client.call("ledger.book", number=7) == 7


def test_nor_if_whoever_wanted_it_is_dead(client: Client, system: System) -> None:
    """Nobody takes these calls back: their deadline alone says that they are not wanted any more."""
    ledger = LedgerFigures(client)
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
    assert ledger.expired(1) > 0  # how many had left before their caller was killed is not known
    assert ledger.is_untouched(), "run for nobody, after their deadline"


def test_nor_if_an_object_wanted_it(client: Client, system: System) -> None:
    """Between backplanes, as between a client and one."""
    ledger = LedgerFigures(client)
    pid = system.pids()["left"]
    with stopped(pid):
        calls = [client.submit("clerks.book", number=number, timeout=0.5) for number in range(200)]
        ends = Counter(type(call.exception()) for call in calls)
    assert ends == {DeadlineExceeded: 200}
    assert ledger.is_untouched(), "run after their deadline"


def test_a_client_that_stood_still_learns_that_its_deadlines_have_passed(client: Client, system: System) -> None:
    """What was not answered in time is over when it goes on; what it had not sent by then is not run."""
    program = system.program("hold", "0.5")
    wait_ready(program)
    with stopped(program.pid):
        ask_until(client, "backplane.office.statistics", lambda told: told["components"]["clerks"]["outstanding"] == 0)
    assert answer_of(program) == {"ends": {"DeadlineExceeded": 10}}
