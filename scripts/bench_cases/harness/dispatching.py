"""Dispatching: a dispatcher in a whole backplane of this process, with real workers, and nobody outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from appbackplane.runtime.backplane import Backplane
from appbackplane.runtime.dispatcher import Dispatcher
from appbackplane.runtime.execution.clock import RealClock
from appbackplane.runtime.process_config import ProcessConfig
from appbackplane.transport.link import Link


@contextmanager
def dispatching(dispatcher: Dispatcher, threads: int) -> Iterator[Backplane]:
    """It is up; so many threads until `set_threads` says otherwise."""
    config = ProcessConfig(
        system="bench",
        backplane="dispatching",
        run_dir="/nowhere",
        components=(),
        preempt=False,  # a relief would be one thread more than was asked for
        slow_action_ns=10**12,
    )
    backplane = Backplane(config, [dispatcher], clock=RealClock(), link=Link("bench-dispatching"))
    backplane.start(threads)
    try:
        yield backplane
    finally:
        backplane.stop(5.0)
