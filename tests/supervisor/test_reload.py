"""A running system is told what its TOML says now: what can be is changed at once, the rest by a restart of those concerned.

Real processes: the plan is the supervisor's, a change is seen by what the process does from then on, and who was not
concerned has the same pid and generation as before.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from appbackplane.supervisor.commands import main
from appbackplane.transport import Client, connect
from appbackplane.transport.errors import Busy, FailedPrecondition, InvalidArgument, NotFound

from .conftest import LIMIT_S, RunningSystem, is_alive

Start = Callable[..., RunningSystem]
DONE, FAILED, WRONG = 0, 1, 2

MODULE = '''
"""Who can be told much while he works."""
import logging, os, sys, threading
from appbackplane.runtime import AppObject, Component, operation

class Clerk(AppObject):
    @operation(priority=1)
    def wait(self, number: int) -> int:
        "Until as many as `number` are in here at one time."
        self._component.inside.release()
        with self._component.gate:
            self._component.count += 1
            self._component.gate.notify_all()
            assert self._component.gate.wait_for(lambda: self._component.count >= number, 30)
        return threading.get_ident()

class Index(Component):
    def __init__(self, size: int = 1) -> None:
        self.size, self.count = size, 0
        self.gate, self.inside = threading.Condition(), threading.Semaphore(0)

    def setup(self) -> None:
        for number in range(8):
            self.add(Clerk(), key=f"clerk-{number}")

    @operation()
    def pid(self) -> int:
        return os.getpid()

    @operation()
    def told(self) -> dict:
        "What this process was told."
        return {"size": self.size, "switch": sys.getswitchinterval(), "level": logging.getLogger().level,
                "cgroup": open("/proc/self/cgroup").read()}

    @operation()
    def log(self, text: str) -> None:
        logging.getLogger("index").debug(text)

    @operation()
    def forget(self) -> None:
        with self.gate:
            self.count = 0

class Query(Component):
    depends_on = ("index",)

    @operation()
    async def ask(self) -> int:
        return await self.call("index.pid")

class Extra(Component):
    @operation()
    def pid(self) -> int:
        return os.getpid()

class Broken(Component):
    def __init__(self) -> None:
        raise OSError("no licence")
'''


def run(*words: str) -> Result:
    """A command, as typed."""
    return CliRunner().invoke(main, [str(word) for word in words])


def errors(result: Result) -> list[str]:
    """The lines on standard error, but for those of progress."""
    return [line for line in result.stderr.splitlines() if not line.startswith("waiting for ")]


@pytest.fixture
def up(start: Start) -> RunningSystem:
    """A system that has come up; its TOML is to be changed."""
    system = start(module=MODULE)
    system.wait_up()
    return system


def write(system: RunningSystem, index: str = "", more: str = "", query: str = "", of_system: str = "") -> None:
    """Another TOML."""
    system.toml.write_text(
        f"""
[system]
name = "demo"
run_dir = "run"
{of_system}
[backplane.query]
components = ["demo:Query"]
{query}
[backplane.index]
{index if "components" in index else 'components = ["demo:Index"]' + chr(10) + index}
{more}
"""
    )


def reload(system: RunningSystem, *words: str) -> dict[str, Any]:
    """Done, as JSON."""
    result = run("reload", str(system.toml), "--json", *words)
    assert result.exit_code == DONE, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def ids(system: RunningSystem) -> dict[str, tuple[int, int]]:
    """Pid and generation of each."""
    return {entry["name"]: (entry["pid"], entry["generation"]) for entry in system.status()["backplanes"]}


@contextmanager
def under_load(system: RunningSystem, threads: int = 2) -> Iterator[list[int]]:
    """Calls without a pause, of which none may fail; how many there were so far."""
    counts, failures, stop = [0] * threads, [], threading.Event()

    def call(number: int) -> None:
        try:
            with connect(system.run_dir) as client:
                while not stop.is_set():
                    client.call("index.pid", timeout=LIMIT_S)
                    counts[number] += 1
        except Exception as error:
            failures.append(error)

    workers = [threading.Thread(target=call, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield counts
    finally:
        stop.set()
        for worker in workers:
            worker.join(LIMIT_S)
    assert failures == []
    assert all(counts), "there was a load"


# At once


def test_what_can_be_is_changed_at_once_under_load(up: RunningSystem) -> None:
    """A restart for a threshold would cost every caller a second; here nobody notices."""
    before = ids(up)
    with under_load(up), connect(up.run_dir) as client:
        for number, level in enumerate(("DEBUG", "INFO", "WARNING"), 1):
            write(
                up,
                f'threads = {number * 2}\nquotas = [0, {number}]\ntick = "{number}00ms"\nslow_action = "{number}ms"\n'
                f'max_latency = "{number * 50}us"\ncpu_limit = {90 + number}\ncpu_exempt = {number}',
                of_system=f'log = {{level = "{level}"}}\nstop_limit = "{number}s"',
            )
            answer = reload(up)
            assert answer["done"]
            assert answer["plan"]["restarted"] == []
            assert answer["generations"] == {}
            assert client.call("backplane.index.threads", timeout=LIMIT_S) == number * 2
            assert client.call("backplane.index.quotas", timeout=LIMIT_S) == [0, *[number] * 7]
            assert client.call("backplane.index.limits", timeout=LIMIT_S)["cpu_limit"] == 90 + number
            assert client.call("backplane.index.log_level", timeout=LIMIT_S) == level
            told = client.call("index.told", timeout=LIMIT_S)
            assert told["switch"] == pytest.approx(number * 1e-6)
            assert up.backplane("index")["cpu_limit"]["percent"] == 90 + number
    assert ids(up) == before


def test_nothing_to_do_is_said_and_nobody_is_disturbed(up: RunningSystem) -> None:
    """The usual case, from a script that reloads whatever was deployed."""
    before = ids(up)
    result = run("reload", str(up.toml))
    assert result.exit_code == DONE
    assert result.stdout == f"nothing has changed: the system is what {up.toml} says\n"
    assert ids(up) == before


def test_more_threads_take_a_blocked_queue_apart(up: RunningSystem) -> None:
    """Two calls that wait for each other: with one thread the second never begins, with two they meet."""
    with connect(up.run_dir) as client, connect(up.run_dir) as other:
        first = client.call_soon("index.wait", number=2, object_key="clerk-0", timeout=LIMIT_S)
        second = client.call_soon("index.wait", number=2, object_key="clerk-1", timeout=LIMIT_S)
        wait_blocked(up)
        assert other is not client
        result = run("scale", "index", "--threads", "2", "-s", str(up.toml))
        assert result.exit_code == DONE, result.output
        assert first.result(LIMIT_S) != second.result(LIMIT_S), "two threads"
