"""Stream: the reader for `spark.readStream`, of records as they are written. Offsets are positions, so a repeated batch is
equal.

`latestOffset` chooses the end of a micro-batch, by the records written and the rows wanted; `partitions` names the ranges;
tasks read them. If retention removes records before they are read, the query ends with a one-line error (failOnDataLoss, the
default), or logs the loss and goes on; so too if a run directory was emptied and recorded anew. A new backplane, and a new
generation of one, is read from its begin.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from appbackplane.runtime.observation.segments import RECORDS
from appbackplane.transport.errors import FailedPrecondition

from ..offsets import BEGIN, EARLIEST, LATEST, BadOffsets, Position, packed, shares, unpacked, wanted
from ..records.pieces import PIECE_RECORDS, Piece, nothing_in
from .batch import Pieces, grouped, rows_of
from .lines import BackplaneActions, last_of, lines_of, missing, ranges, walk
from .rows import Rows
from .selection import ALL
from .topics import TopicPart, TopicRows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

log = logging.getLogger("appbackplane.spark")

#: Remedy for the author of a query.
REMEDY: Final = "option failOnDataLoss=false continues with the records that are left"


class DataLoss(FailedPrecondition):
    """Records were removed before they were read. One line, with the remedy."""


class StreamOptions(NamedTuple):
    """Options of a streaming query."""

    starting: str = EARLIEST
    records_max: int | None = None
    is_loss_fatal: bool = True
    topic: str | None = None
    #: Selected backplanes; None: all.
    backplanes: frozenset[str] | None = None


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of one query. Lives beside the driver; only `read` runs in tasks."""

    def __init__(self, where: Path, schema: StructType, options: StreamOptions) -> None:
        """Raises `BadSchema`, and `BadOffsets` for an invalid startingOffsets."""
        (Rows if options.topic is None else TopicRows)(schema)
        self._where, self._schema, self._options = where, schema, options
        self._starting = wanted(options.starting)
        #: Lines with their known ends, kept from one batch to the next.
        self._lines: dict[str, BackplaneActions] = {}
        self._initial: dict[str, Position] | None = None
        #: Losses already logged, if they are not fatal.
        self._losses: set[str] = set()
        #: With Trigger.AvailableNow: the ends when the query began.
        self._target: dict[str, Position] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """State for a task, without the driver's caches."""
        return self.__dict__ | {"_lines": {}, "_initial": None, "_target": None}

    # -- beside the driver -----------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Offset at which a new query begins. Raises `NothingRecorded`, `BadOffsets`."""
        if self._initial is None:
            lines = self._look()
            if not lines and not (self._where / RECORDS).is_dir() and self._where.name != RECORDS:
                raise nothing_in(self._where)
            said = self._starting if isinstance(self._starting, dict) else dict.fromkeys(lines, self._starting)
            if unknown := sorted(set(said) - set(lines)):
                raise BadOffsets(
                    f"startingOffsets names {unknown[0]!r}: recorded are {', '.join(sorted(lines)) or 'none'}"
                )
            self._initial = {name: _begin(line, said.get(name, EARLIEST)) for name, line in lines.items()}
        return packed(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Limit from the option maxRecordsPerTrigger."""
        records_max = self._options.records_max
        return ReadAllAvailable() if records_max is None else ReadMaxRows(records_max)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the present ends as the ends of this query."""
        self._target = {name: last_of(line) for name, line in self._look().items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """End of the next micro-batch. Raises `DataLoss`."""
        began = unpacked(start)
        lines = self._look()
        target = self._target
        if target is not None:
            lines = {name: line for name, line in lines.items() if name in target}
        begins = {name: self._from(name, line, began.get(name, BEGIN)) for name, line in lines.items()}
        until: Mapping[str, Position | None] = dict.fromkeys(lines) if target is None else target
        if isinstance(limit, ReadMaxRows):
            most = limit.max_rows
            available = {name: walk(line, begins[name], most, until[name]).records for name, line in lines.items()}
            taken: Mapping[str, int | None] = shares(available, most)
        else:
            taken = dict.fromkeys(lines)
        # A line without new records keeps its position, or stays absent: a changed offset would start a micro-batch.
        walked = {name: walk(line, begins[name], taken[name], until[name]) for name, line in lines.items()}
        reached = {name: to for name, (to, records) in walked.items() if records or name in began}
        return packed(began | reached)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Parts of a micro-batch for its tasks. Raises `DataLoss`."""
        began, lines = unpacked(start), self._look()
        found: list[Piece] = []
        topics: list[InputPartition] = []
        for name, to in unpacked(end).items():
            since = began.get(name, BEGIN)
            if since == to or not self._is_selected(name):
                continue
            line = lines.get(name)
            if line is None:
                self._lose(f"{name}: its records are gone, from segment {since.segment} on")
                continue
            since = self._from(name, line, since)
            if line.is_other(to):
                self._lose(f"{name}: {_other(to)}")
                continue
            if gone := missing(line, since, to):
                self._lose(f"{name}: {_segments(gone)} removed before it was read")
            for number, low, high in ranges(line, since, to):
                if self._options.topic is not None:
                    topics.append(TopicPart(str(line.path(number)), low, high, line.place(number, low)))
                    continue
                cuts = range(low, high, PIECE_RECORDS) if high >= 0 else [low]
                found += [line.piece(number, at, min(at + PIECE_RECORDS, high)) for at in cuts]
        return topics or [Pieces(group) for group in grouped(found)]

    # -- in a task -------------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition."""
        lost: Callable[[str], None] | None = self._lose if self._options.is_loss_fatal else None
        if isinstance(partition, TopicPart):
            return TopicRows(self._schema).of(partition, ALL, lost)
        assert isinstance(partition, Pieces)
        return rows_of(partition.pieces, self._schema, ALL, lost)

    # -- inside ----------------------------------------------------------------------------------------------------------

    def _look(self) -> dict[str, BackplaneActions]:
        found = lines_of(self._where, self._options.topic)
        self._lines = {name: self._lines.get(name, line) for name, line in found.items() if self._is_selected(name)}
        return self._lines

    def _is_selected(self, line: str) -> bool:
        """Whether a line, "BACKPLANE" or "BACKPLANE/TOPIC", is of a selected backplane."""
        backplanes = self._options.backplanes
        return backplanes is None or line.partition("/")[0] in backplanes

    def _from(self, name: str, line: BackplaneActions, at: Position) -> Position:
        """Position at which a line goes on: its first segment, if it was read further in a recording that no longer exists."""
        numbers = line.numbers()
        if not numbers:
            return at
        if line.is_other(at):
            problem = _other(at)
        elif at.segment <= numbers[-1] or (at.record == 0 and at.segment == numbers[-1] + 1):
            return at
        else:
            problem = f"segment {at.segment} was read, but segments end at {numbers[-1]}: they were removed by hand"
        self._lose(f"{name}: {problem}")
        line.forget()
        return line.first()

    def _lose(self, what: str) -> None:
        if self._options.is_loss_fatal:
            raise DataLoss(f"{self._where}: {what}; {REMEDY}")
        if what not in self._losses:  # reported once, though checked at both ends of a batch
            self._losses.add(what)
            log.warning(
                "%s: %s; continuing with the records that are left (loss %d)", self._where, what, len(self._losses)
            )


_AT: Final[dict[str, Callable[[BackplaneActions], Position]]] = {
    EARLIEST: BackplaneActions.first,
    LATEST: last_of,
}


def _begin(line: BackplaneActions, said: Position | str) -> Position:
    if isinstance(said, Position):
        return said if said.created_ns else line.dated(said)
    return _AT[said](line)


def _other(at: Position) -> str:
    return f"segment {at.segment} belongs to a new recording; the one read up to {at} was removed"


def _segments(numbers: list[int]) -> str:
    return f"segment {numbers[0]} was" if len(numbers) == 1 else f"{len(numbers)} segments from {numbers[0]} on were"
