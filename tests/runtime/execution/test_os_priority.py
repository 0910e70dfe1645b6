"""The OS side of a priority, on real threads and processes: who is moved, who is not, and what is not allowed.

What it does to the share of a CPU, in groups of all kinds, is measured in tests/supervisor/processes/test_cgroups.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appbackplane.runtime.execution.urgency import os_priority
from appbackplane.runtime.execution.urgency.os_priority import OsPriority, allowed, probe
from appbackplane.runtime.scheduling.nice import NiceTable

NICE = (-10, 0, 10)
may_nice = pytest.mark.skipif(probe(min(NICE)) is None, reason="nice may not be raised here (CAP_SYS_NICE)")

#: A process whose main thread and workers have the nices that it is told; stays until its input ends.
THREADS = """
import os, sys, threading
main, *workers = map(int, sys.argv[1:])
set_up = threading.Barrier(len(workers) + 1)
def work(nice):
    os.setpriority(os.PRIO_PROCESS, 0, nice)
    set_up.wait()
    threading.Event().wait()
for nice in workers:
    threading.Thread(target=work, args=(nice,), daemon=True).start()
set_up.wait()
os.setpriority(os.PRIO_PROCESS, 0, main)
print("ready", flush=True)
sys.stdin.read()
"""


class Other:
    """Another backplane, as far as its threads go."""

    def __init__(self, *nices: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", THREADS, *map(str, nices)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,
        )
        self.pid = self.process.pid
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def nices(self) -> tuple[int, list[int]]:
        """Of its main thread, and of the others."""
        threads = {int(name) for name in os.listdir(f"/proc/{self.pid}/task")}
        nice = {tid: os.getpriority(os.PRIO_PROCESS, tid) for tid in threads}
        return nice.pop(self.pid), sorted(nice.values())

    def end(self) -> None:
        self.process.communicate()


@pytest.fixture
def other() -> Iterator[Callable[..., Other]]:
    """Starts one."""
    started: list[Other] = []

    def start(*nices: int) -> Other:
        started.append(Other(*nices))
        return started[-1]

    yield start
    for process in started:
        process.end()


@pytest.fixture
def ours() -> Iterator[OsPriority]:
    """This process's."""
    os_priority = OsPriority(NiceTable(NICE, -10, os.getpriority(os.PRIO_PROCESS, 0)))
    yield os_priority
    os_priority.close()


def test_a_probe_leaves_no_trace() -> None:
    """It is tried in the very process that is to work then: its nice, and its threads, are what they were."""
    before = (os.getpriority(os.PRIO_PROCESS, 0), threading.active_count())
    assert probe(-10) in (-10, None)
    assert (os.getpriority(os.PRIO_PROCESS, 0), threading.active_count()) == before


