"""In process: a whole backplane in this process, with real workers, and nobody outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from appbackplane.runtime import Component
from appbackplane.runtime.backplane import Backplane
from appbackplane.runtime.dispatcher import Dispatcher
from appbackplane.runtime.execution.workers.clock import RealClock
from appbackplane.runtime.process_config import ProcessConfig
from appbackplane.transport.link import Link


def config_of(name: str, run_dir: str = "/nowhere", **settings: Any) -> ProcessConfig:
    """No action in it is slow: a benchmark is not told about them."""
    return ProcessConfig(
        system="bench", backplane=name, run_dir=run_dir, components=(), slow_action_ns=10**12, **settings
    )


def backplane_of(config: ProcessConfig, component: Component, link: Link | None = None) -> Backplane:
    """Not started yet."""
    link = link or Link(f"bench-{config.backplane}")
    return Backplane(config, [component], clock=RealClock(), link=link)


@contextmanager
def bound(name: str, component: Component, **settings: Any) -> Iterator[Backplane]:
    """One that others could reach. Not started yet."""
    with TemporaryDirectory(prefix="ab-") as folder:
        link = Link(f"bench-{name}")
        link.bind(Path(folder) / f"{name}.sock")
        yield backplane_of(config_of(name, **settings), component, link)


@contextmanager
def dispatching(dispatcher: Dispatcher, threads: int) -> Iterator[Backplane]:
    """It is up; so many threads until `set_threads` says otherwise."""
    # preempt: a relief would be one thread more than was asked for
    backplane = backplane_of(config_of("dispatching", preempt=False), dispatcher)
    backplane.start(threads)
    try:
        yield backplane
    finally:
        backplane.stop(5.0)
