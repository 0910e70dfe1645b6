"""Inversions: actions that queued while less urgent work ran in the same backplane, or starved behind more urgent work.

For each action: how long less urgent actions ran while it was queued, and how many of them began then. Actions boosted to its
own urgency by priority inheritance are counted apart: their time serves a caller that is as urgent. With several threads these
times add up. Each action is taken to queue before its start and run after it. An action that awaited a reply did both twice;
its second part is counted as if it belonged to the first.

Records are in the order of the actions' ends. So each task reads a stretch of one backplane's records, and on both sides as
many as may overlap with it. Cost: 1.9 million records/s on a core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..frames import within
from ..kernels.histogram import BLOCK, Durations
from ..kernels.overlap import Intervals
from ..records.batch import Actions
from ..records.found import Found
from ..records.pieces import Piece, read_all
from .batches import batch_of
from .summing import added_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIELDS: Final = ("start", "wait", "run", "priority", "effective")
_SUMS: Final = ("count", "starved", "inverted", "inversion_ns", "boosted_ns", "overtaken", "passed_by")
_KEY: Final = "node string, backplane string, priority int"
_PARTIAL: Final = f"{_KEY}, {', '.join(f'{name} long' for name in _SUMS)}, inversion_max_ns long, wait binary"
_RANKS: Final = {"p50": 0.5, "p99": 0.99}
SCHEMA: Final = (
    f"{_KEY}, {', '.join(f'{name} long' for name in _SUMS)}, inversion_max_ns long, "
    + "".join(f"wait_{rank}_ns double, " for rank in _RANKS)
    + "wait_max_ns long"
)
#: Records of a task, and extra records on each side of them: 150 MB. If more than 200,000 other actions end during one run,
#: that run is not counted for actions that ended long before it did.
STRETCH_RECORDS: Final = 1 << 21
AROUND_RECORDS: Final = 200_000
#: Assumed for a segment that still grows.
_RECORDS_UNKNOWN: Final = 80_000
STARVED_NS: Final = 10**9

#: Pieces of one backplane: before the stretch, in it (counted), and behind it.
Stretch = tuple[Sequence[Piece], Sequence[Piece], Sequence[Piece]]


def inversions(pieces: DataFrame, *, starved_ns: int = STARVED_NS) -> DataFrame:
    """By node, backplane and priority (as requested), sorted by these:

    `count` of actions; `starved`: queued for `starved_ns` or more; `inverted`: queued while less urgent work ran;
    `inversion_ns`: total time of that, and `inversion_max_ns`, the longest of one action; `boosted_ns`: the same for less
    urgent work boosted to this priority or above; `overtaken`: less urgent actions that began meanwhile; `passed_by`: more
    urgent ones that did; `wait_p50_ns`, `wait_p99_ns` (to 0.8 %) and `wait_max_ns`.
    """
    spark = pieces.sparkSession
    rows = pieces.collect()
    stretches = stretches_of([Piece(row.path, row.start, row.stop) for row in rows])
    keep = within(rows[0].since_ns, rows[0].until_ns) if rows else None

    def tally(batches: Iterator[Any]) -> Iterator[Any]:
        waits = Waits()
        for batch in batches:
            for number in batch.column("id").to_pylist():
                columns, is_counted, whose = _read(stretches[number], keep)
                if whose is not None:
                    waits.add(whose, columns, is_counted, starved_ns)
        yield waits.partial()

    tasks = spark.range(0, len(stretches), 1, max(1, len(stretches)))
    return added_up(tasks.mapInArrow(tally, _PARTIAL), Waits, SCHEMA)


def stretches_of(pieces: Sequence[Piece]) -> list[Stretch]:
    """Cut each backplane's pieces into stretches in order, each with the pieces around it."""
    by_backplane: dict[str, list[Piece]] = {}
    for piece in sorted(pieces):
        folder = Path(piece.path).parent
        whose = folder.name if folder.name.startswith("backplane=") else str(folder)
        by_backplane.setdefault(whose, []).append(piece)
    found: list[Stretch] = []
    for mine in by_backplane.values():
        first = 0
        while first < len(mine):
            end = first + _reach(mine[first:], STRETCH_RECORDS)
            before = _reach(mine[:first][::-1], AROUND_RECORDS)
            behind = _reach(mine[end:], AROUND_RECORDS)
            found.append((mine[first - before : first], mine[first:end], mine[end : end + behind]))
            first = end
    return found


def _reach(pieces: Sequence[Piece], records: int) -> int:
    """Number of leading pieces that together hold `records` records."""
    for number, piece in enumerate(pieces):
        if records <= 0:
            return number
        records -= piece.stop - piece.start if piece.stop >= 0 else _RECORDS_UNKNOWN
    return len(pieces)


