"""Batch: the reader of records for `spark.read`: partitions of pieces, Arrow batches of some ten thousand rows.

The reader travels to the tasks pickled, so it holds plain data; a task makes its own objects. A row of all columns costs 0.75
us, three quarters of it in the JVM, which receives it by a socket and converts it; a row of three columns 0.35.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from appbackplane.runtime.observation.segments import RECORD_BYTES, BadSegment

from ..records.found import Found
from ..records.pieces import PARQUET_SUFFIX, PIECE_RECORDS, NothingRecorded, Piece, pieces, read
from ..records.pinned import pinned
from ..records.segment_file import Gone
from .rows import Rows
from .selection import Selection

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

log = logging.getLogger("appbackplane.spark")


class Pieces(InputPartition):
    """The pieces that one task reads."""

    def __init__(self, several: Sequence[Piece]) -> None:
        super().__init__(None)
        self.pieces = tuple(several)


class RecordsReader(DataSourceReader):
    """Reads the records that exist when Spark first plans a query of the DataFrame.

    Defines no `pushFilters`: the filter of one query would stay for the next (selection.py).
    """

    def __init__(self, where: Path, schema: StructType, selection: Selection) -> None:
        """Raises `BadSchema` for an unknown column or a wrong type."""
        Rows(schema)
        self._where, self._schema, self._selection = where, schema, selection

    def partitions(self) -> Sequence[InputPartition]:
        """List pieces with fixed ends; Spark reuses them for all queries of the DataFrame. Raises `NothingRecorded`."""
        found = Found()
        several = pinned(pieces(self._where, **self._selection._asdict()), found)
        if any(piece.path.endswith(PARQUET_SUFFIX) for piece in several):
            raise NothingRecorded(
                f"{self._where} is compacted: read it with spark.read.parquet, it has the same columns"
            )
        for line in found.lines():
            log.warning("%s", line)
        return [Pieces(group) for group in grouped(several)] or [Pieces(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task: yields the rows of a partition."""
        assert isinstance(partition, Pieces)
        return rows_of(partition.pieces, self._schema, self._selection)


def grouped(found: Sequence[Piece], records: int = PIECE_RECORDS) -> list[list[Piece]]:
    """Group pieces for tasks in order, each group up to `records` records."""
    groups: list[list[Piece]] = []
    held = records
    for piece in found:
        size = piece.stop - piece.start if piece.stop >= 0 else _capacity(piece)
        if held + size > records:
            groups.append([])
            held = 0
        groups[-1].append(piece)
        held += size
    return groups


def rows_of(
    several: Sequence[Piece], schema: StructType, selection: Selection, lost: Callable[[str], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some pieces. Unreadable data are reported in the log of the task, a line a file.

    `lost` is called for a file that was removed; None: only log it.
    """
    rows = Rows(schema)
    keep = selection.keep
    found = Found()
    for piece in several:
        try:
            for actions in read(piece, rows.fields, found, keep):
                if len(actions) and selection.has_segment(actions.header):
                    yield rows.of(actions)
        except BadSegment as error:
            found.unreadable[piece.path] = str(error)
            if lost is not None and isinstance(error, Gone):
                lost(f"{piece.path} {error}")
    for line in found.lines():
        log.warning("%s", line)


def _capacity(piece: Piece) -> int:
    try:
        return Path(piece.path).stat().st_size // RECORD_BYTES
    except OSError:
        return 0  # the file is gone, which its reader will count
