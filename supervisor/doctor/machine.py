"""Machine: the abilities of this machine for a system of the present user, found out by trying, as `up` does.

The same probes as the supervisor's: nice by `os_priority.probe`, groups by `cgroups.make`, the run directory by `RunDir`, the
board by `Board.create`; so `doctor` reports the same as `up` finds. All that is made is removed again. About 100 ms, most of
it to ask Spark's programs about PySpark and Java. The facts are judged in checkup.py.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from appbackplane.runtime import otel
from appbackplane.runtime.build import BUILD
from appbackplane.runtime.execution.urgency.board import Board
from appbackplane.runtime.execution.urgency.os_priority import probe
from appbackplane.runtime.scheduling.nice import NICE_MIN
from appbackplane.transport.addressing import default_run_dir, supervisor_socket
from appbackplane.transport.errors import BackplaneError, FailedPrecondition
from appbackplane.transport.link import Link

from .. import metrics
from ..processes import cgroups
from ..processes.cgroup_layout import BURST_FILE, SHARED
from ..processes.run_dir import RunDir

#: Time-out for asking about Spark: it takes 0.1 s; if a Java has to be asked for its version, half a second.
_ASK_LIMIT_S = 30.0
_AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts. `…_because`: the reason why a probe failed; empty: it worked."""

    python: tuple[int, int, int]
    build: str
    kernel: str
    #: CPUs of the machine, and those that we may use.
    cpus: int
    cpus_usable: int
    #: The most urgent nice that may be set and returned to; None: none.
    nice_lowest: int | None
    nice_resting: int
    #: 0: no groups can be made. `cgroup`: folder in which the supervisor would make them.
    cgroup_version: int
    cgroup: str
    cgroup_because: str
    may_burst: bool
    #: None: this kernel has no autogroups.
    has_autogroup: bool | None
    open_files: int
    memfd_because: str
    pidfd_because: str
    run_dir: str
    run_dir_because: str
    #: Version of PySpark; None: it, or a package that it needs, is not installed (`spark_because`).
    spark: str | None
    spark_because: str
    #: The Java that Spark would run on: version, source, program; None: there is none (`java_because`).
    java: str | None
    java_because: str
    has_prometheus: bool
    has_opentelemetry: bool


def look() -> Machine:
    """Try everything. Raises `FailedPrecondition` on any system but Linux."""
    if platform.system() != "Linux":
        raise FailedPrecondition(f"AppBackplane needs Linux (memfd, pidfd, cgroups), and this is {platform.system()}")
    cgroup_version, cgroup, cgroup_because, may_burst = _groups()
    run_dir = default_run_dir(f"doctor-{os.getpid()}")
    spark, spark_because, java, java_because = _spark()
    return Machine(
        python=sys.version_info[:3],
        build=BUILD,
        kernel=f"{platform.system()} {platform.release()}",
        cpus=os.cpu_count() or 1,
        cpus_usable=len(os.sched_getaffinity(0)),
        nice_lowest=probe(NICE_MIN),
        nice_resting=os.getpriority(os.PRIO_PROCESS, 0),
        cgroup_version=cgroup_version,
        cgroup=cgroup,
        cgroup_because=cgroup_because,
        may_burst=may_burst,
        has_autogroup=_AUTOGROUP.read_text().strip() == "1" if _AUTOGROUP.exists() else None,
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        memfd_because=_obstacle(lambda: Board.create(1).close()),
        pidfd_because=_obstacle(lambda: os.close(os.pidfd_open(os.getpid()))),
        run_dir=str(run_dir.parent),
        run_dir_because=_obstacle(lambda: _use(run_dir)),
        spark=spark,
        spark_because=spark_because,
        java=java,
        java_because=java_because,
        has_prometheus=metrics.is_installed(),
        has_opentelemetry=otel.is_installed(),
    )


def _groups() -> tuple[int, str, str, bool]:
    """(version, folder, why there are none or which one stayed, whether they know bursts)."""
    groups = cgroups.make("doctor", Path(f"doctor-{os.getpid()}"))
    if groups.folder is None:
        return 0, "", groups.because, False
    folder = groups.folder
    may_burst = (folder / SHARED / BURST_FILE[groups.version]).exists()
    left: list[str] = []
    version = groups.version
    groups.close(left.append)
    return version, str(folder.parent), "; ".join(left), may_burst


def _use(run_dir: Path) -> None:
    """Use a run directory as a supervisor does: make it, lock it, bind a socket in it."""
    taken = RunDir(run_dir, "doctor")
    try:
        link = Link("doctor")
        try:
            link.bind(supervisor_socket(run_dir))
        finally:
            link.close()
    finally:
        taken.close()


def _obstacle(attempt: Callable[[], None]) -> str:
    try:
        attempt()
    except BackplaneError as error:
        return error.message
    except (OSError, AttributeError) as error:  # AttributeError: a Python that was built without it
        return getattr(error, "strerror", None) or str(error)
    return ""


def _spark() -> tuple[str | None, str, str | None, str]:
    """(Spark, why none, Java, why none), asked of the program that uses them, which alone knows its needs."""
    asked = [sys.executable, "-P", "-m", "appbackplane.spark", "here"]
    try:
        said = subprocess.run(
            asked, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASK_LIMIT_S, check=True
        ).stdout
        told = json.loads(said)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        because = f"cannot be asked for: {error}"
        return None, because, None, because
    return told["spark"], "".join(f"no {name}" for name in told["missing"][:1]), told["java"], told["because"]
