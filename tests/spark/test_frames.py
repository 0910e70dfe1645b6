"""Frames: each task is sent its own pieces, as many as the others, and not those of all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from appbackplane.spark.frames import FEW_PIECES, TASKS_PER_CORE, frame_of, pieces_of
from appbackplane.spark.records.pieces import Piece

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

#: Of the session of these tests.
CORES = 2


def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    paths = [piece.path for piece, _ in pieces_of(batches)]
    yield pa.record_batch({"count": pa.array([len(paths)]), "path": pa.array([",".join(paths)])})


@pytest.mark.parametrize(
    ("count", "tasks"), [(0, 1), (1, 1), (5, CORES), (FEW_PIECES * CORES + 1, TASKS_PER_CORE * CORES)]
)
def test_each_task_is_sent_its_own_pieces(spark: SparkSession, count: int, tasks: int) -> None:
    """All of them in each task, 50,000 pieces took 5 s before the first one was read; sent like this, 0.7 s."""
    several = [Piece(f"/run/{number:05}.actions", number, number + 1) for number in range(count)]
    frame = frame_of(spark, several, since_ns=5)
    plan: Any = frame._jdf.queryExecution().executedPlan()
    assert "00000.actions" not in str(plan.toString()), "the plan, which each task gets, holds the pieces"
    rows = frame.mapInArrow(counted, "count long, path string").collect()
    assert sorted(path for row in rows for path in row.path.split(",") if path) == [piece.path for piece in several]
    assert len(rows) <= tasks
    if count:
        assert max(row["count"] for row in rows) - min(row["count"] for row in rows) <= max(1, count // (4 * tasks))


def test_the_time_window_goes_along(spark: SparkSession) -> None:
    """NULL where there is none."""
    [row] = frame_of(spark, [Piece("/a", 1, 2)], since_ns=5).collect()
    assert row.asDict() == {"path": "/a", "start": 1, "stop": 2, "since_ns": 5, "until_ns": None}
