"""CPU limits of a whole system: the kernel holds them, they change at run time, the status says so, nothing is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appbackplane.runtime.execution.urgency.os_priority import probe
from appbackplane.supervisor.processes.cgroup_layout import SHARED
from appbackplane.supervisor.processes.cgroups import make
from appbackplane.transport import connect
from appbackplane.transport.errors import InvalidArgument
from tests.waiting import wait_until

from .conftest import LIMIT_S, TOML, RunningSystem, is_alive
from .quota import assert_held

Start = Callable[..., RunningSystem]

MODULE = '''
"""Components that compute: beside the scheduler, where its account does not see it, and in actions without end."""
import hashlib, os, subprocess, sys, threading, time
from appbackplane.runtime import Action, AppObject, Component, Outcome, operation

BEGUN_IN = open("/proc/self/cgroup").read()

is_over = threading.Event()

def spin():
    while not is_over.is_set():
        pass

DATA = bytes(1 << 16)  # large enough for hashlib to let go of the interpreter

class Work(Action):
    "So much CPU, and the same again."
    __slots__ = ("seconds",)

    def __init__(self, object, seconds):
        super().__init__(object, "index.work", 4)
        self.seconds = seconds

    def run(self):
        end = time.thread_time() + self.seconds
        while time.thread_time() < end:
            hashlib.sha256(DATA)
        self.object._component.post(Work(self.object, self.seconds))
        return Outcome.DONE

class Index(Component):
    def setup(self):
        for n in range(4):
            self.add(AppObject(), key=f"worker-{n}")

    @operation()
    def work(self, seconds: list[float]) -> None:
        for object, each in zip(self.objects, seconds):
            self.post(Work(object, each))

    @operation()
    def begun_in(self) -> str:
        return BEGUN_IN

    @operation()
    def spin(self) -> None:
        threading.Thread(target=spin, daemon=True).start()

    @operation()
    def rest(self) -> None:
        is_over.set()

    @operation()
    def leave(self) -> int:
        "A process in a session of its own."
        command = [sys.executable, "-c", "import signal; signal.pause()"]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True).pid

class Query(Component):
    pass
'''


def why_not() -> str:
    """Why there are no groups to be tested here; empty when there are."""
    groups = make("probe", Path(f"/nowhere/probe-limits-{os.getpid()}"))  # each worker asks, all at once
    groups.close(print)
    return groups.because


WHY_NOT = why_not()
with_groups = pytest.mark.skipif(bool(WHY_NOT), reason=f"no groups may be made here: {WHY_NOT}")


def folder_of(system: RunningSystem) -> Path:
    """Of all its groups."""
    return Path(json.loads((system.run_dir / "lock").read_text())["cgroup"])


def wait_for(holds: Callable[[], Any]) -> None:
    """Until it does; what is changed here follows within milliseconds."""
    wait_until(holds)


@with_groups
def test_a_limit_is_held_by_the_kernel_and_follows_the_operator(start: Start) -> None:
    """A thread that the scheduler's account does not see is limited, too; and a new limit holds at once, for whoever."""
    system = start("nice = [-5, 0, 5]", "cpu_limit = 10", module=MODULE)
    status = system.wait_up()
    assert status["backplanes"][0]["cpu_limit"] == {"percent": None, "by": None, "because": None}
    by = system.backplane("index")["cpu_limit"]["by"]
    assert by in ("os (cgroup v1)", "os (cgroup v2)")
    own = str(folder_of(system) / SHARED / "index")
    assert system.backplane("index")["os_priority"]["cgroup"] == own
    index, query = system.backplane("index")["pid"], system.backplane("query")["pid"]
    with connect(system.run_dir, timeout=LIMIT_S) as client:
        assert f"/{SHARED}/index\n" in client.call("index.begun_in", timeout=LIMIT_S), "before any code of the user's"
        client.call("index.spin", timeout=LIMIT_S)
        assert_held(Path(own), index, 10)

        answer = client.call("backplane.index.limits", cpu_limit=20, timeout=LIMIT_S)
        assert answer["cpu_limit"] == 20
        wait_for(lambda: system.backplane("index")["cpu_limit"] == {"percent": 20, "by": by, "because": None})
        assert_held(Path(own), index, 20)
        client.call("index.rest", timeout=LIMIT_S)  # without a limit it would take a core
        client.call("backplane.index.limits", cpu_limit=0, timeout=LIMIT_S)
        wait_for(lambda: system.backplane("index")["cpu_limit"] == {"percent": None, "by": None, "because": None})

        # One that had no limit gets a group of its own, and everybody hears of it.
        assert system.backplane("query")["os_priority"]["cgroup"] is None
        client.call("backplane.query.limits", cpu_limit=50, timeout=LIMIT_S)
        wait_for(lambda: system.backplane("query")["cpu_limit"] == {"percent": 50, "by": by, "because": None})
        assert f"/{SHARED}/query\n" in Path(f"/proc/{query}/cgroup").read_text()
        place = system.ask("supervisor.directory")["backplanes"]["query"]
        assert (place["pid"], place["cgroup"]) == (query, str(folder_of(system) / SHARED / "query"))
        statistics = "backplane.query.statistics"
        wait_for(lambda: client.call(statistics, timeout=LIMIT_S)["os_priority"]["cgroup"] == place["cgroup"])
        with pytest.raises(InvalidArgument):
            client.call("backplane.query.limits", cpu_limit=-1, timeout=LIMIT_S)
        with pytest.raises(InvalidArgument, match="for backplanes"):
            system.ask("supervisor.limit", {"cpu_limit": 5})

    folder = folder_of(system)
    system.signal(signal.SIGTERM)
    assert system.wait_down() == 0
    assert not folder.exists(), "its groups are gone"


