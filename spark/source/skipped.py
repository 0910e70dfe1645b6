"""Skipped: data that readers leave out, as rows, one for each file and reason.

A reader of records cannot return these counts to its caller: Spark has no way back from a task but rows. So a caller that
wants them reads everything once more with this reader; an ordinary reading only logs them in its tasks, a line a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from appbackplane.runtime.observation.segments import BadSegment

from ..records.found import Found
from ..records.messages import MessageFile
from ..records.pieces import pieces, read_all
from .batch import Pieces, grouped
from .selection import Selection
from .topics import TopicPart, parts_of

#: `records` is NULL for a file that cannot be read at all.
SCHEMA: Final = "path string, records bigint, why string"


class SkippedReader(DataSourceReader):
    """Reads all actions, or a topic, and returns only the counts of data left out."""

    def __init__(self, where: Path, topic: str | None, selection: Selection) -> None:
        self._where, self._topic, self._selection = where, topic, selection

    def partitions(self) -> Sequence[InputPartition]:
        """List the pieces, or the parts of the topic. Raises `NothingRecorded`."""
        if self._topic is not None:
            return parts_of(self._where, self._topic)
        return [Pieces(group) for group in grouped(pieces(self._where, **self._selection._asdict()))]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Runs in a task: yields (path, records, reason)."""
        found = Found()
        for _ in _all_of(partition, found, self._selection):
            pass  # `found` counts while reading
        for path, count in found.damaged.items():
            yield path, count, "damaged"
        for path, count in found.torn.items():
            yield path, count, "incomplete"
        for path, why in found.unreadable.items():
            yield path, None, why


def _all_of(partition: InputPartition, found: Found, selection: Selection) -> Iterator[object]:
    if isinstance(partition, Pieces):
        yield from read_all(partition.pieces, (), found)
    elif isinstance(partition, TopicPart) and not partition.is_empty:
        try:
            with MessageFile(partition.path) as messages:
                if selection.has_segment(messages.header):
                    yield from messages.read(partition.start, partition.stop, found)
        except BadSegment as error:
            found.unreadable[partition.path] = str(error)
