"""Gathering: run the jobs, several at a time, and convert their answers to the rows of `contents.py`.

Planning a job is small work for the driver, and running it large work for the tasks. Run one after the other, jobs would leave
cores idle at the end of each. So each job is run by a thread of its own, and Spark shares its cores among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..advice.advise import advise_all
from ..advice.gather import windows
from ..advice.survey import slice_for, surveys
from ..frames import frame_of
from ..jobs.critical_paths import critical_paths
from ..jobs.deadlines import deadlines
from ..jobs.inversions import inversions
from ..jobs.operation_statistics import operation_statistics
from ..jobs.slow_actions import slow_actions
from ..jobs.throughput import throughput
from ..records.found import Found
from ..records.pieces import pieces
from ..records.pinned import pinned
from .contents import (
    BackplaneLoad,
    Contents,
    Culprit,
    Heat,
    Inversion,
    Miss,
    OperationSummary,
    ProposedChange,
    Slow,
    TimeSeries,
)
from .overview import BUCKETS, Overview, RecordSource, edges_ns, overview
from .traces import slowest_traces

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ..progress import StepProgress

#: Smallest number of bins in a plot, so that a single action shows as a mark and not as a wall.
BINS_MIN: Final = 24
#: Jobs at a time: one is planned while another runs. More took as long (two cores, 8 questions), and more memory.
AT_A_TIME: Final = 2
#: Number of slow actions in the report.
SLOW_MAX: Final = 50
_ERRORS, _MISSED = BUCKETS + 2, BUCKETS + 3
_SERIES: Final = ("busy", "cpu", "waiting")

Question = Callable[[], Any]


def gathered(
    spark: SparkSession, where: Path, progress: StepProgress, *, since_ns: int | None, made_ns: int, by: str
) -> Contents:
    """Compute all contents of a report on the records in `where`. Raises `NothingRecorded`."""
    found = Found()
    several = pinned(pieces(where, since_ns=since_ns), found)
    frame = frame_of(spark, several, since_ns=since_ns)
    progress.step("reading what was recorded")
    total = overview(frame)
    total.found.add(found)
    asked = questions(frame, total)
    answers: dict[str, Any] = {}
    if total.sources:
        pool = ThreadPoolExecutor(AT_A_TIME, "question")
        try:
            promised = {name: pool.submit(question) for name, question in asked.items()}
            for name, answer in promised.items():
                progress.step(name)
                answers[name] = answer.result()
        finally:  # after Ctrl-C, too: the answers are not needed any more
            pool.shutdown(wait=False, cancel_futures=True)
    return contents(where, total, answers, made_ns=made_ns, by=by, since_ns=since_ns)


def questions(frame: DataFrame, total: Overview) -> dict[str, Question]:
    """The jobs, by the name that the progress bar shows; the longest first."""
    begin_ns, table = total.table()
    shown = begin_ns, begin_ns + len(table) * total.width_ns
    return {
        "advice": lambda: advise_all(windows(surveys(frame, slice_for(total.first_ns, total.last_ns)))),
        "operations": lambda: rows(operation_statistics(frame)),
        "utilisation": lambda: rows(throughput(frame, step_ns=total.width_ns, within=shown)),
        "deadlines": lambda: rows(deadlines(frame)),
        "inversions": lambda: rows(inversions(frame)),
        "slow actions": lambda: rows(slow_actions(frame, count=SLOW_MAX, by="took")),
        "critical paths": lambda: rows(critical_paths(frame)),
        "slowest traces": lambda: slowest_traces(frame),
    }


#: Steps of the progress bar: the overview, and the questions above.
STEPS: Final = 9


def contents(
    where: Path,
    total: Overview,
    answers: Mapping[str, Any],
    *,
    made_ns: int,
    by: str,
    since_ns: int | None = None,
) -> Contents:
    """Build the contents from the answers, by name of the question; a missing answer leaves its part empty."""
    _, table = total.table()
    latencies = table[:, :BUCKETS].sum(axis=0)
    names = names_of(total)
    series = _series(total, answers.get("utilisation", []))
    timeline = [line_of(total, whose, name, series) for whose, name in names.items()]
    advice = answers.get("advice")
    return Contents(
        system=all_of({system for one in total.sources.values() for system in one.systems}) or where.name,
        where=str(where),
        made_ns=made_ns,
        by=by,
        since_ns=since_ns,
        first_ns=total.first_ns,
        last_ns=total.last_ns,
        records=int(latencies.sum()),
        skipped=list(total.found.lines()),
        skipped_records=total.found.skipped,
        latency_p50_ns=percentile(latencies, 0.5),
        latency_p99_ns=percentile(latencies, 0.99),
        backplanes=[backplane_of(total, whose, line) for whose, line in zip(names, timeline, strict=True)],
        heat=heat_of(total),
        timeline=timeline,
        operations=[OperationSummary(**row) for row in answers.get("operations", [])],
        misses=[_picked(Miss, row) for row in answers.get("deadlines", []) if row["missed"]],
        inversions=[_picked(Inversion, row) for row in answers.get("inversions", [])],
        slow=[_picked(Slow, row, when_ns=row["start_ns"]) for row in answers.get("slow actions", [])],
        culprits=[_picked(Culprit, row) for row in answers.get("critical paths", [])],
        paths=answers.get("slowest traces", []),
        advice=[] if advice is None else [_advice(item) for item in advice.items],
        notes=[*_mixed(total), *([] if advice is None else advice.notes)],
        patch="" if advice is None else advice.patch,
    )


def all_of(names: Iterable[str]) -> str:
    """Join names for people: "a, b and c"."""
    *most, last = sorted(names) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def _mixed(total: Overview) -> Iterator[str]:
    """Notes on backplanes of several systems with equal names: their figures cannot be separated."""
    for whose, source in sorted(total.sources.items()):
        if len(source.systems) > 1:
            yield (
                f"{whose} is a backplane of {all_of(source.systems)}: their actions are counted together, and advice is of no "
                "worth; give the run directory of one of them"
            )


def rows(answer: DataFrame) -> list[dict[str, Any]]:
    """Collect an answer as dictionaries; jobs return few rows."""
    found: list[dict[str, Any]] = answer.toArrow().to_pylist()
    return found


def names_of(total: Overview) -> dict[str, str]:
    """Name to show for each backplane, the busiest first; with the node only if there are several nodes."""
    order = sorted(total.sources, key=lambda whose: (-total.sources[whose].records, whose))
    is_several = len({source.node for source in total.sources.values()}) > 1
    return {whose: whose if is_several else total.sources[whose].backplane or whose for whose in order}


def heat_of(total: Overview) -> Heat:
    """Latency over time for all backplanes, padded to at least `BINS_MIN` bins of time."""
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


def line_of(total: Overview, whose: str, name: str, series: Mapping[tuple[str, str], np.ndarray]) -> TimeSeries:
    """One backplane over the bins of the heat map."""
    _, table = _padded(total.table(whose)[1])
    counts = table[:, :BUCKETS]
    nothing = np.zeros(len(counts))
    busy, cpu, waiting = (_padded(series.get((whose, column), nothing)[:, None])[1][:, 0] for column in _SERIES)
    return TimeSeries(
        backplane=name,
        rate=(counts.sum(axis=1) * (1e9 / total.width_ns)).tolist(),
        p99_ns=[percentile(row, 0.99) for row in counts],
        busy=busy.tolist(),
        cpu=cpu.tolist(),
        waiting=waiting.tolist(),
    )


def backplane_of(total: Overview, whose: str, line: TimeSeries) -> BackplaneLoad:
    """Figures of one backplane over the whole time."""
    source: RecordSource = total.sources[whose]
    _, table = total.table(whose)
    bins = max(1, len(table))
    sums = table.sum(axis=0)
    lasted_ns = max(1_000_000_000, total.last_ns - total.first_ns)
    return BackplaneLoad(
        name=line.backplane,
        node=source.node,
        records=source.records,
        generations=len(source.generations),
        rate=source.records * 1e9 / lasted_ns,
        threads=source.limits.get("threads"),
        cpu_limit=source.limits.get("cpu_limit"),
        busy=sum(line.busy) / bins,
        busy_max=max(line.busy, default=0.0),
        cpu=sum(line.cpu) / bins,
        cpu_max=max(line.cpu, default=0.0),
        waiting=sum(line.waiting) / bins,
        waiting_max=max(line.waiting, default=0.0),
        errors=int(sums[_ERRORS]),
        missed=int(sums[_MISSED]),
    )


def percentile(counts: np.ndarray, rank: float) -> float | None:
    """Percentile from bins of latency: the middle of its bin, so at most 20 % off; None if there are no counts."""
    below = np.cumsum(counts)
    if not below[-1]:
        return None
    number = int(np.searchsorted(below, rank * (below[-1] - 1), side="right"))
    edges = edges_ns()
    return float((edges[number] * edges[number + 1]) ** 0.5)


def _series(total: Overview, slots: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], np.ndarray]:
    """One value for each bin, by backplane and column. Slots behind the last bin (actions that end later) are left out."""
    begin_ns, table = total.table()
    found: dict[tuple[str, str], np.ndarray] = {}
    for slot in slots:
        number = (slot["time_ns"] - begin_ns) // total.width_ns
        if 0 <= number < len(table):
            for column in _SERIES:
                key = (f"{slot['backplane']}@{slot['node']}", column)
                found.setdefault(key, np.zeros(len(table)))[number] = slot[column] or 0.0
    return found


def _padded(table: np.ndarray) -> tuple[int, np.ndarray]:
    missing = max(0, BINS_MIN - len(table)) if len(table) else 0
    before = missing // 2
    return before, np.pad(table, ((before, missing - before), (0, 0)))


def _picked(kind: Any, row: Mapping[str, Any], **more: Any) -> Any:
    """Build a row of type `kind` from the equally named columns of a job's row."""
    known = kind.__struct_fields__
    return kind(**{name: value for name, value in row.items() if name in known} | more)


def _advice(item: Any) -> ProposedChange:
    return ProposedChange(
        target=item.target, key=item.key, old=item.old, new=item.new, evidence=item.evidence, figure=item.figure,
        now_ms=item.now, predicted_ms=item.predicted, error=item.error,
    )  # fmt: skip
