"""Statistics: what each operation did, cheap enough to be always on (law 11).

One entry an operation: how often, how it ended, how long it queued and ran, and the CPU it took. Written by whoever holds
the lead, read in one piece by `snapshot`. Names come from declarations, and from users' own actions, which may make one up
for each request: so the table is bounded, and what does not fit is counted together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .histogram import Histogram

#: Accounts. A backplane with more operations than this is none that we have seen; 10,000 take some 20 MB.
NAMES_MAX = 10_000
#: Where all others are counted.
OTHERS = "(others)"
#: A run that nobody sees for less than that is worth no attention.
UNSEEN_MIN_NS = 100_000


class OperationStatistics:
    """One operation's account."""

    __slots__ = (
        "cancelled_count",
        "cpu_ns",
        "error_count",
        "expired_count",
        "name",
        "number",
        "refused_count",
        "run",
        "slow_count",
        "typical_ns",
        "unseen_ns",
        "wait",
    )

    def __init__(self, name: str = "") -> None:
        self.name = name
        #: Of the name, for the recorder.
        self.number = -1
        self.wait = Histogram()
        self.run = Histogram()
        self.cpu_ns = 0
        #: It raised.
        self.error_count = 0
        #: Its deadline passed before it began.
        self.expired_count = 0
        self.cancelled_count = 0
        #: Throttled, or in the wrong state.
        self.refused_count = 0
        self.slow_count = 0
        #: How long a run lately takes, smoothed over about eight: what the workers expect of the next.
        self.typical_ns = 0
        #: How long a run lately goes on without a look whether there is something more urgent: all of it, or, where it looks
        #: by itself (`checkpoint`), what is between two looks. Written by who runs it, without the lead.
        self.unseen_ns = 0

    def was_unseen(self, ns: int) -> None:
        """One run was, for so long at the longest.

        Smoothed over about eight. What is longer than known counts for a quarter more at most: on a busy machine every other
        run is kept off its processor for some milliseconds, and is no longer for that.
        """
        known_ns = self.unseen_ns
        if known_ns:
            ns = min(ns, known_ns + (max(known_ns, UNSEEN_MIN_NS) >> 2))
        self.unseen_ns = known_ns + ((ns - known_ns) >> 3) if known_ns else ns

    def snapshot(self, *, with_buckets: bool = False, failing: int = 0) -> dict[str, Any]:
        """As data for `status --stats`; with the histograms' buckets for who computes percentiles of an interval.

        `failing`: runs in a row that raised, up to now, of a timer.
        """
        return {
            "count": self.run.count,
            "errors": self.error_count,
            "expired": self.expired_count,
            "cancelled": self.cancelled_count,
            "refused": self.refused_count,
            "slow": self.slow_count,
            "failing": failing,
            "cpu_ms": round(self.cpu_ns / 1e6, 3),
            "wait": self.wait.summary(with_buckets=with_buckets),
            "run": self.run.summary(with_buckets=with_buckets),
        }


class Statistics:
    """All operations of one backplane."""

    def __init__(self) -> None:
        self.operations: dict[str, OperationStatistics] = {}
        self.actions_count = 0

    def of(self, name: str) -> OperationStatistics:
        """The account of one operation, opened when first asked for."""
        found = self.operations.get(name)
        if found is None:
            if len(self.operations) >= NAMES_MAX and name != OTHERS:
                return self.of(OTHERS)
            found = self.operations[name] = OperationStatistics(name)
        return found

    def snapshot(self, failing: Mapping[str, int], *, with_buckets: bool = False) -> dict[str, Any]:
        """All accounts by name, those that did anything. `failing`: of timers by name, runs in a row that raised."""
        accounts = sorted(self.operations.items())
        return {
            name: account.snapshot(with_buckets=with_buckets, failing=failing.get(name, 0))
            for name, account in accounts
        }
