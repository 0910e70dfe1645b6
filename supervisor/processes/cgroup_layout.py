"""Cgroup layout: where CPU groups can be made, which backplane is in which, and limits in kernel terms. Pure.

    FOLDER/                one a system: weighs as much as one ordinary process on each CPU
      shared/              every backplane without a limit: nice orders all their threads (and autogroup is ignored)
        NAME/              a backplane with a limit, beside those threads: its weight is compared with their nice

Limited groups lie inside `shared`. Beside it, each would compete with all of `shared` as with one group, whose weight is
spread over the CPUs, and nice would not count between the two (measured: nested, a thread of nice -10 against a group of
weight 110 is 98.8 : 1.2). In cgroup v2 that takes threaded groups, which may hold processes and groups at once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

#: Prefix of every group of ours; no other group is ever removed.
PREFIX = "appbackplane-"
SHARED = "shared"
WEIGHT_FILE = {1: "cpu.shares", 2: "cpu.weight"}
BURST_FILE = {1: "cpu.cfs_burst_us", 2: "cpu.max.burst"}
#: A CPU takes a group's quota in slices of so much (kernel.sched_cfs_bandwidth_slice_us) and hands back the unused part; quota
#: left at the period's end is lost, but for the burst. Threads of a backplane wait for each other (the GIL, the lead), so a
#: throttled one makes others hand back. With quota and burst below a slice, 30 % was 28 %.
QUOTA_US_WANTED = 5_000
#: A throttled group stands still for the rest of the period, so the period is as short as the quota allows: with 100 ms the
#: p99.9 wake-up in the group was 65 ms, with 10 ms 11 ms (TRAPS 26). The longest is the kernel's default.
PERIOD_US_MIN, PERIOD_US_MAX = 10_000, 100_000
#: Weight of one process of nice 0, and the largest that may be written: cpu.shares and cpu.weight.
_WEIGHT_DEFAULT = {1: 1024, 2: 100}
_WEIGHT_MAX = {1: 262_144, 2: 10_000}
_ESCAPE = re.compile(r"\\([0-7]{3})")


class Hierarchy(NamedTuple):
    """A place of a controller: its version, its mount, and the folder of this process's group."""

    version: int
    mount: str
    own: str


def hierarchies(cgroup: str, mountinfo: str, controller: str = "cpu") -> list[Hierarchy]:
    """Places of a controller, from /proc/self/cgroup and /proc/self/mountinfo; v1 first, since a controller that is mounted
    there cannot be used in v2.
    """
    paths = {}
    for line in cgroup.splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            paths[1] = path
        elif not controllers:
            paths[2] = path
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, (kind, _, options) = before.split(), after.split(" ", 2)
        version = {"cgroup": 1, "cgroup2": 2}.get(kind)
        if version is None or version not in paths or (version == 1 and controller not in options.split(",")):
            continue
        root, mount = _unescaped(fields[3]), _unescaped(fields[4])
        own = _below(paths[version], root)
        if own is not None:
            found.append(Hierarchy(version, mount, str(PurePosixPath(mount, own))))
    return sorted(found, key=lambda hierarchy: hierarchy.version)


def folder_name(system: str, run_dir: str) -> str:
    """The same for each start of a system, so that groups of a killed supervisor are found. No other system has it, since the
    run directory is locked.
    """
    return f"{PREFIX}{system}-{hashlib.sha256(run_dir.encode()).hexdigest()[:8]}"


def is_ours(folder: str) -> bool:
    """Whether this is a system's folder, which may be removed."""
    path = PurePosixPath(folder)
    return path.is_absolute() and ".." not in path.parts and path.name.startswith(PREFIX)


def with_own_group(limits: Mapping[str, int | None], *, may_nice: bool) -> frozenset[str]:
    """The backplanes that get a group of their own: those with a limit; all of them where nice may not be raised, so that
    at least their weights tell them apart.
    """
    return frozenset(name for name, limit in limits.items() if limit is not None or not may_nice)


class Bandwidth(NamedTuple):
    """A limit in kernel terms, in microseconds: CPU time a period, and how much unused time later periods may add."""

    #: -1: no limit.
    quota: int
    period: int
    burst: int = 0


def bandwidth_us(percent: int | None, *, may_burst: bool = True) -> Bandwidth:
    """Convert a limit in percent of one core; None: no limit. `may_burst`: the kernel knows bursts (Linux 5.14)."""
    if percent is None:
        return Bandwidth(-1, PERIOD_US_MIN)
    period = PERIOD_US_MAX
    if may_burst:
        period = min(max(PERIOD_US_MIN, -(-QUOTA_US_WANTED * 100 // percent)), PERIOD_US_MAX)
    quota = period * percent // 100
    # Without bursts, returned quota is lost: 20 % for 30 with a period of 20 ms; least, 29 to 30 %, with the longest period.
    return Bandwidth(quota, period, quota if may_burst else 0)


def folder_weight(version: int, cpus: int) -> int:
    """The weight of a whole system. A group's weight is spread over the CPUs on which it runs; with this one, the group
    counts on each CPU as one ordinary process.
    """
    return min(_WEIGHT_MAX[version], _WEIGHT_DEFAULT[version] * cpus)


def _below(path: str, root: str) -> str | None:
    """`path` relative to the mounted root; None: it lies outside."""
    try:
        return str(PurePosixPath(path).relative_to(root))
    except ValueError:
        return None


def _unescaped(field: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), field)
