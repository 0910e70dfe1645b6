"""Traces: the slowest traces call by call, to show their waits. `jobs/critical_paths.py` sums traces up instead.

The records are read twice, as there: first to find the slowest traces, then to extract their actions. Of a trace with
thousands of calls the longest are kept, in each task and in the result.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..frames import actions_of
from ..jobs import critical_paths
from ..jobs.batches import batch_of
from ..jobs.critical_paths import SPAN, Trace, of_traces
from ..records.batch import ROUTE
from .contents import Path, Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Calls shown of a trace, and calls that a task keeps of it.
STEPS_MAX: Final = 24
KEPT_MAX: Final = 200
#: Traces examined for each one shown: most are a single action without a call, which shows only in the second reading.
CANDIDATES: Final = 20
_ROW: Final = ", ".join(f"{name} long" for name in SPAN) + ", operation string, backplane string"
_MASK: Final = (1 << 64) - 1

Row = Mapping[str, Any]


def slowest_traces(pieces: DataFrame, *, count: int = 5) -> list[Path]:
    """The traces with the longest actions, if they have at least one call; the slowest first."""
    traces = critical_paths.slowest_traces(pieces, count * CANDIDATES, with_untraced=False)

    def take_out(batches: Iterator[Any]) -> Iterator[Any]:
        kept: dict[Trace, list[Row]] = {}
        for actions in actions_of(batches, (*SPAN, ROUTE)):
            chosen = of_traces(actions, traces)
            if len(chosen):
                backplane = chosen.header.backplane if chosen.header is not None else ""
                routes = [chosen.routes[number][1] for number in chosen[ROUTE].tolist()]
                for operation, *values in zip(routes, *(chosen[name].tolist() for name in SPAN), strict=True):
                    row = dict(zip(SPAN, values, strict=True)) | {"operation": operation, "backplane": backplane}
                    kept.setdefault((row["trace_high"], row["trace_low"]), []).append(row)
                kept = {trace: longest(some, KEPT_MAX) for trace, some in kept.items()}
        found = [row for some in kept.values() for row in some]
        yield batch_of(_ROW, {name: [row[name] for row in found] for name in (*SPAN, "operation", "backplane")})

    by_trace: dict[Trace, list[Row]] = {}
    for row in pieces.mapInArrow(take_out, _ROW).toArrow().to_pylist():
        by_trace.setdefault((row["trace_high"], row["trace_low"]), []).append(row)
    paths = [path_of(trace, some) for trace, some in by_trace.items()]
    return sorted((path for path in paths if len(path.steps) > 1), key=lambda path: -path.total_ns)[:count]


def longest(some: Sequence[Row], count: int) -> list[Row]:
    """The `count` longest actions, waiting included."""
    return list(some) if len(some) <= count else heapq.nlargest(count, some, key=lambda row: row["wait"] + row["took"])


def path_of(trace: Trace, some: Sequence[Row]) -> Path:
    """Order the calls of one trace as a tree: each below its caller, by arrival."""
    kept = sorted(longest(some, STEPS_MAX), key=lambda row: (row["start"] - row["wait"], row["span"]))
    known = {row["span"] for row in kept}
    callees: dict[int, list[Row]] = {}
    roots: list[Row] = []
    for row in kept:
        is_called = row["parent"] in known and row["parent"] != row["span"]
        (callees.setdefault(row["parent"], []) if is_called else roots).append(row)
    begin_ns = min(row["start"] - row["wait"] for row in kept)
    steps: list[Step] = []
    left = [(row, 0) for row in reversed(roots)]
    while left:  # not by recursion: a chain of calls may be longer than the stack
        row, depth = left.pop()
        steps.append(
            Step(
                backplane=row["backplane"],
                operation=row["operation"],
                depth=depth,
                from_ns=row["start"] - row["wait"] - begin_ns,
                wait_ns=row["wait"],
                took_ns=row["took"],
                own_ns=row["run"],
            )
        )
        left += [(callee, depth + 1) for callee in reversed(callees.pop(row["span"], []))]
    return Path(
        trace=f"{trace[0] & _MASK:016x}{trace[1] & _MASK:016x}",
        when_ns=begin_ns,
        total_ns=max(row["start"] + row["took"] for row in kept) - begin_ns,
        calls=len(some),
        steps=steps,
    )
