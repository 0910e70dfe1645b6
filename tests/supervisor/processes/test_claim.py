"""Who holds a run directory is named without a doubt, and what killed ones left is not forgotten."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from appbackplane.supervisor.processes import claim
from appbackplane.supervisor.processes.claim import LEFT_MAX, Life


def test_a_number_that_was_given_out_again_is_somebody_else(tmp_path: Path) -> None:
    """Pids come round: a lock file that names the pid of an editor would have that editor blamed, or killed."""
    ours = claim.claim("demo", ())
    assert ours.is_held()
    assert not msgspec.structs.replace(ours, began=ours.began - 1).is_held()
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    assert not msgspec.structs.replace(ours, pid=ended.pid).is_held()


def test_the_dead_hold_nothing() -> None:
    """Though nobody has buried them yet."""
    with subprocess.Popen(["sleep", "600"]) as process:
        assert claim.began(process.pid) is not None
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert claim.began(process.pid) is None


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """A shorter one over a longer one, too."""
    fd = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    assert claim.read(fd) is None
    long = claim.claim("demo" * 20, (Life(pid=1, mark="a", cgroup="/x"),))
    short = claim.claim("demo", ())
    for each in (short, long, short):
        claim.write(fd, each)
        assert claim.read(fd) == each
    os.close(fd)


@pytest.mark.parametrize("text", ["", "123\n", "{}", '{"system": 3}', "\0" * 64, "[" * 2_000])
def test_what_is_no_claim_is_none(tmp_path: Path, text: str) -> None:
    """A full disk, an older version, or a person: none of them may keep a system from coming up."""
    (tmp_path / "lock").write_text(text)
    fd = os.open(tmp_path / "lock", os.O_RDWR)
    assert claim.read(fd) is None
    os.close(fd)


def test_what_is_not_cleaned_up_is_handed_on() -> None:
    """A supervisor that is killed while it cleans up leaves two to clean up after; and the list has an end."""
    left: tuple[Life, ...] = ()
    for _ in range(LEFT_MAX + 5):
        left = claim.claim("demo", left).lives()
    assert len(left) == LEFT_MAX
    last = claim.claim("demo", left)
    assert last.lives()[-1].mark == last.mark
    assert last.lives()[:-1] == left[1:]
