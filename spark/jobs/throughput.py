"""Throughput: the work of each backplane in each slot of time, and its share of the backplane's limits.

Run and CPU time of an action are spread evenly from its start to its end, and its wait evenly over the time before its start.
So an action that runs for a minute shows in each second of it. Limits come from the header under which the action was
recorded. Cost: 6.7 million records/s on a core.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..frames import actions_of
from ..kernels.timeline import add_up, clipped, spread
from ..records.batch import Actions
from .batches import batch_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIELDS: Final = ("start", "wait", "run", "cpu", "took", "outcome")
_SUMS: Final = ("ended", "errors", "run", "cpu", "waiting")
_PARTIAL: Final = (
    "node string, backplane string, slot long, threads int, cpu_limit double, "
    + ", ".join(f"{name} double" for name in _SUMS)
)  # fmt: skip
SECOND_NS: Final = 10**9


def throughput(pieces: DataFrame, *, step_ns: int = 60 * SECOND_NS, within: tuple[int, int] | None = None) -> DataFrame:
    """By node, backplane and slot of `step_ns`, sorted by these:

    `time_ns`: Unix time at which the slot begins; `ended`: actions that ended in it; `per_s`; `errors`: of these, with an
    outcome other than OK; `busy`: run time as a share of the threads' time (above 1 while a relief worker steps in); `cpu`:
    cores used; `waiting`: queued actions, averaged over the slot; `threads`, `cpu_limit` (cores; NULL: none) and `cpu_share`,
    the used part of that limit (NULL without one). Slots without actions have no row. `within`: only slots from one Unix time
    to before another, because an action of an hour has millions of slots of a millisecond.
    """
    from pyspark.sql import functions as f

    def tally(batches: Iterator[Any]) -> Iterator[Any]:
        for actions in actions_of(batches, FIELDS):
            yield batch_of(_PARTIAL, slots_of(actions, step_ns, within))

    summed = (
        pieces.mapInArrow(tally, _PARTIAL)
        .groupBy("node", "backplane", "slot")
        .agg(*(f.sum(name).alias(name) for name in _SUMS), f.max("threads").alias("threads"),
             f.max("cpu_limit").alias("cpu_limit"))
    )  # fmt: skip
    cpu = f.col("cpu") / step_ns
    return summed.select(
        "node",
        "backplane",
        (f.col("slot") * step_ns).alias("time_ns"),
        f.col("ended").cast("long").alias("ended"),
        (f.col("ended") / (step_ns / SECOND_NS)).alias("per_s"),
        f.col("errors").cast("long").alias("errors"),
        (f.col("run") / step_ns / f.col("threads")).alias("busy"),
        cpu.alias("cpu"),
        (f.col("waiting") / step_ns).alias("waiting"),
        "threads",
        "cpu_limit",
        (cpu / f.col("cpu_limit")).alias("cpu_share"),
    ).orderBy("node", "backplane", "time_ns")


def slots_of(actions: Actions, step_ns: int, within: tuple[int, int] | None = None) -> dict[str, Any]:
    """Contribution of some records to each slot, as rows of partial sums. Run, CPU and waiting time in ns."""

    def shared_out(begin: np.ndarray, end: np.ndarray, amount: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return spread(*((begin, end, amount) if within is None else clipped(begin, end, amount, within)), step_ns)

    start, wait, run, cpu, took, outcome = (actions[name] for name in FIELDS)
    end = start + took
    counts = np.full(len(actions), True) if within is None else (end >= within[0]) & (end < within[1])
    slot, failed = end[counts] // step_ns, outcome[counts] != 0
    found = {
        "ended": add_up(slot, np.ones(len(slot))),
        "errors": add_up(slot, failed.astype(np.float64)),
        "run": shared_out(start, end, run),
        "cpu": shared_out(start, end, cpu),
        "waiting": shared_out(start - wait, start, wait),
    }
    slots = np.unique(np.concatenate([slots for slots, _ in found.values()]))
    rows: dict[str, Any] = {"slot": slots}
    for name, (where, amounts) in found.items():
        rows[name] = np.zeros(len(slots))
        rows[name][np.searchsorted(slots, where)] = amounts
    header = actions.header
    limits = header.limits if header is not None else {}
    percent = limits.get("cpu_limit")
    told: dict[str, Any] = {
        "node": header.node if header is not None else "",
        "backplane": header.backplane if header is not None else "",
        "threads": limits.get("threads") or 1,
        "cpu_limit": None if percent is None else percent / 100,
    }
    return rows | {name: [value] * len(slots) for name, value in told.items()}
