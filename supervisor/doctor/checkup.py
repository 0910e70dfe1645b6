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
#: Of a rule: verdict, present state, and remedy or "".
Outcome = tuple[Verdict, str, str]

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
    told = [(name, is_required, rule(machine)) for name, is_required, rule in RULES]
    return [DoctorFinding(name, verdict, is_required, *why) for name, is_required, (verdict, *why) in told]


def is_fit(findings: list[DoctorFinding]) -> bool:
    """Whether a system can come up here."""
    return not any(finding.is_required and finding.verdict == "missing" for finding in findings)


def _kernel(machine: Machine) -> Outcome:
    return "ok", machine.kernel, ""


def _python(machine: Machine) -> Outcome:
    found = ".".join(map(str, machine.python))
    if machine.python >= PYTHON_MIN:
        return "ok", found, ""
    return "missing", found, f"install Python {'.'.join(map(str, PYTHON_MIN))} or newer, and AppBackplane for it"


def _build(machine: Machine) -> Outcome:
    if machine.build == "compiled":
        return "ok", machine.build, ""
    remedy = (
        "half the speed; with a C compiler and Python's headers: pip install --force-reinstall --no-deps appbackplane "
        "(never compiled where it is installed with -e)"
    )
    return "limited", machine.build, remedy


def _cpus(machine: Machine) -> Outcome:
    found = f"{machine.cpus_usable} of {machine.cpus} usable"
    if machine.cpus_usable < machine.cpus:
        remedy = "this process may not use the others: look at taskset -p $$, and at the container's cpuset"
        return "limited", found, remedy
    if machine.cpus == 1:
        return "limited", found, "backplanes take turns: a second core would run two at a time"
    return "ok", found, ""


def _nice(machine: Machine) -> Outcome:
    remedy = (
        "run as root, or: setcap cap_sys_nice+ep on the interpreter; LimitNICE=-20 in a systemd unit; "
        "USER - nice -20 in /etc/security/limits.conf"
    )
    lowest = machine.nice_lowest
    if lowest is None:
        found = f"may not be raised from {machine.nice_resting}"
        return "missing", found, f"[system] nice has no effect; {remedy}"
    if lowest > NICE_GOOD:
        return "limited", f"down to {lowest}", remedy
    return "ok", f"down to {lowest}", ""


def _cgroups(machine: Machine) -> Outcome:
    if not machine.cgroup_version:
        remedy = (
            "cpu_limit is enforced by the scheduler alone; as a service: Delegate=yes in its unit; by hand: "
            "systemd-run --user --scope -p Delegate=yes appbackplane up; in a container: mount /sys/fs/cgroup writable"
        )
        return "missing", machine.cgroup_because, remedy
    found = f"v{machine.cgroup_version}, in {machine.cgroup}"
    if machine.cgroup_because:
        return "limited", f"{found}; {machine.cgroup_because}", "remove it by hand: rmdir"
    if not machine.may_burst:
        return "limited", f"{found}, without bursts", "limits are coarser before Linux 5.14"
    return "ok", found, ""


def _autogroup(machine: Machine) -> Outcome:
    if not machine.has_autogroup:
        return "ok", "off" if machine.has_autogroup is False else "not in this kernel", ""
    found = "on: nice counts within a session only"
    return "limited", found, "to be as urgent beside other sessions, too: sysctl kernel.sched_autogroup_enabled=0"


def _open_files(machine: Machine) -> Outcome:
    limit = machine.open_files
    found = "unlimited" if limit < 0 else f"{limit:,} a process"
    if limit < 0 or limit >= OPEN_FILES_GOOD:
        return "ok", found, ""
    remedy = "ulimit -Hn 65536; LimitNOFILE=65536 in a systemd unit; USER - nofile 65536 in /etc/security/limits.conf"
    return "limited" if limit >= OPEN_FILES_MIN else "missing", found, remedy


def _there(found: str, because: str, remedy: str) -> Outcome:
    """Of an ability that is there or not; `because`: why it is not, "": it is."""
    return ("missing", because, remedy) if because else ("ok", found, "")


def _memfd(machine: Machine) -> Outcome:
    remedy = "Linux 3.17 or newer, and a container whose seccomp profile allows memfd_create"
    return _there("works", machine.memfd_because, remedy)


def _pidfd(machine: Machine) -> Outcome:
    remedy = "Linux 5.3 or newer, and a container whose seccomp profile allows pidfd_open"
    return _there("works", machine.pidfd_because, remedy)


def _run_dir(machine: Machine) -> Outcome:
    remedy = f"make {machine.run_dir} yours and private (chmod 700), or set XDG_RUNTIME_DIR or [system] run_dir"
    return _there(machine.run_dir, machine.run_dir_because, remedy)


def _spark(machine: Machine) -> Outcome:
    remedy = "only for report and pipeline: pip install 'appbackplane[spark]'"
    return _there(f"PySpark {machine.spark}", "" if machine.spark else machine.spark_because, remedy)


def _java(machine: Machine) -> Outcome:
    remedy = "17 or newer, only for Spark: pip install 'appbackplane[spark]' brings one"
    return _there(machine.java or "", machine.java_because, remedy)


def _metrics(machine: Machine) -> Outcome:
    remedy = "only for [system] metrics: pip install 'appbackplane[metrics]'"
    return _there("prometheus-client", "" if machine.has_prometheus else "no prometheus-client", remedy)


def _traces(machine: Machine) -> Outcome:
    remedy = "only for [trace]: pip install 'appbackplane[otel]'"
    return _there("OpenTelemetry", "" if machine.has_opentelemetry else "no exporter of OpenTelemetry", remedy)


#: Name of each ability, whether it is required, and its rule, in the order in which they are shown.
RULES: tuple[tuple[str, bool, Callable[[Machine], Outcome]], ...] = (
    ("kernel", True, _kernel),
    ("Python", True, _python),
    ("hot modules", False, _build),
    ("CPUs", False, _cpus),
    ("nice", False, _nice),
    ("cgroups", False, _cgroups),
    ("autogroup", False, _autogroup),
    ("open files", True, _open_files),
    ("memfd and seals", True, _memfd),
    ("pidfd", True, _pidfd),
    ("run directory", True, _run_dir),
    ("Spark", False, _spark),
    ("Java, for Spark", False, _java),
    ("metrics", False, _metrics),
    ("traces", False, _traces),
)
