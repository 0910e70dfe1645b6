"""Groups of this very machine: who gets how much of a CPU in them, and that nothing of them is left behind."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appbackplane.runtime.execution.urgency.os_priority import OsPriority, probe
from appbackplane.runtime.scheduling.nice import NiceTable
from appbackplane.supervisor.processes import cgroups
from appbackplane.supervisor.processes.cgroup_layout import SHARED, Hierarchy, folder_name, hierarchies
from appbackplane.supervisor.processes.cgroups import Groups, make, reclaim
from tests.waiting import EVERY_S, Limit, wait_until

from ..conftest import is_alive
from ..quota import assert_held, cpu_s, is_unlimited

#: CPU seconds that the competitors use together before they are compared: a hundred turns of each.
COMPARED_S = 0.6
SPINNER = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.setpriority(os.PRIO_PROCESS, 0, int(sys.argv[2]))
print("ready", flush=True)
while True:
    pass
"""


def what_keeps_us() -> str:
    """Why there are no groups to be tested here; empty when there are."""
    groups = make("probe", Path(f"/nowhere/probe-{os.getpid()}"))  # each worker asks, all at once
    groups.close(print)
    return groups.because


WHY_NOT = what_keeps_us()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=f"no groups may be made here: {WHY_NOT}")
may_nice = pytest.mark.skipif(probe(-10) is None, reason="nice may not be raised here (CAP_SYS_NICE)")
Spin = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def groups(tmp_path: Path) -> Iterator[Groups]:
    """Of a system called demo."""
    groups = make("demo", tmp_path)
    assert groups, groups.because
    yield groups
    left: list[str] = []
    groups.close(left.append)
    assert left == []


@pytest.fixture
def spin(groups: Groups) -> Iterator[Spin]:
    """Starts a process in the group of a backplane, which uses all it gets of the last CPU."""
    started: list[subprocess.Popen[bytes]] = []
    cpu = max(os.sched_getaffinity(0))

    def start(backplane: str, nice: int = 0) -> subprocess.Popen[bytes]:
        with groups.entered(backplane):
            words = [sys.executable, "-c", SPINNER, str(cpu), str(nice)]
            started.append(subprocess.Popen(words, stdout=subprocess.PIPE, process_group=0))
        assert started[-1].stdout is not None
        assert started[-1].stdout.readline() == b"ready\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def wait_preferred(first: subprocess.Popen[bytes], second: subprocess.Popen[bytes]) -> None:
    """Until the kernel gives the first one nearly all of what both get."""
    wait_until(lambda: share(first, second) > 0.93, "the first one is not preferred")


def wait_equal(first: subprocess.Popen[bytes], second: subprocess.Popen[bytes]) -> None:
    """Until the kernel gives both about the same. After a change it first makes up for what went before, and others compete."""
    wait_until(lambda: 0.3 < share(first, second) < 0.7, "one of them is preferred")


def share(first: subprocess.Popen[bytes], second: subprocess.Popen[bytes]) -> float:
    """How much of what both get from now on the first one gets."""
    begun = (cpu_s(first.pid), cpu_s(second.pid))
    limit = Limit()
    while True:
        used = (cpu_s(first.pid) - begun[0], cpu_s(second.pid) - begun[1])
        if sum(used) >= COMPARED_S:
            return used[0] / sum(used)
        limit.check(pause_s=EVERY_S)


@may_nice
class TestShares:
    """Two processes that want one CPU, and what makes the kernel prefer one."""

    def test_in_the_shared_group_nice_decides(self, groups: Groups, spin: Spin) -> None:
        """Between sessions it does not (autogroup), between groups it does not: this is why there is a shared one."""
        urgent, bulk = spin("query", -10), spin("index", 10)
        wait_preferred(urgent, bulk)
        ours = OsPriority(NiceTable((-10, 0, 10), -10))
        assert ours.boost(bulk.pid, None, 0)
        wait_equal(urgent, bulk)  # what stands in the way of urgent work is as urgent
        ours.close()

    def test_in_groups_of_their_own_the_weight_decides(self, groups: Groups, spin: Spin) -> None:
        """Nice is void there, and so is every boost by nice (DESIGN 5: 558 ms against 89 ms)."""
        for name in ("query", "index"):
            groups.add(name)
        query, index = spin("query", -10), spin("index", 10)
        wait_equal(query, index)  # nice is void
        ours = OsPriority(NiceTable((-10, 0, 10), -10), groups.folder_of("query"))
        ours.set_group(2)
        assert ours.boost(index.pid, groups.folder_of("index"), 0)
        wait_preferred(index, query)
        ours.close()

    def test_a_group_of_its_own_is_weighed_against_the_threads_beside_it(self, groups: Groups, spin: Spin) -> None:
        """One backplane limited, one not: nested, its weight and their nice are one currency; beside them they were not."""
        groups.add("index")
        index = spin("index")
        ours = OsPriority(NiceTable((-10, 0, 10), -10), groups.folder_of("index"))
        ours.set_group(2)
        query = spin("query", -10)
        wait_preferred(query, index)
        ours.set_group(0)
        wait_equal(query, index)
        ours.close()


