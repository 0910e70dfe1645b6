"""Partials: in a task, reduce its actions to a small sum for each window, component and operation.

Arrow in, Arrow out, numpy between. A million actions become a few hundred rows, which the driver adds up. Operations of the
backplane itself (`backplane.…`) are left out, because this program's own calls are among them. Cost: 0.3 us an action; at most
`GROUPS_MAX` histograms are in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..jobs.batches import schema_of
from ..kernels.histogram import BLOCK, Durations
from .windows import Key, Sums

#: Columns needed of an action, by the names of the source.
COLUMNS: Final = (
    "start_ns long, took_ns long, wait_ns long, run_ns long, component string, operation string, outcome int"
)
#: Columns of the result, for mapInArrow.
SCHEMA: Final = (
    "window_ns long, component string, operation string, count long, errors long, wait_total long, wait_max long, "
    "run_total long, run_max long, wait binary, run binary"
)
_FIELDS: Final = schema_of(SCHEMA)
#: Windows times operations in memory at a time, 64 KB each at most; beyond this, the sums are emitted, and new ones begun.
GROUPS_MAX: Final = 512
#: Component of a backplane's own operations.
_OWN: Final = "backplane."
#: Key of the row that counts all actions read, own operations included.
READ: Final = (-1, "", "")


class _Groups:
    """Sums by window, component and operation."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._numbers: dict[Key, int] = {}
        self._errors = np.zeros(GROUPS_MAX, dtype=np.int64)
        self._wait, self._run = Durations(), Durations()

    def has_room(self, keys: Sequence[Key]) -> bool:
        """Whether these keys fit in addition to those already held."""
        return len(self._numbers.keys() | set(keys)) <= GROUPS_MAX

    def add(self, keys: Sequence[Key], of: np.ndarray, wait: np.ndarray, run: np.ndarray, failed: np.ndarray) -> None:
        """Count actions: `of` is the index into `keys` of each."""
        for key in keys:
            self._numbers.setdefault(key, len(self._numbers))
        groups = np.array([self._numbers[key] for key in keys], dtype=np.intp)[of]
        for durations, ns in ((self._wait, wait), (self._run, run)):
            durations.grow(len(self._numbers))
            durations.add(groups, ns)
        self._errors += np.bincount(groups, weights=failed, minlength=GROUPS_MAX).astype(np.int64)

    def take(self) -> pa.RecordBatch:
        """Return all sums as a batch, and begin anew."""
        counts, wait, run = self._run.numbers(), self._wait, self._run
        rows = [
            (*key, int(counts[n]), int(self._errors[n]), int(wait.totals[n]), int(wait.maxima[n]),
             int(run.totals[n]), int(run.maxima[n]), _packed(wait.counts[n]), _packed(run.counts[n]))
            for key, n in self._numbers.items()
        ]  # fmt: skip
        self._begin()
        return _batch(rows)


def partials(batches: Iterable[pa.RecordBatch], size_ns: int) -> Iterator[pa.RecordBatch]:
    """Yield the sums of the batches (`COLUMNS`) as `SCHEMA`; the last row gives the number of actions read."""
    groups, read = _Groups(), 0
    for batch in batches:
        read += batch.num_rows
        for first in range(0, batch.num_rows, BLOCK):
            part = batch.slice(first, BLOCK)
            keys, of = _keys(part, size_ns)
            wait, run, outcome = (part.column(name).to_numpy() for name in ("wait_ns", "run_ns", "outcome"))
            for low in range(0, len(keys), GROUPS_MAX):
                chosen = keys[low : low + GROUPS_MAX]
                if not groups.has_room(chosen):
                    yield groups.take()
                mask = (of >= low) & (of < low + GROUPS_MAX)
                groups.add(chosen, of[mask] - low, wait[mask], run[mask], outcome[mask] != 0)
    yield groups.take()
    yield _batch([(*READ, read, 0, 0, 0, 0, 0, b"", b"")])


def unpack(rows: pa.Table) -> tuple[list[tuple[Key, Sums]], int]:
    """Unpack the rows of all tasks: (sums by key, number of actions read)."""
    found, read = [], 0
    for row in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        if row[:3] == READ:
            read += row[3]
        else:
            window_ns, component, operation, count, errors, wait_total, wait_max, run_total, run_max, wait, run = row
            sums = Sums(count, errors, wait_total, wait_max, run_total, run_max, _unpacked(wait), _unpacked(run))
            found.append(((window_ns, component, operation), sums))
    return found, read


def _keys(part: pa.RecordBatch, size_ns: int) -> tuple[list[Key], np.ndarray]:
    """The occurring keys, and each action's index into them; -1 for own operations."""
    windows = (part.column("start_ns").to_numpy() + part.column("took_ns").to_numpy()) // size_ns
    names, numbers = zip(*(_numbered(part.column(name)) for name in ("component", "operation")), strict=True)
    own = np.array([name.startswith(_OWN) for name in names[0]] or [False])
    oldest = windows.min() if len(windows) else 0
    mixed = ((windows - oldest) * len(names[0]) + numbers[0]) * len(names[1]) + numbers[1]
    kept = ~own[numbers[0]]
    found, inverse = np.unique(mixed[kept], return_inverse=True)
    of = np.full(len(mixed), -1, dtype=np.intp)
    of[kept] = inverse
    rest, operation = np.divmod(found, max(1, len(names[1])))
    window, component = np.divmod(rest, max(1, len(names[0])))
    return [
        (int(w + oldest) * size_ns, names[0][c], names[1][o])
        for w, c, o in zip(window.tolist(), component.tolist(), operation.tolist(), strict=True)
    ], of


def _numbered(column: pa.Array) -> tuple[list[str], np.ndarray]:
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    return [name or "" for name in encoded.dictionary.to_pylist()], encoded.indices.to_numpy().astype(np.int64)


def _packed(counts: np.ndarray) -> bytes:
    buckets = np.flatnonzero(counts)
    return np.concatenate([buckets, counts[buckets]]).astype("<i8").tobytes()


def _unpacked(packed: bytes) -> dict[int, int]:
    buckets, counts = np.frombuffer(packed, dtype="<i8").reshape(2, -1).tolist()
    return dict(zip(buckets, counts, strict=True))


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * len(_FIELDS)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, type=field.type) for column, field in zip(columns, _FIELDS, strict=True)], schema=_FIELDS
    )
