"""Frames: what there is to read as a small DataFrame, a row a piece, from which every job begins.

The time window goes along with each piece, so that whoever reads it leaves out exactly what is outside, and all jobs that
are asked about the same frame speak of the same records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .records.batch import Actions
from .records.found import Found
from .records.pieces import Piece, pieces, read_all
from .records.segment_file import Keep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Pieces of a task at most, if there are more than there are cores: some seconds of work, so that one that fails, or a
#: worker that is slow, costs no more.
PIECES_A_TASK: Final = 32


def pieces_frame(
    spark: SparkSession,
    where: Path | str,
    *,
    since_ns: int | None = None,
    until_ns: int | None = None,
    backplanes: Collection[str] | None = None,
) -> DataFrame:
    """What there is to read in a run directory, its `records`, or a folder of compacted Parquet; `since_ns` to before
    `until_ns`, Unix time of the start. Columns: path, start, stop, since_ns, until_ns. Raises `NothingRecorded`.
    """
    found = pieces(where, since_ns=since_ns, until_ns=until_ns, backplanes=backplanes)
    return frame_of(spark, found, since_ns=since_ns, until_ns=until_ns)


def frame_of(
    spark: SparkSession, several: Sequence[Piece], *, since_ns: int | None = None, until_ns: int | None = None
) -> DataFrame:
    """The same of pieces that were found before."""
    import pyarrow as pa

    cores = spark.sparkContext.defaultParallelism
    # A frame of a table has a partition a core, of rows that follow each other; pieces of one size shall not.
    spread = [piece for first in range(cores) for piece in several[first::cores]]
    table = pa.table(
        {
            "path": pa.array([piece.path for piece in spread], pa.string()),
            "start": pa.array([piece.start for piece in spread], pa.int64()),
            "stop": pa.array([piece.stop for piece in spread], pa.int64()),
            "since_ns": pa.array([since_ns] * len(spread), pa.int64()),
            "until_ns": pa.array([until_ns] * len(spread), pa.int64()),
        }
    )
    frame = spark.createDataFrame(table)
    tasks = -(-len(spread) // PIECES_A_TASK)
    return frame.repartition(tasks) if tasks > cores else frame


def actions_of(batches: Iterator[Any], fields: Sequence[str], found: Found | None = None) -> Iterator[Actions]:
    """What a task of a job reads: the records of the pieces in its batches. What is left out is counted in `found`."""
    found = Found() if found is None else found
    for batch in batches:
        for row in batch.to_pylist():
            keep = within(row["since_ns"], row["until_ns"])
            yield from read_all([Piece(row["path"], row["start"], row["stop"])], fields, found, keep)


def within(since_ns: int | None, until_ns: int | None) -> Keep | None:
    """Keeps what starts in a time window; None: all."""
    if since_ns is None and until_ns is None:
        return None
    least = -(1 << 63) if since_ns is None else since_ns
    end = (1 << 63) - 1 if until_ns is None else until_ns
    return ("start",), lambda actions: (actions["start"] >= least) & (actions["start"] < end)
