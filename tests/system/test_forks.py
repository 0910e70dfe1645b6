"""Operations that fork: the child is no second backplane, and the one that serves does not notice it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import psutil
import pytest

from appbackplane.runtime.execution.sentinel.forked import EXIT_FORKED
from appbackplane.transport import Client

from .conftest import LIMIT_S, System, standing

FORKER = """
[backplane.forker]
components = ["components:Forker"]
threads = 2
"""


@pytest.fixture(scope="module")
def system(_no_ignored_interrupt: None) -> Iterator[System]:
    """A backplane that forks."""
    with standing(FORKER) as system:
        yield system


def assert_serves(system: System, client: Client) -> None:
    """It, and nobody beside it, with all answers."""
    pid = client.call("forker.pid", timeout=LIMIT_S)
    assert pid == system.pids()["forker"] != os.getpid()
    assert psutil.Process(pid).children() == []
    for _ in range(200):
        assert client.call("forker.pid", timeout=LIMIT_S) == pid


@pytest.mark.parametrize("how", ["returns", "raises", "leaves"])
def test_a_child_that_comes_back_from_its_operation_ends_there(system: System, how: str) -> None:
    """It would go on as a worker, on its parent's sockets: read wake-ups that are its parent's, and live as long as he."""
    since = len(system.said)
    with system.connect() as client:
        for _ in range(3):
            assert client.call("forker.fork", key="fork", how=how, timeout=LIMIT_S) == EXIT_FORKED
        assert_serves(system, client)
    system.wait_for("has come back", since)


def test_a_child_that_ends_by_itself_ends_as_it_says(system: System) -> None:
    """What libraries fork is not our business."""
    with system.connect() as client:
        assert client.call("forker.fork", key="fork", how="ends", timeout=LIMIT_S) == 5
        assert client.call("forker.multiply", key="fork", timeout=LIMIT_S) == 0
        assert_serves(system, client)


def test_a_child_that_an_operation_has_forked_can_be_terminated(system: System) -> None:
    """It had its parent's handler of SIGTERM, which stops a sentinel that does not run there: a Pool never ended."""
    with system.connect() as client:
        assert client.call("forker.terminate", key="fork", timeout=LIMIT_S) == -signal.SIGTERM
        assert client.call("forker.pool", key="fork", numbers=[-1, 2], timeout=LIMIT_S) == [1, 2]
        assert_serves(system, client)


def test_a_program_that_an_operation_has_started_can_be_interrupted(system: System) -> None:
    """What a process ignores, the programs that it executes ignore as well."""
    with system.connect() as client:
        assert client.call("forker.interrupt", key="fork", timeout=LIMIT_S) == -signal.SIGINT
        assert_serves(system, client)
