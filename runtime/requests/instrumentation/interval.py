"""Interval: what a kernel did between two looks at its figures. Pure.

Totals are differences, so those of all intervals add up to those of the kernel, and a record that nobody got is missing from
no later one. What is not a total is of the interval's end, beside its highest value within. Times of waiting and running are
means of what was begun and what has ended in the interval; `utilisation` also counts what still executes, or one request of
an hour would be an hour of idle workers. What a worker did before it was dismissed within the interval is in the totals alone.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..figures import Figures


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the kernel that were changed, and why."""

    #: Unix time.
    at_ns: int
    #: By name: before, after.
    settings: dict[str, tuple[object, object]]
    #: Who wanted it, and for what reason.
    reason: str


class WorkerInterval(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker did."""

    #: Requests that have ended, and for how long these ran in all.
    ended: int
    run_ms: float
    #: The part of the interval in which it executed something; waiting in a request for others is executing it.
    busy: float


class IntervalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One interval of one kernel. Tuples are by lane."""

    kernel: str
    backplane: str
    #: When it ended, Unix time; and how long it was.
    at_ns: int
    interval_ns: int
    #: In the interval, as the totals of `Figures`.
    posted: int
    ended: int
    failed: int
    lost: int
    unclaimed: int
    withdrawn: int
    joined: int
    refused: int
    #: Ended a second.
    throughput: float
    #: From being posted until being begun, and running; None: nothing was begun, or has ended.
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
    #: The part of the workers' time in which something was executed.
    utilisation: float
    by_worker: dict[str, WorkerInterval]
    #: Of settings, in this interval, the first one first.
    changes: tuple[Change, ...] = ()

    @property
    def is_idle(self) -> bool:
        """Nothing happened, and nothing is there."""
        happened = self.posted or self.ended or self.joined or self.refused or self.withdrawn or self.changes
        return not (happened or self.owners or any(self.ready) or any(self.executing))


def between(
    before: Figures, after: Figures, kernel: str, backplane: str, at_ns: int, changes: Iterable[Change] = ()
) -> IntervalRecord:
    """What was done from one look until a later one, which was at the Unix time `at_ns`."""
    interval_ns = max(1, after.at_ns - before.at_ns)
    ended = after.ended_total - before.ended_total
    lost = after.lost_total - before.lost_total
    begun = after.begun_total - before.begun_total
    ran = ended - lost
    wait_ns, run_ns = after.wait_ns_total - before.wait_ns_total, after.run_ns_total - before.run_ns_total
    busy_ns = run_ns + sum(after.running_ns.values()) - sum(before.running_ns.values())
    return IntervalRecord(
        kernel=kernel,
        backplane=backplane,
        at_ns=at_ns,
        interval_ns=interval_ns,
        posted=after.posted_total - before.posted_total,
        ended=ended,
        failed=after.failed_total - before.failed_total,
        lost=lost,
        unclaimed=after.unclaimed_total - before.unclaimed_total,
        withdrawn=after.withdrawn_total - before.withdrawn_total,
        joined=after.joined_total - before.joined_total,
        refused=after.refused_total - before.refused_total,
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
    """Times of workers elsewhere are measured by their own clocks: no part is less than nothing, or more than all."""
    return round(min(1.0, max(0.0, ns / of_ns)), 4)
