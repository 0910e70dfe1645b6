"""Compacted: write ranges of segments as Parquet, one file for each day. Independent of Spark; see `../compaction.py`.

The output depends on the ranges alone, and a file appears whole, under a name made of the ranges, or not at all. So an
interrupted group is written again without a row more or less. Rows keep their order. Times and ids are stored as differences,
words by dictionary, all in zstd: 20 to 30 bytes a row instead of 104. Cost: 0.6 us a row.
"""

from __future__ import annotations

import datetime
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from appbackplane.runtime.observation.segments import FIELDS, NO_DEADLINE, BadSegment, SegmentHeader

from .batch import COLUMN_OF, INDEX, ROUTE, Actions
from .found import Found
from .parquet import COMPONENTS, HEADERS, ROWS
from .segment_file import SegmentFile

_WORDS: Final = pa.dictionary(pa.int32(), pa.string())
#: Columns of the data source, with the smallest integer types. The backplane is not a column: the folder name (and the
#: metadata) holds it, in the form that Spark, DuckDB and pandas read, and it must not occur twice.
SCHEMA: Final = pa.schema(
    [(COLUMN_OF[name], pa.int64()) for name in ("start", "wait", "run", "cpu", "took", "margin")]
    + [(name, _WORDS) for name in ("node", "component", "object", "operation")]
    + [("generation", pa.int32())]
    + [(name, pa.int16()) for name in ("priority", "effective", "lane", "outcome")]
    + [("boosted", pa.bool_())]
    + [(name, pa.int64()) for name in ("trace_high", "trace_low", "span", "parent")]
    + [("segment", pa.int32()), (INDEX, pa.int32())]
)
#: Stored as differences of successive values. Times of random length, too, decode four times as fast as plain ones in zstd.
_PACKED: Final = {
    name: "DELTA_BINARY_PACKED"
    for name in (*COLUMN_OF.values(), "trace_high", "trace_low", "span", "parent", INDEX)
}  # fmt: skip
_BY_DICTIONARY: Final = [name for name in SCHEMA.names if name not in _PACKED and name != "boosted"]
#: Level 1 packs 1.9 million rows/s on a core; level 6 saves 3 % more and takes three times as long.
_LEVEL: Final = 1
#: Rows of a row group, the unit that one task or thread decodes, and that its footer can rule out. 60 MB while it is written.
GROUP_ROWS: Final = 1 << 19
_DAY_NS: Final = 86_400 * 10**9
_FIELDS: Final = (*FIELDS, ROUTE, INDEX)


class SegmentRange(msgspec.Struct, frozen=True):
    """Records `start` to before `stop` of one segment."""

    path: str
    number: int
    created_ns: int
    start: int
    stop: int


class Group(msgspec.Struct, frozen=True):
    """Parts of segments of one backplane, in their order, that become one file for each day."""

    backplane: str
    parts: tuple[SegmentRange, ...]

    @property
    def name(self) -> str:
        """Base name of its files, unique among groups: a segment with the same number has another time of creation."""
        first, last = self.parts[0], self.parts[-1]
        return f"{first.number:08d}.{first.start}-{last.number:08d}.{last.stop}-{first.created_ns:x}"


class WrittenGroup(msgspec.Struct):
    """Result of writing a group."""

    name: str
    backplane: str
    #: Rows of each existing file of the group, by path below the target.
    rows: dict[str, int] = {}
    #: Number of damaged records, which were left out.
    damaged: int = 0
    #: Segments that could not be read, and why; retention may have removed them.
    unreadable: dict[str, str] = {}


def write(group: Group, to: Path) -> WrittenGroup:
    """Write the missing files of a group. Raises OSError if the target cannot be written."""
    written, found = WrittenGroup(group.name, group.backplane), Found()
    days: dict[int, _DayFile] = {}
    try:
        for part in group.parts:
            try:
                _write_part(part, group, to, days, found)
            except BadSegment as error:
                written.unreadable[part.path] = str(error)
        for day in sorted(days):
            days[day].finish()
            written.rows[str(days[day].path.relative_to(to))] = days[day].rows
    finally:
        for file in days.values():
            file.abandon()
    written.damaged = found.skipped
    return written


def _write_part(part: SegmentRange, group: Group, to: Path, days: dict[int, _DayFile], found: Found) -> None:
    with SegmentFile(part.path) as segment:
        if segment.header.created_ns != part.created_ns:
            raise BadSegment("is another one now, under the same name")
        for actions in segment.read(part.start, part.stop, _FIELDS, found):
            for day, of_day in _by_day(actions):
                if day not in days:
                    days[day] = _DayFile(to, day, group)
                days[day].add(of_day)


