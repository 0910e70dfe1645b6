"""Parquet: files that `pipeline compact` has written, read as the same `Actions` as the segments that they were made of.

Their columns are those of the data source. The headers of the segments stand in the metadata of the file, under `HEADERS`,
so that a backplane's limits are known here, too. Rows of several backplanes in one group are taken apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from appbackplane.runtime.observation.segments import BadSegment, SegmentHeader

from .batch import COLUMN_OF, Actions
from .found import Found

if TYPE_CHECKING:
    import pyarrow as pa

    from .segment_file import Keep

#: Metadata of the file: the headers of its segments, a JSON list.
HEADERS: Final = b"appbackplane.headers"
#: Whose a row is.
WHOSE: Final = ("node", "backplane", "generation", "segment")
#: Columns of strings that are read as numbers and words.
WORDS: Final = ("node", "backplane", "component", "object", "operation")
#: Rows decoded at a time.
ROWS: Final = 65_536


def ranges(
    path: Path | str,
    rows: int,
    since_ns: int | None = None,
    until_ns: int | None = None,
    backplanes: Collection[str] | None = None,
) -> list[tuple[int, int]]:
    """Ranges of about `rows` rows, of whole row groups whose statistics do not rule them out. Raises `BadSegment`."""
    with _opened(path) as file:
        found: list[tuple[int, int]] = []
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
    """Rows `start` to before `stop` (-1: all), of one backplane's segment at a time. Raises `BadSegment`."""
    import pyarrow as pa

    wanted = list(dict.fromkeys([*fields, *(keep[0] if keep else ())]))
    with _opened(path) as file:
        present = set(file.schema_arrow.names)
        columns = [COLUMN_OF.get(name, name) for name in wanted]
        if missing := [name for name in columns if name not in present]:
            raise BadSegment(f"has no column {missing[0]}: it was not made by pipeline compact")
        if {"operation", "object"} & set(wanted):
            columns.append("component")
        columns += [name for name in WHOSE if name in present and name not in columns]
        headers = _headers(file)
        try:
            at = 0
            for number in range(file.metadata.num_row_groups):
                first, at = at, at + file.metadata.row_group(number).num_rows
                if at <= start or 0 <= stop <= first:
                    continue
                low, high = max(start - first, 0), (at if stop < 0 else min(stop, at)) - first
                for batch in _batches(file, number, columns, low, high):
                    for rows in apart(batch):
                        actions = Actions.from_arrow(rows, wanted)
                        actions.header = _header(headers, rows) or actions.header
                        found.records += len(actions)
                        if keep is not None:
                            mask = keep[1](actions.columns)
                            actions.columns = {name: actions.columns[name] for name in fields}
                            actions = actions.where(mask)
                        yield actions
        except (OSError, pa.ArrowException) as error:
            raise BadSegment(f"is damaged: {_line(error)}") from error


def apart(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows of each backplane's segment for themselves, in their order."""
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


def _batches(file: Any, group: int, columns: Sequence[str], low: int, high: int) -> Iterator[pa.RecordBatch]:
    at = 0
    for batch in file.iter_batches(batch_size=ROWS, row_groups=[group], columns=list(columns)):
        first, at = at, at + batch.num_rows
        if at > low and first < high:
            yield batch.slice(max(0, low - first), min(at, high) - max(first, low))


def _opened(path: Path | str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, read_dictionary=list(WORDS))
    except FileNotFoundError as error:
        raise BadSegment("is gone: it was removed since it was found") from error
    except (OSError, pa.ArrowException) as error:
        raise BadSegment(f"is no Parquet file that can be read: {_line(error)}") from error


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


def _is_dictionary(column: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_dictionary(column.type))


def _headers(file: Any) -> Mapping[tuple[str, int], SegmentHeader]:
    told = (file.schema_arrow.metadata or {}).get(HEADERS)
    if not told:
        return {}
    try:
        headers = msgspec.json.decode(told, type=list[SegmentHeader])
    except msgspec.MsgspecError as error:
        raise BadSegment(f"has metadata that say something else: {error}") from error
    return {(header.backplane, header.number): header for header in headers}


def _header(headers: Mapping[tuple[str, int], SegmentHeader], rows: pa.RecordBatch) -> SegmentHeader | None:
    if not headers or not rows.num_rows or "segment" not in rows.schema.names:
        return None
    return headers.get((rows.column("backplane")[0].as_py(), rows.column("segment")[0].as_py()))


def _may_hold(group: Any, since_ns: int | None, until_ns: int | None, backplanes: Collection[str] | None) -> bool:
    """Whether a row group may hold what is asked for, by the least and the greatest values that its footer tells."""
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
