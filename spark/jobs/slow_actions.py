"""Slow actions: the slowest actions, with all that is recorded about each and the typical duration of its operation.

Each task keeps only its own slowest, so that few rows travel. Names are looked up for these alone.
"""

from __future__ import annotations

import heapq
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from appbackplane.runtime.observation.segments import NO_DEADLINE

from ..kernels.groups import RouteGroups
from ..kernels.histogram import BLOCK, Durations
from ..records.batch import ROUTE, Actions
from .batches import batch_of
from .summing import summed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TIMES: Final = ("start", "wait", "run", "cpu", "took", "margin")
NUMBERS: Final = ("priority", "effective", "outcome")
FIELDS: Final = (*TIMES, *NUMBERS, "trace_high", "trace_low", "span", "object", ROUTE)
_ACTION: Final = (
    "node string, backplane string, component string, object string, operation string, "
    + ", ".join(f"{name}_ns long" for name in TIMES)
    + ", "
    + ", ".join(f"{name} int" for name in NUMBERS)
    + ", trace string, span string"
)
#: Each row is either an action, or an operation's durations.
_PARTIAL: Final = f"{_ACTION}, durations binary"
SCHEMA: Final = f"{_ACTION}, typical_ns double, times_typical double, cpu_share double"
_COLUMNS: Final = [part.split()[0] for part in _PARTIAL.split(", ")]


def slow_actions(pieces: DataFrame, *, count: int = 50, by: str = "run") -> DataFrame:
    """The `count` slowest by `run` (all steps together), `took` (awaited calls included) or `wait`, the slowest first:

    node, backplane, component, object, operation; `start_ns` (Unix time), `wait_ns`, `run_ns`, `cpu_ns`, `took_ns`,
    `margin_ns` (time left to the deadline; NULL: no deadline); `priority` as requested and `effective` at the end, `outcome`
    (0: OK); `trace` and `span` in hex, as in the log; `typical_ns`: median of its operation (to 0.8 %), `times_typical`: the
    action's multiple of it; `cpu_share`: CPU time as a share of run time, small for an action that was blocked.
    """
    if by not in ("run", "took", "wait"):
        raise ValueError(f"by={by!r}: one of run, took and wait")
    return summed(pieces, FIELDS, partial(Slowest, count, by), _PARTIAL, SCHEMA)


class Slowest:
    """Keeps the slowest actions as rows, and the durations of all actions by operation."""

    def __init__(self, count: int, by: str) -> None:
        self._count, self._by = count, by
        self._groups, self._durations = RouteGroups(), Durations()
        self._rows: list[dict[str, Any]] = []
        self._least = -1

    def add(self, actions: Actions) -> None:
        slowness = actions[self._by]
        self._groups.naming(actions.routes)
        for at in range(0, len(actions), BLOCK):
            routes = actions[ROUTE][at : at + BLOCK]
            groups = self._groups.of(routes, np.zeros(len(routes), dtype=np.int32))
            self._durations.grow(len(self._groups))
            self._durations.add(groups, slowness[at : at + BLOCK])
        if not (slowness > self._least).any():
            return
        chosen = actions.where(slowness > self._least)
        if len(chosen) > self._count:
            order = np.argpartition(chosen[self._by], len(chosen) - self._count)[-self._count :]
            chosen = Actions(
                {name: column[order] for name, column in chosen.columns.items()},
                chosen.names, chosen.header, routes=chosen.routes,
            )  # fmt: skip
        self._keep(rows_of(chosen))

    def add_partial(self, batch: Any) -> None:
        rows = batch.to_pylist()
        for row in rows:
            if row["durations"] is not None:
                group = self._groups.number_of((row["component"], row["operation"], 0))
                self._durations.grow(len(self._groups))
                self._durations.add_packed(group, row["durations"])
        self._keep([row for row in rows if row["durations"] is None])

    def partial(self) -> Any:
        rows = self._rows + [
            {"component": component, "operation": operation, "durations": self._durations.pack(group)}
            for group, (component, operation, _) in enumerate(self._groups.keys)
        ]
        return batch_of(_PARTIAL, {name: [row.get(name) for row in rows] for name in _COLUMNS})

    def result(self) -> Any:
        median = self._durations.percentiles([0.5])[:, 0]
        rows = sorted(self._rows, key=lambda row: (-row[f"{self._by}_ns"], row["start_ns"], row["span"]))
        columns: dict[str, Any] = {name: [row[name] for row in rows] for name in _COLUMNS if name != "durations"}
        typical = [float(median[self._groups.number_of((row["component"], row["operation"], 0))]) for row in rows]
        columns["typical_ns"] = typical
        columns["times_typical"] = [
            row[f"{self._by}_ns"] / usual if usual else None for row, usual in zip(rows, typical, strict=True)
        ]
        columns["cpu_share"] = [row["cpu_ns"] / row["run_ns"] if row["run_ns"] else None for row in rows]
        return batch_of(SCHEMA, columns)

    def _keep(self, rows: list[dict[str, Any]]) -> None:
        self._rows = heapq.nlargest(self._count, self._rows + rows, key=lambda row: row[f"{self._by}_ns"])
        if len(self._rows) == self._count:
            self._least = self._rows[-1][f"{self._by}_ns"]


def rows_of(actions: Actions) -> list[dict[str, Any]]:
    """Convert a few records to rows of `_ACTION`, with names looked up."""
    columns: dict[str, Any] = {f"{name}_ns": actions[name].tolist() for name in TIMES}
    columns |= {name: actions[name].tolist() for name in NUMBERS}
    columns["margin_ns"] = [None if margin == NO_DEADLINE else margin for margin in columns["margin_ns"]]
    columns["object"] = [actions.names[number][1] for number in actions["object"].tolist()]
    routes = [actions.routes[number] for number in actions[ROUTE].tolist()]
    columns["component"], columns["operation"] = ([route[n] for route in routes] for n in (0, 1))
    mask = (1 << 64) - 1
    columns["trace"] = [
        f"{high & mask:016x}{low & mask:016x}"
        for high, low in zip(actions["trace_high"].tolist(), actions["trace_low"].tolist(), strict=True)
    ]
    columns["span"] = [f"{span & mask:016x}" for span in actions["span"].tolist()]
    header = actions.header
    whose = (
        {"node": header.node, "backplane": header.backplane} if header is not None else {"node": "", "backplane": ""}
    )
    return [whose | dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
