"""Figures: what a kernel has done and has to do, all of one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from .ledger import Ledger


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Counts. Those that end in `_total` only grow; times are in ns."""

    at_ns: int
    #: Requests that may be executing at a time; that are; and those of them whose execution waits in the kernel.
    workers: int
    executing: int
    blocked: int
    #: By lane: entries of the ready pool in use, requests executing, and requests that wait in the rejoin pool.
    ready: tuple[int, ...]
    executing_lanes: tuple[int, ...]
    rejoinable: tuple[int, ...]
    #: The most entries in use, and the most requests executing, of each lane at a time since the last record of an interval.
    ready_peak: tuple[int, ...]
    executing_peak: tuple[int, ...]
    #: Posters that wait for an entry.
    posting: int
    #: Owners of which requests exist.
    owners: int
    posted_total: int
    ended_total: int
    #: Of these: without a result; with their worker; and those that nobody was left to rejoin.
    failed_total: int
    lost_total: int
    unclaimed_total: int
    #: Never executed, because their owner had failed.
    withdrawn_total: int
    joined_total: int
    #: Posts that were answered `Busy`.
    refused_total: int
    #: Executions that have begun: more than have ended and are executing, where some were given back.
    begun_total: int
    #: From being posted until they were begun; and executing, of those that have ended.
    wait_ns_total: int
    run_ns_total: int
    #: Of each worker: requests ended, ns they ran, and requests that it has.
    by_worker: dict[str, tuple[int, int, int]]
    #: For how long each worker that executes a request has been doing so.
    running_ns: dict[str, int]


def figures_of(ledger: Ledger, now_ns: int) -> Figures:
    """Of this moment. Whoever asks holds the kernel's mutex."""
    return Figures(
        at_ns=now_ns,
        workers=ledger.policy.workers,
        executing=ledger.executing.total,
        blocked=ledger.blocked_count,
        ready=tuple(ledger.entries.counts),
        executing_lanes=tuple(ledger.executing.counts),
        rejoinable=tuple(ledger.rejoinable),
        ready_peak=tuple(ledger.entries.peaks),
        executing_peak=tuple(ledger.executing.peaks),
        posting=ledger.posters.count,
        owners=len(ledger.owners),
        posted_total=ledger.posted_total,
        ended_total=ledger.ended_total,
        failed_total=ledger.failed_total,
        lost_total=ledger.lost_total,
        unclaimed_total=ledger.unclaimed_total,
        withdrawn_total=ledger.withdrawn_total,
        joined_total=ledger.joined_total,
        refused_total=ledger.refused_total,
        begun_total=ledger.begun_total,
        wait_ns_total=ledger.wait_ns_total,
        run_ns_total=ledger.run_ns_total,
        by_worker={held.name: (held.ended_count, held.run_ns, len(held.elements)) for held in ledger.workers.values()},
        running_ns={
            held.name: now_ns - held.elements[0].started_ns for held in ledger.workers.values() if held.elements
        },
    )