def _read(stretch: Stretch, keep: Any) -> tuple[dict[str, np.ndarray], np.ndarray, tuple[str, str] | None]:
    """Columns of all pieces; mask of the records to count; (node, backplane), or None if nothing was read."""
    parts: list[Actions] = []
    counted: list[np.ndarray] = []
    for number, several in enumerate(stretch):
        for actions in read_all(several, FIELDS, Found(), keep):
            parts.append(actions)
            counted.append(np.full(len(actions), number == 1))
    headers = [actions.header for actions in parts if actions.header is not None]
    if not headers:
        return {}, np.zeros(0, dtype=bool), None
    columns = {name: np.concatenate([actions[name] for actions in parts]) for name in FIELDS}
    return columns, np.concatenate(counted), (headers[0].node, headers[0].backplane)


class Waits:
    """Sums by node, backplane and priority; partial sums of several tasks can be added up."""

    def __init__(self) -> None:
        self._keys: list[tuple[str, str, int]] = []
        self._rows: list[dict[str, int]] = []
        self._waits = Durations()

    def add(
        self, whose: tuple[str, str], columns: dict[str, np.ndarray], is_counted: np.ndarray, starved_ns: int
    ) -> None:
        """Count actions of one backplane; `columns` holds `FIELDS`."""
        for priority, sums, wait in waits_of(columns, is_counted, starved_ns):
            group = self._group((*whose, priority), sums)
            for at in range(0, len(wait), BLOCK):
                part = wait[at : at + BLOCK]
                self._waits.add(np.full(len(part), group, dtype=np.intp), part)

    def add_partial(self, batch: Any) -> None:
        for row in batch.to_pylist():
            sums = {name: row[name] for name in (*_SUMS, "inversion_max_ns")}
            group = self._group((row["node"], row["backplane"], row["priority"]), sums)
            self._waits.add_packed(group, row["wait"])

    def partial(self) -> Any:
        order = range(len(self._keys))
        return batch_of(_PARTIAL, self._told(order) | {"wait": [self._waits.pack(group) for group in order]})

    def result(self) -> Any:
        order = sorted(range(len(self._keys)), key=self._keys.__getitem__)
        percentiles = self._waits.percentiles(list(_RANKS.values()))[order]
        columns = self._told(order) | {"wait_max_ns": self._waits.maxima[order]}
        return batch_of(SCHEMA, columns | {f"wait_{rank}_ns": percentiles[:, n] for n, rank in enumerate(_RANKS)})

    def _told(self, order: Sequence[int]) -> dict[str, Any]:
        keys = zip(*(self._keys[n] for n in order), strict=True) if self._keys else iter(((), (), ()))
        columns: dict[str, Any] = dict(zip(("node", "backplane", "priority"), keys, strict=True))
        return columns | {name: [self._rows[n][name] for n in order] for name in (*_SUMS, "inversion_max_ns")}

    def _group(self, key: tuple[str, str, int], sums: dict[str, int]) -> int:
        if key not in self._keys:
            self._keys.append(key)
            self._rows.append(dict.fromkeys((*_SUMS, "inversion_max_ns"), 0))
            self._waits.grow(len(self._keys))
        group = self._keys.index(key)
        row = self._rows[group]
        for name in _SUMS:
            row[name] += sums[name]
        row["inversion_max_ns"] = max(row["inversion_max_ns"], sums["inversion_max_ns"])
        return group


def waits_of(
    columns: dict[str, np.ndarray], is_counted: np.ndarray, starved_ns: int
) -> Iterator[tuple[int, dict[str, int], np.ndarray]]:
    """Yield (priority, sums, waits) for each priority of one backplane."""
    start, wait, run, priority, effective = (columns[name] for name in FIELDS)
    end = start + run
    for mine in np.unique(priority[is_counted]).tolist():
        chosen = is_counted & (priority == mine)
        began, queued = start[chosen] - wait[chosen], start[chosen]
        lower = priority > mine
        plain, boosted = lower & (effective > mine), lower & (effective <= mine)
        while_lower_ran = Intervals(start[plain], end[plain])
        inversion = while_lower_ran.within(began, queued)
        higher = priority < mine
        yield mine, {
            "count": len(began),
            "starved": int(np.count_nonzero(wait[chosen] >= starved_ns)),
            "inverted": int(np.count_nonzero(inversion)),
            "inversion_ns": int(inversion.sum()),
            "inversion_max_ns": int(inversion.max(initial=0)),
            "boosted_ns": int(Intervals(start[boosted], end[boosted]).within(began, queued).sum()),
            "overtaken": int(while_lower_ran.begun(began, queued).sum()),
            "passed_by": int(Intervals(start[higher], end[higher]).begun(began, queued).sum()),
        }, wait[chosen]  # fmt: skip
