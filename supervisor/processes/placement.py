"""Placement: the group of each backplane, and the holder of its CPU limit: the kernel, or its scheduler alone.

A limit begins when the backplane has registered: imports inside a 10 % group would take seconds (TRAPS 22). It is lifted
before the process is stopped or killed, because SIGKILL of a throttled process takes up to 0.9 s. Either the kernel or the
scheduler holds a limit, never both, so the backplane is told which (docs/decisions/cpu_limits.md). If the machine does not
allow a group, the scheduler's account holds the limit, and one warning says so.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from appbackplane.runtime.execution.urgency.os_priority import allowed, because
from appbackplane.runtime.scheduling.nice import NiceTable, weight_of_nice

from ..configuration.config import Config
from .cgroup_layout import with_own_group
from .cgroups import Groups


class Placement:
    """Groups and CPU limits of one system's backplanes. Main thread only."""

    def __init__(
        self,
        groups: Groups,
        limits: Mapping[str, int | None],
        nice: NiceTable,
        cpus: int,
        exempt: Collection[str] = (),
    ) -> None:
        """`limits`: of each backplane, in percent of one core. `cpus`: CPUs that may be used. `exempt`: backplanes with
        priorities that run though the limit is spent; the kernel cannot tell those apart, so their schedulers limit them.
        """
        self.groups = groups
        self._exempt = set(exempt)
        self._configured = dict(limits)
        #: Limits in force; a new generation begins with the configured one.
        self._limits = dict(limits)
        self._nice, self._cpus = nice, cpus
        #: Backplanes whose limit the kernel refused, and why.
        self._refused: dict[str, str] = {}
        if groups:
            for name in sorted(self._with_own_group(limits)):
                self._attempt(name, lambda name=name: groups.add(name))  # type: ignore[misc]

    @classmethod
    def of(cls, config: Config, make: Callable[[bool], Groups]) -> Placement:
        """The placement of a configuration; `make` makes the groups, and is told whether any are needed."""
        limits = {name: backplane.cpu_limit for name, backplane in config.backplane.items()}
        exempt = [name for name, backplane in config.backplane.items() if backplane.cpu_exempt]
        nice = allowed(config.system.nice)
        is_needed = bool(with_own_group(limits, may_nice=nice.is_in_force or not nice.wanted))
        return cls(make(is_needed), limits, nice, len(os.sched_getaffinity(0)), exempt)

    def configure(self, backplane: str, limit: int | None, *, is_exempt: bool) -> None:
        """Set the configured limit, which holds for the next generation; `change` sets that of the present one."""
        self._configured[backplane] = limit
        self._limits.setdefault(backplane, limit)
        (self._exempt.add if is_exempt else self._exempt.discard)(backplane)

    def remove(self, backplane: str) -> None:
        """Forget a backplane that is gone for good, and remove its group."""
        self._exempt.discard(backplane)
        for known in (self._configured, self._limits, self._refused):
            known.pop(backplane, None)
        if self.folder_of(backplane) is not None:
            self.groups.remove(backplane)

    def warnings(self) -> list[str]:
        """Warnings at start: each limit or priority that the machine does not grant."""
        said = []
        limited = [name for name, limit in self._configured.items() if limit is not None]
        if limited and not self.groups:
            reason = self.groups.because
            said.append(
                f"no CPU limits by the kernel ({reason}): {', '.join(limited)}: enforced by the scheduler alone"
            )
        said += [line for name in self._limits for line in self._refusal(name) + self._too_high(name)]
        reasons = {self._because(name) for name in self._limits}
        return said + sorted(f"OS priority: {reason}" for reason in reasons if reason)

    def folder_of(self, backplane: str) -> str | None:
        """Folder of its own group; None: it has none."""
        return self.groups.folder_of(backplane)

    def begin(self, backplane: str) -> None:
        """Before a spawn: the configured limit holds again, but not while the process starts; a boost ends."""
        self._limits[backplane] = limit = self._configured[backplane]
        if self.groups and self.folder_of(backplane) is None and self._with_own_group({backplane: limit}):
            self._attempt(backplane, lambda: self.groups.add(backplane))
        self.lift(backplane)
        if self.folder_of(backplane) is not None:
            weight = weight_of_nice(0, version=self.groups.version)
            self._attempt(backplane, lambda: self.groups.weigh(backplane, weight))

    def registered(self, backplane: str) -> list[str]:
        """It has started: its limit begins. Returns warnings."""
        if self.folder_of(backplane) is None or backplane in self._exempt:
            return []
        was_said = backplane in self._refused
        self._attempt(backplane, lambda: self.groups.limit(backplane, self._limits[backplane]))
        return [] if was_said else self._refusal(backplane)

    def lift(self, backplane: str) -> None:
        """Lift the limit of a process that is to end, since that must not take long."""
        if self.folder_of(backplane) is not None:
            with suppress(OSError):  # then it takes a little longer
                self.groups.limit(backplane, None)

    def change(self, backplane: str, percent: int | None, pgid: int) -> list[str]:
        """Change the limit at run time, of the process group `pgid`. Returns warnings."""
        self._limits[backplane] = percent
        is_held = self.groups and backplane not in self._exempt
        if is_held and (percent is not None or self.folder_of(backplane) is not None):
            self._attempt(backplane, lambda: self._change(backplane, percent, pgid))
        elif percent is not None and not self.groups:
            self._refused[backplane] = self.groups.because
        else:
            self.lift(backplane)
        return self._refusal(backplane) + self._too_high(backplane)

    def describe(self, backplane: str) -> dict[str, Any]:
        """For the status: the limit and its holder, the means of OS priority, and the reason where these are not the best."""
        folder = self.folder_of(backplane)
        is_ranked = bool(self._nice.wanted) and (folder is not None or self._nice.is_in_force)
        return {
            "cpu_limit": {
                "percent": self._limits[backplane],
                "by": self.in_force(backplane),
                "because": "; ".join(self._limit_because(backplane)) or None,
            },
            "os_priority": {
                "by": ("nice" if folder is None else "weight") if is_ranked else None,
                "because": self._because(backplane) or None,
                "cgroup": folder,
            },
        }

    def told(self, backplane: str) -> dict[str, str | None]:
        """For the backplane itself: the holder of its limit, since only one of the two may; and its own group."""
        return {"by": self.in_force(backplane), "cgroup": self.folder_of(backplane)}

    def in_force(self, backplane: str) -> str | None:
        """Holder of its limit: "os (cgroup v1)", "os (cgroup v2)", "scheduler"; None: it has no limit."""
        if self._limits[backplane] is None:
            return None
        if backplane in self._exempt or backplane in self._refused or self.folder_of(backplane) is None:
            return "scheduler"
        return f"os ({self.groups.name})"

    def _with_own_group(self, limits: Mapping[str, int | None]) -> frozenset[str]:
        held = {name: None if name in self._exempt else limit for name, limit in limits.items()}
        return with_own_group(held, may_nice=self._nice.is_in_force or not self._nice.wanted)

    def percent_of_kernel(self, backplane: str) -> int | None:
        """Its limit, if the kernel holds it and so slows the process down."""
        return None if self.in_force(backplane) in (None, "scheduler") else self._limits[backplane]

    def _change(self, backplane: str, percent: int | None, pgid: int) -> None:
        if self.folder_of(backplane) is None:
            self.groups.add(backplane)
            self.groups.move([pid for pid in self.groups.members() if _pgid(pid) == pgid], backplane)
        self.groups.limit(backplane, percent)

    def _attempt(self, backplane: str, act: Callable[[], None]) -> None:
        self._refused.pop(backplane, None)
        try:
            act()
        except OSError as error:
            self._refused[backplane] = f"{error.filename}: {error.strerror}"

    def _refusal(self, backplane: str) -> list[str]:
        if backplane not in self._refused or self._limits[backplane] is None:
            return []
        return [f"cpu_limit of {backplane}: {_held_alone(self._refused[backplane])}"]

    def _limit_because(self, backplane: str) -> list[str]:
        """Reasons why its limit is held by the scheduler, or limits nothing."""
        if self._limits[backplane] is None:
            return []
        why = self._refused.get(backplane)
        if why is None and not self.groups and backplane not in self._exempt:
            why = self.groups.because
        return ([] if why is None else [_held_alone(why)]) + self._excess(backplane)

    def _because(self, backplane: str) -> str:
        folder = self.folder_of(backplane)
        return because(self._nice, folder, folder is not None)

    def _too_high(self, backplane: str) -> list[str]:
        return [f"cpu_limit of {backplane}: {line}" for line in self._excess(backplane)]

    def _excess(self, backplane: str) -> list[str]:
        limit = self._limits[backplane]
        if limit is None or limit <= 100 * self._cpus:
            return []
        return [f"{limit} % is more than the {self._cpus} CPUs there are, so it limits nothing"]


def _held_alone(why: str) -> str:
    return f"enforced by its scheduler alone ({why})"


def _pgid(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0