def test_a_limit_is_held(groups: Groups, spin: Spin) -> None:
    """30 % of a core, whatever the process does; and none once it is lifted."""
    groups.add("index")
    groups.limit("index", 30)
    process = spin("index")
    folder = Path(groups.folder_of("index") or "")
    assert_held(folder, process.pid, 30)
    groups.limit("index", None)
    wait_until(is_unlimited(folder, process.pid), "it is throttled without a limit")


def test_a_child_begins_in_its_group(groups: Groups) -> None:
    """To be moved later takes 10 ms, in which it would run outside; and the supervisor itself stays where it was."""
    before = Path("/proc/self/cgroup").read_text()
    groups.add("index")
    for backplane, ends in (("index", f"/{SHARED}/index"), ("query", f"/{SHARED}")):
        with groups.entered(backplane):
            child = subprocess.Popen(["cat", "/proc/self/cgroup"], stdout=subprocess.PIPE, text=True)
        said, _ = child.communicate()
        assert groups.folder is not None
        assert f"{groups.folder.name}{ends}\n" in said
    assert Path("/proc/self/cgroup").read_text() == before


def test_a_process_moves_with_all_its_threads(groups: Groups, spin: Spin) -> None:
    """It is given a limit while it runs."""
    process = spin("index")
    assert groups.members() == [process.pid]
    groups.add("index")
    groups.move([process.pid, 2**22], "index")  # the second one has just ended
    assert groups.members() == [] or groups.version == 2
    assert f"{SHARED}/index\n" in Path(f"/proc/{process.pid}/cgroup").read_text()


def test_at_the_end_nothing_is_left(tmp_path: Path) -> None:
    """Groups that nobody removes stay until the machine is started again."""
    before = Path("/proc/self/cgroup").read_text()
    groups = make("demo", tmp_path)
    groups.add("index")
    folder = groups.folder
    assert folder is not None
    assert folder.is_dir()
    groups.close(pytest.fail)
    assert not folder.exists()
    assert Path("/proc/self/cgroup").read_text() == before
    groups.close(pytest.fail)


#: A supervisor that is killed: it leaves its folder, with a process in it.
LEAVE = """
import os, signal, subprocess, sys
from pathlib import Path
from appbackplane.supervisor.processes.cgroups import make
groups = make("demo", Path(sys.argv[1]))
groups.add("index")
groups.limit("index", 5)
with groups.entered("index"):
    child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, start_new_session=True)
print(groups.folder, child.pid, flush=True)
if sys.argv[2] == "stay":
    sys.stdin.read()
os.kill(os.getpid(), signal.SIGKILL)
"""


