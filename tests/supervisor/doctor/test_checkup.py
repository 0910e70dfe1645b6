"""doctor: what facts about a machine mean, and the real command on the real machine."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from appbackplane.supervisor.commands import main
from appbackplane.supervisor.doctor import machine
from appbackplane.supervisor.doctor.checkup import RULES, DoctorFinding, checkup, is_fit
from appbackplane.supervisor.doctor.machine import Machine
from appbackplane.transport.errors import FailedPrecondition
from tests.docs.pages import DOCS, table

GOOD = Machine(
    python=(3, 12, 1), build="compiled", kernel="Linux 6.8", cpus=8, cpus_usable=8, nice_lowest=-20, nice_resting=0,
    cgroup_version=2, cgroup="/sys/fs/cgroup/user.slice", cgroup_because="", may_burst=True, has_autogroup=False,
    open_files=65_536, memfd_because="", pidfd_because="", run_dir="/run/user/1/appbackplane", run_dir_because="",
    spark="4.3.0", spark_because="", java="17.0.15, by PATH: /usr/bin/java", java_because="", has_prometheus=True,
    has_opentelemetry=True,
)  # fmt: skip

LACKS: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "an old Python": ({"python": (3, 10, 9)}, "Python", "missing", "install Python 3.11"),
    "interpreted": ({"build": "interpreted"}, "hot modules", "limited", "C compiler"),
    "a cpuset": ({"cpus_usable": 2}, "CPUs", "limited", "cpuset"),
    "one core": ({"cpus": 1, "cpus_usable": 1}, "CPUs", "limited", "second core"),
    "no nice": ({"nice_lowest": None}, "nice", "missing", "LimitNICE"),
    "a little nice": ({"nice_lowest": -5}, "nice", "limited", "LimitNICE"),
    "no groups": ({"cgroup_version": 0, "cgroup_because": "v2: not delegated"}, "cgroups", "missing", "Delegate=yes"),
    "a group is left": ({"cgroup_because": "cgroup x is left behind"}, "cgroups", "limited", "rmdir"),
    "no bursts": ({"may_burst": False}, "cgroups", "limited", "5.14"),
    "autogroup": ({"has_autogroup": True}, "autogroup", "limited", "sysctl"),
    "few files": ({"open_files": 1_024}, "open files", "limited", "ulimit"),
    "hardly any files": ({"open_files": 64}, "open files", "missing", "ulimit"),
    "no memfd": ({"memfd_because": "Operation not permitted"}, "memfd and seals", "missing", "seccomp"),
    "no pidfd": ({"pidfd_because": "Function not implemented"}, "pidfd", "missing", "5.3"),
    "a folder of somebody else": (
        {"run_dir_because": "not a folder of yours"},
        "run directory",
        "missing",
        "chmod 700",
    ),
    "no Java": ({"java": None, "java_because": "JAVA_HOME: Java 11"}, "Java, for Spark", "missing", "[spark]"),
    "no PySpark": ({"spark": None, "spark_because": "no pyspark"}, "Spark", "missing", "[spark]"),
    "no exporter": ({"has_prometheus": False}, "metrics", "missing", "[metrics]"),
    "no opentelemetry": ({"has_opentelemetry": False}, "traces", "missing", "[otel]"),
}
REQUIRED = {"kernel", "Python", "open files", "memfd and seals", "pidfd", "run directory"}


def named(findings: list[DoctorFinding], name: str) -> DoctorFinding:
    return next(finding for finding in findings if finding.name == name)


def test_a_machine_that_has_all_has_nothing_to_mend() -> None:
    """A remedy that is not needed sends somebody to search for a fault."""
    findings = checkup(GOOD)
    assert [(finding.name, finding.verdict, finding.remedy) for finding in findings] == [
        (finding.name, "ok", "") for finding in findings
    ]
    assert {finding.name for finding in findings if finding.is_required} == REQUIRED
    without_limits = checkup(dataclasses.replace(GOOD, has_autogroup=None, open_files=-1))
    assert {finding.verdict for finding in without_limits} == {"ok"}


@pytest.mark.parametrize("lack", LACKS)
def test_each_lack_is_found_alone_and_has_a_remedy(lack: str) -> None:
    """And keeps a system from coming up only if it does."""
    facts, name, verdict, remedy = LACKS[lack]
    findings = checkup(dataclasses.replace(GOOD, **facts))
    found = named(findings, name)
    assert found.verdict == verdict
    assert remedy in found.remedy
    assert [finding.name for finding in findings if finding.verdict != "ok"] == [name]
    assert is_fit(findings) is not (name in REQUIRED and verdict == "missing")


def test_every_rule_has_a_lack() -> None:
    """A rule that can only say `ok` looks at nothing. (The kernel is what is told, not judged.)"""
    judged = {name for _, name, _, _ in LACKS.values()}
    assert {finding.name for finding in checkup(GOOD)} - judged == {"kernel"}
    assert len(RULES) == len(checkup(GOOD))


def test_the_page_tells_of_each() -> None:
    """docs/operation.md; in the order in which they are shown."""
    rows = table((DOCS / "operation.md").read_text(), "What the machine grants")
    assert [(name, required) for name, required, _ in rows] == [
        (finding.name, "yes" if finding.is_required else "no") for finding in checkup(GOOD)
    ]


def test_what_is_tried_is_removed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks ten times must not fill the machine with groups and folders."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    facts = machine.look()
    assert facts.run_dir == str(tmp_path / "appbackplane")
    assert facts.run_dir_because == facts.memfd_because == facts.pidfd_because == ""
    assert list((tmp_path / "appbackplane").iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    if facts.cgroup_version:
        assert facts.cgroup_because == "", "its group is left behind"


def test_the_command_says_it_and_its_exit_code_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script asks before it brings a system up."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    told = CliRunner().invoke(main, ["doctor", "--json"])
    assert told.exit_code == 0
    assert json.loads(told.stdout)["is_fit"] is True
    (tmp_path / "appbackplane").chmod(0o777)
    shown = CliRunner().invoke(main, ["doctor"])
    assert shown.exit_code == 1
    assert "a system cannot come up here: run directory" in shown.stdout
    assert "can be changed by others" in shown.stdout


def test_elsewhere_than_on_linux_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """And does not fail at the first thing that is not there."""
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    with pytest.raises(FailedPrecondition, match="needs Linux"):
        machine.look()