@with_groups
@pytest.mark.parametrize("seconds", [[0.002] * 4, [1.2, 0.002, 0.002]], ids=["short", "long and short"])
def test_a_limit_gives_what_it_says(start_alone: Start, seconds: list[float]) -> None:
    """Workers that wait for each other got 5/6 of it (quota lost), and 2/3 beside long ones (they paid twice)."""
    system = start_alone("", "threads = 2\ncpu_limit = 20", module=MODULE)
    system.wait_up()
    index = system.backplane("index")
    folder = Path(index["os_priority"]["cgroup"])
    with connect(system.run_dir, timeout=LIMIT_S) as client:
        client.call("index.work", seconds=seconds, timeout=LIMIT_S)
        assert_held(folder, index["pid"], 20)


@with_groups
@pytest.mark.parametrize(("more", "by"), [("", "os"), ("\ncpu_exempt = 1", "scheduler")], ids=["plain", "exempt"])
def test_one_limit_has_one_keeper(start_alone: Start, more: str, by: str) -> None:
    """Which one, both sides agree, at start and after each change. The kernel cannot tell what is exempt."""
    system = start_alone("", f"cpu_limit = 50{more}", module=MODULE)
    system.wait_up()
    with connect(system.run_dir, timeout=LIMIT_S) as client:

        def keepers() -> tuple[int | None, str | None, str | None]:
            cpu = client.call("backplane.index.statistics", timeout=LIMIT_S)["cpu"]
            told = system.backplane("index")["cpu_limit"]["by"]
            return cpu["limit_percent"], cpu["limit_by"], told and told.split(" ")[0]

        wait_for(lambda: keepers() == (50, by, by))
        for percent in (80, 0, 20):
            client.call("backplane.index.limits", cpu_limit=percent, timeout=LIMIT_S)
            expected = (percent, by, by) if percent else (None, None, None)
            wait_for(lambda expected=expected: keepers() == expected)  # type: ignore[misc]


@with_groups
def test_a_limited_backplane_dies_and_comes_back_at_once(start_alone: Start) -> None:
    """SIGKILL of a throttled process takes up to 0.9 s, and its imports more than that: the quota is lifted for both."""
    system = start_alone("", "cpu_limit = 2", module=MODULE)
    system.wait_up()
    with connect(system.run_dir, timeout=LIMIT_S) as client:
        client.call("index.spin", timeout=LIMIT_S)
    index = system.backplane("index")
    throttled = Path(index["os_priority"]["cgroup"], "cpu.stat")
    wait_for(lambda: "nr_throttled 0\n" not in throttled.read_text())
    system.signal(signal.SIGINT)
    system.signal(signal.SIGINT)
    system.wait_down()
    assert not throttled.parent.exists()


@with_groups
def test_what_a_killed_supervisor_left_is_reclaimed_by_the_next(start_alone: Start) -> None:
    """Groups, and whoever still lives in them; the system comes up as if nothing had been."""
    system = start_alone("", "cpu_limit = 50", module=MODULE)
    system.wait_up()
    with connect(system.run_dir, timeout=LIMIT_S) as client:
        stray = client.call("index.leave", timeout=LIMIT_S)
    folder = folder_of(system)
    system.process.kill()
    system.process.wait(LIMIT_S)
    assert folder.exists()
    assert is_alive(stray)
    again = start_alone("", "cpu_limit = 50", module=MODULE)
    again.wait_up()
    assert not is_alive(stray)
    assert folder_of(again) == folder
    again.signal(signal.SIGTERM)
    assert again.wait_down() == 0
    assert not folder.exists()


@with_groups
@pytest.mark.skipif(
    os.getuid() != 0 or shutil.which("setpriv") is None or probe(-5) is None,
    reason="needs root, to give up CAP_SYS_NICE",
)
def test_without_the_privilege_weights_take_the_place_of_nice(tmp_path: Path) -> None:
    """Said once, shown by the status, and each backplane has a weight of its own."""
    (tmp_path / "demo.py").write_text(MODULE)
    (tmp_path / "demo.toml").write_text(TOML.format(system="nice = [-5, 0, 5]", index=""))
    without = ["setpriv", "--bounding-set", "-sys_nice", "--inh-caps", "-sys_nice"]
    system = RunningSystem(tmp_path / "demo.toml", prefix=without)
    status = system.wait_up()
    assert [b["os_priority"]["by"] for b in status["backplanes"]] == ["weight", "weight"]
    assert len([line for line in system.said if "warning: OS priority: nice may not be raised" in line]) == 1
    folder = folder_of(system)
    assert {path.name for path in (folder / SHARED).iterdir() if path.is_dir()} == {"index", "query"}
    system.signal(signal.SIGTERM)
    assert system.wait_down() == 0
    assert not folder.exists()
    assert system.process.stderr is not None
    system.process.stderr.close()


def test_what_the_machine_cannot_grant_is_said_once(start_alone: Start) -> None:
    """A limit that limits nothing, or that only the scheduler holds, is said at start, never silence."""
    system = start_alone("", "cpu_limit = 100000", module=MODULE)
    system.wait_up()
    said = [line for line in system.said if "cpu_limit of index" in line or "no CPU limits" in line]
    assert any("100000 % is more than" in line for line in said)
    assert "100000 % is more than" in system.backplane("index")["cpu_limit"]["because"], "nor once it has scrolled away"
    system.signal(signal.SIGTERM)
    assert system.wait_down() == 0
