"""What a killed supervisor left is found and ended, and nobody else is touched."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appbackplane.supervisor.processes import leftovers
from appbackplane.supervisor.processes.leftovers import VARIABLE, EndedProcesses, end, find

from ..conftest import is_alive

Spawn = Callable[..., int]
SLEEP = [sys.executable, "-c", "print(flush=True); import signal; signal.pause()"]
#: Starts another, tells its pid, and goes on; the other has nothing from it but its parent, and its group or not.
PARENT = f"""
import signal, subprocess, sys
child = subprocess.Popen({SLEEP!r}, env={{}}, start_new_session=sys.argv[1] == "session", stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
signal.pause()
"""


@pytest.fixture
def mark() -> str:
    """Nobody has it."""
    return secrets.token_hex(16)


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Processes that are up when this returns; what it returns is what they print, or their pid."""
    started: list[subprocess.Popen[bytes]] = []

    def spawn(words: list[str], mark: str | None) -> int:
        environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
        if mark is not None:
            environment[VARIABLE] = mark
        popen = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, process_group=0)
        started.append(popen)
        assert popen.stdout is not None
        said = popen.stdout.readline().strip()
        return int(said) if said else popen.pid

    yield spawn
    for popen in started:
        popen.kill()
        popen.communicate()


def test_those_with_the_mark_are_ended_and_no_others(spawn: Spawn, mark: str) -> None:
    """A stranger's process that dies would be the last time that somebody uses this."""
    ours = spawn(SLEEP, mark)
    nested = spawn(SLEEP, f"{secrets.token_hex(16)} {mark}")
    strangers = [spawn(SLEEP, None), spawn(SLEEP, secrets.token_hex(16)), spawn(SLEEP, mark[:-1]), spawn(SLEEP, "")]
    assert find([mark]) == sorted([ours, nested])
    assert end([mark], 0) == EndedProcesses(by_force=2)
    assert not is_alive(ours)
    assert not is_alive(nested)
    assert all(is_alive(pid) for pid in strangers)
    assert find([mark]) == []


@pytest.mark.parametrize("how", ["session", "group"])
def test_relatives_are_found_without_a_mark(spawn: Spawn, mark: str, how: str) -> None:
    """`env -i`, sudo and their like clear the environment."""
    child = spawn([sys.executable, "-c", PARENT, how], mark)
    assert child in find([mark])
    assert end([mark], 0) == EndedProcesses(by_force=2)
    assert not is_alive(child)


def test_those_that_end_are_not_killed(spawn: Spawn, mark: str) -> None:
    """They get the time they are given, and no more than they need."""
    code = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit()); print(flush=True); signal.pause()"
    pid = spawn([sys.executable, "-c", code], mark)
    assert end([mark], 30_000_000_000, lambda: os.kill(pid, signal.SIGTERM)) == EndedProcesses(alone=1)


def test_the_stopped_are_killed(spawn: Spawn, mark: str) -> None:
    """They hear nothing else."""
    pid = spawn(SLEEP, mark)
    os.kill(pid, signal.SIGSTOP)
    assert str(end([mark], 0)) == "1 process left: 0 ended alone, 1 killed"


def test_no_mark_is_nobody(spawn: Spawn) -> None:
    """A run directory without a claim says nothing of anybody."""
    pid = spawn(SLEEP, "")
    assert end([], 0) == EndedProcesses()
    assert is_alive(pid)
    assert str(EndedProcesses()) == "none of its processes left"


def test_a_backplane_stays_known_under_its_title() -> None:
    """A title is written over the environment, unless one says otherwise; then nobody would find it."""
    code = (
        "import appbackplane.runtime.process as p; p.set_title('appbackplane: demo/index'); print(flush=True); input()"
    )
    words = [sys.executable, "-c", code, "x" * 80]
    with subprocess.Popen(
        words, env={**os.environ, VARIABLE: "m"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        shown = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        environment = Path(f"/proc/{process.pid}/environ").read_bytes()
        process.kill()
    assert shown.startswith(b"appbackplane: demo/index")
    assert f"{VARIABLE}=m".encode() in environment.split(b"\0")


def test_a_system_within_a_system_has_both_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the outer one dies, the inner goes with it; when the inner dies, the outer stays."""
    monkeypatch.setenv(VARIABLE, "outer")
    assert leftovers.environment("inner") == {VARIABLE: "outer inner"}
