"""A real kernel in a real backplane, with its threads and its clock, and no sockets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from appbackplane.runtime.backplane import Backplane
from appbackplane.runtime.execution.workers.clock import RealClock
from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.runtime.process_config import ProcessConfig
from appbackplane.runtime.requests import Figures, RequestKernel
from appbackplane.transport.link import Link
from tests.waiting import LIMIT_S


class Live:
    """One backplane with one kernel."""

    def __init__(self, kernel: RequestKernel, **settings: Any) -> None:
        config = ProcessConfig(
            system="test", backplane="k", run_dir="/nowhere", components=(), **{"preempt": False, **settings}
        )
        self.kernel = kernel
        self.backplane = Backplane(config, [kernel], clock=RealClock(), link=Link("test-requests"))
        self.backplane.start(1)

    def move(self, state: ModuleState) -> None:
        """Bring the kernel to a state, and wait until it is there. Raises what went wrong."""
        problems: list[Any] = []
        is_done = threading.Event()

        def ended(error: Any) -> None:
            problems.append(error)
            is_done.set()

        engine = self.backplane.engine
        with engine.lead:
            engine.lifecycle.move(self.kernel.component_name, state, ended)
        assert is_done.wait(LIMIT_S)
        if problems[0]:
            raise problems[0]

    def up(self) -> None:
        self.move(ModuleState.INITIALIZING)
        self.move(ModuleState.PRIMARY)


@pytest.fixture
def live() -> Iterator[Callable[..., Live]]:
    """`live(kernel)`: it is up. With `is_up=False`, not yet."""
    started: list[Live] = []

    def start(kernel: RequestKernel, *, is_up: bool = True, **settings: Any) -> Live:
        made = Live(kernel, **settings)
        started.append(made)
        if is_up:
            made.up()
        return made

    yield start
    for each in started:
        each.backplane.stop(5)


def until(kernel: RequestKernel, holds: Callable[[Figures], bool]) -> Figures:
    """The figures, once they are so: for what tells nobody that it has happened."""
    pause = threading.Event()
    for _ in range(round(LIMIT_S / 0.002)):
        figures = kernel.figures()
        if holds(figures):
            return figures
        pause.wait(0.002)
    raise AssertionError(f"never: {kernel.figures()}")


def joined(thread: threading.Thread) -> None:
    """It has ended."""
    thread.join(LIMIT_S)
    assert not thread.is_alive(), f"{thread.name} hangs"
