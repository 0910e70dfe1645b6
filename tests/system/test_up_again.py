"""`up` after a supervisor that was killed, at whatever stage; and `up` beside one that runs."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from appbackplane.supervisor.processes import leftovers
from tests.figures import IS_LONG
from tests.launching import COMMAND
from tests.waiting import wait_until

from .conftest import AS_TYPED, HERE, LIMIT_S, System, Up, command, environment, lay_out, processes_of, wait_children

PAIR = """
[backplane.dying]
components = ["dying:Dying"]
cpu_limit = 50
[backplane.stuck]
components = ["components:Sleeper"]
"""
BACKPLANES_COUNT = 2
#: Rounds of all stages.
ROUNDS = 5 if IS_LONG else 1
UPS_COUNT = 10 if IS_LONG else 5


def lock_of(system: System) -> dict[str, str]:
    """What its lock file says, if it is its own."""
    try:
        found: dict[str, str] = json.loads((system.run_dir / "lock").read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found if found["pid"] == system.pid else {}


def has_begun(system: System) -> dict[str, str]:
    """It has the lock, and nothing else. What that says: while it is written anew, nothing can be read there."""

    def lock() -> dict[str, str]:
        assert system.process.poll() is None, system.said
        return lock_of(system)

    return wait_until(lock, "it takes no lock", every_s=0.001)


def has_children(system: System) -> None:
    """They import, and have not registered."""
    wait_children(system)


def is_up(system: System) -> None:
    """And cannot go: its backplane is in C code that keeps the GIL."""
    system.wait_up()
    with system.connect() as client:
        client.submit("dying.keeps_the_gil")
        system.wait_for("in keeps_the_gil")


def is_stopping(system: System) -> None:
    """In the middle of it."""
    is_up(system)
    system.process.send_signal(signal.SIGTERM)
    system.wait_for("going down")


STAGES: tuple[Callable[[System], object], ...] = (has_begun, has_children, is_up, is_stopping)


def counted(system: System) -> dict[str, int]:
    """What there would be more of, if something were left each time."""
    claim = lock_of(system)
    groups = [] if claim["cgroup"] is None else list(os.walk(claim["cgroup"]))
    return {
        "sockets": len(list(system.run_dir.glob("*.sock"))),
        "descriptors": len(os.listdir(f"/proc/{system.pid}/fd")),
        "processes": len(leftovers.find([claim["mark"]])),
        "groups": len(groups),
    }


def counted_twice(system: System) -> dict[str, int]:
    """The same, when two looks agree: it may have a file open for a moment."""

    def agreed() -> dict[str, int]:
        found = counted(system)
        return found if counted(system) == found else {}

    return wait_until(agreed, "it opens and closes files")


@pytest.mark.timeout(300)
def test_deaths_at_every_stage_leave_nothing(up: Up, begin: Up, folder: Path) -> None:
    """The next `up` comes at once, while what was left is still dying: by a service manager, it always does."""
    shutil.copy(HERE / "dying.py", folder)
    first = up(PAIR)
    before = counted_twice(first)
    assert before["processes"] == BACKPLANES_COUNT
    assert before["sockets"] == BACKPLANES_COUNT + 1
    dead, marks = [first], [lock_of(first)["mark"]]
    os.kill(first.pid, signal.SIGKILL)
    for number in range(ROUNDS * len(STAGES)):
        system = begin(PAIR, prefix=AS_TYPED)
        STAGES[number % len(STAGES)](system)
        marks.append(has_begun(system)["mark"])
        os.kill(system.pid, signal.SIGKILL)
        dead.append(system)
    for system in dead:
        system.process.wait(LIMIT_S)
    last = up(PAIR)
    assert last.wait_for("the supervisor before this one was killed")
    wait_until(lambda: counted(last) == before, lambda: (counted(last), before))
    assert leftovers.find(marks) == []
    assert [processes_of(system.pid) for system in dead] == [[] for _ in dead]
    assert (last.folder / "state").is_dir(), "what was logged stays"


@pytest.mark.usefixtures("_no_ignored_interrupt")
def test_of_many_that_start_at_once_one_runs_and_the_others_name_it(folder: Path) -> None:
    """Two would share sockets, files and devices; and a refusal that names nobody sends people to kill at random."""
    toml = lay_out(folder, "demo", "[backplane.street]\ncomponents = ['components:Sleeper']\n")
    ups = [
        subprocess.Popen(
            [*COMMAND, "up", str(toml)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(folder / f"said-{number}").open("wb"),
            env=environment(folder),
            start_new_session=True,
        )
        for number in range(UPS_COUNT)
    ]
    try:
        running = {os.pidfd_open(popen.pid): popen for popen in ups}
        ends = select.poll()
        for fd in running:
            ends.register(fd, select.POLLIN)
        while len(running) > 1:
            ended = [fd for fd, _ in ends.poll(LIMIT_S * 1e3)]
            assert ended, "more than one of them runs"
            for fd in ended:
                running.pop(fd).wait()
                ends.unregister(fd)
                os.close(fd)
        ((pidfd, winner),) = running.items()
        os.close(pidfd)
        said = [(folder / f"said-{n}").read_text() for n, popen in enumerate(ups) if popen is not winner]
        run_dir = folder / "appbackplane" / "demo"
        line = f"appbackplane: system 'demo' is already running, pid {winner.pid} (run directory {run_dir}, since 20"
        assert sorted(str(popen.returncode) for popen in ups) == ["1"] * (UPS_COUNT - 1) + ["None"]
        assert [text for text in said if not text.startswith(line) or text.count("\n") != 1] == []
        detached = command(folder, "up", "--detach", str(toml))
        assert (detached.returncode, detached.stderr.startswith(line)) == (1, True), detached.stderr
        assert command(folder, "down", "-s", "demo").returncode == 0
        assert winner.wait(LIMIT_S) == 0
    finally:
        for popen in ups:
            if popen.returncode is None:
                popen.kill()
                popen.wait()


def test_a_lock_file_that_names_a_stranger_harms_nobody(folder: Path, up: Up) -> None:
    """Its pid has been given to another program since."""
    run_dir = folder / "appbackplane" / "demo"
    run_dir.mkdir(mode=0o700, parents=True)
    run_dir.parent.chmod(0o700)
    with subprocess.Popen(["sleep", "600"]) as stranger:
        stale = {"system": "demo", "pid": stranger.pid, "began": 1, "since_s": 1.0, "mark": "0" * 32, "cgroup": "/etc"}
        (run_dir / "lock").write_text(json.dumps(stale))
        system = up(PAIR.partition("[backplane.stuck]")[0].replace("dying:Dying", "components:Sleeper"))
        system.wait_for(f"the supervisor before this one was killed (pid {stranger.pid}); none of its processes left")
        assert stranger.poll() is None
        assert Path("/etc/hostname").exists()
        stranger.kill()