@may_nice
def test_a_thread_is_set_only_when_that_is_a_change(ours: OsPriority, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said before each action: a system call each would cost as much as the action."""
    calls: list[tuple[int, int]] = []
    setpriority = os.setpriority

    def counted(which: int, who: int, nice: int) -> None:
        calls.append((who, nice))
        setpriority(which, who, nice)

    monkeypatch.setattr(os_priority.os, "setpriority", counted)  # type: ignore[attr-defined]
    seen: list[int] = []

    def work() -> None:
        tid = threading.get_native_id()
        for priority in (0, 0, 1, 2, 3, 3):
            ours.set_thread(tid, priority)
            seen.append(os.getpriority(os.PRIO_PROCESS, 0))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [-10, -10, 0, 10, 10, 10]
    assert [nice for _, nice in calls] == [-10, 0, 10]
    assert os.getpriority(os.PRIO_PROCESS, 0) == ours.table.resting, "no other thread was touched"


@may_nice
def test_what_others_moved_is_noticed(ours: OsPriority, other: Callable[..., Other]) -> None:
    """A boost that is remembered as ours would stay for ever: bulk work at the nice of the most urgent."""
    process = other(0, 10)
    (tid,) = {int(name) for name in os.listdir(f"/proc/{process.pid}/task")} - {process.pid}
    ours.set_thread(tid, 2)
    assert ours.look() == 0
    os.setpriority(os.PRIO_PGRP, process.pid, -10)
    assert ours.look() == 1
    ours.set_thread(tid, 2)
    assert process.nices()[1] == [10]
    os.setpriority(os.PRIO_PROCESS, tid, -10)
    ours.distrust()
    ours.set_thread(tid, 2)
    assert process.nices()[1] == [10]


@may_nice
def test_helpers_stay_the_most_urgent(ours: OsPriority, other: Callable[..., Other]) -> None:
    """The sentinel, and ZeroMQ's threads: what is urgent comes in through them, also after a boost was taken back."""
    process = other(0, 10)
    ours.set_helpers([process.pid])
    assert process.nices() == (-10, [10])
    os.setpriority(os.PRIO_PROCESS, process.pid, 5)
    assert ours.look() == 1
    assert process.nices() == (-10, [10])


@may_nice
def test_a_boost_reaches_all_threads(ours: OsPriority, other: Callable[..., Other]) -> None:
    """Whoever boosts does not know which thread of another backplane stands in the way: the one call that reaches all."""
    process = other(0, 10, 10, 10)
    assert ours.boost(process.pid, None, 0)
    assert process.nices() == (-10, [-10, -10, -10])
    assert (ours.boosts_count, ours.refused_count) == (1, 0)


@may_nice
def test_a_boost_makes_nobody_less_urgent(ours: OsPriority, other: Callable[..., Other]) -> None:
    """Its sentinel, and a worker that runs something more urgent, stay where they are."""
    process = other(-15, 10, -12, 5)
    assert ours.boost(process.pid, None, 0)
    assert process.nices() == (-15, [-12, -10, -10])


@may_nice
def test_a_boost_of_the_dead_is_refused_and_counted(ours: OsPriority, other: Callable[..., Other]) -> None:
    """It died while we decided: an error here would end the urgent call."""
    process = other(0)
    process.end()
    assert not ours.boost(process.pid, None, 0)
    assert not ours.boost(process.pid, "/nowhere", 0)
    assert (ours.boosts_count, ours.refused_count) == (0, 2)


class TestInAGroupOfItsOwn:
    """The weight file is all there is to it, so a folder stands in for a cgroup."""

    @pytest.fixture(params=[("cpu.shares", {0: 9548, 1: 1024, 2: 110}), ("cpu.weight", {0: 932, 1: 100, 2: 11})])
    def group(self, request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[int, int]]:
        name, weights = request.param
        (tmp_path / name).write_text(f"{weights[1]}\n")
        return tmp_path / name, weights

    def weight(self, file: Path) -> int:
        return int(file.read_text().split()[0])

    def test_the_weight_follows_the_most_urgent_work(self, group: tuple[Path, dict[int, int]]) -> None:
        """To the other backplanes all its threads are as urgent as this."""
        file, weights = group
        ours = OsPriority(NiceTable(NICE, -10), str(file.parent))
        for priority in (2, 0, 5):
            ours.set_group(priority)
            assert self.weight(file) == weights[min(priority, 2)]
        ours.set_group(None)
        assert self.weight(file) == weights[2], "without work it takes nothing"
        assert ours.mechanism() == "weight"
        ours.close()

    def test_a_weight_is_written_only_when_it_changes(self, group: tuple[Path, dict[int, int]]) -> None:
        """1.3 us each time, where the board's byte costs 60 ns."""
        file, weights = group
        ours = OsPriority(NiceTable(NICE, -10), str(file.parent))
        ours.set_group(0)
        file.write_text("7\n")
        ours.set_group(0)
        assert self.weight(file) == 7
        ours.distrust()
        ours.set_group(0)
        assert self.weight(file) == weights[0], "others may have boosted us"
        ours.close()

    def test_another_is_boosted_by_its_weight(self, group: tuple[Path, dict[int, int]]) -> None:
        """Nice is void there (DESIGN 5: nice boost 558 ms, weight boost 89 ms)."""
        file, weights = group
        ours = OsPriority(NiceTable(NICE, None))
        place = (os.getpid(), str(file.parent))
        assert ours.boost(*place, 0)
        assert self.weight(file) == weights[0]
        assert ours.boost(*place, 2)
        assert self.weight(file) == weights[0], "a boost makes nobody less urgent"
        ours.close()

    def test_without_a_weight_that_may_be_written_it_says_so(self, tmp_path: Path) -> None:
        """Else somebody looks for a boost that never came."""
        ours = OsPriority(NiceTable(NICE, -10), str(tmp_path))
        ours.set_group(0)
        assert ours.mechanism() == "none"
        assert "may not be written" in ours.describe()["because"]


#: Becomes nobody once everything is imported, with so much of RLIMIT_NICE.
UNPRIVILEGED = """
import json, os, resource, sys
from appbackplane.runtime.execution.urgency.os_priority import OsPriority, allowed
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NICE, (limit, limit))
os.setuid(65534)
ours = OsPriority(allowed([-10, 0, 10]))
ours.set_thread(os.getpid(), 2)
lowered = os.getpriority(os.PRIO_PROCESS, 0)
ours.set_thread(os.getpid(), 0)
raised = os.getpriority(os.PRIO_PROCESS, 0)
boosted = ours.boost(os.getpgrp(), None, 0)
print(json.dumps({**ours.describe(), "lowered": lowered, "raised": raised, "boosted": boosted}))
"""


def may_raise_limits() -> bool:
    """Whether a process may be given some of RLIMIT_NICE and no more."""
    script = "import resource as r, sys; r.setrlimit(r.RLIMIT_NICE, (20, 20))"
    return subprocess.run([sys.executable, "-c", script], stderr=subprocess.DEVNULL).returncode == 0


def unprivileged(limit: int) -> dict[str, Any]:
    """What one says who may not."""
    words = [sys.executable, "-c", UNPRIVILEGED, str(limit)]
    answer: dict[str, Any] = json.loads(subprocess.check_output(words, process_group=0))
    return answer


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become nobody")
class TestUnprivileged:
    """What is asked for and cannot be had is said, and what is left works."""

    def test_without_any_privilege_nice_stays_where_it_is(self) -> None:
        """What is lowered could never be raised again (TRAPS 25): an urgent action would run at nice 10 for ever."""
        said = unprivileged(0)
        resting = os.getpriority(os.PRIO_PROCESS, 0)
        assert (said["mechanism"], said["boosted"]) == ("none", False)
        assert said["lowered"] == said["raised"] == resting
        assert "CAP_SYS_NICE or RLIMIT_NICE" in said["because"]
        assert said["refused"] == 1

    @pytest.mark.skipif(not may_raise_limits(), reason="RLIMIT_NICE may not be raised here (CAP_SYS_RESOURCE)")
    def test_with_a_part_of_it_the_order_is_kept(self) -> None:
        """RLIMIT_NICE 20 allows nice 0: everything is ten less urgent, and may come back."""
        said = unprivileged(20)
        assert (said["mechanism"], said["nice"], said["lowered"], said["raised"]) == ("nice", [0, 10, 19], 19, 0)
        assert "10 less urgent" in said["because"]
        assert said["boosted"]


def test_a_table_that_is_empty_asks_for_nothing() -> None:
    """Nothing is missing then, and nothing is said."""
    ours = OsPriority(allowed([]))
    ours.set_thread(threading.get_native_id(), 0)
    assert (ours.mechanism(), ours.describe()["because"]) == ("none", "")
