"""Sample, setting and move: the optimiser's input at each interval, and its answer.

Counts, and integers of nanoseconds, as in the kernel's ledger; the caller subtracts the totals of two moments.
"""

from __future__ import annotations

import msgspec


class KernelSample(msgspec.Struct, frozen=True, kw_only=True):
    """One interval of a kernel. Depths and counts are those at its end."""

    interval_ns: int
    #: Requests that ended in it, failed ones included.
    ended_count: int
    #: Requests in the ready pool, and posters that wait for a place in it.
    ready_count: int
    posting_count: int
    #: Ended requests that their owners have not rejoined yet.
    rejoinable_count: int
    #: Workers that are up (after a resize, not yet those that were asked for).
    workers: int
    #: Workers that hold a request: at work, or blocked in a post or a rejoin (these are in both counts).
    executing_count: int
    blocked_count: int
    #: Means over the requests that ended in the interval; 0 when none did.
    run_ns: int
    wait_ns: int

    @property
    def is_pressed(self) -> bool:
        """Whether at the interval's end there was enough work for all workers."""
        return self.ready_count > 0 or self.posting_count > 0 or self.executing_count >= self.workers

    @property
    def busy_workers(self) -> float:
        """Mean number of workers at work (Little's law); where requests outlast the interval, only in the long run."""
        return self.ended_count * self.run_ns / self.interval_ns


class Setting(msgspec.Struct, frozen=True):
    """The values that the optimiser chooses: workers, and places in the two pools."""

    workers: int
    ready: int
    rejoin: int


class SettingMove(msgspec.Struct, frozen=True):
    """A new setting, to be applied now, and why: one sentence for the log."""

    setting: Setting
    reason: str
