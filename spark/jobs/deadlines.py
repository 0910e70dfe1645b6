"""Deadlines: which operations miss theirs, by how much, and whether queueing is the cause.

An action missed its deadline if it ended after it, or was given up for it (DEADLINE_EXCEEDED). Queueing is the cause if the
action would have ended in time without it. Any other late action is too slow, or was called too late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from appbackplane.runtime.observation.segments import NO_DEADLINE
from appbackplane.transport.errors import Status

from ..kernels.groups import RouteGroups
from ..kernels.histogram import Durations
from ..records.batch import ROUTE, Actions
from .batches import batch_of
from .summing import summed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIELDS: Final = ("wait", "margin", "outcome", "priority", ROUTE)
_COUNTS: Final = ("with_deadline", "missed", "given_up", "by_waiting")
_KEY: Final = "component string, operation string, priority int"
_PARTIAL: Final = f"{_KEY}, {', '.join(f'{name} long' for name in _COUNTS)}, late binary"
_RANKS: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
SCHEMA: Final = (
    f"{_KEY}, {', '.join(f'{name} long' for name in _COUNTS)}, missed_share double, late_mean_ns double, "
    + "".join(f"late_{rank}_ns double, " for rank in _RANKS)
    + "late_max_ns long"
)


def deadlines(pieces: DataFrame) -> DataFrame:
    """By component, operation and priority, those with most misses first; operations without deadlines have no row:

    `with_deadline`: actions that had one; `missed`: ended after it; `given_up`: of these, with DEADLINE_EXCEEDED;
    `by_waiting`: missed only because of their time in the queue; `missed_share`: missed of those with a deadline; `late_…_ns`:
    lateness of the missed ones (percentiles to 0.8 %).
    """
    return summed(pieces, FIELDS, Misses, _PARTIAL, SCHEMA)


class Misses:
    """Counts of misses by group; partial sums of several tasks can be added up."""

    def __init__(self) -> None:
        self.groups = RouteGroups()
        self.late = Durations()
        self.counts = np.zeros((0, len(_COUNTS)), dtype=np.int64)

    def add(self, actions: Actions) -> None:
        actions = actions.where(actions["margin"] != NO_DEADLINE)
        self.groups.naming(actions.routes)
        wait, margin, outcome, priority, route = (actions[name] for name in FIELDS)
        groups = self.groups.of(route, priority)
        self._grow()
        is_given_up = outcome == Status.DEADLINE_EXCEEDED
        is_missed = (margin < 0) | is_given_up
        late = np.maximum(-margin, 0)
        for number, mask in enumerate((slice(None), is_missed, is_given_up, is_missed & (late <= wait))):
            np.add.at(self.counts[:, number], groups[mask], 1)
        self.late.add(groups[is_missed], late[is_missed])

    def add_partial(self, batch: Any) -> None:
        for row in batch.to_pylist():
            group = self.groups.number_of((row["component"], row["operation"], row["priority"]))
            self._grow()
            self.counts[group] += [row[name] for name in _COUNTS]
            self.late.add_packed(group, row["late"])

    def partial(self) -> Any:
        order = list(range(len(self.groups)))
        return batch_of(_PARTIAL, self._told(order) | {"late": [self.late.pack(group) for group in order]})

    def result(self) -> Any:
        order = sorted(range(len(self.groups)), key=lambda n: (-self.counts[n, 1], self.groups.keys[n]))
        columns = self._told(order)
        percentiles = self.late.percentiles(list(_RANKS.values()))[order]
        columns |= {f"late_{rank}_ns": percentiles[:, number] for number, rank in enumerate(_RANKS)}
        columns["missed_share"] = columns["missed"] / np.maximum(columns["with_deadline"], 1)
        columns["late_mean_ns"] = self.late.means()[order]
        columns["late_max_ns"] = self.late.maxima[order]
        return batch_of(SCHEMA, columns)

    def _told(self, order: list[int]) -> dict[str, Any]:
        keys = [self.groups.keys[n] for n in order]
        columns: dict[str, Any] = {name: self.counts[order, number] for number, name in enumerate(_COUNTS)}
        for number, name in enumerate(("component", "operation", "priority")):
            columns[name] = [key[number] for key in keys]
        return columns

    def _grow(self) -> None:
        self.late.grow(len(self.groups))
        if len(self.late) > len(self.counts):
            more = np.zeros((len(self.late) - len(self.counts), len(_COUNTS)), dtype=np.int64)
            self.counts = np.concatenate([self.counts, more])
