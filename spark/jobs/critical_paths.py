"""Critical paths: for the slowest traces, attribute their time to queues, to runs, or to the time between.

The records are read twice. The first pass finds the slowest traces, by the longest of their actions. The second extracts the
longest actions of these traces; only these travel, as columns: 80 B an action. Clocks of different machines are not corrected.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ..frames import actions_of
from ..kernels.critical import Span, critical_path
from ..records.batch import ROUTE, Actions
from .batches import batch_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LENGTH: Final = ("wait", "took", "trace_high", "trace_low")
#: Fields of an action that say where it is on a path.
SPAN: Final = ("trace_high", "trace_low", "span", "parent", "start", "wait", "run", "took")
_SLOWEST: Final = "trace_high long, trace_low long, length long"
_NAMES: Final = ("component", "operation")
_SPANS: Final = ", ".join([*(f"{name} long" for name in SPAN), *(f"{name} string" for name in _NAMES)])
SCHEMA: Final = (
    "component string, operation string, traces long, actions long, queue_ns long, run_ns long, other_ns long, "
    "total_ns long, share double"
)
#: Actions kept of a trace: below a coroutine that runs for days there are millions of callees. A caller takes as long as the
#: call it awaits, so a path can lie only on the longest actions. 100 traces of so many: 100 MB in a task, at most.
SPANS_MAX: Final = 10_000

Trace = tuple[int, int]


def critical_paths(pieces: DataFrame, *, count: int = 100) -> DataFrame:
    """Attribute the time of the `count` slowest traces to components and operations, the largest part first:

    `traces` on whose critical path the operation is, and `actions` of it there. The time on the path is split into its queues
    (`queue_ns`), its run (`run_ns`), and the rest (`other_ns`: messages, and queues after a reply). `total_ns` is their sum,
    `share` its part of all. A callee's time is not counted for its caller, so shares add up to 1. Of a trace with more than
    `SPANS_MAX` actions the longest count; the time of the rest is attributed to their callers.
    """
    traces = slowest_traces(pieces, count)

    def take_out(batches: Iterator[Any]) -> Iterator[Any]:
        kept = LongestSpans()
        for actions in actions_of(batches, (*SPAN, ROUTE)):
            chosen = of_traces(actions, traces)
            if len(chosen):
                routes = [chosen.routes[number] for number in chosen[ROUTE].tolist()]
                columns = {name: chosen[name] for name in SPAN}
                named = {"component": [c for c, _ in routes], "operation": [o for _, o in routes]}
                kept.add(batch_of(_SPANS, columns | named))
        yield from kept.table().to_batches()

    def added_up(batches: Iterator[Any]) -> Iterator[Any]:
        kept = LongestSpans()
        for batch in batches:
            kept.add(batch)
        yield batch_of(SCHEMA, shares_of(kept.traces()))

    return pieces.mapInArrow(take_out, _SPANS).repartition(1).mapInArrow(added_up, SCHEMA)


def slowest_traces(pieces: DataFrame, count: int, *, with_untraced: bool = True) -> set[Trace]:
    """The `count` traces with the longest actions. Trace 0 has all actions that were recorded without a trace."""

    def find(batches: Iterator[Any]) -> Iterator[Any]:
        slowest = SlowestTraces(count)
        for actions in actions_of(batches, _LENGTH):
            if not with_untraced:
                actions = actions.where((actions["trace_high"] | actions["trace_low"]) != 0)
            slowest.add(actions)
        yield slowest.partial()

    lengths: dict[Trace, int] = {}
    for row in pieces.mapInArrow(find, _SLOWEST).collect():
        trace = row.trace_high, row.trace_low
        lengths[trace] = max(row.length, lengths.get(trace, 0))
    return set(heapq.nlargest(count, lengths, key=lambda trace: (lengths[trace], trace)))


class SlowestTraces:
    """Keeps the traces with the longest actions, measured from arrival to end."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lengths: dict[Trace, int] = {}
        self._least = -1

    def add(self, actions: Actions) -> None:
        """Take records into account; needs the fields of `_LENGTH`."""
        length = actions["wait"] + actions["took"]
        mask = length > self._least
        if not mask.any():
            return
        # In ascending order, so that the longest action of each trace is processed last.
        order = np.flatnonzero(mask)[np.argsort(length[mask], kind="stable")]
        found = zip(*(actions[name][order].tolist() for name in _LENGTH[2:]), strict=True)
        for trace, took in zip(found, length[order].tolist(), strict=True):
            self._lengths[trace] = max(took, self._lengths.get(trace, 0))
        kept = heapq.nlargest(self._count, self._lengths.items(), key=lambda item: (item[1], item[0]))
        self._lengths = dict(kept)
        if len(kept) == self._count:
            # Among traces of equal length the cut is arbitrary: they are equally slow.
            self._least = kept[-1][1]

    def partial(self) -> Any:
        """The traces kept so far, as rows of `_SLOWEST`."""
        highs, lows = ([trace[n] for trace in self._lengths] for n in (0, 1))
        return batch_of(_SLOWEST, {"trace_high": highs, "trace_low": lows, "length": list(self._lengths.values())})


