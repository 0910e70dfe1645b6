"""Which group a backplane is in and what holds its limit, judged and said; the kernel is played by folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from appbackplane.runtime.scheduling.nice import NiceTable
from appbackplane.supervisor.processes.cgroup_layout import SHARED
from appbackplane.supervisor.processes.cgroups import Groups
from appbackplane.supervisor.processes.placement import Placement

FILES = ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.shares", "cgroup.procs")
NICE = NiceTable((-5, 0, 5), -5)


class Folders(Groups):
    """Groups as folders that a test may look into."""

    def __init__(self, folder: Path) -> None:
        (folder / SHARED).mkdir()
        super().__init__(1, folder)

    def add(self, backplane: str) -> None:
        super().add(backplane)
        assert self.folder is not None
        for file in FILES:
            (self.folder / SHARED / backplane / file).touch()

    def members(self) -> list[int]:
        return []

    def quota(self, backplane: str) -> str:
        assert self.folder is not None
        return (self.folder / SHARED / backplane / "cpu.cfs_quota_us").read_text()[:5]


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """Of one system."""
    return Folders(tmp_path)


def by(placement: Placement, backplane: str) -> tuple[object, object, object]:
    """Limit, who holds it, and by what the others see how urgent it is."""
    said = placement.describe(backplane)
    return said["cpu_limit"]["percent"], said["cpu_limit"]["by"], said["os_priority"]["by"]


def test_a_limit_begins_with_the_registration_and_ends_before_the_process(folders: Folders) -> None:
    """Imports in a 10 % group take seconds, and so does SIGKILL (TRAPS 22)."""
    placement = Placement(folders, {"index": 30, "query": None}, NICE, 4)
    assert placement.warnings() == []
    placement.begin("index")
    assert folders.quota("index") == "-1"
    placement.registered("index")
    assert folders.quota("index") == "5000"
    placement.lift("index")
    assert folders.quota("index").startswith("-1")
    assert by(placement, "index") == (30, "os (cgroup v1)", "weight")
    assert by(placement, "query") == (None, None, "nice")
    assert placement.told("index") == {"by": "os (cgroup v1)", "cgroup": placement.folder_of("index")}
    assert placement.told("query") == {"by": None, "cgroup": None}


def test_a_new_generation_begins_as_configured(folders: Folders) -> None:
    """Its scheduler does, too: a limit that the kernel remembers and the scheduler does not would be a riddle."""
    placement = Placement(folders, {"index": 30}, NICE, 4)
    placement.change("index", 80, 1)
    assert by(placement, "index")[0] == 80
    placement.begin("index")
    assert by(placement, "index")[0] == 30


def test_one_that_had_no_limit_is_given_a_group(folders: Folders) -> None:
    """And keeps it when the limit is lifted: to be moved once is enough."""
    placement = Placement(folders, {"query": None}, NICE, 4)
    assert placement.folder_of("query") is None
    assert placement.change("query", None, 1) == []
    assert placement.folder_of("query") is None
    assert placement.change("query", 50, 1) == []
    assert by(placement, "query") == (50, "os (cgroup v1)", "weight")
    assert placement.change("query", None, 1) == []
    assert by(placement, "query") == (None, None, "weight")


def test_exempt_priorities_leave_the_limit_to_the_scheduler(folders: Folders) -> None:
    """The kernel would throttle what is exempt like all the rest."""
    placement = Placement(folders, {"index": 30}, NICE, 4, exempt=["index"])
    assert by(placement, "index") == (30, "scheduler", "nice")
    placement.registered("index")
    assert placement.change("index", 40, 1) == []
    assert by(placement, "index") == (40, "scheduler", "nice")
    assert placement.told("index") == {"by": "scheduler", "cgroup": None}, "or nobody would hold it"


def test_without_groups_the_scheduler_holds_the_limit_and_it_is_said(tmp_path: Path) -> None:
    """A downgrade is said once, with its reason, and for whom."""
    placement = Placement(Groups(because="v1: /x: Read-only file system"), {"index": 30, "query": None}, NICE, 4)
    (said,) = placement.warnings()
    assert "Read-only" in said
    assert "index" in said
    assert "query" not in said
    assert by(placement, "index") == (30, "scheduler", "nice")
    assert placement.change("query", 10, 1) == [
        "cpu_limit of query: enforced by its scheduler alone (v1: /x: Read-only file system)"
    ]
    assert by(placement, "query") == (10, "scheduler", "nice")
    for name in ("index", "query"):
        assert placement.describe(name)["cpu_limit"]["because"] == (
            "enforced by its scheduler alone (v1: /x: Read-only file system)"
        )


def test_a_limit_that_the_kernel_refuses_is_the_schedulers(folders: Folders) -> None:
    """Of that backplane alone."""
    placement = Placement(folders, {"index": 30, "query": 30}, NICE, 4)
    assert folders.folder is not None
    (folders.folder / SHARED / "index" / "cpu.cfs_quota_us").unlink()
    assert placement.warnings() == []
    (said,) = placement.registered("index")
    assert "cpu_limit of index" in said
    assert placement.registered("index") == [], "once"
    assert placement.registered("query") == []
    assert by(placement, "index")[1] == "scheduler"
    assert by(placement, "query")[1] == "os (cgroup v1)"
    (folders.folder / SHARED / "index" / "cpu.cfs_quota_us").touch()
    assert placement.change("index", 40, 1) == []
    assert by(placement, "index")[1] == "os (cgroup v1)", "it is held from now on"


def test_a_limit_above_the_machine_is_said(folders: Folders) -> None:
    """It limits nothing there, and whoever wrote it may think otherwise."""
    placement = Placement(folders, {"index": 401}, NICE, 4)
    assert placement.warnings() == ["cpu_limit of index: 401 % is more than the 4 CPUs there are, so it limits nothing"]
    assert placement.change("index", 400, 1) == []
    assert placement.describe("index")["cpu_limit"] == {"percent": 400, "by": "os (cgroup v1)", "because": None}
    assert len(placement.change("index", 500, 1)) == 1
    because = placement.describe("index")["cpu_limit"]["because"]
    assert because == "500 % is more than the 4 CPUs there are, so it limits nothing"


def test_where_nice_may_not_be_raised_weights_take_its_place(folders: Folders) -> None:
    """Each backplane in a group of its own: what is delegated is used, and what is missing is said."""
    placement = Placement(folders, {"index": None, "query": None}, NiceTable((-5, 0, 5), None), 4)
    assert by(placement, "index") == (None, None, "weight")
    (said,) = placement.warnings()
    assert said.startswith("OS priority: nice may not be raised: the CPU weight of its cgroup follows its work")


def test_without_nice_and_without_groups_only_the_board_is_left() -> None:
    """And that is said."""
    placement = Placement(Groups(because="none"), {"index": None}, NiceTable((-5, 0, 5), None), 4)
    (said,) = placement.warnings()
    assert "CAP_SYS_NICE or RLIMIT_NICE" in said
    assert by(placement, "index") == (None, None, None)


def test_what_is_configured_while_it_runs_holds_for_the_next_generation(folders: Folders) -> None:
    """And for the present one once it is changed there: a limit must not begin in the middle of a start."""
    placement = Placement(folders, {"index": 30, "query": None}, NICE, 4)
    placement.registered("index")
    placement.configure("index", 60, is_exempt=False)
    placement.configure("query", 50, is_exempt=False)
    assert by(placement, "index")[0] == 30
    assert placement.folder_of("query") is None
    placement.begin("index")
    placement.begin("query")
    assert placement.folder_of("query") is not None, "it is born in its own group"
    assert folders.quota("query") == "-1"
    for name, percent in (("index", 60), ("query", 50)):
        placement.registered(name)
        assert by(placement, name) == (percent, "os (cgroup v1)", "weight")


def test_who_becomes_exempt_is_let_go_by_the_kernel(folders: Folders) -> None:
    """Or what is exempt would be throttled like all the rest, by a limit that nobody shows."""
    placement = Placement(folders, {"index": 30}, NICE, 4)
    placement.registered("index")
    assert folders.quota("index") == "5000"
    placement.configure("index", 30, is_exempt=True)
    assert placement.change("index", 30, 1) == []
    assert folders.quota("index").startswith("-1")
    assert placement.told("index")["by"] == "scheduler"
    placement.configure("index", 30, is_exempt=False)
    assert placement.change("index", 30, 1) == []
    assert placement.told("index")["by"] == "os (cgroup v1)"


def test_who_is_removed_leaves_nothing(folders: Folders) -> None:
    """And may come back, with another limit."""
    placement = Placement(folders, {"index": 30, "query": None}, NICE, 4)
    placement.remove("index")
    assert placement.warnings() == []
    assert placement.folder_of("index") is None
    placement.configure("index", 70, is_exempt=False)
    placement.begin("index")
    placement.registered("index")
    assert by(placement, "index") == (70, "os (cgroup v1)", "weight")
