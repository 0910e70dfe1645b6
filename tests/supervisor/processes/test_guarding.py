"""The guardian lives as long as its supervisor, and acts only if that is killed."""

from __future__ import annotations

import os
import secrets
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from appbackplane.supervisor.poller import Poller
from appbackplane.supervisor.processes.guarding import Guarding
from appbackplane.supervisor.processes.leftovers import VARIABLE
from tests.waiting import Limit

from ..conftest import LIMIT_S, is_alive

SECOND_NS = 1_000_000_000
#: A supervisor of few words: it has a guardian, and waits to be told how to end.
SUPERVISOR = """
import os, signal, sys
from appbackplane.supervisor.processes.guarding import Guarding
guarding = Guarding("demo", sys.argv[1], None, 0, print, lambda: 0)
print(guarding.pid, flush=True)
if sys.stdin.readline() == "kill\\n":
    os.kill(os.getpid(), signal.SIGKILL)
guarding.close()
"""


class Guarded:
    """One with a clock of ours."""

    def __init__(self) -> None:
        self.now_ns = 5 * SECOND_NS
        self.said: list[str] = []
        self.poller = Poller()
        self.guarding = Guarding("demo", secrets.token_hex(16), None, 0, self.say, lambda: self.now_ns)
        self.guarding.watch(self.poller)

    def say(self, text: str, level: str = "INFO") -> None:
        self.said.append(text)

    def kill(self) -> None:
        """And see it."""
        os.kill(self.guarding.pid, signal.SIGKILL)
        self.poller.wait(None, 0, lambda: True)


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    """Dismissed at the end, and gone."""
    found = Guarded()
    yield found
    found.guarding.close()
    assert not is_alive(found.guarding.pid)


def test_one_that_dies_is_replaced_ever_more_slowly(guarded: Guarded) -> None:
    """What kills it may do so for ever; the log and the CPU are for other things."""
    for pause_s in (1, 2, 4, 8, 16, 32, 60, 60):
        pid, started_ns = guarded.guarding.pid, guarded.now_ns
        guarded.now_ns += 1
        guarded.kill()
        assert guarded.guarding.due_ns == started_ns + pause_s * SECOND_NS
        guarded.guarding.turn(started_ns + pause_s * SECOND_NS - 1)
        assert guarded.guarding.pid == pid
        guarded.now_ns = started_ns + pause_s * SECOND_NS
        guarded.guarding.turn(guarded.now_ns)
        assert guarded.guarding.pid != pid
        assert guarded.guarding.due_ns is None
    assert guarded.said == ["warning: the guardian died (exit code -9)", "another guardian was started"] * 8


def test_after_a_long_life_at_once(guarded: Guarded) -> None:
    """Somebody may have mistaken it once."""
    guarded.now_ns += 61 * SECOND_NS
    guarded.kill()
    due_ns = guarded.guarding.due_ns
    assert due_ns is not None
    assert due_ns <= guarded.now_ns
    guarded.guarding.turn(guarded.now_ns)
    guarded.kill()
    assert guarded.guarding.due_ns == guarded.now_ns + SECOND_NS, "forgiven"
    guarded.guarding.turn(guarded.now_ns + SECOND_NS)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_orders_to_all_are_not_for_it(guarded: Guarded, number: signal.Signals) -> None:
    """Until its supervisor has acted on them there is something to guard."""
    wait_ready(guarded.guarding.pid)
    os.kill(guarded.guarding.pid, number)
    guarded.guarding.close()
    assert guarded.guarding._popen.returncode == 0, "it was there to be dismissed"


def test_other_users_do_not_learn_the_mark(guarded: Guarded) -> None:
    """Every command line can be read by all; who bears the mark is killed with what is left of the system."""
    wait_ready(guarded.guarding.pid)
    words = Path(f"/proc/{guarded.guarding.pid}/cmdline").read_bytes().split(b"\0")
    assert b"demo" in words
    assert guarded.guarding._mark.encode() not in words


def wait_ready(pid: int) -> None:
    """Until it reads from its supervisor, and has said what it does not listen to."""
    limit = Limit()
    wanted = 1 << (signal.SIGTERM - 1)
    while True:
        ignored = next(
            int(line.split()[1], 16)
            for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            if "SigIgn" in line
        )
        if ignored & wanted:
            return
        limit.check()


@pytest.mark.parametrize("how", ["kill", "go"])
def test_it_acts_only_if_its_supervisor_is_killed(how: str) -> None:
    """A supervisor that has gone in order has left what it wanted to leave."""
    mark = secrets.token_hex(16)
    sleep = [sys.executable, "-c", "import signal; signal.pause()"]
    with subprocess.Popen(sleep, env={**os.environ, VARIABLE: mark}) as ours:
        supervisor = subprocess.Popen(
            [sys.executable, "-c", SUPERVISOR, mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert supervisor.stdout is not None
        guardian = os.pidfd_open(int(supervisor.stdout.readline()))
        _, said = supervisor.communicate(f"{how}\n", timeout=LIMIT_S)
        assert select.select([guardian], [], [], LIMIT_S)[0]
        os.close(guardian)
        if how == "kill":
            assert ours.wait(LIMIT_S) == -signal.SIGKILL
            assert said.endswith("was killed; 1 process left: 0 ended alone, 1 killed\n")
        else:
            assert ours.poll() is None
            assert said == ""
        ours.kill()
