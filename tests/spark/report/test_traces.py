"""Traces: the slowest that are told are chains of calls, whatever else was slow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the extra is not installed: pip install 'appbackplane[spark]'")

import pyarrow as pa

from appbackplane.spark.records.pieces import pieces
from appbackplane.spark.report.traces import slowest_traces

from ..made import EPOCH_NS, words_of, write_actions


class Frame:
    """Of pieces, as Spark hands it to a kernel; here in one task."""

    def __init__(self, where: Path) -> None:
        window = {"since_ns": None, "until_ns": None}
        self._batch = pa.RecordBatch.from_pylist([piece._asdict() | window for piece in pieces(where)])

    def mapInArrow(self, kernel: Callable[[Iterator[Any]], Iterator[Any]], schema: str) -> Any:
        table = pa.Table.from_batches(kernel(iter([self._batch])))

        class Answer:
            def collect(self) -> list[Any]:
                return [type("Row", (), row) for row in table.to_pylist()]

            def toArrow(self) -> Any:
                return table

        return Answer()


def test_actions_that_call_nobody_hide_no_trace(tmp_path: Path) -> None:
    """A timer that runs for a second, each second, is the slowest of all; what is asked for here is who waited for whom."""
    alone, count = 10, 12
    spans = np.arange(count) + 1
    columns = {
        "start": EPOCH_NS + np.arange(count), "wait": 0, "run": 10, "span": spans,
        "took": [10**9] * alone + [10**6, 10**5], "trace_low": [*range(1, alone + 1), 11, 11],
        "parent": [0] * (alone + 1) + [11],
    }  # fmt: skip
    write_actions(tmp_path, "a", 1, words_of(count, columns), [("c", "c.work")], sealed=True)
    told = slowest_traces(Frame(tmp_path), count=5)  # type: ignore[arg-type]
    assert [(path.trace, path.calls) for path in told] == [(f"{11:032x}", 2)]
