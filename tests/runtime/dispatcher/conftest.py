"""A backplane of real worker threads in the test's process, for what a virtual one cannot show: things at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from appbackplane.runtime.backplane import Backplane
from appbackplane.runtime.build import BUILD
from appbackplane.runtime.dispatcher import Dispatcher
from appbackplane.runtime.execution.workers.clock import RealClock
from appbackplane.runtime.process_config import ProcessConfig
from appbackplane.transport.link import Link
from tests.waiting import LIMIT_S


class Wait:
    """For events, with a generous limit."""

    @staticmethod
    def until(event: threading.Event, what: str) -> None:
        assert event.wait(LIMIT_S), f"{what}: not within {LIMIT_S} s"


@pytest.fixture
def wait() -> type[Wait]:
    return Wait


def started(dispatcher: Dispatcher, *, threads: int, slow_action_s: float = 1000.0, name: str = "test") -> Backplane:
    """A backplane that runs the dispatcher; whoever starts it stops it."""
    config = ProcessConfig(
        system="test", backplane="real", run_dir="/nowhere", components=(), preempt=False,
        slow_action_ns=round(slow_action_s * 1e9),
    )  # fmt: skip
    backplane = Backplane(config, [dispatcher], clock=RealClock(), link=Link(name))
    backplane.start(threads)
    return backplane


@pytest.fixture
def running() -> Iterator[Callable[..., Backplane]]:
    """Brings a dispatcher up on so many threads; stopped when the test has ended."""
    backplanes: list[Backplane] = []

    def start(dispatcher: Dispatcher, *, threads: int, slow_action_s: float = 1000.0) -> Backplane:
        name = f"test-{len(backplanes)}"
        backplane = started(dispatcher, threads=threads, slow_action_s=slow_action_s, name=name)
        backplanes.append(backplane)
        return backplane

    yield start
    for backplane in backplanes:
        backplane.stop(LIMIT_S)


@pytest.fixture
def replaceable() -> None:
    """For tests that put functions of their own in the place of ours, which those of the compiled package do not notice."""
    if BUILD == "compiled":
        pytest.skip("functions of the compiled package cannot be replaced")
