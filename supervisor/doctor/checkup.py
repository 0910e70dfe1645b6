"""Checkup: judges the facts about a machine for a system on it, with a remedy for each lack. Pure.

Three verdicts: `ok`; `limited`, it works with less; `missing`, it does not work. Only a required ability that is missing keeps
a system from coming up. The substitutes of the others are in docs/concepts/configuration.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .machine import Machine

Verdict = Literal["ok", "limited", "missing"]

PYTHON_MIN = (3, 11)
#: A connection takes one or two descriptors; a client of a large system has one to each backplane, and the ipc listener of a
#: process that runs out of them aborts it (TRAPS 1).
OPEN_FILES_GOOD, OPEN_FILES_MIN = 4_096, 256
#: Nice from which on urgent work gets nearly all of a core beside ordinary processes: 10 : 1.
NICE_GOOD = -10


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """The verdict on one ability."""

    name: str
    verdict: Verdict
    is_required: bool
    #: Present state, in a few words.
    found: str
    #: Remedy; empty where none is needed.
    remedy: str = ""


def checkup(machine: Machine) -> list[DoctorFinding]:
    """Findings of all rules, in the order in which they are shown."""
    return [rule(machine) for rule in RULES]


def is_fit(findings: list[DoctorFinding]) -> bool:
    """Whether a system can come up here."""
    return not any(finding.is_required and finding.verdict == "missing" for finding in findings)


def _kernel(machine: Machine) -> DoctorFinding:
    return DoctorFinding("kernel", "ok", True, machine.kernel)


def _python(machine: Machine) -> DoctorFinding:
    found = ".".join(map(str, machine.python))
    if machine.python >= PYTHON_MIN:
        return DoctorFinding("Python", "ok", True, found)
    wanted = ".".join(map(str, PYTHON_MIN))
    return DoctorFinding("Python", "missing", True, found, f"install Python {wanted} or newer, and AppBackplane for it")


def _build(machine: Machine) -> DoctorFinding:
    if machine.build == "compiled":
        return DoctorFinding("hot modules", "ok", False, machine.build)
    remedy = (
        "half the speed; with a C compiler and Python's headers: pip install --force-reinstall --no-deps appbackplane "
        "(never compiled where it is installed with -e)"
    )
    return DoctorFinding("hot modules", "limited", False, machine.build, remedy)


def _cpus(machine: Machine) -> DoctorFinding:
    found = f"{machine.cpus_usable} of {machine.cpus} usable"
    if machine.cpus_usable < machine.cpus:
        remedy = "this process may not use the others: look at taskset -p $$, and at the container's cpuset"
        return DoctorFinding("CPUs", "limited", False, found, remedy)
    if machine.cpus == 1:
        return DoctorFinding(
            "CPUs", "limited", False, found, "backplanes take turns: a second core would run two at a time"
        )
    return DoctorFinding("CPUs", "ok", False, found)


def _nice(machine: Machine) -> DoctorFinding:
    remedy = (
        "run as root, or: setcap cap_sys_nice+ep on the interpreter; LimitNICE=-20 in a systemd unit; "
        "USER - nice -20 in /etc/security/limits.conf"
    )
    lowest = machine.nice_lowest
    if lowest is None:
        found = f"may not be raised from {machine.nice_resting}"
        return DoctorFinding("nice", "missing", False, found, f"[system] nice has no effect; {remedy}")
    if lowest > NICE_GOOD:
        return DoctorFinding("nice", "limited", False, f"down to {lowest}", remedy)
    return DoctorFinding("nice", "ok", False, f"down to {lowest}")


def _cgroups(machine: Machine) -> DoctorFinding:
    if not machine.cgroup_version:
        remedy = (
            "cpu_limit is enforced by the scheduler alone; as a service: Delegate=yes in its unit; by hand: "
            "systemd-run --user --scope -p Delegate=yes appbackplane up; in a container: mount /sys/fs/cgroup writable"
        )
        return DoctorFinding("cgroups", "missing", False, machine.cgroup_because, remedy)
    found = f"v{machine.cgroup_version}, in {machine.cgroup}"
    if machine.cgroup_because:
        return DoctorFinding(
            "cgroups", "limited", False, f"{found}; {machine.cgroup_because}", "remove it by hand: rmdir"
        )
    if not machine.may_burst:
        return DoctorFinding(
            "cgroups", "limited", False, f"{found}, without bursts", "limits are coarser before Linux 5.14"
        )
    return DoctorFinding("cgroups", "ok", False, found)


def _autogroup(machine: Machine) -> DoctorFinding:
    if not machine.has_autogroup:
        return DoctorFinding(
            "autogroup", "ok", False, "off" if machine.has_autogroup is False else "not in this kernel"
        )
    found = "on: nice counts within a session only"
    remedy = "to be as urgent beside other sessions, too: sysctl kernel.sched_autogroup_enabled=0"
    return DoctorFinding("autogroup", "limited", False, found, remedy)


def _open_files(machine: Machine) -> DoctorFinding:
    limit = machine.open_files
    found = "unlimited" if limit < 0 else f"{limit:,} a process"
    if limit < 0 or limit >= OPEN_FILES_GOOD:
        return DoctorFinding("open files", "ok", True, found)
    remedy = "ulimit -Hn 65536; LimitNOFILE=65536 in a systemd unit; USER - nofile 65536 in /etc/security/limits.conf"
    return DoctorFinding("open files", "limited" if limit >= OPEN_FILES_MIN else "missing", True, found, remedy)


def _memfd(machine: Machine) -> DoctorFinding:
    if not machine.memfd_because:
        return DoctorFinding("memfd and seals", "ok", True, "works")
    remedy = "Linux 3.17 or newer, and a container whose seccomp profile allows memfd_create"
    return DoctorFinding("memfd and seals", "missing", True, machine.memfd_because, remedy)


def _pidfd(machine: Machine) -> DoctorFinding:
    if not machine.pidfd_because:
        return DoctorFinding("pidfd", "ok", True, "works")
    remedy = "Linux 5.3 or newer, and a container whose seccomp profile allows pidfd_open"
    return DoctorFinding("pidfd", "missing", True, machine.pidfd_because, remedy)


def _run_dir(machine: Machine) -> DoctorFinding:
    if not machine.run_dir_because:
        return DoctorFinding("run directory", "ok", True, machine.run_dir)
    remedy = f"make {machine.run_dir} yours and private (chmod 700), or set XDG_RUNTIME_DIR or [system] run_dir"
    return DoctorFinding("run directory", "missing", True, machine.run_dir_because, remedy)


def _spark(machine: Machine) -> DoctorFinding:
    if machine.spark is not None:
        return DoctorFinding("Spark", "ok", False, f"PySpark {machine.spark}")
    remedy = "only for report and pipeline: pip install 'appbackplane[spark]'"
    return DoctorFinding("Spark", "missing", False, machine.spark_because, remedy)


def _java(machine: Machine) -> DoctorFinding:
    if machine.java is not None:
        return DoctorFinding("Java, for Spark", "ok", False, machine.java)
    remedy = "17 or newer, only for Spark: pip install 'appbackplane[spark]' brings one"
    return DoctorFinding("Java, for Spark", "missing", False, machine.java_because, remedy)


def _metrics(machine: Machine) -> DoctorFinding:
    if machine.has_prometheus:
        return DoctorFinding("metrics", "ok", False, "prometheus-client")
    remedy = "only for [system] metrics: pip install 'appbackplane[metrics]'"
    return DoctorFinding("metrics", "missing", False, "no prometheus-client", remedy)


RULES: tuple[Callable[[Machine], DoctorFinding], ...] = (
    _kernel, _python, _build, _cpus, _nice, _cgroups, _autogroup, _open_files, _memfd, _pidfd, _run_dir, _spark,
    _java, _metrics,
)  # fmt: skip
