"""A death for want of memory is named as such, and no other is."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appbackplane.supervisor.direction.events import Exited
from appbackplane.supervisor.processes.out_of_memory import OutOfMemory, counter_of
from appbackplane.transport import connect
from appbackplane.transport.errors import PeerDown
from tests.waiting import wait_until

from ..conftest import LIMIT_S, RunningSystem

KILLED = -int(signal.SIGKILL)
#: More than a supervisor and its backplanes take, and little enough to be filled in a moment.
LIMIT_BYTES = 400 << 20
HUNGRY = """
from appbackplane.runtime import Component, operation

class Index(Component):
    @operation()
    def eat(self) -> int:
        "All that there is."
        return len([bytearray(b"x") * (16 << 20) for _ in range(1_000)])

class Query(Component):
    pass
"""


def test_a_kill_is_named_once_and_only_after_the_count_has_risen(tmp_path: Path) -> None:
    """A person's `kill -9` an hour after an OOM kill is no OOM kill, and no exit code 1 is one."""
    counter = tmp_path / "memory.events"
    counter.write_text("oom 0\noom_kill 7\noom_group_kill 9\n")
    memory = OutOfMemory(counter)
    assert not memory.has_killed(KILLED), "those are of the time before"
    counter.write_text("oom 1\noom_kill 8\noom_group_kill 9\n")
    memory.look()  # it came before the news of the death
    assert not memory.has_killed(1)
    assert not memory.has_killed(-int(signal.SIGTERM))
    assert memory.has_killed(KILLED)
    assert not memory.has_killed(KILLED), "one was killed, and it has been named"
    counter.write_text("oom 1\noom_kill 9\n")
    memory.look()
    memory.look()
    assert not memory.has_killed(KILLED), "whoever that was, it was long ago"
    counter.unlink()
    assert not memory.has_killed(KILLED)


@pytest.mark.parametrize(
    ("cgroup", "mountinfo", "file"),
    [
        ("4:memory:/a/b\n0::/", "1 1 0:1 / {0}/m rw - cgroup cgroup rw,memory", "m/a/b/memory.oom_control"),
        ("0::/a/b", "1 1 0:1 / {0}/m rw - cgroup2 cgroup2 rw", "m/a/memory.events"),
        ("0::/", "1 1 0:1 / {0}/m rw - cgroup2 cgroup2 rw", ""),
    ],
)
def test_the_nearest_counter_is_read(tmp_path: Path, cgroup: str, mountinfo: str, file: str) -> None:
    """Of version 1 or 2; where no group counts, the whole machine does."""
    (tmp_path / "cgroup").write_text(cgroup)
    (tmp_path / "mountinfo").write_text(mountinfo.format(tmp_path))
    (tmp_path / "m" / "a" / "b").mkdir(parents=True)
    if file:
        (tmp_path / file).write_text("oom_kill 0")
    assert counter_of(tmp_path) == (tmp_path / file if file else Path("/proc/vmstat"))


def test_the_obituary_says_it_first() -> None:
    """`killed by signal 9` leaves it to the person to suspect."""
    said = Exited("index", 1, KILLED, "loading", is_out_of_memory=True).obituary
    assert said == "out of memory: killed by the kernel (signal 9): loading"


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A memory cgroup with a limit."""
    folder = counter_of().parent / "appbackplane-test-memory"
    limit = {"memory.oom_control": "memory.limit_in_bytes", "memory.events": "memory.max"}.get(counter_of().name, "")
    try:
        folder.mkdir()
        (folder / limit).write_text(str(LIMIT_BYTES))
    except OSError as error:
        pytest.skip(f"no memory group may be made here: {error.strerror}")
    yield folder
    wait_until(lambda: not (folder / "cgroup.procs").read_text())
    folder.rmdir()


def test_a_backplane_that_takes_all_memory_is_said_to_have(
    small_group: Path, start: Callable[..., RunningSystem]
) -> None:
    """With the kernel that kills, counts, and says so to whoever asks."""
    running = start(module=HUNGRY)
    (small_group / "cgroup.procs").write_text(str(running.process.pid))
    running.wait_up()
    with connect(running.run_dir, timeout=LIMIT_S) as client, pytest.raises(PeerDown):
        client.call("index.eat", timeout=LIMIT_S)
    said = running.wait_for("out of memory: killed by the kernel (signal 9)")
    assert "'index'" in said
    running.signal(signal.SIGTERM)
    assert running.wait_down() == 0
