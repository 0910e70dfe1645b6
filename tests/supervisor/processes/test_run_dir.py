"""The run directory is private, belongs to one supervisor at a time, and is left as it was found."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from appbackplane.supervisor.processes.run_dir import RunDir, RunDirServer, listener, running_pid
from appbackplane.transport.errors import FailedPrecondition

HOLD = "import sys; from pathlib import Path; from appbackplane.supervisor.processes.run_dir import RunDir; r = RunDir(Path(sys.argv[1]), 'demo'); print('locked', flush=True); sys.stdin.read()"  # noqa: E501


def hold(path: Path) -> subprocess.Popen[str]:
    """A process that has it locked."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    return process


def leave_socket(path: Path) -> None:
    """As a killed process leaves one."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))


def test_it_is_made_private_and_removed(tmp_path: Path) -> None:
    """Its mode is all that keeps strangers from the sockets."""
    path = tmp_path / "deep" / "run"
    run_dir = RunDir(path, "demo")
    assert path.stat().st_mode & 0o777 == 0o700
    run_dir.close()
    assert not path.exists()


def test_a_second_supervisor_is_told_who_runs(tmp_path: Path) -> None:
    """It would steal the first one's socket."""
    path = tmp_path / "run"
    holder = hold(path)
    with pytest.raises(FailedPrecondition, match=f"system 'demo' is already running, pid {holder.pid} "):
        RunDir(path, "demo")
    holder.kill()
    holder.communicate()


def test_what_a_killed_supervisor_left_is_reclaimed(tmp_path: Path) -> None:
    """Else nobody could start the system again without knowing what to remove."""
    path = tmp_path / "run"
    holder = hold(path)
    holder.kill()
    holder.communicate()
    for name in ("supervisor.sock", "query-1.sock", "query-7.sock"):
        leave_socket(path / name)
    run_dir = RunDir(path, "demo")
    said = run_dir.reclaim()
    assert said == [
        f"the supervisor before this one was killed (pid {holder.pid}); none of its processes left",
        "removed 3 sockets left behind",
    ]
    assert os.listdir(path) == ["lock"]
    assert run_dir.first_generation == 8, "an old process that still dies shares no name with the new ones"
    run_dir.settle(None)
    run_dir.close()
    assert not path.exists()


def test_what_is_not_ours_stays(tmp_path: Path) -> None:
    """A run directory may be a folder that somebody uses."""
    path = tmp_path / "run"
    path.mkdir(mode=0o700)
    (path / "thesis.txt").write_text("ten years")
    (path / "query-1.sock").write_text("named like a socket")
    run_dir = RunDir(path, "demo")
    run_dir.close()
    assert sorted(os.listdir(path)) == ["query-1.sock", "thesis.txt"]


@pytest.mark.parametrize("step", ["os.open", "os.pwrite"])
def test_a_full_disk_is_said_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """It is no bug, and the person has to make room."""

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(step, refuse)
    with pytest.raises(FailedPrecondition, match=r"run cannot be written: No space left on device: make room there"):
        RunDir(tmp_path / "run", "demo")


@pytest.mark.parametrize("mode", [0o755, 0o720, 0o701])
def test_a_folder_that_is_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    """Whoever can enter can call, publish, and take it down."""
    path = tmp_path / "run"
    path.mkdir()
    path.chmod(mode)
    with pytest.raises(FailedPrecondition, match="open to others: chmod 700"):
        RunDir(path, "demo")


def test_a_link_to_a_folder_is_refused(tmp_path: Path) -> None:
    """In a shared temporary directory anybody may have put it there."""
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FailedPrecondition, match="not a folder of yours"):
        RunDir(tmp_path / "run", "demo")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_another_users_folder_is_refused(tmp_path: Path) -> None:
    """Who owns it can put anything in the place of our sockets."""
    path = tmp_path / "run"
    path.mkdir(mode=0o700)
    os.chown(path, 12_345, -1)
    with pytest.raises(FailedPrecondition, match="not a folder of yours: choose another"):
        RunDir(path, "demo")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a link away")
def test_a_run_directory_below_another_users_link_is_refused(tmp_path: Path) -> None:
    """It leads to a folder of ours today, and to one of his once the supervisor runs."""
    (tmp_path / "ours").mkdir(mode=0o700)
    link = tmp_path / "appbackplane-0"
    link.symlink_to(tmp_path / "ours")
    RunDir(link / "run", "demo").close()
    os.chown(link, 12_345, -1, follow_symlinks=False)
    with pytest.raises(
        FailedPrecondition, match="appbackplane-0, which holds the run directory, can be changed by others"
    ):
        RunDir(link / "run", "demo")


def test_one_that_is_killed_before_it_has_cleaned_up_forgets_nothing(tmp_path: Path) -> None:
    """The third must end what the first has left, or nobody ever does."""
    path = tmp_path / "run"
    pids = []
    for _ in range(2):
        holder = hold(path)
        pids.append(holder.pid)
        holder.kill()
        holder.communicate()
    run_dir = RunDir(path, "demo")
    assert [life.pid for life in run_dir.left] == pids
    run_dir.close()
    assert (path / "lock").exists(), "one that fails before it cleans up hands it on, too"
    again = RunDir(path, "demo")
    assert [life.pid for life in again.left] == [*pids, os.getpid()]
    again.reclaim()
    again.settle(None)
    again.close()
    assert not path.exists()


def test_who_listens_is_known_without_a_lock(tmp_path: Path) -> None:
    """A lock taken by somebody who only asks would make a supervisor that starts just now believe in another."""
    assert running_pid(tmp_path) is None
    leave_socket(tmp_path / "supervisor.sock")
    assert running_pid(tmp_path) is None
    (tmp_path / "supervisor.sock").unlink()
    with socket.socket(socket.AF_UNIX) as there:
        there.bind(str(tmp_path / "supervisor.sock"))
        there.listen()
        assert running_pid(tmp_path) == os.getpid()


def test_who_listens_is_known_by_its_claim_while_its_queue_is_full(tmp_path: Path) -> None:
    """The supervisor accepts nobody while it has few descriptors left: all verbs waited in connect(2) for as long."""
    path = tmp_path / "run"
    run_dir = RunDir(path, "demo")
    with socket.socket(socket.AF_UNIX) as full, socket.socket(socket.AF_UNIX) as first:
        full.bind(str(path / "supervisor.sock"))
        full.listen(0)
        first.connect(str(path / "supervisor.sock"))
        assert listener(path) == RunDirServer(os.getpid(), os.getuid())
    run_dir.close()
