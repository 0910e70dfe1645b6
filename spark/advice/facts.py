"""Facts: what there is to say about a window of one backplane, before any rule looks at it. Computed once, for all rules."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from appbackplane.runtime.replay import Calibrated, Prediction, Setting, Waits, calibrate, recorded

from .gather import Gathered

Key = tuple[int, int]

#: A wait that nobody complains of: people notice 100 ms, and a chain of five calls adds up.
WAIT_MIN_NS: Final = 20_000_000
#: Nor of one that is no longer than what it waits for takes itself, twice.
WAIT_RUNS: Final = 2.0
#: Fewer say nothing about a mean.
COUNT_MIN: Final = 20
#: An operation that computes for this part of its run where it does best, in one of ten, does not block by nature.
COMPUTES: Final = 0.5
BEST: Final = 0.9


@dataclass(frozen=True)
class Facts:
    """Of one backplane."""

    gathered: Gathered

    @cached_property
    def recorded(self) -> Prediction:
        """What is to be explained."""
        return recorded(self.gathered.load, self.gathered.setting)

    @cached_property
    def calibrated(self) -> Calibrated:
        """The load as it can be replayed: some seconds, which only those in trouble are worth."""
        return calibrate(self.gathered.load, self.gathered.setting)

    @property
    def setting(self) -> Setting:
        """What it was allowed."""
        return self.calibrated.setting

    def name_of(self, key: Key) -> str:
        """An operation at a priority, for people."""
        return f"{self.gathered.operations[key[0]]} (priority {key[1]})"

    @cached_property
    def columns(self) -> dict[str, np.ndarray]:
        """The load as arrays; `start` and `end` besides, of those that ran."""
        load = self.gathered.load
        names = ("arrival", "operation", "object", "priority", "run", "cpu", "awaited", "wait")
        columns = {name: np.asarray(getattr(load, name), dtype=np.int64) for name in names}
        columns["start"] = columns["arrival"] + np.maximum(columns["wait"], 0)
        columns["end"] = columns["start"] + columns["run"] + columns["awaited"]
        return columns

    @cached_property
    def lasted_ns(self) -> int:
        """From the first arrival to the last end."""
        columns = self.columns
        return int(max(1, columns["end"].max() - columns["arrival"].min()))

    def mask(self, key: Key) -> np.ndarray:
        """The actions of an operation at a priority."""
        of_it: np.ndarray = (self.columns["operation"] == key[0]) & (self.columns["priority"] == key[1])
        return of_it

    def run_ns(self, key: Key) -> float:
        """How long one takes, on average."""
        return float(self.columns["run"][self.mask(key)].mean())

    def harmless_ns(self, key: Key) -> float:
        """How long one may wait, on average, without anybody minding."""
        return max(WAIT_MIN_NS, WAIT_RUNS * self.run_ns(key))

    @cached_property
    def harmed(self) -> dict[Key, Waits]:
        """Those that waited too long, or came too late to run; the worst first, by all they waited, the late for longest."""
        found = {
            key: waits
            for key, waits in self.recorded.waits.items()
            if waits.count + waits.late >= COUNT_MIN
            and (waits.late * 100 > waits.count or waits.mean > self.harmless_ns(key))
        }
        return dict(sorted(found.items(), key=lambda each: (-each[1].late, -each[1].mean * each[1].count)))

    @cached_property
    def blocked_share(self) -> float:
        """Of the time of all actions, the part in which they were blocked: did neither compute nor wait for their turn to.

        Of operations that block by nature alone: one that can do its work without is kept from computing by something else
        on the machine, and looks the same in a sum.
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
        """(begin, end) of each stretch of time in which somebody waited."""
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
        """For how long somebody waited."""
        begins, ends = self.queued_spans
        return int((ends - begins).sum())

    def while_queued(self, column: str) -> float:
        """The sum of `run` or `cpu` while somebody waited, taken as spread evenly over each action's run."""
        columns = self.columns
        ran = (columns["run"] > 0) & (columns["wait"] >= 0)
        start, end, amount = columns["start"][ran], columns["end"][ran], columns[column][ran].astype(np.float64)
        begins, ends = self.queued_spans
        overlap = _within(end, begins, ends) - _within(start, begins, ends)
        return float((amount * overlap / np.maximum(1, end - start)).sum())


def _within(at: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """How much of disjoint spans, in order, lies before each moment."""
    if not len(begins):
        return np.zeros(len(at))
    before = np.concatenate(([0], np.cumsum(ends - begins)))
    index = np.searchsorted(begins, at, side="right") - 1
    inside = np.clip(at - begins[np.maximum(index, 0)], 0, (ends - begins)[np.maximum(index, 0)])
    within: np.ndarray = np.where(index < 0, 0, before[np.maximum(index, 0)] + inside)
    return within
