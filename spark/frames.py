"""Frames: pieces as a DataFrame, the input of every job. Spark schedules the pieces, and a kernel reads them.

One row a piece, spread so that cores get equal shares and do not wait for a slow last one. Each row carries the time window.
The reader (`actions_of`) leaves out exactly the records outside it, so all jobs count the same records.
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

#: Columns of a frame: a piece and the time window.
_FIELDS: Final = (
    ("path", "string"), ("start", "int64"), ("stop", "int64"), ("since_ns", "int64"), ("until_ns", "int64"),
)  # fmt: skip
#: Tasks a core for large inputs: with one, the slowest decides alone; with many, each costs its 10 ms.
TASKS_PER_CORE: Final = 3
#: Up to so many pieces a core, an input is small: a second of work.
FEW_PIECES: Final = 32


def pieces_frame(
    spark: SparkSession,
    where: Path | str,
    *,
    since_ns: int | None = None,
    until_ns: int | None = None,
    backplanes: Collection[str] | None = None,
) -> DataFrame:
    """Pieces of a run directory, its `records`, or a compacted folder: path, start, stop, since_ns, until_ns.

    Holds actions that begin at `since_ns` or later, and before `until_ns` (Unix time). Raises `NothingRecorded`.
    """
    found = pieces(Path(where).absolute(), since_ns=since_ns, until_ns=until_ns, backplanes=backplanes)
    return frame_of(spark, found, since_ns=since_ns, until_ns=until_ns)


def frame_of(
    spark: SparkSession, found: Iterable[Piece], *, since_ns: int | None = None, until_ns: int | None = None
) -> DataFrame:
    """Pieces as rows, about equally many in each partition."""
    import pyarrow as pa

    listed = list(found)
    cores = spark.sparkContext.defaultParallelism
    window = {"since_ns": since_ns, "until_ns": until_ns}
    # Dealt out round-robin, because neighbouring pieces are of similar time and size.
    dealt = [piece._asdict() | window for first in range(cores) for piece in listed[first::cores]]
    # Rows, so that each task is sent only its own pieces; a constant would be sent whole to every task. Spark makes one
    # partition a core of them. A repartition costs 0.3 s, which pays once each core has half a minute of work.
    table = pa.Table.from_pylist(dealt, schema=pa.schema(_FIELDS))
    frame = spark.createDataFrame(table)
    return frame if len(listed) <= FEW_PIECES * cores else frame.repartition(TASKS_PER_CORE * cores)


def pieces_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Piece, Keep | None]]:
    """Pieces of a partition, in a kernel's `mapInArrow`, each with a filter for the time window (None: all)."""
    for batch in batches:
        for row in batch.to_pylist():
            yield Piece(row["path"], row["start"], row["stop"]), within(row["since_ns"], row["until_ns"])


def actions_of(
    batches: Iterable[pa.RecordBatch], fields: Sequence[str], found: Found | None = None
) -> Iterator[Actions]:
    """Records of a partition, in a kernel's `mapInArrow`. Records left out are counted in `found`."""
    found = Found() if found is None else found
    for piece, keep in pieces_of(batches):
        yield from read_all([piece], fields, found, keep)


def within(since_ns: int | None, until_ns: int | None) -> Keep | None:
    """Filter for actions that begin in the time window; None: no limit is set."""
    if since_ns is None and until_ns is None:
        return None
    least = -(1 << 63) if since_ns is None else since_ns
    end = (1 << 63) - 1 if until_ns is None else until_ns
    return ("start",), lambda actions: (actions["start"] >= least) & (actions["start"] < end)
