"""Whole systems: started by the real command line in a session of their own, and looked at for what they leave behind.

A session, because it names every process of a system: the supervisor leads it, its backplanes are in it, and so whoever
is left in it afterwards has outlived its system. Each system has a run directory of its own, short enough for sockets.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from appbackplane.runtime.observation.segments import RECORDS
from appbackplane.transport import Client, PendingCall, connect
from appbackplane.transport.errors import BackplaneError, DeadlineExceeded
from tests import launching
from tests.waiting import EVERY_S, LIMIT_S, Limit, wait_until
from tests.zygote import NAME as ZYGOTE

HERE = Path(__file__).parent


class System:
    """A supervisor in the foreground, as in a terminal: it leads its process group, and a session."""

    def __init__(self, folder: Path, name: str, toml: str, prefix: Sequence[str] = ()) -> None:
        """`prefix`: words before its command, as those that run it in a network namespace."""
        self.name = name
        self.folder = folder
        self.toml = lay_out(folder, name, toml)
        self.run_dir = folder / "appbackplane" / name
        self.said: list[str] = []
        self.programs: list[subprocess.Popen[str]] = []
        self._news = threading.Condition()
        self._has_ended = False
        self.process = launching.launch(
            *("up", str(self.toml)), environment=environment(folder), prefix=prefix, is_in_new_session=True
        )
        self.pid = self.process.pid
        self._reader = threading.Thread(target=self._read, name=f"reads {name}", daemon=True)
        self._reader.start()

    # What it says

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                with self._news:
                    self.said.append(line.decode().rstrip("\n"))
                    self._news.notify_all()
        with self._news:
            self._has_ended = True
            self._news.notify_all()

    def wait_for(self, text: str, since: int = 0) -> str:
        """The first line that says it, from line `since` on."""

        def line() -> str | None:
            return next((line for line in self.said[since:] if text in line), None)

        with self._news:
            self._news.wait_for(lambda: line() is not None or self._has_ended, LIMIT_S)
            found = line()
        assert found is not None, (text, self.said[since:])
        return found

    def wait_up(self) -> None:
        """Until it is up."""
        self.wait_for("is up, pid")

    # What it does

    def connect(self) -> Client:
        """A client, however late a busy machine lets the supervisor answer it."""
        return connect(self.run_dir, timeout=LIMIT_S)

    def status(self, *, statistics: bool = False) -> dict[str, Any]:
        """What the supervisor says of it."""
        with self.connect() as client:
            answer: dict[str, Any] = client.call("supervisor.status", statistics=statistics)
            return answer

    def backplane(self, name: str) -> dict[str, Any]:
        """Its entry in the status."""
        return next(entry for entry in self.status()["backplanes"] if entry["name"] == name)

    def pids(self) -> dict[str, int]:
        """Each backplane's process."""
        return {entry["name"]: entry["pid"] for entry in self.status()["backplanes"]}

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A verb of the command line, about this system."""
        return command(self.folder, *words, "-s", self.name)

    def program(self, name: str, *words: str) -> subprocess.Popen[str]:
        """A client program (programs.py) in a process of its own."""
        words = (str(HERE / "programs.py"), name, str(self.run_dir), *words)
        self.programs.append(
            subprocess.Popen([sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        return self.programs[-1]

    # How it ends

    def interrupt(self) -> None:
        """What a terminal does on Ctrl-C: SIGINT to the foreground process group."""
        os.killpg(self.pid, signal.SIGINT)

    def wait_down(self) -> int:
        """Until it has ended, and nothing of it is left. Its exit code."""
        code = self.process.wait(LIMIT_S)
        self._reader.join(LIMIT_S)
        assert_nothing_left(self.pid, self.run_dir)
        return code

    def processes(self) -> list[int]:
        """Those that live."""
        return processes_of(self.pid)

    def end(self) -> None:
        """After a test: down in order, and what does not go is killed, and told."""
        for program in self.programs:
            with program:
                program.kill()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.wait_down()
        finally:
            for pid in self.processes():
                os.kill(pid, signal.SIGKILL)


#: By this setting all systems of these tests use another link: APPBACKPLANE_TEST_LINK=unix.
LINK = f'local_link = "{kind}"\n' if (kind := os.environ.get("APPBACKPLANE_TEST_LINK")) else ""


def lay_out(folder: Path, name: str, toml: str) -> Path:
    """The files of a system, as a user has them; its TOML."""
    path = folder / f"{name}.toml"
    path.write_text(f'[system]\nname = "{name}"\n{"" if "local_link" in toml else LINK}{toml}')
    shutil.copy(HERE / "components.py", folder)
    return path


def environment(folder: Path) -> dict[str, str]:
    """In which run directories and logs are made in this folder."""
    return {**os.environ, "XDG_RUNTIME_DIR": str(folder), "XDG_STATE_HOME": str(folder / "state")}


def processes_of(session: int) -> list[int]:
    """Those of a session that live."""
    return [pid for pid in psutil.pids() if is_of_session(pid, session)]


def assert_nothing_left(session: int, run_dir: Path) -> None:
    """No process, no socket, no lock."""
    assert processes_of(session) == [], "processes outlive their system"
    left = [path.name for path in run_dir.iterdir()] if run_dir.exists() else []
    assert left in ([], [RECORDS]), "sockets and lock outlive their system"


def is_of_session(pid: int, session: int) -> bool:
    """Whether a process lives, and belongs to it; a zygote belongs to the tests."""
    try:
        if os.getsid(pid) != session:
            return False
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.name() != ZYGOTE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False


def command(folder: Path, *words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """A verb of the command line. `given`: its standard input."""
    return launching.run(*words, environment=environment(folder), folder=folder, given=given, limit_s=LIMIT_S)


def answer_of(program: subprocess.Popen[str]) -> Any:
    """What a client program says at its end, which this asks for: one line of JSON."""
    out, _ = program.communicate(timeout=2 * LIMIT_S)
    assert program.returncode == 0
    return json.loads(out.splitlines()[-1])


def wait_ready(program: subprocess.Popen[str]) -> None:
    """Until a client program is at it."""
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"


def wait_asleep(pid: int) -> None:
    """Until all threads of a process wait for something: its ZeroMQ thread has written all that its sockets take."""
    limit = Limit(LIMIT_S)
    while any(state != "S" for state in _states(pid)):
        limit.check(f"process {pid} is at work: {_states(pid)}", pause_s=EVERY_S)


def wait_stopped(pid: int) -> None:
    """Until all threads of a process that was sent SIGSTOP stand still: one may be in a system call until then."""
    wait_until(lambda: {*_states(pid)} == {"T"}, lambda: f"process {pid} is at work: {_states(pid)}")


def _states(pid: int) -> list[str]:
    stats = [stat.read_text() for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    return [stat.rpartition(")")[2].split()[0] for stat in stats]


def wait_dead(pid: int) -> None:
    """Until a process that is not our child has ended."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        death = select.poll()
        death.register(pidfd, select.POLLIN)
        assert death.poll(LIMIT_S * 1e3), f"process {pid} still lives"
    finally:
        os.close(pidfd)


