"""Gathering: the jobs asked, several at a time, and their answers put into the rows of `contents.py`.

A job is small work for Spark and large work for its tasks; asked one after the other, they would leave cores idle at the end
of each. So each is asked by a thread of its own, and Spark shares its cores among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..frames import pieces_frame
from ..jobs.operation_statistics import operation_statistics
from ..records.found import Found
from .contents import Backplane, Contents, Heat, Line, Operation
from .overview import BUCKETS, Overview, Source, edges_ns, overview

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ..progress import Progress

#: Bins of a plot at least, so that a single action is a mark and no wall.
BINS_MIN: Final = 24
#: Jobs asked at a time: as many as keep two cores busy while a third is being planned.
AT_A_TIME: Final = 4
#: Of the bar: so many questions.
STEPS: Final = 2
_RUN, _CPU, _ERRORS, _MISSED = range(BUCKETS, BUCKETS + 4)


def gathered(
    spark: SparkSession, where: Path, progress: Progress, *, since_ns: int | None, made_ns: int, by: str
) -> Contents:
    """All that a report says of what is recorded in `where`. Raises `NothingRecorded`."""
    pieces = pieces_frame(spark, where, since_ns=since_ns)
    questions: dict[str, Callable[[], Any]] = {
        "overview": lambda: overview(pieces),
        "operations": lambda: rows(operation_statistics(pieces)),
    }
    answers: dict[str, Any] = {}
    with ThreadPoolExecutor(AT_A_TIME, "question") as pool:
        asked = {name: pool.submit(question) for name, question in questions.items()}
        for name, answer in asked.items():
            progress.step(name)
            answers[name] = answer.result()
    return contents(where, answers, made_ns=made_ns, by=by)


def contents(where: Path, answers: Mapping[str, Any], *, made_ns: int, by: str) -> Contents:
    """Of the answers, by the names of the questions."""
    total: Overview = answers["overview"]
    found = Found.from_dict(total.found) if total.found else Found()
    heat = heat_of(total)
    timeline = [line_of(total, name) for name in _busiest_first(total)]
    _, table = total.table()
    latencies = table[:, :BUCKETS].sum(axis=0)
    return Contents(
        system=next((one.system for one in total.sources.values() if one.system), where.name),
        where=str(where),
        made_ns=made_ns,
        by=by,
        first_ns=total.first_ns,
        last_ns=total.last_ns,
        records=int(latencies.sum()),
        skipped=list(found.lines()),
        skipped_records=found.skipped,
        latency_p50_ns=percentile(latencies, 0.5),
        latency_p99_ns=percentile(latencies, 0.99),
        backplanes=[backplane_of(total, line) for line in timeline],
        heat=heat,
        timeline=timeline,
        operations=[Operation(**row) for row in answers["operations"]],
        misses=[],
        inversions=[],
        slow=[],
        paths=[],
        advice=[],
        notes=[],
        patch="",
    )


def rows(answer: DataFrame) -> list[dict[str, Any]]:
    """Small, by what a job is."""
    found: list[dict[str, Any]] = answer.toArrow().to_pylist()
    return found


def heat_of(total: Overview) -> Heat:
    """With at least `BINS_MIN` bins of time."""
    begin_ns, table = total.table()
    if not len(table):
        return Heat(begin_ns=0, width_ns=1, edges_ns=edges_ns(), counts=[], p50_ns=[], p99_ns=[])
    before, table = _padded(table)
    counts = table[:, :BUCKETS]
    return Heat(
        begin_ns=begin_ns - before * total.width_ns,
        width_ns=total.width_ns,
        edges_ns=edges_ns(),
        counts=counts.tolist(),
        p50_ns=[percentile(row, 0.5) for row in counts],
        p99_ns=[percentile(row, 0.99) for row in counts],
    )


def line_of(total: Overview, name: str) -> Line:
    """One backplane over the same bins."""
    _, table = _padded(total.table(name)[1])
    counts, width_ns = table[:, :BUCKETS], total.width_ns
    threads = total.sources[name].limits.get("threads") or 1
    return Line(
        backplane=name,
        rate=(counts.sum(axis=1) * (1e9 / width_ns)).tolist(),
        p99_ns=[percentile(row, 0.99) for row in counts],
        busy=(table[:, _RUN] / (width_ns * threads)).tolist(),
        cpu=(table[:, _CPU] / width_ns).tolist(),
    )


def backplane_of(total: Overview, line: Line) -> Backplane:
    """What it did over the whole time."""
    source: Source = total.sources[line.backplane]
    _, table = total.table(line.backplane)
    lasted_ns = max(total.width_ns, total.last_ns - total.first_ns)
    threads = source.limits.get("threads")
    sums = table.sum(axis=0)
    return Backplane(
        name=line.backplane,
        node=source.node,
        records=source.records,
        generations=len(source.generations),
        rate=source.records * 1e9 / max(lasted_ns, 1_000_000_000),
        threads=threads,
        cpu_limit=source.limits.get("cpu_limit"),
        busy=float(sums[_RUN] / (lasted_ns * (threads or 1))),
        busy_max=max(line.busy, default=0.0),
        cpu=float(sums[_CPU] / lasted_ns),
        cpu_max=max(line.cpu, default=0.0),
        errors=int(sums[_ERRORS]),
        missed=int(sums[_MISSED]),
    )


def percentile(counts: np.ndarray, rank: float) -> float | None:
    """Of bins of latency: the middle of the one in which it lies, so at most 20 % off; None of nothing."""
    below = np.cumsum(counts)
    if not below[-1]:
        return None
    number = int(np.searchsorted(below, rank * (below[-1] - 1), side="right"))
    edges = edges_ns()
    return float((edges[number] * edges[number + 1]) ** 0.5)


def _padded(table: np.ndarray) -> tuple[int, np.ndarray]:
    missing = max(0, BINS_MIN - len(table))
    before = missing // 2
    return before, np.pad(table, ((before, missing - before), (0, 0)))


def _busiest_first(total: Overview) -> list[str]:
    return sorted(total.sources, key=lambda name: (-total.sources[name].records, name))
