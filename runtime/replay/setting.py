"""Setting: what a backplane is allowed, as far as it decides who waits. What a simulation may be asked to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ..scheduling.scheduler import Policy


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of `[backplane.NAME]` that matter here, by their names, and who holds the CPU limit."""

    threads: int = 1
    priorities: int = 8
    #: 0 is unlimited, the last repeats; empty: the default rule.
    quotas: tuple[int, ...] = ()
    order: Literal["fifo", "deadline"] = "fifo"
    tick_ns: int = 1_000_000_000
    #: Percent of one core.
    cpu_limit: int | None = None
    cpu_exempt: int = 0
    preempt: bool = True
    #: Whether the kernel holds the limit; else the scheduler's account does. And who does, as far as it was recorded.
    is_limited_by_kernel: bool = True
    cpu_limit_by: str | None = None
    #: Actions of a lane that may run at once; a lane that is not named has no limit.
    lanes: Mapping[int, int] = {}

    @classmethod
    def of(cls, limits: Mapping[str, Any]) -> Setting:
        """What the header of a segment says of its backplane (`SegmentHeader.limits`); what it leaves out is the default."""
        known = {name: limits[name] for name in cls.__struct_fields__ if limits.get(name) is not None}
        if "lanes" in known:
            known["lanes"] = {int(lane): limit for lane, limit in dict(known["lanes"]).items()}
        if "cpu_limit_by" in limits:
            known["is_limited_by_kernel"] = limits["cpu_limit_by"] != "scheduler"
        elif known.get("cpu_exempt"):
            known["is_limited_by_kernel"] = False  # the kernel knows no exemptions
        return msgspec.convert(known, cls)

    @property
    def policy(self) -> Policy:
        """For the scheduler."""
        return Policy(
            priorities=self.priorities,
            quotas=self.quotas,
            tick_ns=self.tick_ns,
            cpu_limit=self.cpu_limit,
            cpu_exempt=self.cpu_exempt,
        )

    def with_(self, **changes: Any) -> Setting:
        """The same with some keys changed."""
        return msgspec.structs.replace(self, **changes)