class LongestSpans:
    """Keeps the `most` longest actions of each trace, waiting included."""

    def __init__(self, most: int = SPANS_MAX) -> None:
        self._most = most
        self._batches: list[pa.RecordBatch] = [batch_of(_SPANS, {name: [] for name in (*SPAN, *_NAMES)})]
        self._count = 0
        #: Number of rows at which the surplus is dropped next: it may be half of all by then.
        self._look_at = 2 * most

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows of `_SPANS` into account."""
        self._batches.append(batch)
        self._count += len(batch)
        if self._count > self._look_at:
            kept = self.table()
            self._batches, self._count = kept.to_batches(), len(kept)
            self._look_at = 2 * max(self._most, len(kept))

    def table(self) -> pa.Table:
        """The actions kept, grouped by trace."""
        table = pa.Table.from_batches(self._batches)
        high, low, span, wait, took = (
            table[name].to_numpy() for name in ("trace_high", "trace_low", "span", "wait", "took")
        )
        order = np.lexsort((span, -(wait + took), low, high))
        begins = _begins(high[order], low[order])
        ranks = np.arange(len(order)) - np.repeat(begins, np.diff([*begins, len(order)]))
        return table.take(order[ranks < self._most]).combine_chunks()

    def traces(self) -> Iterator[list[Span]]:
        """Yield one trace at a time, so that only one exists as Python objects (700 B an action)."""
        table = self.table()
        begins = _begins(table["trace_high"].to_numpy(), table["trace_low"].to_numpy())
        for begin, end in pairwise([*begins.tolist(), len(table)]):
            columns = (table[name].slice(begin, end - begin).to_pylist() for name in (*SPAN[2:], *_NAMES))
            rows = zip(*columns, strict=True)
            yield [Span._make((*times, (component, operation))) for *times, component, operation in rows]


def _begins(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Index at which each trace begins in sorted columns."""
    is_first = np.ones(len(high), dtype=bool)
    is_first[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    return np.flatnonzero(is_first)


def of_traces(actions: Actions, traces: set[Trace]) -> Actions:
    """Select the actions that belong to these traces."""
    lows = np.array(sorted({low for _, low in traces}), dtype=np.int64)
    chosen = actions.where(np.isin(actions["trace_low"], lows))
    found = zip(chosen["trace_high"].tolist(), chosen["trace_low"].tolist(), strict=True)
    return chosen.where(np.array([trace in traces for trace in found], dtype=bool))


def shares_of(traces: Iterable[list[Span]]) -> dict[str, list[Any]]:
    """Add up the critical paths of all traces, as columns of `SCHEMA`."""
    sums: dict[tuple[str, str], list[int]] = {}
    for spans in traces:
        path = critical_path(spans)
        for name in {share.name for share in path}:
            sums.setdefault(name, [0, 0, 0, 0, 0])[0] += 1
        for share in path:
            for number, amount in enumerate((1, share.queue, share.run, share.other), 1):
                sums[share.name][number] += amount
    totals = {name: sum(row[2:]) for name, row in sums.items()}
    whole = sum(totals.values())
    columns: dict[str, list[Any]] = {part.split()[0]: [] for part in SCHEMA.split(", ")}
    for name in sorted(sums, key=lambda name: (-totals[name], name)):
        values = (*name, *sums[name], totals[name], totals[name] / whole if whole else 0.0)
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return columns