def leave(run_dir: Path, how: str = "") -> tuple[subprocess.Popen[str], Path, int]:
    """The supervisor, its folder, and the process that it has left there."""
    process = subprocess.Popen(
        [sys.executable, "-c", LEAVE, str(run_dir), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    folder, pid = process.stdout.readline().split()
    if not how:
        process.communicate()
    return process, Path(folder), int(pid)


def test_what_a_killed_supervisor_left_is_reclaimed(tmp_path: Path) -> None:
    """With whoever still lives there: it was the system's, and the system begins anew."""
    _, folder, pid = leave(tmp_path)
    assert is_alive(pid)
    groups = make("demo", tmp_path)
    assert groups, groups.because
    assert not is_alive(pid)
    assert groups.folder == folder
    assert not (folder / SHARED / "index").exists()
    groups.close(pytest.fail)


def test_what_was_left_elsewhere_is_found_by_what_was_written_down(tmp_path: Path) -> None:
    """The next one may be started from another session, and thereby in another group."""
    _, folder, pid = leave(tmp_path / "old")
    groups = make("demo", tmp_path / "new", [str(folder)])
    assert not folder.exists()
    assert not is_alive(pid)
    groups.close(pytest.fail)


def test_the_sweep_of_another_supervisor_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It locks each folder to see whether somebody lives there. Without the wait, a system that started in that moment had
    no groups, and so no limits kept by the kernel.
    """
    _, folder, pid = leave(tmp_path)
    sweeps = [os.open(folder, os.O_RDONLY)]
    fcntl.flock(sweeps[0], fcntl.LOCK_EX)
    monkeypatch.setattr("time.sleep", lambda _seconds: os.close(sweeps.pop()) if sweeps else None)
    groups = make("demo", tmp_path)
    monkeypatch.undo()
    assert groups, groups.because
    assert not is_alive(pid)
    groups.close(pytest.fail)


def test_a_folder_that_a_sweep_removes_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is locked, a new folder looks as if its supervisor had been killed."""
    swept: list[Path] = []
    lock, name = cgroups._locked, folder_name("demo", str(tmp_path))

    def sweep_first(folder: Path) -> int | None:
        if folder.name == name and folder.is_dir() and not swept:
            swept.append(folder)
            folder.rmdir()
        return lock(folder)

    monkeypatch.setattr(cgroups, "_locked", sweep_first)
    groups = make("demo", tmp_path)
    assert groups, groups.because
    assert groups.folder == swept[0]
    groups.close(pytest.fail)


def test_what_is_not_ours_is_never_touched(tmp_path: Path, groups: Groups) -> None:
    """What was written down in the run directory may be anything."""
    assert groups.folder is not None
    strange = groups.folder / "strange"
    strange.mkdir()
    make("demo", tmp_path / "other", [str(strange)]).close(pytest.fail)
    assert strange.is_dir()


def test_others_are_left_alone_unless_they_are_dead_and_empty(tmp_path: Path) -> None:
    """Systems lie side by side: a folder is locked by its supervisor, and processes in it are never ours to kill."""
    living, living_folder, living_pid = leave(tmp_path / "living", "stay")
    _, folder, pid = leave(tmp_path / "dead")
    make("demo", tmp_path / "one").close(pytest.fail)
    assert folder.exists()
    assert is_alive(pid)
    os.kill(pid, signal.SIGKILL)
    limit = Limit()
    while folder.exists():
        make("demo", tmp_path / "one").close(pytest.fail)
        limit.check()
    assert living_folder.exists()
    assert is_alive(living_pid)
    refused = make("demo", tmp_path / "living")
    assert "in use by another supervisor" in refused.because
    living.communicate("")
    reclaim(living_folder)


class TestWithoutGroups:
    """The machine allows none: said, and nothing else happens."""

    @pytest.mark.parametrize(
        ("cgroup", "mountinfo", "because"),
        [
            ("", "", "no cgroups with the cpu controller are mounted"),
            ("1:cpu:/\n", "32 31 0:29 / /proc/self ro - cgroup cgroup rw,cpu\n", "v1: "),
            ("0::/\n", "41 31 0:38 / {} rw - cgroup2 cgroup2 rw\n", "v2: "),
        ],
    )
    def test_it_is_said_why(self, tmp_path: Path, cgroup: str, mountinfo: str, because: str) -> None:
        """A limit that is silently not applied is found at night."""
        (tmp_path / "cgroup").write_text(cgroup)
        (tmp_path / "mountinfo").write_text(mountinfo.format(tmp_path))
        groups = make("demo", tmp_path, proc=tmp_path)
        assert not groups
        assert groups.because.startswith(because)
        assert groups.name == "none"
        assert groups.folder_of("index") is None
        with groups.entered("index"):
            pass
        groups.close(pytest.fail)


def test_in_v2_the_supervisor_moves_in_and_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threaded groups, on the real kernel; where v1 has the cpu controller, all but the writes that need it."""
    found = hierarchies(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text())
    hierarchy = next((h for h in found if h.version == 2), None)
    if hierarchy is None or not os.access(hierarchy.own, os.W_OK):
        pytest.skip("no cgroup v2 that may be written is mounted")
    write = cgroups._write

    def without_controller(path: Path, text: str) -> None:
        if path.name not in ("cgroup.subtree_control", "cpu.weight", "cpu.max"):
            write(path, text)

    def here(hierarchy: Hierarchy) -> Path:
        return Path(hierarchy.own)

    monkeypatch.setattr(cgroups, "_write", without_controller)
    monkeypatch.setattr(cgroups, "_delegated", here)
    before = Path("/proc/self/cgroup").read_text()
    groups = Groups()
    groups._make(hierarchy, folder_name("demo", str(tmp_path)))
    assert groups.folder is not None
    groups.add("index")
    for backplane, ends in (("index", f"/{SHARED}/index\n"), ("query", f"/{SHARED}\n")):
        with groups.entered(backplane):
            child = subprocess.Popen(["sleep", "600"])
        assert Path(f"/proc/{child.pid}/cgroup").read_text().endswith(f"{groups.folder.name}{ends}")
        if backplane == "query":
            assert groups.members() == [child.pid]
            groups.move([child.pid], "index")
            assert Path(f"/proc/{child.pid}/cgroup").read_text().endswith(f"/{SHARED}/index\n")
        child.kill()
        child.wait()
    assert (groups.folder / SHARED / "index" / "cgroup.type").read_text() == "threaded\n"
    groups.close(pytest.fail)
    assert Path("/proc/self/cgroup").read_text() == before
