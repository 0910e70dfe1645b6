"""Gather: the records of one backplane, under its latest limits, as a load that can be replayed.

All records are looked at once, for their times alone: where, within what can be simulated in a moment, was waited most? Only
that window is read whole. It begins where as little as possible was queued, since what is queued at its beginning came
before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from appbackplane.runtime.observation.segments import NO_DEADLINE, SegmentHeader
from appbackplane.runtime.replay import NEVER, Load, Setting

from ..records.batch import Actions
from ..records.found import Found
from ..records.pieces import Piece, read_all

#: Actions of a window: a simulation of them takes a third of a second, and a rule tries some ten.
WINDOW_MAX: Final = 50_000
#: Of a status that says that it came too late (transport/status.py).
_DEADLINE_EXCEEDED: Final = 4
_TIMES: Final = ("start", "wait")
_FIELDS: Final = (
    "start", "wait", "run", "cpu", "took", "margin", "operation", "object", "priority", "effective", "lane", "outcome",
    "boosted",
)  # fmt: skip


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


class _Times:
    """Of one backplane: what its window is chosen by."""

    def __init__(self, header: SegmentHeader) -> None:
        self.header = header
        self.starts: list[np.ndarray] = []
        self.waits: list[np.ndarray] = []
        self.count = 0

    def add(self, header: SegmentHeader, actions: Actions) -> None:
        if header.limits != self.header.limits:
            if header.created_ns < self.header.created_ns:
                return
            self.starts, self.waits = [], []  # it was allowed something else then
            self.header = header
        self.starts.append(actions["start"])
        self.waits.append(actions["wait"])


def gather(
    several: Sequence[Piece],
    found: Found,
    since_ns: int | None = None,
    until_ns: int | None = None,
    window_max: int = WINDOW_MAX,
) -> list[Gathered]:
    """A window of each backplane, the one in which was waited most; those that did nothing are left out."""
    times: dict[tuple[str, str], _Times] = {}
    places: dict[tuple[str, str], list[Piece]] = {}
    for piece in several:
        for actions in read_all([piece], _TIMES, found):
            header = actions.header
            if header is None:
                continue
            whose = (header.node, header.backplane)
            times.setdefault(whose, _Times(header)).add(header, _between(actions, since_ns, until_ns))
            if piece not in places.setdefault(whose, []):
                places[whose].append(piece)
    gathered = []
    for whose, each in sorted(times.items()):
        arrival = np.concatenate(each.starts) - np.concatenate(each.waits) if each.starts else np.zeros(0, np.int64)
        if not len(arrival):
            continue
        first_ns, last_ns = window_of(arrival, np.concatenate(each.waits), window_max)
        batches = _batches(places[whose], whose, each.header.limits, first_ns, last_ns)
        gathered.append(_gathered(whose, each.header.limits, batches, first_ns, len(arrival)))
    return gathered


def window_of(arrival: np.ndarray, wait: np.ndarray, window_max: int) -> tuple[int, int]:
    """(first, last) arrival of the stretch of at most `window_max` actions in which was waited most."""
    order = np.argsort(arrival, kind="stable")
    arrival, wait = arrival[order], wait[order]
    count = len(arrival)
    if count <= window_max:
        return int(arrival[0]), int(arrival[-1])
    waited = np.concatenate(([0], np.cumsum(wait, dtype=np.float64)))
    begins = int(np.argmax(waited[window_max:] - waited[:-window_max]))
    # Nobody is queued where all that came before has begun: the latest such place before, within a tenth.
    began = np.maximum.accumulate(arrival + wait)
    earliest = max(1, begins - window_max // 10)
    idle = np.flatnonzero(began[earliest - 1 : begins] <= arrival[earliest : begins + 1])
    if begins and len(idle):
        begins = earliest + int(idle[-1])
    return int(arrival[begins]), int(arrival[min(count, begins + window_max) - 1])


def load_of(actions: Iterable[Actions]) -> tuple[Load, tuple[str, ...]]:
    """Batches of one backplane as a load, and the names of its operations."""
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
    return _as_load(columns), tuple(operations)


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


def _batches(
    several: list[Piece], whose: tuple[str, str], limits: dict[str, Any], first_ns: int, last_ns: int
) -> Iterable[Actions]:
    """What arrived in the window. What is damaged was counted when the times were read."""
    for actions in read_all(several, _FIELDS, Found()):
        header = actions.header
        if header is not None and (header.node, header.backplane) == whose and header.limits == limits:
            arrival = actions["start"] - actions["wait"]
            mask = (arrival >= first_ns) & (arrival <= last_ns)
            if mask.any():
                yield actions.where(mask)


def _gathered(
    whose: tuple[str, str], limits: dict[str, Any], batches: Iterable[Actions], first_ns: int, recorded_count: int
) -> Gathered:
    load, operations = load_of(batches)
    return Gathered(*whose, Setting.of(limits), load, operations, first_ns, recorded_count)


def _renumbered(batch: Actions, field: str, numbers: dict[str, int]) -> np.ndarray:
    """Numbers of the segment's names as numbers of ours."""
    column = batch[field]
    table = np.zeros(len(batch.names) + 1, dtype=np.int64)
    for number in np.unique(column).tolist():
        name = batch.names[number][1] if number < len(batch.names) else "?"
        table[min(number, len(batch.names))] = numbers.setdefault(name, len(numbers))
    renumbered: np.ndarray = table[np.minimum(column, len(batch.names))]
    return renumbered
