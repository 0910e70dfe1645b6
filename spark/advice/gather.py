"""Gather: the records of one backplane, under its latest limits, as a load that can be replayed.

All records are looked at once, for their times alone: in which stretch, no longer than can be simulated in a moment, was waited
most? Only that is read whole. It begins where nobody was queued, if there is such a place near: what is queued at its
beginning came before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from appbackplane.runtime.observation.segments import NO_DEADLINE, SegmentHeader
from appbackplane.runtime.replay import NEVER, Load, Setting

from ..records.batch import Actions
from ..records.found import Found
from ..records.pieces import Piece, read_all

#: Actions of a window: a simulation of them takes a third of a second, and a rule tries some ten.
WINDOW_MAX: Final = 50_000
#: In what pieces of time it is chosen: a burst is longer, and a day has a million of them.
SLICE_NS: Final = 100_000_000
#: Pieces at most, 40 MB a backplane; with more they are made twice as long.
SLICES_MAX: Final = 1 << 18
#: Of a status that says that it came too late (transport/status.py).
_DEADLINE_EXCEEDED: Final = 4
_TIMES: Final = ("start", "wait")
_FIELDS: Final = (
    "start", "wait", "run", "cpu", "took", "margin", "operation", "object", "priority", "effective", "lane", "outcome",
    "boosted",
)  # fmt: skip

_Amount = TypeVar("_Amount", int, float)


@dataclass(frozen=True, slots=True)
class Gathered:
    """A window of one backplane."""

    node: str
    backplane: str
    setting: Setting
    load: Load
    #: Of the numbers in the load.
    operations: tuple[str, ...]
    #: When the window begins, Unix time, and how many actions were recorded in all.
    since_ns: int
    recorded_count: int


class Survey:
    """Of one backplane: how many actions arrived in each slice of time, and for how long they waited in all."""

    def __init__(self, header: SegmentHeader) -> None:
        self._begin(header)

    def _begin(self, header: SegmentHeader) -> None:
        self.header = header
        self.slice_ns = SLICE_NS
        self.counts: dict[int, int] = {}
        self.waited: dict[int, float] = {}
        #: First and last arrival by piece: which are to be read again.
        self.places: dict[Piece, tuple[int, int]] = {}

    @property
    def count(self) -> int:
        """Actions in all."""
        return sum(self.counts.values())

    def add(self, piece: Piece, header: SegmentHeader, actions: Actions) -> None:
        """What else was recorded of it; under other limits, only if they are later ones, and then nothing else."""
        if header.limits != self.header.limits:
            if header.created_ns < self.header.created_ns:
                return
            self._begin(header)  # it was allowed something else before
        if not len(actions):
            return
        arrival = actions["start"] - actions["wait"]
        slices, which = np.unique(arrival // self.slice_ns, return_inverse=True)
        counts, waited = np.bincount(which), np.bincount(which, weights=actions["wait"])
        for number, count, ns in zip(slices.tolist(), counts.tolist(), waited.tolist(), strict=True):
            self.counts[number] = self.counts.get(number, 0) + count
            self.waited[number] = self.waited.get(number, 0.0) + ns
        while len(self.counts) > SLICES_MAX:
            self.slice_ns *= 2
            self.counts, self.waited = _halved(self.counts), _halved(self.waited)
        place = self.places.get(piece, (int(arrival[0]), int(arrival[0])))
        self.places[piece] = (min(place[0], int(arrival.min())), max(place[1], int(arrival.max())))

    def window(self, window_max: int) -> tuple[int, int]:
        """[begin, end) of the stretch with at most so many actions, or of the slice, in which was waited most."""
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


def _halved(slices: dict[int, _Amount]) -> dict[int, _Amount]:
    """Two neighbours as one."""
    found: dict[int, _Amount] = {}
    for number, amount in slices.items():
        found[number >> 1] = found[number >> 1] + amount if number >> 1 in found else amount
    return found


def gather(
    several: Sequence[Piece],
    found: Found,
    since_ns: int | None = None,
    until_ns: int | None = None,
    window_max: int = WINDOW_MAX,
) -> list[Gathered]:
    """A window of each backplane, the one in which was waited most; those that did nothing are left out."""
    surveys: dict[tuple[str, str], Survey] = {}
    for piece in several:
        for actions in read_all([piece], _TIMES, found):
            header = actions.header
            if header is not None:
                whose = (header.node, header.backplane)
                surveys.setdefault(whose, Survey(header)).add(piece, header, _between(actions, since_ns, until_ns))
    return [_gathered(whose, survey, window_max) for whose, survey in sorted(surveys.items()) if survey.count]


def _gathered(whose: tuple[str, str], survey: Survey, window_max: int) -> Gathered:
    limits, (begin_ns, end_ns) = survey.header.limits, survey.window(window_max)

    def batches() -> Iterator[Actions]:
        places = [piece for piece, (first, last) in survey.places.items() if first < end_ns and last >= begin_ns]
        for actions in read_all(places, _FIELDS, Found()):  # what is damaged has been counted
            header = actions.header
            if header is not None and (header.node, header.backplane) == whose and header.limits == limits:
                arrival = actions["start"] - actions["wait"]
                yield actions.where((arrival >= begin_ns) & (arrival < end_ns))

    load, operations = load_of(batches(), window_max)
    since_ns = min(load.arrival, default=begin_ns)
    return Gathered(*whose, Setting.of(limits), load, operations, since_ns, survey.count)


def load_of(actions: Iterable[Actions], window_max: int = WINDOW_MAX) -> tuple[Load, tuple[str, ...]]:
    """Batches of one backplane as a load of so many actions at most, and the names of its operations."""
    parts: dict[str, list[np.ndarray]] = {name: [] for name in _FIELDS}
    operations: dict[str, int] = {}
    objects: dict[str, int] = {}
    for batch in actions:
        for name in _FIELDS:
            parts[name].append(batch[name])
        # Each segment has numbers of its own.
        parts["operation"][-1] = _renumbered(batch, "operation", operations)
        parts["object"][-1] = _renumbered(batch, "object", objects)
    columns = {name: np.concatenate(each) if each else np.zeros(0, np.int64) for name, each in parts.items()}
    return _as_load(_in_order(columns, window_max)), tuple(operations)


def _in_order(columns: dict[str, np.ndarray], count_max: int) -> dict[str, np.ndarray]:
    """By arrival; from the first place in the first tenth where nobody is queued, if there is one, so many at most."""
    arrival = columns["start"] - columns["wait"]
    order = np.argsort(arrival, kind="stable")
    arrival, wait = arrival[order], columns["wait"][order]
    has_begun = np.maximum.accumulate(arrival + wait)
    idle = 1 + np.flatnonzero(has_begun[:-1] <= arrival[1:])
    was_idle = not len(wait) or not wait[0]
    begin = 0 if was_idle or not len(idle) or idle[0] > len(order) // 10 else int(idle[0])
    return {name: column[order[begin : begin + count_max]] for name, column in columns.items()}


def _as_load(columns: dict[str, np.ndarray]) -> Load:
    start, wait, run, cpu, took = (columns[name].astype(np.int64) for name in ("start", "wait", "run", "cpu", "took"))
    has_run = run > 0
    is_late = ~has_run & (columns["outcome"] == _DEADLINE_EXCEEDED)
    arrival = start - wait
    end = start + took
    margin = columns["margin"].astype(np.int64)
    deadline = np.where(margin == NO_DEADLINE, NEVER, end + np.where(margin == NO_DEADLINE, 0, margin))
    # What came too late would have run as long as others of its operation; nobody knows better.
    for operation in np.unique(columns["operation"][is_late]):
        of_it = columns["operation"] == operation
        if (of_it & has_run).any():
            run[of_it & is_late] = int(run[of_it & has_run].mean())
            cpu[of_it & is_late] = int(cpu[of_it & has_run].mean())
    took = np.where(is_late, run, np.maximum(took, run))
    priority = np.where(columns["boosted"] != 0, columns["effective"], columns["priority"])
    counts = has_run | is_late  # the others were taken back or refused, and cost no worker anything
    return Load(
        arrival=arrival[counts].tolist(),
        operation=columns["operation"][counts].tolist(),
        object=columns["object"][counts].tolist(),
        priority=priority[counts].tolist(),
        run=run[counts].tolist(),
        cpu=np.minimum(cpu, run)[counts].tolist(),
        awaited=(took - run)[counts].tolist(),
        deadline=deadline[counts].tolist(),
        wait=np.where(is_late, -1, wait)[counts].tolist(),
        lane=columns["lane"][counts].tolist() if columns["lane"].any() else (),
    )


def _between(actions: Actions, since_ns: int | None, until_ns: int | None) -> Actions:
    if since_ns is None and until_ns is None:
        return actions
    start = actions["start"]
    mask = np.ones(len(start), dtype=bool)
    if since_ns is not None:
        mask &= start >= since_ns
    if until_ns is not None:
        mask &= start < until_ns
    return actions.where(mask)


def _renumbered(batch: Actions, field: str, numbers: dict[str, int]) -> np.ndarray:
    """Numbers of the segment's names as numbers of ours."""
    column = batch[field]
    table = np.zeros(len(batch.names) + 1, dtype=np.int64)
    for number in np.unique(column).tolist():
        name = batch.names[number][1] if number < len(batch.names) else "?"
        table[min(number, len(batch.names))] = numbers.setdefault(name, len(numbers))
    renumbered: np.ndarray = table[np.minimum(column, len(batch.names))]
    return renumbered
