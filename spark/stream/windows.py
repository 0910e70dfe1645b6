"""Windows: waits and runs of actions, by component and operation, in windows of time; each action is counted once.

An action counts in the window in which it ended, because it is recorded then: a late record was written late, and is not that
of a long action. A window closes when all records until `lateness` after its end have been read; its row is published, and the
window forgotten. Records that come even later are published at once, as a row marked `late` with the window's time and only
the late records. So the sum of all rows is exact, and no row is published twice. Decides only: facts and times come in, rows
go out. Cost: 1 KB an open window and operation, at most `OPEN_MAX` of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from ..kernels.histogram import WIDTH, percentiles_of

#: Open windows times operations; beyond this, the oldest windows are closed early. 20 MB.
OPEN_MAX: Final = 20_000
RANKS: Final = (0.5, 0.9, 0.99)

#: Begin of the window (Unix time, ns), component, operation.
Key = tuple[int, str, str]


class Sums(msgspec.Struct, array_like=True):
    """Sums for one key. `wait` and `run`: counts by bucket (kernels/histogram.py)."""

    count: int = 0
    errors: int = 0
    wait_total: int = 0
    wait_max: int = 0
    run_total: int = 0
    run_max: int = 0
    wait: dict[int, int] = {}
    run: dict[int, int] = {}

    def add(self, other: Sums) -> None:
        """Add the sums of another task or batch."""
        self.count += other.count
        self.errors += other.errors
        self.wait_total += other.wait_total
        self.wait_max = max(self.wait_max, other.wait_max)
        self.run_total += other.run_total
        self.run_max = max(self.run_max, other.run_max)
        for mine, theirs in ((self.wait, other.wait), (self.run, other.run)):
            for bucket, count in theirs.items():
                mine[bucket] = mine.get(bucket, 0) + count


class WindowRows(NamedTuple):
    """Result of one step: rows of closed windows (late rows included), and of open windows that have changed."""

    closed: list[dict[str, Any]]
    open: list[dict[str, Any]]


class Windows:
    """The open windows, and the time up to which windows are closed."""

    def __init__(self, size_ns: int, lateness_ns: int, open_max: int = OPEN_MAX) -> None:
        self.size_ns, self.lateness_ns, self._open_max = size_ns, lateness_ns, open_max
        self.open: dict[Key, Sums] = {}
        #: Windows that end by this time are closed.
        self.closed_until_ns = 0
        #: Time of the last step: records from before it are read by the next step that reads everything.
        self.looked_ns = 0

    def step(self, partials: Iterable[tuple[Key, Sums]], now_ns: int, *, has_read_all: bool = True) -> WindowRows:
        """Add partial sums, or none if nothing was read. `has_read_all`: they cover everything recorded when reading began.

        Each step must have begun to read after the previous one was taken.
        """
        told_until_ns = self.closed_until_ns
        if has_read_all:
            self.closed_until_ns = max(self.closed_until_ns, self.looked_ns - self.lateness_ns)
        self.looked_ns = max(self.looked_ns, now_ns)
        changed: set[Key] = set()
        late: dict[Key, Sums] = {}
        for key, sums in partials:
            is_late = key[0] + self.size_ns <= told_until_ns
            (late if is_late else self.open).setdefault(key, Sums()).add(sums)
            if not is_late:
                changed.add(key)
        closed = [self._row(key, sums, is_late=True) for key, sums in sorted(late.items())]
        closed += [self._row(key, self.open.pop(key)) for key in self._due()]
        return WindowRows(closed, [self._row(key, self.open[key]) for key in sorted(changed & self.open.keys())])

    def _due(self) -> list[Key]:
        due = sorted(key for key in self.open if key[0] + self.size_ns <= self.closed_until_ns)
        if len(self.open) - len(due) > self._open_max:
            left = sorted(self.open.keys() - set(due))
            last = left[len(left) - self._open_max - 1][0]  # together with all other keys of its window
            due += [key for key in left if key[0] <= last]
            self.closed_until_ns = max(self.closed_until_ns, last + self.size_ns)
        return due

    def _row(self, key: Key, sums: Sums, *, is_late: bool = False) -> dict[str, Any]:
        window_ns, component, operation = key
        return {
            "window_ns": window_ns,
            "until_ns": window_ns + self.size_ns,
            "component": component,
            "operation": operation,
            "count": sums.count,
            "errors": sums.errors,
            "rate": round(sums.count / (self.size_ns / 1e9), 3),
            "wait_ms": _figures(sums.wait, sums.count, sums.wait_total, sums.wait_max),
            "run_ms": _figures(sums.run, sums.count, sums.run_total, sums.run_max),
            "late": is_late,
        }


def _figures(counts: dict[int, int], count: int, total: int, longest: int) -> dict[str, float]:
    """Percentiles, max and mean in ms, to the ns."""
    found = {f"p{round(100 * rank)}": ns for rank, ns in zip(RANKS, percentiles(counts, longest), strict=True)}
    found |= {"max": longest, "mean": total / max(1, count)}
    return {name: round(ns / 1e6, 6) for name, ns in found.items()}


def percentiles(counts: dict[int, int], longest: int) -> list[float]:
    """Percentiles for `RANKS`, in ns."""
    dense = np.zeros(max(counts, default=0) + 1, dtype=np.int64)
    assert len(dense) <= WIDTH, "a bucket that no histogram has"
    dense[np.fromiter(counts, dtype=np.int64, count=len(counts))] = np.fromiter(
        counts.values(), dtype=np.int64, count=len(counts)
    )
    return [float(ns) for ns in percentiles_of(dense, RANKS, float(longest))]
