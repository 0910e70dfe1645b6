"""Setting: the limits of a backplane that affect waiting times, and that a simulation may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from appbackplane.runtime.scheduling.deadline_order import DeadlineScheduler
from appbackplane.runtime.scheduling.scheduler import Policy, Scheduler
from appbackplane.runtime.scheduling.time_shares import STARVATION_DEFAULT_NS, ShareScheduler


class ReplaySetting(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of `[backplane.NAME]` that matter here, and whether kernel or scheduler enforces the CPU limit."""

    threads: int = 1
    priorities: int = 8
    #: By priority. 0 is unlimited, the last repeats; empty: the default rule.
    quotas: tuple[int, ...] = ()
    order: Literal["fifo", "deadline", "shares"] = "fifo"
    #: With `order = "shares"`.
    shares: tuple[int, ...] = ()
    max_starvation_ns: int = STARVATION_DEFAULT_NS
    tick_ns: int = 1_000_000_000
    #: Percent of one core.
    cpu_limit: int | None = None
    cpu_exempt: int = 0
    preempt: bool = True
    #: Whether the kernel enforces the limit; else the scheduler does. `cpu_limit_by`: as recorded; None: not recorded.
    is_limited_by_kernel: bool = True
    cpu_limit_by: str | None = None
    #: How long an action may queue (`admission = { aim = ... }`); None: until its deadline. Not among the recorded limits.
    aim_ns: int | None = None
    #: Actions of each lane that may run at once; a lane without a key has no limit.
    lanes: Mapping[int, int] = {}

    @classmethod
    def of(cls, limits: Mapping[str, Any]) -> ReplaySetting:
        """The setting in the header of a segment (`SegmentHeader.limits`); missing keys have their defaults."""
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
        """The part of it that the scheduler needs."""
        return Policy(
            priorities=self.priorities,
            quotas=self.quotas,
            tick_ns=self.tick_ns,
            cpu_limit=self.cpu_limit,
            cpu_exempt=self.cpu_exempt,
        )

    def scheduler(self, now_ns: int) -> Scheduler:
        """The scheduler that a backplane with this setting has. Raises ValueError for shares that cannot be met."""
        if self.order == "shares":
            return ShareScheduler(self.policy, now_ns, self.shares, self.max_starvation_ns)
        return DeadlineScheduler(self.policy, now_ns) if self.order == "deadline" else Scheduler(self.policy, now_ns)

    def with_(self, **changes: Any) -> ReplaySetting:
        """A copy with some keys changed."""
        return msgspec.structs.replace(self, **changes)
