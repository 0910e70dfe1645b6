"""Gather: read the records of one backplane, under its latest limits, as a load that can be replayed.

A first pass over all records reads their times only (survey.py) and finds the stretch with the longest total wait, short
enough to simulate in a moment. Only that stretch is read whole. If possible it begins at a moment with an empty queue, because
actions queued at its beginning had arrived before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from appbackplane.runtime.observation.segments import NO_DEADLINE

from ..frames import within
from ..records.batch import Actions
from ..records.found import Found
from ..records.pieces import Piece, read_all
from ..replay import NEVER, Load, ReplaySetting
from .survey import FIELDS, Survey, latest, surveyed

#: Actions of a window. Simulating so many takes a third of a second, and a rule tries some ten settings.
WINDOW_MAX: Final = 50_000
#: Status code "deadline exceeded" (transport/errors.py).
_DEADLINE_EXCEEDED: Final = 4
_FIELDS: Final = (
    "start", "wait", "run", "cpu", "took", "margin", "operation", "object", "priority", "effective", "lane", "outcome",
    "boosted",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class GatheredWindow:
    """A window of one backplane's records, ready for replay."""

    node: str
    backplane: str
    setting: ReplaySetting
    load: Load
    #: Names of the operations; the load refers to them by index.
    operations: tuple[str, ...]
    #: Unix time at which the window begins, and the number of all recorded actions.
    since_ns: int
    recorded_count: int
    #: Name of the external executor that ran these actions ("spark"); "": the recording backplane ran them.
    executed_by: str = ""


def gather(
    several: Sequence[Piece],
    found: Found,
    since_ns: int | None = None,
    until_ns: int | None = None,
    window_max: int = WINDOW_MAX,
) -> list[GatheredWindow]:
    """Gather a window for each backplane in this process, without Spark. Records left out are counted in `found`."""
    keep = within(since_ns, until_ns)
    read = ((piece, actions) for piece in several for actions in read_all([piece], FIELDS, found, keep))
    return windows(latest(surveyed(read)), window_max)


def windows(surveys: Iterable[Survey], window_max: int = WINDOW_MAX) -> list[GatheredWindow]:
    """Return for each backplane its window with the longest total wait. Reads only the pieces that overlap it."""
    return [_gathered(survey, window_max) for survey in surveys]


def _gathered(survey: Survey, window_max: int) -> GatheredWindow:
    begin_ns, end_ns = survey.window(window_max)
    whose = (survey.node, survey.backplane)

    def batches() -> Iterator[Actions]:
        places = [piece for piece, first, last in survey.places if first < end_ns and last >= begin_ns]
        for actions in read_all(places, _FIELDS, Found()):  # damaged records were counted by the survey
            header = actions.header
            if header is not None and (header.node, header.backplane) == whose and survey.is_under(header.limits):
                arrival = actions["start"] - actions["wait"]
                yield actions.where((arrival >= begin_ns) & (arrival < end_ns))

    load, operations = load_of(batches(), window_max)
    since_ns = min(load.arrival, default=begin_ns)
    executed_by = str(survey.limits.get("executed_by", ""))
    return GatheredWindow(
        *whose, ReplaySetting.of(survey.limits), load, operations, since_ns, survey.count, executed_by
    )


def load_of(actions: Iterable[Actions], window_max: int = WINDOW_MAX) -> tuple[Load, tuple[str, ...]]:
    """Convert batches of one backplane to a load of at most `window_max` actions, and the names of its operations."""
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
    """Sort by arrival; keep at most `count_max`, from the first moment in the first tenth with an empty queue, if there is
    one.
    """
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
    # Late actions never ran; assume the mean run time of their operation.
    for operation in np.unique(columns["operation"][is_late]):
        of_it = columns["operation"] == operation
        if (of_it & has_run).any():
            run[of_it & is_late] = int(run[of_it & has_run].mean())
            cpu[of_it & is_late] = int(cpu[of_it & has_run].mean())
    took = np.where(is_late, run, np.maximum(took, run))
    priority = np.where(columns["boosted"] != 0, columns["effective"], columns["priority"])
    counts = has_run | is_late  # the rest was taken back or refused, and cost no worker any time
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


def _renumbered(batch: Actions, field: str, numbers: dict[str, int]) -> np.ndarray:
    """Replace the segment's name numbers by the numbers of `numbers`, which is shared by all segments."""
    column = batch[field]
    table = np.zeros(len(batch.names) + 1, dtype=np.int64)
    for number in np.unique(column).tolist():
        name = batch.names[number][1] if number < len(batch.names) else "?"
        table[min(number, len(batch.names))] = numbers.setdefault(name, len(numbers))
    renumbered: np.ndarray = table[np.minimum(column, len(batch.names))]
    return renumbered