def _by_day(actions: Actions) -> Iterator[tuple[int, Actions]]:
    days = actions["start"] // _DAY_NS
    if len(days) and (days == days[0]).all():
        yield int(days[0]), actions
        return
    for day in np.unique(days).tolist():
        yield day, actions.where(days == day)


class _DayFile:
    """A group's rows of one day. Readers ignore its temporary name until it is complete."""

    def __init__(self, to: Path, day: int, group: Group) -> None:
        date = datetime.date(1970, 1, 1) + datetime.timedelta(days=day)
        folder = to / f"date={date}" / f"backplane={quote(group.backplane, safe='')}"
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{group.name}.parquet"
        self.rows = 0
        self._temporary = folder / f".{group.name}.{secrets.token_hex(4)}.tmp"
        self._headers: list[SegmentHeader] = []
        self._counts: list[int] = []
        self._components: dict[str, str] = {}
        self._is_ambiguous = False
        self._kept: list[Any] = []
        self._kept_rows = 0
        self._writer: Any = pq.ParquetWriter(
            self._temporary, SCHEMA, compression="zstd", compression_level=_LEVEL, use_dictionary=_BY_DICTIONARY,
            column_encoding=_PACKED, store_schema=False,
        )  # fmt: skip

    def add(self, actions: Actions) -> None:
        """Append rows of one segment."""
        assert actions.header is not None, "records of a segment have its header"
        if not self._headers or self._headers[-1] != actions.header:
            self._headers.append(actions.header)
            self._counts.append(0)
        self._counts[-1] += len(actions)
        for number in np.flatnonzero(np.bincount(actions[ROUTE], minlength=len(actions.routes))).tolist():
            component, operation = actions.routes[number]
            self._is_ambiguous |= self._components.setdefault(operation, component) != component
        self._kept.append(as_batch(actions, actions.header))
        self._kept_rows += len(actions)
        if self._kept_rows >= GROUP_ROWS:
            self._flush()

    def finish(self) -> None:
        """Complete the file and give it its final name.

        An existing file is kept: it has the same rows, or more if a segment has been removed since.
        """
        self._flush()
        self.rows = sum(self._counts)
        told: dict[bytes, object] = {HEADERS: self._headers, ROWS: self._counts}
        if not self._is_ambiguous:
            told[COMPONENTS] = self._components
        self._writer.add_key_value_metadata({key: msgspec.json.encode(value) for key, value in told.items()})
        self._writer.close()
        if self.path.exists():
            self.rows = pq.read_metadata(self.path).num_rows
            return
        with self._temporary.open("rb") as file:
            os.fsync(file.fileno())  # the segment may be removed as soon as this file has its final name
        os.rename(self._temporary, self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def abandon(self) -> None:
        """Remove the temporary file; a finished file stays."""
        self._writer.close()
        self._temporary.unlink(missing_ok=True)

    def _flush(self) -> None:
        if self._kept:
            table = pa.Table.from_batches(self._kept).unify_dictionaries()
            self._writer.write_table(table, row_group_size=self._kept_rows)
            self._kept, self._kept_rows = [], 0


def as_batch(actions: Actions, header: SegmentHeader) -> pa.RecordBatch:
    """Convert records with all fields to rows of `SCHEMA`."""
    said = {
        "node": header.node,
        "backplane": header.backplane,
        "generation": header.generation,
        "segment": header.number,
    }
    arrays = []
    for field in SCHEMA:
        name = _FIELD_OF.get(field.name, field.name)
        if name == "node":
            array = pa.DictionaryArray.from_arrays(np.zeros(len(actions), np.int32), pa.array([header.node]))
        elif name in said:
            array = pa.array(np.full(len(actions), said[name], field.type.to_pandas_dtype()))
        elif name == "component":
            array = _words(actions[ROUTE], [component for component, _ in actions.routes])
        elif name in ("operation", "object"):
            array = _words(actions[name], [word for _, word in actions.names])
        elif name == "margin":
            array = pa.array(actions[name], mask=actions[name] == NO_DEADLINE)
        else:
            array = pa.array(actions[name].astype(field.type.to_pandas_dtype(), copy=False))
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


_FIELD_OF: Final = {column: field for field, column in COLUMN_OF.items()}


def _words(numbers: np.ndarray, words: list[str]) -> Any:
    """Encode with a dictionary of the occurring words only; otherwise every row group would hold all names."""
    found = np.flatnonzero(np.bincount(numbers, minlength=len(words)))
    place = np.zeros(len(words), dtype=np.int32)
    place[found] = np.arange(len(found), dtype=np.int32)
    return pa.DictionaryArray.from_arrays(
        pa.array(place[numbers]), pa.array([words[n] for n in found.tolist()], pa.string())
    )
