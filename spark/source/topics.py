"""Topics: recorded messages as rows, in batch and as a stream: topic, backplane, segment, index, time_ns, body and JSON.

`body` is MessagePack as it was published; `json` is the same as text, made only when it is asked for: bytes as base64, NULL
for what JSON cannot say. 0.2 million rows/s a core: a topic is a conversation, not a flood.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from appbackplane.runtime.observation.segments import BadSegment, SegmentHeader

from ..records.found import Found
from ..records.messages import Message, MessageFile
from ..records.pieces import NothingRecorded
from ..records.segment_file import Gone
from .lines import lines_of, topic_folders
from .rows import check
from .selection import Selection

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

COLUMNS: Final = {
    "topic": "string",
    "backplane": "string",
    "segment": "bigint",
    "index": "bigint",
    "time_ns": "bigint",
    "body": "binary",
    "json": "string",
}
SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
#: Messages of a batch, and bytes: whichever is reached first.
ROWS_MAX: Final = 10_000
BYTES_MAX: Final = 16 << 20

log = logging.getLogger("appbackplane.spark")


class TopicPart(InputPartition):
    """A range of messages of one file; `place`: where in it the first is, if that is known."""

    def __init__(self, path: str, start: int, stop: int, place: int = 0) -> None:
        super().__init__(None)
        self.path, self.start, self.stop, self.place = path, start, stop, place

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read: its file need not be there, either."""
        return self.start == self.stop


class TopicReader(DataSourceReader):
    """Reads what is recorded of a topic when Spark first plans a query of the DataFrame. Defines no `pushFilters`, as
    `RecordsReader`.
    """

    def __init__(self, where: Path, schema: StructType, topic: str, selection: Selection) -> None:
        """Raises `BadSchema`."""
        TopicRows(schema)
        self._where, self._schema, self._topic, self._selection = where, schema, topic, selection

    def partitions(self) -> Sequence[InputPartition]:
        """Spark keeps them for all queries of the DataFrame, so their ends are fixed here. Raises `NothingRecorded`."""
        return parts_of(self._where, self._topic)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task."""
        assert isinstance(partition, TopicPart)
        return TopicRows(self._schema).of(partition, self._selection, None)


def parts_of(where: Path, topic: str) -> list[InputPartition]:
    """All that is recorded of a topic, a part a file, each with its end; an empty part if it has had no message.

    Raises `NothingRecorded` for one that is not recorded.
    """
    if not topic_folders(where, topic):
        raise NothingRecorded(
            f'{where}: {topic!r} is not recorded; [topic."{topic}"] record = true in the system\'s file switches it on'
        )
    parts: list[InputPartition] = []
    for line in lines_of(where, topic).values():
        numbers = line.numbers()
        parts += [TopicPart(str(line.path(number)), 0, -1) for number in numbers[:-1]]  # these do not change any more
        parts += [_pinned(line.path(number)) for number in numbers[-1:]]
    return parts or [TopicPart("", 0, 0)]  # of none at all Spark makes one, and has nothing to tell its reader


def _pinned(path: Path) -> TopicPart:
    """All of a segment that may grow, up to where it ends now."""
    try:
        with MessageFile(path) as messages:
            stop = messages.sealed if messages.sealed >= 0 else messages.end(is_closed=True)[0]
    except BadSegment:
        stop = -1  # its reader counts it
    return TopicPart(str(path), 0, stop)


class TopicRows:
    """Makes rows of messages, by one schema."""

    def __init__(self, schema: StructType) -> None:
        """Raises `BadSchema`."""
        from pyspark.sql.pandas.types import to_arrow_schema

        check(schema, COLUMNS)
        self._schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")

    def of(self, part: TopicPart, selection: Selection, lost: Callable[[str], None] | None) -> Iterator[pa.RecordBatch]:
        """The rows of a range. `lost` is called for a file that was removed; None: that is expected, and only logged."""
        if part.is_empty:
            return
        found = Found()
        try:
            with MessageFile(part.path) as messages:
                if not selection.has_segment(messages.header):
                    return
                several: list[Message] = []
                size = 0
                for message in messages.read(part.start, part.stop, found, part.place):
                    if not selection.has_message(message):
                        continue
                    several.append(message)
                    size += len(message.body)
                    if len(several) >= ROWS_MAX or size >= BYTES_MAX:
                        yield self._batch(messages.header, several)
                        several, size = [], 0
                if several:
                    yield self._batch(messages.header, several)
        except BadSegment as error:
            found.unreadable[part.path] = str(error)
            if lost is not None and isinstance(error, Gone):
                lost(f"{part.path} {error}")
        for line in found.lines():
            log.warning("%s", line)

    def _batch(self, header: SegmentHeader, several: Sequence[Message]) -> pa.RecordBatch:
        arrays = [pa.array(_values(field.name, header, several), field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _values(name: str, header: SegmentHeader, several: Sequence[Message]) -> list[Any]:
    match name:
        case "index":
            return [message.number for message in several]
        case "time_ns":
            return [message.time_ns for message in several]
        case "body":
            return [message.body for message in several]
        case "json":
            return [as_json(message.body) for message in several]
        case "segment":
            return [header.number] * len(several)
        case _:
            return [getattr(header, name)] * len(several)


def as_json(body: bytes) -> str | None:
    """A body as text; None for what JSON cannot say."""
    try:
        return msgspec.json.encode(msgspec.msgpack.decode(body)).decode()
    except (msgspec.MsgspecError, TypeError, ValueError):
        return None
