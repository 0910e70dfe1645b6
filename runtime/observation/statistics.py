"""Statistics: counts and times of each operation, cheap enough to be always on (law 11).

One entry per operation: how often it ran, how it ended, its time in queues, run time and CPU time. Written with the lead;
`snapshot` reads without it, and may be an action behind. Names come from declarations and from users' own actions. A user may
make up a name for each request, so the table is bounded, and all further names share one entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .histogram import Histogram

#: Bound of the entries: more operations than any known backplane has; 10,000 entries take some 20 MB.
NAMES_MAX = 10_000
#: The entry that counts all names beyond the bound.
OTHERS = "(others)"
#: Least base for the growth of `unseen_ns`: shorter times do not matter.
UNSEEN_MIN_NS = 100_000


class OperationStatistics:
    """The entry of one operation. Written with the lead, but for `unseen_ns`."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        #: Number of its name in the recorder's segments; -1: not recorded yet.
        self.number = -1
        self.wait = Histogram()
        self.run = Histogram()
        self.cpu_ns = 0
        #: Runs that raised an error.
        self.error_count = 0
        #: Calls whose deadline passed before they began.
        self.expired_count = 0
        self.cancelled_count = 0
        #: Calls refused by the throttle or in the wrong state.
        self.refused_count = 0
        self.slow_count = 0
        #: Actions that waited longer than `max_latency` before they began.
        self.late_count = 0
        #: Run time of a typical run, smoothed over about eight runs: the workers' estimate of the next one.
        self.typical_ns = 0
        #: Longest time that a typical run goes on without a check for more urgent work: the whole run, or the time between two
        #: `checkpoint`s. Written by the worker that runs it, without the lead.
        self.unseen_ns = 0

    def was_unseen(self, ns: int) -> None:
        """Update `unseen_ns`: the longest time of one run without a check was `ns`.

        Smoothed over about eight runs. A longer time than known counts as at most a quarter more: on a busy machine every
        other run is preempted for some milliseconds, which does not make the operation longer.
        """
        known_ns = self.unseen_ns
        if known_ns:
            ns = min(ns, known_ns + (max(known_ns, UNSEEN_MIN_NS) >> 2))
        self.unseen_ns = known_ns + ((ns - known_ns) >> 3) if known_ns else ns

    def snapshot(self, *, with_buckets: bool = False, failing: int = 0) -> dict[str, Any]:
        """The entry as data for `status --stats`. `with_buckets`: with the histograms, to compute percentiles of an interval.

        `failing`: for a timer, how many of its last runs in a row failed.
        """
        return {
            "count": self.run.count,
            "errors": self.error_count,
            "expired": self.expired_count,
            "cancelled": self.cancelled_count,
            "refused": self.refused_count,
            "slow": self.slow_count,
            "late": self.late_count,
            "failing": failing,
            "cpu_ms": round(self.cpu_ns / 1e6, 3),
            "wait": self.wait.summary(with_buckets=with_buckets),
            "run": self.run.summary(with_buckets=with_buckets),
        }


class Statistics:
    """The entries of all operations of one backplane, `NAMES_MAX` and `OTHERS` at most."""

    def __init__(self) -> None:
        self.operations: dict[str, OperationStatistics] = {}
        self.actions_count = 0

    def of(self, name: str) -> OperationStatistics:
        """The entry of one operation, made on first use; `OTHERS` if the table is full."""
        found = self.operations.get(name)
        if found is None:
            if len(self.operations) >= NAMES_MAX and name != OTHERS:
                return self.of(OTHERS)
            found = self.operations[name] = OperationStatistics(name)
        return found

    def typical_ns(self, name: str) -> int:
        """Run time of a typical run of an operation, as far as it is known; else 0."""
        found = self.operations.get(name)
        return 0 if found is None else found.typical_ns

    def snapshot(self, failing: Mapping[str, int], *, with_buckets: bool = False) -> dict[str, Any]:
        """All entries by name, as data. `failing`: by name of a timer, how many of its last runs in a row failed."""
        accounts = sorted(self.operations.items())
        return {
            name: account.snapshot(with_buckets=with_buckets, failing=failing.get(name, 0))
            for name, account in accounts
        }
