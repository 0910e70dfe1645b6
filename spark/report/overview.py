"""Overview: number of actions, latencies and load of each backplane over time, the data of all plots.

The sums are mergeable. Bins of time are powers of two wide, so that two neighbours make one of the next width; latency has two
bins to a doubling, about as fine as the eye can tell. The time span need not be known beforehand: a task that meets more bins
than it may keep doubles their width, and so does the driver when it merges. Cost: 15 ns a record, 1 KB a bin and backplane.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from appbackplane.runtime.observation.segments import NO_DEADLINE

from ..frames import actions_of
from ..records.batch import Actions
from ..records.found import Found

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

#: The only fields of each record that are read.
FIELDS: Final = ("start", "wait", "run", "cpu", "took", "margin", "outcome")
#: Bins of time at most, for each backplane: at least half are used, and a page is some 700 points wide.
BINS_MAX: Final = 192
#: Bins of latency: two to a doubling, from 1 us; the last has everything above 3 hours.
BUCKETS: Final = 68
_PER_DOUBLING: Final = 2
_FIRST_NS: Final = 1_000.0
#: Width of the finest bins, as a power of two: 1.05 ms.
_SHIFT_MIN: Final = 20
#: Sums for each bin besides the latencies: run ns, cpu ns, errors, deadlines missed.
SUMS: Final = 4
_SCHEMA: Final = "told binary"


class RecordSource(msgspec.Struct):
    """The backplane that some records come from, and their number."""

    #: One system, unless the folder holds recordings of several.
    systems: set[str] = set()
    node: str = ""
    backplane: str = ""
    records: int = 0
    generations: set[int] = set()
    #: Limits in the latest header, and the Unix time of that header.
    limits: dict[str, Any] = {}
    limits_ns: int = -1

    def allow(self, limits: dict[str, Any], since_ns: int) -> None:
        """Note limits that were in force from `since_ns`; earlier limits than the known ones are ignored."""
        if limits and since_ns >= self.limits_ns:
            self.limits, self.limits_ns = limits, since_ns


class Overview(msgspec.Struct):
    """Sums over records, which can be merged."""

    #: The width of a bin is 1 << shift ns.
    shift: int = _SHIFT_MIN
    #: By backplane (NAME@NODE) and bin: `BUCKETS` counts, then `SUMS`; int64.
    bins: dict[str, dict[int, bytes]] = {}
    sources: dict[str, RecordSource] = {}
    found: Found = msgspec.field(default_factory=Found)
    #: Unix ns at which the first action arrived and the last one ended; 0: there is no action.
    first_ns: int = 0
    last_ns: int = 0

    def add_actions(self, actions: Actions) -> None:
        """Count some records of one backplane."""
        if not len(actions):
            return
        start, latency = actions["start"], actions["wait"] + actions["took"]
        first, last = int(start.min()), int(start.max())
        self._extend(int((start - actions["wait"]).min()), int((start + actions["took"]).max()))
        header = actions.header
        whose = f"{header.backplane}@{header.node}" if header is not None else "?"
        source = self.sources.setdefault(whose, RecordSource())
        source.records += len(actions)
        if header is not None:
            source.systems |= {header.system} - {""}
            source.node, source.backplane = header.node, header.backplane
            source.generations.add(header.generation)
            source.allow(header.limits, header.created_ns)
        self._widen_for(first, last)
        at = (start >> self.shift).astype(np.int64)
        at -= first >> self.shift
        count = int(at.max()) + 1
        table = np.zeros((count, BUCKETS + SUMS), dtype=np.int64)
        codes = at * BUCKETS + buckets_of(latency)
        table[:, :BUCKETS] = np.bincount(codes, minlength=count * BUCKETS).reshape(count, BUCKETS)
        margin = actions["margin"]
        missed = (margin < 0) & (margin != NO_DEADLINE)
        for column, values in enumerate((actions["run"], actions["cpu"], actions["outcome"] != 0, missed), BUCKETS):
            table[:, column] = np.bincount(at, weights=values, minlength=count)
        bins = self.bins.setdefault(whose, {})
        for number in np.flatnonzero(table[:, :BUCKETS].any(axis=1)).tolist():
            _add(bins, (first >> self.shift) + number, table[number])

    def add(self, other: Overview) -> None:
        """Merge another task's overview. May coarsen `other`."""
        while self.shift < other.shift:
            self._coarsen()
        while other.shift < self.shift:
            other._coarsen()
        for whose, theirs in other.bins.items():
            bins = self.bins.setdefault(whose, {})
            for number, row in theirs.items():
                _add(bins, number, np.frombuffer(row, dtype=np.int64))
        for whose, source in other.sources.items():
            ours = self.sources.setdefault(whose, RecordSource())
            ours.records += source.records
            ours.generations |= source.generations
            ours.systems |= source.systems
            ours.node, ours.backplane = source.node, source.backplane
            ours.allow(source.limits, source.limits_ns)
        if other.first_ns:
            self._extend(other.first_ns, other.last_ns)
        self.found.add(other.found)
        self._widen_for(*self._span())

    def table(self, backplane: str | None = None) -> tuple[int, np.ndarray]:
        """(Unix ns at which the first bin begins, sums by bin) of one backplane, or of all; bins without gaps."""
        rows = [one for name, bins in self.bins.items() if backplane in (None, name) for one in bins.items()]
        if not rows:
            return 0, np.zeros((0, BUCKETS + SUMS), dtype=np.int64)
        first_ns, last_ns = self._span()
        first, last = first_ns >> self.shift, last_ns >> self.shift
        table = np.zeros((last - first + 1, BUCKETS + SUMS), dtype=np.int64)
        for number, row in rows:
            table[number - first] += np.frombuffer(row, dtype=np.int64)
        return first << self.shift, table

    @property
    def width_ns(self) -> int:
        """Width of a bin of time."""
        return 1 << self.shift

    def _span(self) -> tuple[int, int]:
        """Begin of the first and of the last bin over all backplanes, so that every table begins at the same time."""
        numbers = [number for bins in self.bins.values() for number in bins]
        return (min(numbers) << self.shift, max(numbers) << self.shift) if numbers else (0, 0)

    def _extend(self, first_ns: int, last_ns: int) -> None:
        self.first_ns = min(self.first_ns, first_ns) if self.first_ns else first_ns
        self.last_ns = max(self.last_ns, last_ns)

    def _widen_for(self, first_ns: int, last_ns: int) -> None:
        ours_first, ours_last = self._span()
        if ours_last:
            first_ns, last_ns = min(first_ns, ours_first), max(last_ns, ours_last)
        while (last_ns >> self.shift) - (first_ns >> self.shift) >= BINS_MAX:
            self._coarsen()

    def _coarsen(self) -> None:
        self.shift += 1
        for whose, bins in self.bins.items():
            wider: dict[int, bytes] = {}
            for number, row in bins.items():
                _add(wider, number >> 1, np.frombuffer(row, dtype=np.int64))
            self.bins[whose] = wider


