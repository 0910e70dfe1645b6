"""Parquet: read files written by `pipeline compact` as the same `Actions` as the original segments.

The columns are those of the data source. The file's metadata holds the segments' headers (`HEADERS`), which give a backplane's
limits, and the rows of each segment (`ROWS`), so that the columns that identify a row's segment need not be read. A file
without `ROWS` is split row by row.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import numpy as np

from appbackplane.runtime.observation.segments import BadSegment, SegmentHeader

from .batch import COLUMN_OF, ROUTE, Actions
from .found import Found

if TYPE_CHECKING:
    import pyarrow as pa

    from .segment_file import Keep

_T = TypeVar("_T")
#: Metadata of the file: the headers of its segments, a JSON list.
HEADERS: Final = b"appbackplane.headers"
#: Metadata of the file: operation to component, a JSON object, if each operation is one component's.
COMPONENTS: Final = b"appbackplane.components"
#: Columns that identify the segment of a row.
WHOSE: Final = ("node", "backplane", "generation", "segment")
#: Columns of strings, read as dictionaries.
WORDS: Final = ("node", "backplane", "component", "object", "operation")
#: Metadata of the file: number of consecutive rows of each segment in `HEADERS`, a JSON list.
ROWS: Final = b"appbackplane.rows"
#: Rows decoded at a time.
BATCH_ROWS: Final = 65_536


def ranges(
    path: Path | str,
    rows: int,
    since_ns: int | None = None,
    until_ns: int | None = None,
    backplanes: Collection[str] | None = None,
) -> list[tuple[int, int]]:
    """Ranges of about `rows` rows: whole row groups that their statistics do not rule out. Raises `BadSegment`."""
    with _opened(path) as file:
        found: list[tuple[int, int]] = []
        headers = _headers(file)
        if backplanes is not None and headers and not any(header.backplane in backplanes for header in headers):
            return []
        at = 0
        for number in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(number)
            start, at = at, at + group.num_rows
            if not _may_hold(group, since_ns, until_ns, backplanes):
                continue
            if found and found[-1][1] == start and at - found[-1][0] <= rows:
                found[-1] = (found[-1][0], at)
            else:
                found.append((start, at))
        return found


def read(
    path: str, start: int, stop: int, fields: Sequence[str], found: Found, keep: Keep | None = None
) -> Iterator[Actions]:
    """Yield rows `start` to before `stop` (-1: all), of one backplane's segment at a time. Raises `BadSegment`."""
    import pyarrow as pa

    wanted = list(dict.fromkeys([*fields, *(keep[0] if keep else ())]))
    with _opened(path) as file:
        present = set(file.schema_arrow.names)
        component_of = _told(file, COMPONENTS, dict[str, str])
        columns = [COLUMN_OF.get(name, name) for name in wanted if name != ROUTE]
        if ROUTE in wanted and "operation" not in columns:
            columns.append("operation")
        if {"operation", "object"} & set(wanted) or (ROUTE in wanted and component_of is None):
            columns.append("component")
        if missing := [name for name in columns if name not in present]:
            raise BadSegment(f"has no column {missing[0]}: it was not made by pipeline compact")
        headers = _headers(file)
        ends = _ends(file, headers)
        if not ends:
            columns += [name for name in WHOSE if name in present and name not in columns]
        try:
            for first, batch in _batches(file, columns, start, stop):
                for rows, header in _cut(batch, first, ends, headers) if ends else _apart(batch, headers):
                    actions = Actions.from_arrow(rows, wanted, component_of)
                    actions.header = header or actions.header
                    found.records += len(actions)
                    if keep is not None:
                        mask = keep[1](actions)
                        actions.columns = {name: actions.columns[name] for name in fields}
                        actions = actions.where(mask)
                    yield actions
        except (OSError, pa.ArrowException) as error:
            raise BadSegment(f"is damaged: {_line(error)}") from error


