"""Survey: how many actions of a backplane arrived in each slice of time, and how long they waited, to choose a window.

The sums can be added up: each task makes them of its own pieces, and the caller adds them. With slices of one width, all
partial surveys together are hardly larger than the result, whose size is bounded. Cost: 55 ns a record, 16 bytes a slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import numpy as np

from ..frames import pieces_of
from ..records.batch import Actions
from ..records.found import Found
from ..records.pieces import Piece, read_all

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

#: The only fields of each record that are read.
FIELDS: Final = ("start", "wait")
#: Width of the finest slices: bursts last longer than this, and a day has a million of them.
SLICE_NS: Final = 100_000_000
#: Slices at most, 40 MB a backplane; beyond this, the width doubles.
SLICES_MAX: Final = 1 << 18
_SCHEMA: Final = "survey binary"

_Amount = TypeVar("_Amount", int, float)


class Survey(msgspec.Struct):
    """Sums over the actions of one backplane under one set of limits."""

    node: str
    backplane: str
    limits: dict[str, Any]
    #: Unix time at which the latest segment with these limits was begun.
    limits_ns: int
    slice_ns: int = SLICE_NS
    counts: dict[int, int] = {}
    waited: dict[int, float] = {}
    #: Each piece with its first and last arrival, to find the pieces that overlap a window.
    places: list[tuple[Piece, int, int]] = []

    @property
    def count(self) -> int:
        """Number of actions in all slices."""
        return sum(self.counts.values())

    def is_under(self, limits: dict[str, Any]) -> bool:
        """Whether `limits` equal the limits of this survey, apart from fields that are not compared."""
        return _compared(limits) == _compared(self.limits)

    def see_limits(self, limits: dict[str, Any], limits_ns: int) -> None:
        """Note limits that were in force from `limits_ns`; the latest are kept."""
        if limits_ns >= self.limits_ns:
            self.limits, self.limits_ns = limits, limits_ns

    def add_actions(self, piece: Piece, actions: Actions) -> None:
        """Add the arrivals and waits of some records of a piece."""
        arrival = actions["start"] - actions["wait"]
        slices, which = np.unique(arrival // self.slice_ns, return_inverse=True)
        counts, waited = np.bincount(which), np.bincount(which, weights=actions["wait"])
        _add(self.counts, dict(zip(slices.tolist(), counts.tolist(), strict=True)))
        _add(self.waited, dict(zip(slices.tolist(), waited.tolist(), strict=True)))
        self._bound()
        first, last = int(arrival.min()), int(arrival.max())
        if self.places and self.places[-1][0] == piece:
            _, begin, end = self.places.pop()
            first, last = min(first, begin), max(last, end)
        self.places.append((piece, first, last))

    def add(self, other: Survey) -> None:
        """Add another task's survey of the same backplane under the same limits. May coarsen `other`."""
        while self.slice_ns < other.slice_ns:
            self._coarsen()
        while other.slice_ns < self.slice_ns:
            other._coarsen()
        _add(self.counts, other.counts)
        _add(self.waited, other.waited)
        self._bound()
        self.places += other.places
        self.see_limits(other.limits, other.limits_ns)

    def window(self, window_max: int) -> tuple[int, int]:
        """[begin, end) of the window of at most `window_max` actions (or one slice) with the longest total wait."""
        numbers = sorted(self.counts)
        best, begins, count, waited = (-1.0, 0, 0), 0, 0, 0.0
        for at, number in enumerate(numbers):
            count += self.counts[number]
            waited += self.waited[number]
            while count > window_max and begins < at:
                count -= self.counts[numbers[begins]]
                waited -= self.waited[numbers[begins]]
                begins += 1
            if waited >= best[0]:
                best = (waited, numbers[begins], number + 1)
        return best[1] * self.slice_ns, best[2] * self.slice_ns

    def _bound(self) -> None:
        while len(self.counts) > SLICES_MAX:
            self._coarsen()

    def _coarsen(self) -> None:
        self.slice_ns *= 2
        self.counts, self.waited = _halved(self.counts), _halved(self.waited)


def surveys(pieces: DataFrame, slice_ns: int) -> list[Survey]:
    """Survey each backplane under its latest limits with Spark's tasks. Get `slice_ns` from `slice_for`."""

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        read = (
            (piece, each) for piece, keep in pieces_of(batches) for each in read_all([piece], FIELDS, Found(), keep)
        )
        told = [msgspec.msgpack.encode(survey) for survey in surveyed(read, slice_ns)]
        yield pa.record_batch({"survey": pa.array(told, type=pa.binary())})

    rows = pieces.mapInArrow(look, _SCHEMA).collect()
    return latest(msgspec.msgpack.decode(row.survey, type=Survey) for row in rows)


def surveyed(read: Iterable[tuple[Piece, Actions]], slice_ns: int = SLICE_NS) -> list[Survey]:
    """Survey each backplane, once for each set of limits that it had. Records without a backplane are left out."""
    found: dict[tuple[str, str, bytes], Survey] = {}
    for piece, actions in read:
        header = actions.header
        if header is None or not len(actions):
            continue
        key = (header.node, header.backplane, _compared(header.limits))
        if key not in found:
            found[key] = Survey(header.node, header.backplane, header.limits, header.created_ns, slice_ns)
        found[key].see_limits(header.limits, header.created_ns)
        found[key].add_actions(piece, actions)
    return list(found.values())


def latest(several: Iterable[Survey]) -> list[Survey]:
    """Sum the surveys of each backplane, and return one for each, sorted by node and name.

    Only surveys taken under its latest limits count; earlier ones describe a differently configured system.
    """
    found: dict[tuple[str, str, bytes], Survey] = {}
    for survey in several:
        key = (survey.node, survey.backplane, _compared(survey.limits))
        if key in found:
            found[key].add(survey)
        else:
            found[key] = survey
    newest: dict[tuple[str, str], Survey] = {}
    for survey in sorted(found.values(), key=lambda each: each.limits_ns):
        newest[survey.node, survey.backplane] = survey
    return [newest[whose] for whose in sorted(newest)]


def slice_for(first_ns: int, last_ns: int) -> int:
    """Width of slices for records over this time. With it no task has to coarsen its slices on its own."""
    slice_ns = SLICE_NS
    while (last_ns - first_ns) // slice_ns >= SLICES_MAX:
        slice_ns *= 2
    return slice_ns


def _compared(limits: dict[str, Any]) -> bytes:
    """Canonical form of limits for comparison. Without `threads` for an external executor, since a cluster's size varies."""
    if "executed_by" in limits:
        limits = {name: limit for name, limit in limits.items() if name != "threads"}
    return msgspec.json.encode(limits, order="deterministic")


def _add(sums: dict[int, _Amount], more: dict[int, _Amount]) -> None:
    for number, amount in more.items():
        sums[number] = sums[number] + amount if number in sums else amount


def _halved(slices: dict[int, _Amount]) -> dict[int, _Amount]:
    """Merge each pair of neighbouring slices."""
    found: dict[int, _Amount] = {}
    for number, amount in slices.items():
        found[number >> 1] = found[number >> 1] + amount if number >> 1 in found else amount
    return found
