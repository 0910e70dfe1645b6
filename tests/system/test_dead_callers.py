"""Callers that are killed: nobody goes on working for them, in whatever place their calls are."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from appbackplane.transport import Client

from .conftest import System, ask_until, standing, wait_dead, wait_ready

WORKSHOP = """
[backplane.workshop]
components = ["components:Worker"]
[backplane.agency]
components = ["components:Agent"]
[backplane.mill]
components = ["components:Mill"]
"""
#: Far more than a second's work, at 20 ms each.
CALLS = 1_000


@pytest.fixture(scope="module")
def system(_no_ignored_interrupt: None) -> Iterator[System]:
    """A workshop, an agency that has it work, and a mill that is slow."""
    with standing(WORKSHOP) as system:
        yield system


@pytest.fixture
def client(system: System) -> Iterator[Client]:
    """Who looks what happens. Nothing was written before."""
    with system.connect() as client:
        client.call("worker.forget")
        yield client


def kill(program: subprocess.Popen[str]) -> None:
    """Without a word."""
    wait_ready(program)
    program.kill()
    wait_dead(program.pid)


def test_what_a_dead_client_has_queued_is_withdrawn_and_what_it_has_cast_is_done(
    client: Client, system: System
) -> None:
    """Its thousand calls are 20 s of work for nobody, and their places nobody else's; its casts never had anybody waiting."""
    program = system.program("heap", str(CALLS), "10", "0.02")
    kill(program)
    ask_until(client, "backplane.mill.statistics", lambda told: told["components"]["mill"]["outstanding"] == 0)
    told = client.call("backplane.mill.statistics")
    ground = client.call("mill.ground")
    assert told["operations"]["mill.grind"]["cancelled"] == told["links"]["abandoned"]
    # What runs when it is withdrawn goes on; and on a busy machine one after the other begins before its turn comes.
    abandoned = told["links"]["abandoned"]
    assert abandoned <= CALLS <= ground - 10 + abandoned, "each is ground or withdrawn"
    assert 10 <= ground < CALLS / 2


def test_what_takes_its_time_for_a_dead_client_is_told(client: Client, system: System) -> None:
    """Its next await says `Cancelled`, here and in the backplane that it awaits; what was put off is forgotten."""
    program = system.program("engage")
    wait_ready(program)
    ask_until(client, "worker.ended", lambda log: sorted(log) == ["a began", "b began"])
    program.kill()
    wait_dead(program.pid)
    ask_until(client, "worker.ended", lambda log: sorted(log[2:]) == ["a Cancelled", "b Cancelled"])
    ask_until(client, "backplane.workshop.statistics", lambda told: told["components"]["worker"]["outstanding"] == 0)
    client.call("worker.open", key="gate")
    assert client.call("worker.who_passed", key="gate") == []


def test_what_a_dead_backplane_wanted_is_not_done_either(client: Client, system: System) -> None:
    """It is a caller like any other, and the supervisor tells of its death."""
    call = client.submit("agent.have_done", arguments={"name": "a", "key": "place-1"})
    ask_until(client, "worker.ended", lambda log: log == ["a began"])
    os.kill(system.pids()["agency"], signal.SIGKILL)
    assert call.exception() is not None
    ask_until(client, "worker.ended", lambda log: log == ["a began", "a Cancelled"])
