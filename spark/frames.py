"""Frames: pieces as a DataFrame, which is what a job begins with: Spark schedules them, a kernel reads them.

One row a piece, spread so that each core gets its share and none waits for the last. The time window goes along with each,
so that whoever reads it (`actions_of`) leaves out exactly what is outside, and all jobs speak of the same records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from .records.batch import Actions
from .records.found import Found
from .records.pieces import Piece, pieces, read_all
from .records.segment_file import Keep

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_TYPE: Final = "path: string, start: bigint, stop: bigint, since_ns: bigint, until_ns: bigint"
#: Tasks a core, where there is much to do: with one, the slowest decides alone; with many, each costs its 10 ms.
TASKS_PER_CORE: Final = 3
#: Pieces a core that are little: a second of work.
FEW_PIECES: Final = 32


def pieces_frame(
    spark: SparkSession,
    where: Path | str,
    *,
    since_ns: int | None = None,
    until_ns: int | None = None,
    backplanes: Collection[str] | None = None,
) -> DataFrame:
    """What there is to read in a run directory, its `records`, or a compacted folder: actions that began at `since_ns` or
    later, and before `until_ns` (Unix time). Columns: path, start, stop, since_ns, until_ns. Raises `NothingRecorded`.
    """
    found = pieces(Path(where).absolute(), since_ns=since_ns, until_ns=until_ns, backplanes=backplanes)
    return frame_of(spark, found, since_ns=since_ns, until_ns=until_ns)


def frame_of(
    spark: SparkSession, found: Iterable[Piece], *, since_ns: int | None = None, until_ns: int | None = None
) -> DataFrame:
    """Pieces as rows, each partition with about as many."""
    from pyspark.sql import functions

    listed = list(found)
    cores = spark.sparkContext.defaultParallelism
    tasks = max(1, min(len(listed), cores * (TASKS_PER_CORE if len(listed) > FEW_PIECES * cores else 1)))
    window = {"since_ns": since_ns, "until_ns": until_ns}
    # Dealt out like cards: neighbours are of the same time and the same size.
    dealt = [piece._asdict() | window for first in range(tasks) for piece in listed[first::tasks]]
    # A constant that Spark cuts up: no Python worker and no shuffle only to know what there is to do.
    all_of_them = functions.from_json(functions.lit(msgspec.json.encode(dealt).decode()), f"array<struct<{_TYPE}>>")
    numbers = spark.range(0, len(listed), 1, tasks)
    return numbers.select(all_of_them[numbers["id"]].alias("piece")).select("piece.*")


def pieces_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Piece]:
    """The pieces of a partition, in a kernel's `mapInArrow`."""
    for batch in batches:
        for row in batch.to_pylist():
            yield Piece(row["path"], row["start"], row["stop"])


def actions_of(
    batches: Iterable[pa.RecordBatch], fields: Sequence[str], found: Found | None = None
) -> Iterator[Actions]:
    """The records of a partition, in a kernel's `mapInArrow`. What is left out is counted in `found`."""
    found = Found() if found is None else found
    for batch in batches:
        for row in batch.to_pylist():
            keep = within(row["since_ns"], row["until_ns"])
            yield from read_all([Piece(row["path"], row["start"], row["stop"])], fields, found, keep)


def within(since_ns: int | None, until_ns: int | None) -> Keep | None:
    """Keeps what begins in a time window; None: all."""
    if since_ns is None and until_ns is None:
        return None
    least = -(1 << 63) if since_ns is None else since_ns
    end = (1 << 63) - 1 if until_ns is None else until_ns
    return ("start",), lambda actions: (actions["start"] >= least) & (actions["start"] < end)
