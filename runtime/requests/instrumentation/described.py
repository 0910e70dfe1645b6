"""Described: a kernel's figures as data, for the statistics of its backplane, and so for `status --stats` and Prometheus.

Counts of lanes are lists by lane number. No figure is of an interval: a reader takes the difference of two readings.
"""

from __future__ import annotations

from typing import Any

from ..ledger.figures import Figures
from ..policy import KernelPolicy


def described(figures: Figures, policy: KernelPolicy) -> dict[str, Any]:
    """Totals, and the counts of this moment."""
    return {
        "workers": figures.workers,
        "ready": list(figures.ready),
        "executing": list(figures.executing_lanes),
        "rejoinable": list(figures.rejoinable),
        "blocked": figures.blocked,
        "posting": figures.posting,
        "owners": figures.owners,
        "limits": {"workers": policy.workers, "ready": policy.ready, "rejoin": policy.rejoin},
        "posted": figures.posted_total,
        "begun": figures.begun_total,
        "ended": figures.ended_total,
        "failed": figures.failed_total,
        "lost": figures.lost_total,
        "unclaimed": figures.unclaimed_total,
        "withdrawn": figures.withdrawn_total,
        "joined": figures.joined_total,
        "refused": figures.refused_total,
        "wait_ms": round(figures.wait_ns_total / 1e6, 3),
        "run_ms": round(figures.run_ns_total / 1e6, 3),
        "by_worker": {
            name: {"ended": ended, "run_ms": round(run_ns / 1e6, 3), "has": held_count}
            for name, (ended, run_ns, held_count) in figures.by_worker.items()
        },
    }