def apart(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split rows by segment, keeping their order."""
    keys = [name for name in WHOSE if name in batch.schema.names]
    number = np.zeros(batch.num_rows, dtype=np.int64)
    for name in keys:
        column = batch.column(name)
        codes = column if _is_dictionary(column) else column.dictionary_encode()
        number = number * (len(codes.dictionary) + 1) + codes.indices.to_numpy(zero_copy_only=False)
    if not len(number) or (number == number[0]).all():
        yield batch
        return
    order = np.argsort(number, kind="stable")
    ends = np.flatnonzero(np.diff(number[order])) + 1
    for part in np.split(order, ends):
        yield batch.take(part)


def _apart(batch: pa.RecordBatch, headers: Sequence[SegmentHeader]) -> Iterator[tuple[pa.RecordBatch, Any]]:
    by_number = {(header.backplane, header.number): header for header in headers}
    for rows in apart(batch):
        has_number = headers and rows.num_rows and "segment" in rows.schema.names
        number = (rows.column("backplane")[0].as_py(), rows.column("segment")[0].as_py()) if has_number else None
        yield rows, by_number.get(number) if number else None


def _cut(
    batch: pa.RecordBatch, first: int, ends: Sequence[int], headers: Sequence[SegmentHeader]
) -> Iterator[tuple[pa.RecordBatch, SegmentHeader]]:
    """Split rows by segment, using the known `ends`; `first`: index in the file of the batch's first row."""
    at = first
    for number in range(bisect.bisect_right(ends, first), len(ends)):
        until = min(ends[number], first + batch.num_rows)
        if at < until:
            yield batch.slice(at - first, until - at), headers[number]
        at = until
        if at == first + batch.num_rows:
            return


def _batches(file: Any, columns: Sequence[str], start: int, stop: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield rows `start` to before `stop` in batches, each with the index in the file of its first row."""
    first = 0
    for group in range(file.metadata.num_row_groups):
        end = first + file.metadata.row_group(group).num_rows
        if end > start and not 0 <= stop <= first:
            at = first
            # One thread for each column would disturb the other tasks.
            for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=list(columns), use_threads=False):
                low, high = max(start - at, 0), batch.num_rows if stop < 0 else min(stop - at, batch.num_rows)
                if low < high:
                    yield at + low, batch.slice(low, high - low)
                at += batch.num_rows
        first = end


def _opened(path: Path | str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        footer = pq.read_metadata(path)
        words = [name for name in WORDS if name in footer.schema.names]
        # Safe to map: a file under its final name is complete and never changes.
        return pq.ParquetFile(path, metadata=footer, read_dictionary=words, memory_map=True)
    except FileNotFoundError as error:
        raise BadSegment("was removed since it was found") from error
    except (OSError, pa.ArrowException) as error:
        raise BadSegment(f"is not a readable Parquet file: {_line(error)}") from error


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


def _is_dictionary(column: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_dictionary(column.type))


def _headers(file: Any) -> list[SegmentHeader]:
    return _told(file, HEADERS, list[SegmentHeader]) or []


def _ends(file: Any, headers: Sequence[SegmentHeader]) -> list[int]:
    """Row of the file at which each segment ends; empty if the metadata does not cover all rows."""
    ends = list(accumulate(_told(file, ROWS, list[int]) or []))
    return ends if len(ends) == len(headers) and ends and ends[-1] == file.metadata.num_rows else []


def _told(file: Any, key: bytes, kind: type[_T]) -> _T | None:
    told = (file.metadata.metadata or {}).get(key)
    try:
        return msgspec.json.decode(told, type=kind) if told else None
    except msgspec.MsgspecError as error:
        raise BadSegment(f"has metadata that do not match: {error}") from error


def _may_hold(group: Any, since_ns: int | None, until_ns: int | None, backplanes: Collection[str] | None) -> bool:
    """Whether a row group may hold wanted rows, by the minima and maxima in its footer."""
    for number in range(group.num_columns):
        column = group.column(number)
        told = column.statistics
        if told is None or not told.has_min_max:
            continue
        if column.path_in_schema == "start_ns":
            if (since_ns is not None and told.max < since_ns) or (until_ns is not None and told.min >= until_ns):
                return False
        elif (
            column.path_in_schema == "backplane"
            and backplanes is not None
            and not any(told.min <= name <= told.max for name in backplanes)
        ):
            return False
    return True
