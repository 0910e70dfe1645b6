"""Records of backplanes that never were: a load, and what the simulation says became of it, as segments."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from appbackplane.runtime.observation.segments import NO_DEADLINE
from appbackplane.spark.replay import NEVER, Costs, Load, ReplaySetting, simulate
from tests.spark.made import EPOCH_NS, names_of, words_of, write_actions

MS = 1_000_000
DEADLINE_EXCEEDED = 4
#: A worker between two actions.
COSTS = Costs(20_000)


def bursts(
    count: int, every_ms: float, *kinds: tuple[int, int, int, float, float], objects: int = 64, seed: int = 1
) -> Load:
    """`count` bursts; `kinds`: (operation, priority, actions a burst, run ms, CPU ms), each kind on objects of its own."""
    random = np.random.default_rng(seed)
    rows = []
    for burst in range(count):
        for operation, priority, each, run_ms, cpu_ms in kinds:
            for number in range(each):
                factor = random.uniform(0.98, 1.02)
                at = EPOCH_NS + int(burst * every_ms * MS) + number * 1000
                object = 8 + operation * objects + number % objects
                rows.append((at, operation, object, priority, int(run_ms * MS * factor), int(cpu_ms * MS * factor)))
    return load_of_rows(rows)


def load_of_rows(rows: Iterable[tuple[int, int, int, int, int, int]], deadline_ms: float | None = None) -> Load:
    """(arrival, operation, object, priority, run, cpu) each."""
    columns = list(zip(*sorted(rows), strict=True))
    count = len(columns[0])
    return Load(
        arrival=columns[0],
        operation=columns[1],
        object=columns[2],
        priority=columns[3],
        run=columns[4],
        cpu=columns[5],
        awaited=[0] * count,
        deadline=[NEVER if deadline_ms is None else at + round(deadline_ms * MS) for at in columns[0]],
        wait=[0] * count,
    )


def write(
    run_dir: Path,
    backplane: str,
    load: Load,
    setting: ReplaySetting,
    costs: Costs = COSTS,
    number: int = 1,
    **header: Any,
) -> Path:
    """What would have been recorded of this load under this setting."""
    replayed = simulate(load, setting, costs)
    late = np.asarray(replayed.wait) < 0
    wait = np.where(late, np.asarray(load.deadline) - np.asarray(load.arrival), np.asarray(replayed.wait))
    run = np.where(late, 0, np.asarray(load.run) + np.asarray(replayed.held_up))
    start = np.asarray(load.arrival) + wait
    deadline = np.asarray(load.deadline)
    order = np.argsort(start + run)
    columns = {
        "start": start,
        "wait": wait,
        "run": run,
        "cpu": np.where(late, 0, np.asarray(load.cpu)),
        "took": run,
        "margin": np.where(deadline == NEVER, NO_DEADLINE, deadline - start - run),
        "operation": load.operation,
        "object": load.object,
        "priority": load.priority,
        "effective": load.priority,
        "outcome": np.where(late, DEADLINE_EXCEEDED, 0),
    }
    words = words_of(len(load), {name: np.asarray(column)[order] for name, column in columns.items()})
    limits = {name: value for name, value in msgspec.to_builtins(setting).items() if name != "is_limited_by_kernel"}
    objects = max(load.object) - 7
    return write_actions(run_dir, backplane, number, words, names_of(8, objects), limits=limits, **header)
