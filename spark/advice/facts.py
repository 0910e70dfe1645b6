"""Facts: figures about one window of a backplane, computed once and shared by all rules."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ..replay import Calibrated, PredictedWaits, Prediction, ReplaySetting, calibrate, recorded
from .gather import GatheredWindow

Key = tuple[int, int]

#: Mean waits up to this are no trouble: people notice 100 ms, and a chain of five calls adds up.
WAIT_MIN_NS: Final = 20_000_000
#: Nor are waits up to this many times the mean run time of the operation.
WAIT_RUNS: Final = 2.0
#: With fewer actions a mean is not meaningful.
COUNT_MIN: Final = 20
#: An operation does not block by nature if in its best tenth of runs (`BEST`) CPU time is at least this share of run time.
COMPUTES: Final = 0.5
BEST: Final = 0.9


@dataclass(frozen=True)
class Facts:
    """Figures of one backplane; each property is computed on first use."""

    gathered: GatheredWindow

    @cached_property
    def recorded(self) -> Prediction:
        """Waits and throughput as recorded: the figures that advice has to explain."""
        return recorded(self.gathered.load, self.gathered.setting)

    @cached_property
    def calibrated(self) -> Calibrated:
        """The load, prepared for replay. Costs some seconds, so it is read only for backplanes in trouble."""
        return calibrate(self.gathered.load, self.gathered.setting)

    @property
    def setting(self) -> ReplaySetting:
        """The settings under which the window was recorded."""
        return self.calibrated.setting

    def name_of(self, key: Key) -> str:
        """Name of an operation at a priority, for messages."""
        return f"{self.gathered.operations[key[0]]} (priority {key[1]})"

    @cached_property
    def columns(self) -> dict[str, np.ndarray]:
        """The load as arrays, with `start` and `end` added; these are valid only for actions that ran."""
        load = self.gathered.load
        names = ("arrival", "operation", "object", "priority", "run", "cpu", "awaited", "wait")
        columns = {name: np.asarray(getattr(load, name), dtype=np.int64) for name in names}
        columns["start"] = columns["arrival"] + np.maximum(columns["wait"], 0)
        columns["end"] = columns["start"] + columns["run"] + columns["awaited"]
        return columns

    @cached_property
    def lasted_ns(self) -> int:
        """Time from the first arrival to the last end."""
        columns = self.columns
        return int(max(1, columns["end"].max() - columns["arrival"].min()))

    def mask(self, key: Key) -> np.ndarray:
        """Mask of the actions of an operation at a priority."""
        of_it: np.ndarray = (self.columns["operation"] == key[0]) & (self.columns["priority"] == key[1])
        return of_it

    def run_ns(self, key: Key) -> float:
        """Mean run time of these actions."""
        return float(self.columns["run"][self.mask(key)].mean())

    def harmless_ns(self, key: Key) -> float:
        """Largest mean wait of these actions that counts as no trouble."""
        return max(WAIT_MIN_NS, WAIT_RUNS * self.run_ns(key))

    @cached_property
    def harmed(self) -> dict[Key, PredictedWaits]:
        """Operations that wait too long on average, or come too late over once in 100: most late first, then longest total
        wait.
        """
        found = {
            key: waits
            for key, waits in self.recorded.waits.items()
            if waits.count + waits.late >= COUNT_MIN
            and (waits.late * 100 > waits.count or waits.mean > self.harmless_ns(key))
        }
        return dict(sorted(found.items(), key=lambda each: (-each[1].late, -each[1].mean * each[1].count)))

    @cached_property
    def blocked_share(self) -> float:
        """Share of all actions' run time in which they were blocked: neither computing nor waiting for their turn to compute.

        Counts only operations that block by nature. Any other operation was kept from computing by other load on the machine,
        and would look the same in a sum.
        """
        columns, corrected = self.columns, self.calibrated.load
        blocked = np.asarray(corrected.run, dtype=np.int64) - np.asarray(corrected.cpu, dtype=np.int64)
        counted = 0
        for operation in np.unique(columns["operation"]):
            of_it = (columns["operation"] == operation) & (columns["run"] > 0)
            if of_it.any() and np.quantile(columns["cpu"][of_it] / columns["run"][of_it], BEST) < COMPUTES:
                counted += int(blocked[of_it].sum())
        return float(counted / max(1, columns["run"].sum()))

    @cached_property
    def queued_spans(self) -> tuple[np.ndarray, np.ndarray]:
        """(begins, ends) of the stretches of time in which at least one action waited."""
        waits = self.columns["wait"] > 0
        begins, ends = self.columns["arrival"][waits], self.columns["start"][waits]
        if not len(begins):
            return begins, ends
        order = np.argsort(begins)
        begins, ends = begins[order], np.maximum.accumulate(ends[order])
        is_first = np.concatenate(([True], begins[1:] > ends[:-1]))
        is_last = np.concatenate((is_first[1:], [True]))
        return begins[is_first], ends[is_last]

    @cached_property
    def queued_ns(self) -> int:
        """Total time in which at least one action waited."""
        begins, ends = self.queued_spans
        return int((ends - begins).sum())

    def while_queued(self, column: str) -> float:
        """Sum of `run` or `cpu` over the queued spans, taking it as spread evenly over each action's run."""
        columns = self.columns
        ran = (columns["run"] > 0) & (columns["wait"] >= 0)
        start, end, amount = columns["start"][ran], columns["end"][ran], columns[column][ran].astype(np.float64)
        begins, ends = self.queued_spans
        overlap = _within(end, begins, ends) - _within(start, begins, ends)
        return float((amount * overlap / np.maximum(1, end - start)).sum())


def _within(at: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """For each time in `at`: the total length of the spans (disjoint, sorted) up to that time."""
    if not len(begins):
        return np.zeros(len(at))
    before = np.concatenate(([0], np.cumsum(ends - begins)))
    index = np.searchsorted(begins, at, side="right") - 1
    inside = np.clip(at - begins[np.maximum(index, 0)], 0, (ends - begins)[np.maximum(index, 0)])
    within: np.ndarray = np.where(index < 0, 0, before[np.maximum(index, 0)] + inside)
    return within