#: Prefix of a system whose processes are interpreters of their own, as when it is typed: while it comes up, they import.
AS_TYPED = ("env",)


def wait_children(system: System, count: int = 1) -> set[int]:
    """Until a supervisor that comes up, and was started `AS_TYPED`, has started so many processes."""

    def children() -> set[int]:
        assert system.process.poll() is None, system.said
        found = {*system.processes()} - {system.pid}
        return found if len(found) >= count else set()

    return wait_until(children, "it starts no process", every_s=0.001)


def ask_until(
    client: Client, route: str, is_so: Callable[[Any], Any], *, key: str | None = None, **arguments: Any
) -> Any:
    """Ask until the answer is as expected, for what nobody announces. What fails meanwhile (a restart) is asked again."""
    limit = Limit()
    while True:
        answer: Any
        try:
            answer = client.call(route, key=key, timeout=LIMIT_S, arguments=arguments)
            if is_so(answer):
                return answer
        except BackplaneError as error:
            answer = error
        limit.check(f"{route} still says {answer!r}", pause_s=EVERY_S)


def expired_while_it_ran(begin: Callable[[str, float], PendingCall], has_begun: Callable[[str], bool]) -> str:
    """Have the deadline of a call pass while it runs: `begin` it by a name, with a time-out. Returns its name.

    On a busy machine it may pass before the call begins; then another one gets more time.
    """
    for timeout in (0.5, 5.0, 50.0):
        name = f"within-{timeout:g}s"
        call = begin(name, timeout)
        wait_until(lambda name=name, call=call: has_begun(name) or call.done(), f"{name} neither begins nor ends")
        assert type(call.exception(LIMIT_S)) is DeadlineExceeded
        if has_begun(name):
            return name
    raise AssertionError("no call begins before its deadline")


#: For tests of what is refused: a component that takes its arguments seriously, and one beside it.
SHELVES = """
[backplane.shelves]
components = ["components:Shelf"]
[backplane.next-door]
components = ["components:Neighbour", "components:Hearer"]
"""

Up = Callable[..., System]


@pytest.fixture(scope="session")
def _no_ignored_interrupt() -> Iterator[None]:
    """SIGINT as a terminal's child has it: `pytest &` ignores it, and children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="ab-") as path:
        yield Path(path)


@contextmanager
def systems_in(folder: Path) -> Iterator[Up]:
    """Starts systems. Each must end at the end, in order and without anything left."""
    with ExitStack() as stack:  # the last one first: one that took over from a killed one tidies up for both

        def start(toml: str, name: str = "demo", prefix: Sequence[str] = ()) -> System:
            system = System(folder, name, toml, prefix)
            stack.callback(system.end)
            return system

        yield start


@contextmanager
def standing(toml: str, *modules: str) -> Iterator[System]:
    """One system for the tests of a module, with these modules of this folder beside its TOML."""
    with short_folder() as folder, systems_in(folder) as begin:
        for module in modules:
            shutil.copy(HERE / module, folder)
        system = begin(toml)
        system.wait_up()
        yield system


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for the files and run directories of one test."""
    with short_folder() as path:
        yield path


@pytest.fixture
def begin(folder: Path, _no_ignored_interrupt: None) -> Iterator[Up]:
    """Starts systems: `begin(toml)`."""
    with systems_in(folder) as start:
        yield start


@pytest.fixture
def up(begin: Up) -> Up:
    """Starts a system and waits until it is up."""

    def start(toml: str, name: str = "demo") -> System:
        system = begin(toml, name)
        system.wait_up()
        return system

    return start


@pytest.fixture(scope="module")
def shelves(_no_ignored_interrupt: None) -> Iterator[System]:
    """One system for all: what one test does to it must not be felt by the next."""
    with standing(SHELVES) as system:
        yield system


@pytest.fixture
def client(shelves: System) -> Iterator[Client]:
    """A client; afterwards the same processes serve as before."""
    before = shelves.pids()
    with shelves.connect() as client:
        yield client
        assert_goes_on(shelves, client, before)


def assert_goes_on(system: System, client: Client, pids: dict[str, int]) -> None:
    """Good calls are answered, and nobody has been restarted for it."""
    assert client.call("shelf.add_up", numbers=[1, 2], start=3, timeout=LIMIT_S) == 6
    assert client.call("neighbour.pid", timeout=LIMIT_S) == pids["next-door"]
    assert system.pids() == pids
