"""Frames: pieces as a DataFrame, which is what a job begins with: Spark schedules them, a kernel reads them.

One row a piece, spread so that each core gets its share and none waits for the last. The time window goes along with each,
so that whoever reads it (`actions_of`) leaves out exactly what is outside, and all jobs speak of the same records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .records.batch import Actions
from .records.found import Found
from .records.pieces import Piece, pieces, read_all
from .records.segment_file import Keep

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

#: Columns of a frame: a piece, and the time window.
_FIELDS: Final = (
    ("path", "string"), ("start", "int64"), ("stop", "int64"), ("since_ns", "int64"), ("until_ns", "int64"),
)  # fmt: skip
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
    import pyarrow as pa

    listed = list(found)
    cores = spark.sparkContext.defaultParallelism
    window = {"since_ns": since_ns, "until_ns": until_ns}
    # Dealt out like cards: neighbours are of the same time and the same size.
    dealt = [piece._asdict() | window for first in range(cores) for piece in listed[first::cores]]
    # Rows, so that each task is sent its own pieces alone; one constant would go whole to every task. Spark makes one partition
    # a core of them. A repartition costs 0.3 s, which pays once each core has half a minute of work.
    table = pa.Table.from_pylist(dealt, schema=pa.schema(_FIELDS))
    frame = spark.createDataFrame(table)
    return frame if len(listed) <= FEW_PIECES * cores else frame.repartition(TASKS_PER_CORE * cores)


def pieces_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Piece, Keep | None]]:
    """The pieces of a partition, in a kernel's `mapInArrow`, each with what keeps the records of the time window."""
    for batch in batches:
        for row in batch.to_pylist():
            yield Piece(row["path"], row["start"], row["stop"]), within(row["since_ns"], row["until_ns"])


def actions_of(
    batches: Iterable[pa.RecordBatch], fields: Sequence[str], found: Found | None = None
) -> Iterator[Actions]:
    """The records of a partition, in a kernel's `mapInArrow`. What is left out is counted in `found`."""
    found = Found() if found is None else found
    for piece, keep in pieces_of(batches):
        yield from read_all([piece], fields, found, keep)


def within(since_ns: int | None, until_ns: int | None) -> Keep | None:
    """Keeps what begins in a time window; None: all."""
    if since_ns is None and until_ns is None:
        return None
    least = -(1 << 63) if since_ns is None else since_ns
    end = (1 << 63) - 1 if until_ns is None else until_ns
    return ("start",), lambda actions: (actions["start"] >= least) & (actions["start"] < end)
