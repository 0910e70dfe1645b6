"""What is left behind is seen: a census that misses a kind of leak would find every system tight."""

import gc
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from chaos_run import census
from chaos_run.verdict import GROWN_BYTES_MAX, Verdict

ME = os.getpid()


def count(run_dir: Path) -> dict[str, object]:
    """Of a "system" that is this process, and none else. What other tests have left is gone before it is counted."""
    gc.collect()
    (run_dir / "lock").write_text(f"{ME}\n")
    scratch = run_dir / "tmp"
    scratch.mkdir(exist_ok=True)
    counts = census.of_system(ME, {}, run_dir, scratch)
    counts["orphans"] = counts["dead, not buried"] = 0  # of this machine's, or this test's
    return counts


def differences(before: dict[str, object], after: dict[str, object]) -> str:
    """All of them."""
    return "\n".join(census.differences(before, after))


def test_nothing_is_found_where_nothing_has_changed(tmp_path: Path) -> None:
    """Or nothing could be concluded from what is found."""
    assert differences(count(tmp_path), count(tmp_path)) == ""


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("socket", lambda: socket.socket().detach()),
        ("eventfd", lambda: os.eventfd(0)),
        ("memfd", lambda: os.memfd_create("leak")),
        ("pipe", lambda: os.pipe()),
        ("pidfd", lambda: os.pidfd_open(ME)),
        ("file passwd", lambda: os.open("/etc/passwd", os.O_RDONLY)),
    ],
)
def test_a_descriptor_is_found_by_its_kind(tmp_path: Path, kind: str, make: object) -> None:
    """Whoever looks for the leak begins there."""
    before = count(tmp_path)
    made = make()  # type: ignore[operator]
    try:
        assert f"fds: supervisor: {kind}: " in differences(before, count(tmp_path))
    finally:
        for fd in made if isinstance(made, tuple) else (made,):
            os.close(fd)


def test_a_thread_a_child_and_files_are_found(tmp_path: Path) -> None:
    """One each."""
    before = count(tmp_path)
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    (tmp_path / "tmp" / "left").write_text("x")
    with socket.socket(socket.AF_UNIX) as left, socket.socket(socket.AF_UNIX) as nameless:
        left.bind(str(tmp_path / "north-7.sock"))
        nameless.bind("\0appbackplane-test")
        after = differences(before, count(tmp_path))
    end.set()
    thread.join()
    child.communicate(b"\n")
    for found in (
        "threads: supervisor",
        "children of the supervisor",
        "temporary files",
        "north-N.sock",
        "@appbackplane-test",
    ):
        assert found in after


def test_a_generation_is_not_a_difference(tmp_path: Path) -> None:
    """A socket that took the place of another is no leak."""
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        one.bind(str(tmp_path / "north-7.sock"))
        before = count(tmp_path)
        (tmp_path / "north-7.sock").unlink()
        other.bind(str(tmp_path / "north-8.sock"))
        assert differences(before, count(tmp_path)) == ""


def test_processes_of_a_session_are_found(tmp_path: Path) -> None:
    """Even those that nobody waits for: who is in the session, and not known, is an orphan."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    try:
        assert set(census.processes_of(child.pid)) == {child.pid}
    finally:
        child.communicate(b"\n")
    assert census.processes_of(child.pid) == {}


def test_a_supervisor_that_grows_is_wrong(tmp_path: Path) -> None:
    """By as much as is promised, and not by a page."""
    verdict = Verdict(1, 30.0)
    before, after = count(tmp_path), count(tmp_path)
    after["memory"] = {"supervisor": before["memory"]["supervisor"] + GROWN_BYTES_MAX - 1}  # type: ignore[index]
    verdict.take_counts(before, after)
    assert verdict.holds
    after["memory"] = {"supervisor": before["memory"]["supervisor"] + GROWN_BYTES_MAX}  # type: ignore[index]
    verdict.take_counts(before, after)
    assert not verdict.holds
    assert "WRONG: supervisor has grown by" in verdict.text()
