"""Topics: recorded messages as rows, in batch and as a stream: topic, backplane, segment, index, time_ns, body and JSON.

`body` is MessagePack as published. `json` is the same as text, made only if selected: bytes as base64, NULL for values without
a form in JSON. 0.2 million rows/s a core, enough because topics carry far fewer messages than there are actions.
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
from ..records.messages import MessageFile, RecordedMessage
from ..records.pieces import NothingRecorded
from ..records.segment_file import Gone
from .lines import lines_of, topic_folders
from .rows import checked
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
#: Messages and bytes of an Arrow batch, whichever limit is reached first.
ROWS_MAX: Final = 10_000
BYTES_MAX: Final = 16 << 20

log = logging.getLogger("appbackplane.spark")


class TopicPart(InputPartition):
    """A range of messages of one file; `place`: place of the first one in the file, or 0."""

    def __init__(self, path: str, start: int, stop: int, place: int = 0) -> None:
        super().__init__(None)
        self.path, self.start, self.stop, self.place = path, start, stop, place

    @property
    def is_empty(self) -> bool:
        """Whether the range is empty; its file need not exist then."""
        return self.start == self.stop


class TopicReader(DataSourceReader):
    """Reads the messages that exist when Spark first plans a query. Defines no `pushFilters`, like `RecordsReader`."""

    def __init__(self, where: Path, schema: StructType, topic: str, selection: Selection) -> None:
        """Raises `BadSchema` for an unknown column or a wrong type."""
        TopicRows(schema)
        self._where, self._schema, self._topic, self._selection = where, schema, topic, selection

    def partitions(self) -> Sequence[InputPartition]:
        """List parts with fixed ends; Spark reuses them for all queries of the DataFrame. Raises `NothingRecorded`."""
        return parts_of(self._where, self._topic)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task: yields the rows of a partition."""
        assert isinstance(partition, TopicPart)
        return TopicRows(self._schema).of(partition, self._selection, None)


def parts_of(where: Path, topic: str) -> list[InputPartition]:
    """All messages of a topic, one part a file, with fixed ends; without messages, one empty part. Raises `NothingRecorded`."""
    if not topic_folders(where, topic):
        raise NothingRecorded(
            f'{where}: {topic!r} is not recorded; [topic."{topic}"] record = true in the system\'s file switches it on'
        )
    parts: list[InputPartition] = []
    for line in lines_of(where, topic).values():
        numbers = line.numbers()
        parts += [
            TopicPart(str(line.path(number)), 0, -1) for number in numbers[:-1]
        ]  # closed, so they will not change
        parts += [_pinned(line.path(number)) for number in numbers[-1:]]
    return parts or [
        TopicPart("", 0, 0)
    ]  # from an empty list Spark makes a partition of its own, which `read` cannot handle


def _pinned(path: Path) -> TopicPart:
    """A segment that may grow, up to its present end."""
    try:
        with MessageFile(path) as messages:
            stop = messages.sealed if messages.sealed >= 0 else messages.end(is_closed=True)[0]
    except BadSegment:
        stop = -1  # the reader will count the segment as unreadable
    return TopicPart(str(path), 0, stop)


class TopicRows:
    """Converts messages to rows of one schema."""

    def __init__(self, schema: StructType) -> None:
        """Raises `BadSchema` for an unknown column or a wrong type."""
        self._schema = checked(schema, COLUMNS)

    def of(self, part: TopicPart, selection: Selection, lost: Callable[[str], None] | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range. `lost` is called for a file that was removed; None: that is expected, and only logged."""
        if part.is_empty:
            return
        found = Found()
        try:
            with MessageFile(part.path) as messages:
                if not selection.has_segment(messages.header):
                    return
                several: list[RecordedMessage] = []
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

    def _batch(self, header: SegmentHeader, several: Sequence[RecordedMessage]) -> pa.RecordBatch:
        arrays = [pa.array(_values(field.name, header, several), field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _values(name: str, header: SegmentHeader, several: Sequence[RecordedMessage]) -> list[Any]:
    match name:
        case "index":
            return [message.number for message in several]
        case "time_ns" | "body":
            return [getattr(message, name) for message in several]
        case "json":
            return [as_json(message.body) for message in several]
        case "segment":
            return [header.number] * len(several)
        case _:
            return [getattr(header, name)] * len(several)


def as_json(body: bytes) -> str | None:
    """Convert a body to JSON text; None if it has no form in JSON."""
    try:
        return msgspec.json.encode(msgspec.msgpack.decode(body)).decode()
    except (msgspec.MsgspecError, TypeError, ValueError):
        return None
