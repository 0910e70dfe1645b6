"""Backpressure end to end: whoever sends faster than it is served is slowed or told, memory stays flat, urgent calls pass.

Everything on the way has a bound: what a client has outstanding, what waits for a peer that does not read, what ZeroMQ
has in its queues, what a component has admitted. Memory is what the kernel says that the processes have.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from appbackplane.transport import Client
from appbackplane.transport.errors import Busy, DeadlineExceeded
from tests.figures import LONG

from .conftest import LIMIT_S, System, Up, answer_of, ask_until, wait_ready

MILL = """
drain_limit = "500ms"
stop_limit = "2s"
[backplane.mill]
components = ["components:Mill"]
[backplane.farm]
components = ["components:Farm"]
"""
#: Grains in the mill's queue, and seconds for each: 20 s for all, which an urgent call must not wait for.
GRAINS, GRAIN_S = 2_000, 0.01
#: The bounds themselves: 64 MiB outstanding of a client, 32 waiting for a peer, 64 read ahead; each copied at times, and
#: garbage that has not been collected. Without bounds it is 100 MiB a second, 600 in one of these tests.
BOUND_MIB = 320.0
#: Grains that are ground for a client that outruns the mill: it is slowed, and not left waiting.
GROUND_MIN = 100


@pytest.fixture
def system(up: Up) -> System:
    """A mill, and a farm that sends it more than it can grind."""
    return up(MILL)


def mib(pid: int) -> float:
    """Memory of a process."""
    return psutil.Process(pid).memory_info().rss / (1 << 20)


class Looking:
    """Asks the mill all the time how much it has ground, as a client of its own, and how much memory processes have."""

    def __init__(self, client: Client, pids: dict[str, int]) -> None:
        self.answers_count = 0
        self.memory_mib: dict[str, list[float]] = {name: [] for name in pids}
        self._client, self._pids = client, pids
        self._is_over = threading.Event()
        self._problems: list[Exception] = []
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        try:
            while True:  # once at least: what it looks at may be over before this thread first runs
                self._client.call("mill.tell", timeout=LIMIT_S)
                self.answers_count += 1
                for name, pid in self._pids.items():
                    self.memory_mib[name].append(mib(pid))
                if self._is_over.wait(0.02):
                    return
        except Exception as error:
            self._problems.append(error)

    def growth_mib(self, name: str) -> float:
        """By which a process has grown at most since the first look."""
        found = self.memory_mib[name]
        return max(found) - found[0]

    @contextmanager
    def at_it(self) -> Iterator[None]:
        """Meanwhile."""
        self._thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            self._thread.join(2 * LIMIT_S)
        assert self._problems == []


def test_an_urgent_call_is_answered_before_what_was_sent_before_it(system: System) -> None:
    """Told by the answer: how much had been ground when it was given. In the order of arrival that would be all. By another
    client, and by the very same.
    """
    with system.connect() as client, system.connect() as other:
        for asking in (other, client):
            before = client.call("mill.tell", timeout=LIMIT_S)
            grinding = [client.submit("mill.grind", seconds=GRAIN_S, timeout=10 * LIMIT_S) for _ in range(GRAINS)]
            if asking is other:
                ask_until(client, "backplane.mill.statistics", lambda told: told["queues"]["actions"] > GRAINS / 2)
            asked = asking.submit("mill.tell", timeout=LIMIT_S)
            assert asked.result() - before < GRAINS / 2
            assert not grinding[-1].done()
            for call in grinding:
                call.cancel()
            ask_until(client, "backplane.mill.statistics", lambda told: not told["components"]["mill"]["outstanding"])


@pytest.mark.parametrize("size", [pytest.param(0, marks=LONG), 100_000])
def test_a_client_that_outruns_a_backplane_is_slowed_and_urgent_calls_pass(system: System, size: int) -> None:
    """Those of another client, and those of the very same. Neither process keeps all that was ever submitted."""
    with system.connect() as client:
        looking = Looking(client, {"mill": system.pids()["mill"]})
        program = system.program("outrun", str(size), "3", str(GROUND_MIN))
        with looking.at_it():
            answer = answer_of(program)
    assert looking.answers_count and answer["ground"], "urgent calls were not answered"
    assert set(answer["ends"]) <= {"ground", "DeadlineExceeded", "Busy", "submit: Busy"}
    assert answer["ends"]["ground"] >= GROUND_MIN
    assert answer["late_mib"] - answer["early_mib"] < BOUND_MIB
    assert looking.growth_mib("mill") < BOUND_MIB


def test_an_object_that_outruns_another_backplane_is_told_and_its_urgent_calls_pass(system: System) -> None:
    """A cast waits for nothing, so nothing but a bound stops it: what is refused is counted, what has no room is told."""
    with system.connect() as client:
        looking = Looking(client, system.pids())
        with looking.at_it():
            tipping = client.submit("farm.tip", count=20_000, size=10_000, timeout=LIMIT_S)
            carrying = [client.submit("farm.carry", size=10_000, timeout=2.0) for _ in range(50)]
            asked_count = 0
            while not asked_count or not tipping.done():  # once at least: all may be tipped before we are at it
                client.call("farm.ask", timeout=LIMIT_S)
                asked_count += 1
            told_busy = tipping.result()
            for call in carrying:
                call.exception()
        ask_until(  # until it is seen to be outrun: the mill may have to read the last loads yet
            client, "backplane.mill.statistics", lambda told: told_busy + told["components"]["mill"]["refused"] > 1_000
        )
        assert asked_count and looking.answers_count, "urgent calls were not answered"
        for name in ("mill", "farm"):
            assert looking.growth_mib(name) < BOUND_MIB


def test_callers_of_a_stopped_backplane_are_slowed_and_stay_as_they_are(system: System) -> None:
    """It reads nothing and is not dead: whoever calls it learns by deadlines, and serves all others meanwhile."""
    with system.connect() as client:
        pids = system.pids()
        farm_mib = mib(pids["farm"])
        os.kill(pids["mill"], signal.SIGSTOP)
        try:
            program = system.program("outrun", "100000", "3")
            told_busy = 0
            for _ in range(10):
                told_busy = client.call("farm.tip", count=1_000, size=20_000, timeout=LIMIT_S)
            assert told_busy > 1_000
            carrying = [client.submit("farm.carry", size=10_000, timeout=1.0) for _ in range(50)]
            assert {type(call.exception()) for call in carrying} <= {DeadlineExceeded, Busy}
            answer = answer_of(program)
        finally:
            os.kill(pids["mill"], signal.SIGCONT)
        assert set(answer["ends"]) <= {"DeadlineExceeded", "submit: Busy", "ask: DeadlineExceeded"}
        assert answer["late_mib"] - answer["early_mib"] < BOUND_MIB
        assert mib(pids["farm"]) - farm_mib < BOUND_MIB
        assert ask_until(client, "mill.ring", lambda pid: pid == pids["mill"])


RADIO = """
[backplane.sender]
components = ["components:Sender"]
"""


def test_a_subscriber_that_does_not_read_costs_its_publisher_nothing(up: Up) -> None:
    """It loses messages, and is told how many; whoever reads hears all."""
    system = up(RADIO)
    with system.connect() as client:
        deaf = system.program("deaf", "numbers.*")
        wait_ready(deaf)
        pid = system.pids()["sender"]
        with client.subscribe("numbers.*", timeout=LIMIT_S) as subscription:
            grown_mib = []
            before_mib = mib(pid)
            sent = 0
            for _ in range(40):
                sent = client.call("sender.send", count=100, size=50_000, timeout=LIMIT_S)
                for _ in range(100):
                    subscription.get(timeout=LIMIT_S)
                grown_mib.append(mib(pid) - before_mib)
            assert subscription.lost_count == 0
        statistics = client.call("backplane.sender.statistics")
        answer = finish(deaf)
        assert max(grown_mib) < BOUND_MIB
        assert answer["grown_mib"] < BOUND_MIB
        assert answer["heard"] < sent
        assert statistics["links"]["topics_lost_here"] > 0
        ask_until(client, "sender.send", lambda last: last > sent, count=1)


def finish(program: subprocess.Popen[str]) -> Any:
    """Its standard input ends; what it says."""
    assert program.stdin is not None
    program.stdin.close()
    program.stdin = None
    return answer_of(program)
