"""Frames: pieces as a DataFrame, which is what a job begins with: Spark schedules them, a kernel reads them.

One row a piece, spread so that each core gets its share and none waits for the last: `mapInArrow` over it sees rows of
(path, start, stop), which `pieces_of` turns back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from .records.pieces import Piece, pieces

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_TYPE: Final = "path: string, start: bigint, stop: bigint"
#: Tasks a core: with one, the slowest decides alone; with many, each costs its 10 ms.
TASKS_PER_CORE: Final = 3


def pieces_frame(
    spark: SparkSession,
    where: Path | str,
    *,
    since_ns: int | None = None,
    until_ns: int | None = None,
    backplanes: Collection[str] | None = None,
) -> DataFrame:
    """What there is to read in a run directory or a compacted folder. Raises `NothingRecorded`.

    Of times only whole files are judged: a kernel still has to look at `start`.
    """
    found = pieces(Path(where).absolute(), since_ns=since_ns, until_ns=until_ns, backplanes=backplanes)
    return frame_of(spark, found)


def frame_of(spark: SparkSession, found: Iterable[Piece]) -> DataFrame:
    """Pieces as rows, each partition with about as many."""
    from pyspark.sql import functions

    listed = list(found)
    tasks = max(1, min(len(listed), spark.sparkContext.defaultParallelism * TASKS_PER_CORE))
    # Dealt out like cards: neighbours are of the same time and the same size.
    dealt = [piece._asdict() for first in range(tasks) for piece in listed[first::tasks]]
    # A constant that Spark cuts up: no Python worker and no shuffle only to know what there is to do.
    all_of_them = functions.from_json(functions.lit(msgspec.json.encode(dealt).decode()), f"array<struct<{_TYPE}>>")
    numbers = spark.range(0, len(listed), 1, tasks)
    return numbers.select(all_of_them[numbers["id"]].alias("piece")).select("piece.*")


def pieces_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Piece]:
    """The pieces of a partition, in a kernel's `mapInArrow`."""
    for batch in batches:
        for row in batch.to_pylist():
            yield Piece(row["path"], row["start"], row["stop"])
