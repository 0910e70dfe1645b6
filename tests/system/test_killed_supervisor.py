"""The supervisor is killed -9: whatever its backplanes are doing, they end, and so does what they started.

None of these backplanes would end by itself: their work takes longer than any limit here, and `stop_limit` is an hour.
`scripts/long` judges that none outlives its supervisor by a second.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from appbackplane.supervisor.processes import leftovers
from appbackplane.transport.errors import BackplaneError
from tests.figures import LONG, Stopwatch, judge
from tests.waiting import wait_until

from .conftest import HERE, LIMIT_S, System, Up, processes_of, short_folder, systems_in, wait_dead

#: What is promised.
OUTLIVES_S_MAX = 1.0

DYING = """
stop_limit = "1h"
[backplane.dying]
components = ["dying:Dying"]
{backplane}
[backplane.dying.settings.Dying]
{settings}
"""


@pytest.fixture
def start(begin: Up, folder: Path) -> Iterator[Callable[..., System]]:
    """Starts it, with what the TOML says besides. After each death the next one comes up, and leaves nothing."""

    def start(backplane: str = "", settings: str = "") -> System:
        shutil.copy(HERE / "dying.py", folder)
        return begin(DYING.format(backplane=backplane, settings=settings))

    yield start
    next_one = start()
    next_one.wait_for("the supervisor before this one was killed")
    next_one.wait_up()


@pytest.fixture(scope="module")
def succession(_no_ignored_interrupt: None) -> Iterator[Callable[[], System]]:
    """Brings up one system after the other, all in one folder: each comes up after the death of the one before."""
    with short_folder() as folder, systems_in(folder) as begin:
        shutil.copy(HERE / "dying.py", folder)
        earlier: list[System] = []

        def succeed() -> System:
            system = begin(DYING.format(backplane="", settings=""))
            if earlier:
                system.wait_for("the supervisor before this one was killed")
            system.wait_up()
            (folder / "pids").unlink(missing_ok=True)
            earlier.append(system)
            return system

        yield succeed
        succeed()


@pytest.fixture
def victim(succession: Callable[[], System]) -> Iterator[System]:
    """A system that is up, and is killed."""
    system = succession()
    yield system
    system.process.kill()
    system.process.wait(LIMIT_S)


def mark_of(system: System) -> str:
    """By which all that descends from it is known."""
    mark: str = json.loads((system.run_dir / "lock").read_text())["mark"]
    return mark


def all_of(system: System) -> set[int]:
    """Its processes, and theirs: by their session, their mark and what they wrote down."""
    noted = system.folder / "pids"
    written = [int(line) for line in noted.read_text().split()] if noted.exists() else []
    return {*processes_of(system.pid), *leftovers.find([mark_of(system)]), *written} - {system.pid}


def kill(system: System) -> None:
    """Kill the supervisor, and wait until the last of its processes has ended."""
    pids = all_of(system)
    assert pids
    os.kill(system.pid, signal.SIGKILL)
    watch = Stopwatch()
    for pid in pids:
        wait_dead(pid)
    judge("backplanes outlive their supervisor by", watch.taken_s, OUTLIVES_S_MAX)


def assert_nobody_stays(system: System) -> None:
    """It is killed, and all that descends from it ends."""
    kill(system)
    system.process.wait(LIMIT_S)
    mark = mark_of(system)  # somebody may have been started while the others ended: ends as well
    wait_until(lambda: not leftovers.find([mark]), lambda: [described(pid) for pid in leftovers.find([mark])])


def described(pid: int) -> object:
    """A process that should have ended, for whoever is to find out why it has not."""
    with suppress(psutil.Error):
        return psutil.Process(pid).as_dict(["pid", "ppid", "status", "create_time", "cmdline", "environ"])
    return f"{pid}, which has ended"


@pytest.mark.parametrize("state", ["sleeps", "works", "keeps_the_gil", "is_stopped", "ignores_alarms", "has_children"])
def test_no_action_keeps_a_backplane(victim: System, state: str) -> None:
    """Nobody could stop it any more, and the next `up` would find ports, files and devices taken."""
    assert_does_not_keep(victim, state)


@pytest.mark.parametrize("state", [pytest.param("sleeps", marks=LONG), "works", pytest.param("is_stopped", marks=LONG)])
def test_no_action_keeps_a_backplane_that_is_throttled(start: Callable[..., System], state: str) -> None:
    """To a hundredth of a core: its end would take it minutes."""
    system = start("cpu_limit = 1")
    system.wait_up()
    assert_does_not_keep(system, state)


def assert_does_not_keep(system: System, state: str) -> None:
    """The backplane, when its supervisor is killed."""
    with system.connect() as client:
        client.submit(f"dying.{state}")
        system.wait_for(f"in {state}")
        assert_nobody_stays(system)


def test_a_hook_keeps_no_backplane(start: Callable[..., System]) -> None:
    """While the system comes up."""
    system = start(settings='hangs_in = "primary"')
    system.wait_for("in primary")
    assert_nobody_stays(system)


def test_a_system_that_goes_down_goes_for_good(start: Callable[..., System]) -> None:
    """Killed because it took too long, most likely."""
    system = start(settings='hangs_in = "down"')
    system.wait_up()
    system.process.send_signal(signal.SIGTERM)
    system.wait_for("in down")
    assert_nobody_stays(system)


def test_an_import_keeps_no_backplane(start: Callable[..., System], monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not serve yet, so nothing of it looks at its supervisor."""
    with monkeypatch.context() as patched:
        patched.setenv("DYING_IMPORT", "1")
        system = start()
    system.wait_for("imports")
    assert_nobody_stays(system)


def test_without_its_guardian_a_healthy_backplane_ends_all_the_same(victim: System) -> None:
    """Both may be killed at once, as by somebody who kills by name; it sees its supervisor's end by itself."""
    with victim.connect() as client:
        client.submit("dying.works")
        victim.wait_for("in works")
        guardian = guardian_of(victim)
        os.kill(victim.pid, signal.SIGSTOP)
        os.kill(guardian, signal.SIGKILL)
        assert_nobody_stays(victim)


def test_what_runs_may_finish(victim: System) -> None:
    """A file half written is worse than a process that lives a moment longer."""
    with victim.connect() as client:
        call = client.submit("dying.finishes", path=str(victim.folder / "written"))
        victim.wait_for("in finishes")
        kill(victim)
        with suppress(BackplaneError):
            call.result()
    assert (victim.folder / "written").read_text() == "whole"


def test_a_guardian_that_dies_is_replaced(victim: System) -> None:
    """Or the promise would hold for the first mishap only."""
    first = guardian_of(victim)
    os.kill(first, signal.SIGKILL)
    victim.wait_for("the guardian died (exit code -9)")
    victim.wait_for("another guardian was started")
    second = guardian_of(victim)
    assert second != first
    with victim.connect() as client:
        client.submit("dying.keeps_the_gil")
        victim.wait_for("in keeps_the_gil")
        kill(victim)
    victim.process.wait(LIMIT_S)


def guardian_of(system: System) -> int:
    """Its pid. Who has just started it may know of it before the kernel shows its command line."""

    def find() -> int:
        for pid in psutil.pids():  # its session is its own
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"appbackplane.supervisor.processes.guardian" in words and str(system.pid).encode() in words:
                    return pid
        return 0

    return wait_until(find, "no guardian")
