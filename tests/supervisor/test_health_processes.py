"""Health of real processes: what hangs is replaced, with its stacks in the log; what is only slow, stopped or throttled is not."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from appbackplane.transport import connect
from appbackplane.transport.errors import BackplaneError

from .conftest import LIMIT_S, RunningSystem

Start = Callable[..., RunningSystem]

MODULE = '''
"""What hangs, in every way that there is."""
import ctypes, os, pathlib, threading, time
from appbackplane.runtime import Component, operation

HERE = pathlib.Path(__file__).parent
LOCK = threading.Lock()
C = ctypes.PyDLL(None)

class Query(Component):
    @operation(priority=4)
    def echo(self, text: str) -> str:
        return text

    @operation()
    def keep_the_interpreter(self) -> None:
        while True:
            C.sleep(1000)  # a PyDLL does not let go of the GIL

    @operation()
    def wait_for_ever(self) -> None:
        with LOCK, LOCK:
            pass

    @operation()
    def take_long(self) -> None:
        self._wait()

    @operation(is_long=True)
    def take_long_by_design(self) -> None:
        self._wait()

    def _wait(self) -> None:
        (HERE / "begun").touch()
        while not (HERE / "enough").exists():
            time.sleep(0.01)

    @operation()
    def compute(self, seconds: float) -> float:
        (HERE / "begun").touch()
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass
        return seconds

class Index(Component):
    @operation()
    def echo(self, text: str) -> str:
        return text
'''


@contextmanager
def calls(system: RunningSystem, *routes: str, **arguments: Any) -> Iterator[list[Any]]:
    """So many calls, each from a thread of its own, in this order; at the end of the block all have ended, with these results."""
    results: list[Any] = [None] * len(routes)

    def call(index: int, route: str) -> None:
        with connect(system.run_dir) as client:
            begun.set()
            try:
                results[index] = client.call(route, timeout=LIMIT_S, **arguments.get(route.rpartition(".")[2], {}))
            except BackplaneError as error:
                results[index] = error

    threads = []
    for index, route in enumerate(routes):
        begun = threading.Event()
        threads.append(threading.Thread(target=call, args=(index, route)))
        threads[-1].start()
        assert begun.wait(LIMIT_S)
    yield results
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive(), "every call ends in a reply or a status"


def looks(system: RunningSystem, seconds: float) -> Iterator[dict[str, Any]]:
    """What is told of `query`, again and again, for so long."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        yield system.backplane("query")
        system.read(0.05)


def wait_until(is_so: Callable[[], bool]) -> None:
    """It becomes so."""
    end_s = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def end(system: RunningSystem) -> None:
    """In order."""
    system.signal(signal.SIGTERM)
    assert system.wait_down() == 0


def test_who_keeps_the_interpreter_to_itself_is_replaced(start: Start) -> None:
    """No Python runs in it any more, not even the sentinel; its stacks come all the same, and name the function."""
    system = start('stuck_after = "1s"', module=MODULE)
    system.wait_up()
    with calls(system, "query.keep_the_interpreter") as results:
        system.wait_said("'query': unknown: no heartbeat for ")
        system.wait_said("in keep_the_interpreter")
        system.wait_said("stacks are in the log; starting it again now")
        system.wait_said("'query': up again, generation 2")
    assert isinstance(results[0], BackplaneError)
    said = [line for line in system.said if "Thread 0x" in line or "Current thread 0x" in line]
    assert len(said) >= 2, "all threads"
    assert system.backplane("index")["generation"] == 1
    end(system)


def test_a_deadlock_with_work_behind_it_is_replaced(start: Start) -> None:
    """The sentinel beats, and that proves nothing. Who waits behind it is told, and the next is served."""
    system = start('stuck_after = "1s"', module=MODULE)
    system.wait_up()
    with calls(system, "query.wait_for_ever", "query.echo", echo={"text": "x"}) as results:
        said = system.wait_said("'query': wedged: 1 action ready, nothing begun or finished for ")
        system.wait_said("in wait_for_ever")
        system.wait_said("'query': up again, generation 2")
    assert [isinstance(result, BackplaneError) for result in results] == [True, True], said
    with connect(system.run_dir) as client:
        assert client.call("query.echo", text="again") == "again"
    assert "wedged: 1 action ready" in system.backplane("query")["reason"]
    assert "stacks are in the log" in system.backplane("query")["reason"]
    end(system)
