"""Systems of real processes: started in the foreground as a person would, and looked at for what they leave behind."""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from appbackplane.supervisor.commands import asking
from appbackplane.supervisor.commands.asking import ask
from appbackplane.supervisor.processes.cgroups import reclaim
from appbackplane.transport.discovery import Location
from tests.launching import launch
from tests.waiting import LIMIT_S, Limit

HERE = Path(__file__).parent

MODULE = '''
"""What the tests of the supervisor run."""
import os, subprocess, sys, threading
from appbackplane.runtime import Component, operation

class Index(Component):
    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        if fails == "constructor":
            raise ValueError("no index here")
        if fails == "exit":
            print("exits by itself", file=sys.stderr)
            os._exit(7)

    def on_initializing(self) -> None:
        if self.fails == "hook":
            raise RuntimeError("cannot load")
        if self.fails == "escape":
            subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)

    def on_down(self) -> None:
        print("index is down", flush=True)
        if self.fails == "hang":
            threading.Event().wait()

    @operation(priority=2)
    def pid(self) -> int:
        "The process that serves."
        return os.getpid()

    @operation()
    def echo(self, text: str) -> str:
        return text

class Query(Component):
    depends_on = ("index",)

    def on_down(self) -> None:
        print("query is down", flush=True)

    @operation(calls=("index.pid",))
    async def ask(self) -> int:
        return await self.call("index.pid")
'''

TOML = """
[system]
name = "demo"
run_dir = "run"
{system}
[backplane.query]
components = ["demo:Query"]
[backplane.index]
components = ["demo:Index"]
{index}
"""

#: Without the one that depends on it.
ALONE = TOML.replace('[backplane.query]\ncomponents = ["demo:Query"]\n', "")
STAND_INS = """
[system]
name = "demo"
run_dir = "run"
{system}
[backplane.alpha]
components = ["stand:Alpha"]
{index}
"""


class RunningSystem:
    """A supervisor in the foreground."""

    def __init__(self, toml: Path, script: Path | None = None, prefix: Sequence[str] = ()) -> None:
        """`script`: a program that is the command line with something changed. `prefix`: words before the command."""
        self.toml, self.run_dir = toml, toml.parent / "run"
        self.said: list[str] = []
        self.pids: set[int] = set()
        self._rest = b""
        self.process = launch("up", str(toml), script=script, prefix=prefix)

    def wait_for(self, text: str) -> str:
        """The line that says it, said from now on."""
        seen = len(self.said)
        limit = Limit()
        while True:
            for line in self.said[seen:]:
                if text in line:
                    return line
            seen = len(self.said)
            limit.check((text, self.said))
            assert self.read(limit.left_s), (text, self.said)

    def wait_said(self, text: str, since: int = 0) -> str:
        """The first line that says it, from line `since` on."""
        seen, limit = since, Limit()
        while True:
            for line in self.said[seen:]:
                if text in line:
                    return line
            seen = len(self.said)
            limit.check((text, self.said[since:]))
            assert self.read(limit.left_s), (text, self.said[since:])

    def wait_up(self) -> dict[str, Any]:
        """Until it is up; its status."""
        self.wait_for("is up, pid")
        return self.status()

    def said_once(self, text: str) -> None:
        """In one line, and no more than one."""
        assert sum(text in line for line in self.said) == 1, self.said

    def read(self, timeout_s: float) -> bool:
        """More lines. False: there will be no more."""
        assert self.process.stderr is not None
        fd = self.process.stderr.fileno()
        if not select.select([fd], [], [], timeout_s)[0]:
            return True
        data = os.read(fd, 65_536)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.said += [line.decode() for line in lines]
        return bool(data)

    def status(self, *, statistics: bool = False) -> dict[str, Any]:
        """What it says of itself."""
        answer: dict[str, Any] = self.ask("supervisor.status", {"statistics": statistics})
        self.pids |= {backplane["pid"] for backplane in answer["backplanes"] if backplane["pid"]}
        return answer

    def ask(self, route: str, body: dict[str, Any] | None = None) -> Any:
        """One question to the supervisor."""
        return ask(Location(self.run_dir, "demo"), route, body, LIMIT_S)

    def backplane(self, name: str) -> dict[str, Any]:
        """Its entry in the status."""
        return next(backplane for backplane in self.status()["backplanes"] if backplane["name"] == name)

    def signal(self, number: signal.Signals) -> None:
        """To the supervisor."""
        self.process.send_signal(number)

    def wait_down(self) -> int:
        """Until it has ended, and then look at what it has left. Its exit code."""
        limit = Limit()
        while self.read(limit.left_s):
            limit.check(self.said)
        code = self.process.wait(LIMIT_S)
        assert not self.run_dir.exists(), "sockets and lock are gone"
        assert [pid for pid in self.pids if is_alive(pid)] == [], "no process is left"
        return code


