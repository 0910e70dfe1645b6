"""Law 11. Every action is timed (queue wait, run, CPU); one that runs longer than `slow_action` is reported with its stack.

Without it "why is it slow?" is answered by guessing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appbackplane.runtime import AppObject, operation
from appbackplane.runtime.backplane import Backplane
from appbackplane.runtime.execution.sentinel.sentinel import HEARTBEAT_NS, Sentinel
from appbackplane.runtime.execution.workers.clock import RealClock
from appbackplane.runtime.objects.component import Component
from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.runtime.process_config import ProcessConfig
from appbackplane.runtime.testing import VirtualBackplane, VirtualClock
from appbackplane.transport.link import Link
from tests.waiting import LIMIT_S


class Disk(AppObject):
    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    @operation(priority=1)
    def scan(self, busy: float = 0.0, idle: float = 0.0) -> None:
        self._clock.work(busy)
        self._clock.sleep(idle)

    @operation()
    async def fetch(self) -> None:
        self._clock.work(0.001)
        await self.call("other.value")
        self._clock.work(0.002)


def figures(backplane: VirtualBackplane, name: str) -> dict[str, Any]:
    found: dict[str, Any] = backplane.backplane.statistics()["operations"][name]
    return found


def test_wait_run_and_cpu_are_kept_apart() -> None:
    """Law 11. Slow because it waits, because it computes, or because it blocks: three remedies."""
    backplane = VirtualBackplane()
    disk = backplane.add(Disk(backplane.clock))
    backplane.post(disk, "scan", busy=0.010, idle=0.005)
    backplane.post(disk, "scan")
    backplane.run_until_idle()
    scan = figures(backplane, "bench.scan")
    assert (scan["count"], scan["cpu_ms"]) == (2, 10.0)
    assert (scan["run"]["max_us"], scan["wait"]["max_us"]) == (15_000.0, 15_000.0)
    assert (scan["run"]["mean_us"], scan["wait"]["mean_us"]) == (7_500.0, 7_500.0)


def test_time_spent_awaiting_is_neither_waiting_in_a_queue_nor_running() -> None:
    """Law 11. A slow callee must not look like a slow operation, or the wrong team is called."""
    backplane = VirtualBackplane(outside=("other.value",))
    disk = backplane.add(Disk(backplane.clock))
    backplane.post(disk, "fetch")
    backplane.advance(5)
    backplane.outside_calls()[0].reply(1)
    backplane.run_until_idle()
    fetch = figures(backplane, "bench.fetch")
    assert (fetch["count"], fetch["run"]["max_us"], fetch["wait"]["max_us"]) == (1, 3_000.0, 0.0)


def test_one_that_exceeds_slow_action_is_reported_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Law 11. The report names operation, object and time; what is fast is not mentioned."""
    backplane = VirtualBackplane(slow_action=0.05)
    disk = backplane.add(Disk(backplane.clock))
    with caplog.at_level(logging.WARNING, logger="appbackplane.runtime"):
        backplane.post(disk, "scan", busy=0.049)
        backplane.run_until_idle()
        assert caplog.messages == []
        backplane.post(disk, "scan", idle=0.080)
        backplane.run_until_idle()
    assert caplog.messages == ["slow action: bench.scan on virtual/bench.0 ran 80.0 ms"]
    assert figures(backplane, "bench.scan")["slow"] == 1
    assert backplane.backplane.statistics()["slow_actions"] == 1


class Stuck(Component):
    def __init__(self) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    @operation(states=("initializing", "primary"))
    def hang(self) -> None:
        self._in_the_depths_of_a_library()

    def _in_the_depths_of_a_library(self) -> None:
        self.has_begun.set()
        assert self.may_end.wait(LIMIT_S)

    def on_initializing(self) -> None:
        self.hang()


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[tuple[Sentinel, Stuck, Backplane]]:
    """A real worker in a real thread, with one action that does not end; its sentinel looks when the test says so."""
    component = Stuck()
    config = ProcessConfig(
        system="law", backplane="bp", run_dir=str(tmp_path), components=(), slow_action_ns=50_000_000
    )
    link, control = Link("law-11"), Link("law-11-control")
    backplane = Backplane(config, [component], clock=RealClock(), link=link)
    sentinel = Sentinel(
        backplane.engine,
        control,
        tmp_path,
        lifeline_fd=None,
        slot=None,
        statistics=backplane.statistics,
        why=backplane.why,
        configure=backplane.configure,
    )
    backplane.start(1)
    try:
        yield sentinel, component, backplane
    finally:
        component.may_end.set()
        assert backplane.stop(LIMIT_S)
        sentinel.close()


@pytest.mark.parametrize(
    ("max_latency_ns", "slow_action_ns", "pause_ns"),
    [
        (5_000_000, 50_000_000, 4_000_000),
        (100_000, 50_000_000, 4_000_000),
        (10_000_000, 50_000_000, 8_000_000),
        (250_000_000, 50_000_000, 25_000_000),
        (250_000_000, 1_000_000_000, 200_000_000),
        (10_000_000_000, 10_000_000_000, HEARTBEAT_NS),
    ],
)
def test_looks_are_as_far_apart_as_the_latency_contract_allows(
    stuck: tuple[Sentinel, Stuck, Backplane], max_latency_ns: int, slow_action_ns: int, pause_ns: int
) -> None:
    """Law 11. Looks of which nobody has anything cost bulk work its CPU; too rare ones miss heartbeats and slow actions."""
    sentinel, _, backplane = stuck
    sentinel.max_latency_ns = max_latency_ns
    backplane.engine.reports.slow_actions.threshold_ns = slow_action_ns
    assert sentinel._look(backplane.engine.clock.now_ns()) == pause_ns


def test_the_stack_is_taken_while_it_runs(
    stuck: tuple[Sentinel, Stuck, Backplane], caplog: pytest.LogCaptureFixture
) -> None:
    """Law 11. Afterwards the stack shows the worker loop; during the stall it shows the culprit, to the line."""
    sentinel, component, backplane = stuck
    engine = backplane.engine
    with engine.lead:
        engine.lifecycle.move("stuck", ModuleState.INITIALIZING, lambda error: None)
    assert component.has_begun.wait(LIMIT_S)
    with caplog.at_level(logging.WARNING, logger="appbackplane.runtime"):
        sentinel._look(engine.clock.now_ns() + 1_000_000_000)
        sentinel._look(engine.clock.now_ns() + 1_100_000_000)
    (message,) = [message for message in caplog.messages if message.startswith("slow action")]
    assert "slow action: stuck.on_initializing on bp/stuck has been running for" in message
    assert "in _in_the_depths_of_a_library" in message
    assert "assert self.may_end.wait(LIMIT_S)" in message
