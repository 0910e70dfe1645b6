"""Figures: counts and totals of one kernel, all of one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from .ledger import Ledger


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Counts. Those that end in `_total` only grow, but `joined_total` when a rejoin is undone; times are in ns."""

    at_ns: int
    #: Requests that may execute at a time; requests that do; and those of them whose execution waits in the kernel.
    workers: int
    executing: int
    blocked: int
    #: By lane: entries of the ready pool in use, requests executing, and requests that wait in the rejoin pool.
    ready: tuple[int, ...]
    executing_lanes: tuple[int, ...]
    rejoinable: tuple[int, ...]
    #: Highest counts of each lane since the last record of an interval: entries in use, and requests executing.
    ready_peak: tuple[int, ...]
    executing_peak: tuple[int, ...]
    #: Posters that wait for an entry.
    posting: int
    #: Owners that have requests.
    owners: int
    posted_total: int
    ended_total: int
    #: Of these: without a result; lost with their worker; and without an owner left to rejoin them.
    failed_total: int
    lost_total: int
    unclaimed_total: int
    #: Never executed: withdrawn by their poster, or because their owner had failed, ended, or given them up.
    withdrawn_total: int
    joined_total: int
    #: Posts that were answered `Busy`.
    refused_total: int
    #: Executions that have begun: more than have ended and are executing, if some were given back.
    begun_total: int
    #: Time from post to begin of requests that have begun, and run time of those that have ended.
    wait_ns_total: int
    run_ns_total: int
    #: By worker: requests ended, ns that they ran, and requests that it has.
    by_worker: dict[str, tuple[int, int, int]]
    #: By worker: for how long its present request has been executing.
    running_ns: dict[str, int]


def figures_of(ledger: Ledger, now_ns: int) -> Figures:
    """The figures of this moment. The caller holds the kernel's mutex."""
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
        **{name: getattr(ledger, name) for name in Figures.__struct_fields__ if name.endswith("_total")},
        by_worker={held.name: (held.ended_count, held.run_ns, len(held.elements)) for held in ledger.workers.values()},
        running_ns={
            held.name: now_ns - held.elements[0].started_ns for held in ledger.workers.values() if held.elements
        },
    )