def is_alive(pid: int) -> bool:
    """And not merely unburied."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@contextmanager
def starting(folder: Path) -> Iterator[Callable[..., RunningSystem]]:
    """Starts systems in a folder; whatever of them is left at the end is killed."""
    systems: list[RunningSystem] = []

    def begin(system: str = "", index: str = "", *, module: str = MODULE, stand_in: bool = False) -> RunningSystem:
        toml = folder / "demo.toml"
        (folder / "demo.py").write_text(module)
        toml.write_text((STAND_INS if stand_in else TOML).format(system=system, index=index))
        systems.append(RunningSystem(toml, HERE / "up_stand_in.py" if stand_in else None))
        return systems[-1]

    yield begin
    for system in systems:
        if system.process.poll() is None:
            children = psutil.Process(system.process.pid).children(recursive=True)
            for process in (psutil.Process(system.process.pid), *children):
                with suppress(psutil.NoSuchProcess):  # the kernel kills backplanes together with their supervisor
                    process.kill()
        system.process.wait(LIMIT_S)
        if system.process.stderr is not None:
            system.process.stderr.close()
    lock = folder / "run" / "lock"
    if lock.exists() and (left := json.loads(lock.read_text())["cgroup"]) is not None:
        reclaim(Path(left))


@pytest.fixture(autouse=True)
def _answers_may_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command with a `--timeout` waits for what the supervisor says of it, on a busy machine for more than two seconds."""
    monkeypatch.setattr(asking, "ANSWER_S", LIMIT_S)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., RunningSystem]]:
    """Starts systems of one test."""
    with starting(tmp_path) as begin:
        yield begin


@pytest.fixture
def start_alone(start: Callable[..., RunningSystem], monkeypatch: pytest.MonkeyPatch) -> Callable[..., RunningSystem]:
    """Starts systems of one test, whose only backplane is `index`."""
    monkeypatch.setattr("tests.supervisor.conftest.TOML", ALONE)
    return start


@pytest.fixture(scope="module")
def shared_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSystem]:
    """One system for the tests of a module that leave it as it was; they get it as `kept`."""
    with starting(tmp_path_factory.mktemp("shared")) as begin:
        system = begin()
        system.wait_up()
        yield system
        system.signal(signal.SIGTERM)
        assert system.wait_down() == 0


@pytest.fixture
def kept(shared_system: RunningSystem, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningSystem]:
    """The shared system, in the current folder. Afterwards the same processes serve, in the same states."""
    folder = shared_system.toml.parent
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "xdg"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.delenv("APPBACKPLANE_SYSTEM", raising=False)
    before = _serving(shared_system)
    yield shared_system
    assert _serving(shared_system) == before, "a test has changed the system of the others"


def _serving(system: RunningSystem) -> dict[str, tuple[int, dict[str, str]]]:
    system.read(0.0)  # a pipe that nobody reads would stop the supervisor
    return {entry["name"]: (entry["pid"], entry["components"]) for entry in system.status()["backplanes"]}
