"""Interval: the record of a kernel's work between two readings of its figures. Pure.

Totals are differences, so those of all intervals add up to those of the kernel, and a lost record falsifies no later one.
Other figures are of the interval's end, beside their highest values within. Times of waiting and running are means over
requests that began and ended in the interval. `utilisation` also counts requests still executing, or one request of an hour
would be an hour of idle workers. A worker's work before it was dismissed within the interval is in the totals alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from ..ledger.figures import Figures

#: Counts of an interval: differences of the totals of these names.
_COUNTS: Final = ("posted", "ended", "failed", "lost", "unclaimed", "withdrawn", "joined", "refused")


class SettingsChange(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the kernel that were changed, and why."""

    #: Unix time.
    at_ns: int
    #: (before, after), by name.
    settings: dict[str, tuple[object, object]]
    #: Author of the change, and the reason.
    reason: str


class WorkerInterval(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one worker in the interval."""

    #: Requests that have ended, and their run time in all.
    ended: int
    run_ms: float
    #: Part of the interval in which it executed a request, also one that waited for others.
    busy: float


class IntervalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One interval of one kernel. Tuples are by lane."""

    kernel: str
    backplane: str
    #: End of the interval, Unix time; and its length.
    at_ns: int
    interval_ns: int
    #: Counts of the interval, as the totals of `Figures`.
    posted: int
    ended: int
    failed: int
    lost: int
    unclaimed: int
    withdrawn: int
    joined: int
    refused: int
    #: Requests ended a second.
    throughput: float
    #: Mean times from post to begin, and of running; None: no request was begun, or has ended.
    wait_ms: float | None
    run_ms: float | None
    #: At its end, and the most at a time in it: entries of the ready pool, and requests executing.
    ready: tuple[int, ...]
    ready_max: tuple[int, ...]
    executing: tuple[int, ...]
    executing_max: tuple[int, ...]
    #: At its end, as in `Figures`.
    rejoinable: tuple[int, ...]
    blocked: int
    posting: int
    owners: int
    workers: int
    #: Part of the workers' time in which they executed requests.
    utilisation: float
    by_worker: dict[str, WorkerInterval]
    #: Changes of settings in this interval, the first one first.
    changes: tuple[SettingsChange, ...] = ()

    @property
    def is_idle(self) -> bool:
        """Whether nothing happened, and no request is there."""
        happened = self.posted or self.ended or self.joined or self.refused or self.withdrawn or self.changes
        return not (happened or self.owners or any(self.ready) or any(self.executing))


def between(
    before: Figures, after: Figures, kernel: str, backplane: str, at_ns: int, changes: Iterable[SettingsChange] = ()
) -> IntervalRecord:
    """The record from one reading to a later one, which was at the Unix time `at_ns`."""
    interval_ns = max(1, after.at_ns - before.at_ns)
    ended, begun = after.ended_total - before.ended_total, after.begun_total - before.begun_total
    ran = ended - (after.lost_total - before.lost_total)
    wait_ns, run_ns = after.wait_ns_total - before.wait_ns_total, after.run_ns_total - before.run_ns_total
    busy_ns = run_ns + sum(after.running_ns.values()) - sum(before.running_ns.values())
    return IntervalRecord(
        kernel=kernel,
        backplane=backplane,
        at_ns=at_ns,
        interval_ns=interval_ns,
        **{name: getattr(after, f"{name}_total") - getattr(before, f"{name}_total") for name in _COUNTS},
        throughput=round(ended * 1e9 / interval_ns, 3),
        wait_ms=_ms(wait_ns / begun) if begun else None,
        run_ms=_ms(run_ns / ran) if ran else None,
        ready=after.ready,
        ready_max=after.ready_peak,
        executing=after.executing_lanes,
        executing_max=after.executing_peak,
        rejoinable=after.rejoinable,
        blocked=after.blocked,
        posting=after.posting,
        owners=after.owners,
        workers=after.workers,
        utilisation=_part(busy_ns, interval_ns * after.workers),
        by_worker={name: _worker(before, after, name, interval_ns) for name in after.by_worker},
        changes=tuple(changes),
    )


def _worker(before: Figures, after: Figures, name: str, interval_ns: int) -> WorkerInterval:
    ended, run_ns, _ = after.by_worker[name]
    ended_before, run_ns_before, _ = before.by_worker.get(name, (0, 0, 0))
    running_ns_before = before.running_ns.get(name, 0)
    if ended < ended_before or run_ns < run_ns_before:  # it was dismissed meanwhile, and has come again
        ended_before = run_ns_before = running_ns_before = 0
    busy_ns = run_ns - run_ns_before + after.running_ns.get(name, 0) - running_ns_before
    return WorkerInterval(
        ended=ended - ended_before,
        run_ms=_ms(run_ns - run_ns_before),
        busy=_part(busy_ns, interval_ns),
    )


def _ms(ns: float) -> float:
    return round(ns / 1e6, 6)


def _part(ns: int, of_ns: int) -> float:
    """A share, limited to 0 to 1: workers elsewhere measure by their own clocks, which may give less or more."""
    return round(min(1.0, max(0.0, ns / of_ns)), 4)