def buckets_of(ns: np.ndarray) -> np.ndarray:
    """Bin of latency for each duration."""
    exponents = np.log2(np.maximum(ns, _FIRST_NS) / _FIRST_NS)
    found: np.ndarray = np.minimum((exponents * _PER_DOUBLING).astype(np.int64), BUCKETS - 1)
    return found


def edges_ns() -> list[float]:
    """Begin of each bin of latency, followed by the end of the last."""
    return [_FIRST_NS * 2 ** (number / _PER_DOUBLING) for number in range(BUCKETS + 1)]


def overview(pieces: DataFrame) -> Overview:
    """Compute the overview of all records in the pieces (from `pieces_frame`)."""
    total = Overview()
    for row in pieces.mapInArrow(_told, _SCHEMA).collect():
        total.add(msgspec.msgpack.decode(row.told, type=Overview))
    return total


def _told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in a task: the overview of its pieces, as one row."""
    import pyarrow as pa

    total = Overview()
    for actions in actions_of(batches, FIELDS, total.found):
        total.add_actions(actions)
    yield pa.record_batch({"told": pa.array([msgspec.msgpack.encode(total)], type=pa.binary())})


def _add(bins: dict[int, bytes], number: int, row: np.ndarray) -> None:
    before = bins.get(number)
    bins[number] = (row if before is None else row + np.frombuffer(before, dtype=np.int64)).tobytes()
