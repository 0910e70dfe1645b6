"""Segment file: read one segment of actions as columns, each record checked, even while it is written.

The writer appends one record after the other. So an invalid record before a valid one was complete by the time the valid one
was written: it is read once more before it counts as damaged. Invalid data at the end of an unsealed segment is its present
end. One core checks 50 million records/s; building the columns costs as much again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from appbackplane.runtime.observation.segments import (
    FIELDS,
    HEADER_BYTES,
    NAMES_END,
    RECORD_BYTES,
    SALT,
    SHIFTED,
    WORDS,
    BadSegment,
    Field,
    SegmentHeader,
    unpack_header,
    unpack_names,
)

from .batch import INDEX, NAMELESS, ROUTE, Actions
from .found import Found
from .routes import RouteNumbers

#: Records read at a time: 5 MB. Arrow batches of this size cost least in Spark, and more would not stay in the cache.
CHUNK: Final = 49_152

#: A seal above this is damaged: a segment of 1 GiB, the largest possible, holds fewer records or messages.
SEALED_MAX: Final = 1 << 26

#: Fields that are indices of names.
_NAMED: Final = ("operation", "object")

#: A filter: the fields that it needs, and a function from these to a mask of wanted records.
Keep = tuple[Sequence[str], Callable[[Actions], np.ndarray]]


class SegmentFile:
    """An open segment. `with SegmentFile(path) as segment`."""

    def __init__(self, path: Path | str) -> None:
        """Raises `BadSegment` if the file is no segment of actions."""
        self.path = os.fspath(path)
        self._file = opened(self.path)
        try:
            self.header, self.sealed = self._look()
        except BadSegment:
            os.close(self._file)
            raise
        self._names: list[tuple[str, str]] = []
        self._routes = RouteNumbers()

    def __enter__(self) -> SegmentFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    @property
    def capacity(self) -> int:
        """Number of records for which the file has room."""
        return max(0, os.fstat(self._file).st_size - NAMES_END) // RECORD_BYTES

    def end(self) -> int:
        """Index behind the last record, at present: the seal, or else the end of the last valid record, even behind damage."""
        self.header, self.sealed = self._look()
        if self.sealed >= 0:
            return self.sealed
        stop = self.capacity
        while stop > 0:
            start = max(0, stop - CHUNK)
            valid = is_valid(self._words(start, stop), start)
            if valid.any():
                return start + len(valid) - int(valid[::-1].argmax())
            stop = start
        return 0

    def end_after(self, start: int) -> int:
        """Like `end`, but reads only records from `start`. Damage of more than `CHUNK` records ends it."""
        self.header, self.sealed = self._look()
        if self.sealed >= 0:
            return self.sealed
        found = start
        while True:
            valid = is_valid(self._words(found, found + CHUNK), found)
            if not valid.any():
                return found
            found += len(valid) - int(valid[::-1].argmax())

    def last_end_ns(self) -> int | None:
        """Time at which the last action of a sealed segment ended, by the recorder's clock; None: unknown."""
        words = self._words(self.sealed - 1, self.sealed) if self.sealed > 0 else None
        if words is None or not len(words) or not is_valid(words, self.sealed - 1)[0]:
            return None
        return int(column(words, FIELDS["start"])[0] + column(words, FIELDS["took"])[0])

    def is_torn(self, end: int) -> bool:
        """Whether a record was begun at `end`, the end of the records."""
        return self.sealed < 0 and bool(self._words(end, end + 1).any())

    def read(
        self, start: int, stop: int, fields: Sequence[str], found: Found, keep: Keep | None = None
    ) -> Iterator[Actions]:
        """Yield the valid records from `start` to before `stop` (-1: `end`), a `CHUNK` at a time.

        All records before `stop` were written before this call, so an invalid one is damaged.
        """
        last = stop
        if stop < 0:
            last = self.end()
            if self.is_torn(last):
                found.torn[self.path] = 1
        at = start
        while at < last:
            words = self._words(at, min(at + CHUNK, last))
            if not len(words):
                break
            valid = is_valid(words, at)
            skipped = len(words) - int(np.count_nonzero(valid))
            found.note_damaged(self.path, skipped)
            positions = np.arange(at, at + len(words))
            if skipped:
                words, positions = words[valid], positions[valid]
            found.records += len(words)
            if len(words) or skipped:
                yield self._actions(words, positions, fields, keep, skipped)
            at += len(valid)
        found.note_damaged(self.path, max(0, last - at))

    def _actions(
        self, words: np.ndarray, positions: np.ndarray, fields: Sequence[str], keep: Keep | None, skipped: int
    ) -> Actions:
        if keep is not None:
            needs, mask_of = keep
            mask = mask_of(Actions(*self._columns(words, positions, needs), self.header))
            if not mask.all():
                words, positions = words[mask], positions[mask]
        if ROUTE not in fields:
            return Actions(*self._columns(words, positions, fields), self.header, skipped)
        whole = dict.fromkeys([*(name for name in fields if name != ROUTE), *_NAMED])
        columns, names = self._columns(words, positions, list(whole))
        columns[ROUTE] = self._routes.of(columns["operation"], columns["object"], names)
        return Actions({name: columns[name] for name in fields}, names, self.header, skipped, self._routes.names)

    def _columns(
        self, words: np.ndarray, positions: np.ndarray, fields: Sequence[str]
    ) -> tuple[dict[str, np.ndarray], list[tuple[str, str]]]:
        columns = {name: positions if name == INDEX else column(words, FIELDS[name]) for name in fields}
        names: list[tuple[str, str]] = []
        numbers = [columns[name] for name in _NAMED if name in columns]
        if numbers:
            names = self.names(1 + max((int(each.max()) for each in numbers if len(each)), default=-1))
            for each in numbers:
                # Numbers without a name get the last one, `NAMELESS`.
                np.copyto(each, len(names) - 1, where=(each < 0) | (each >= len(names)))
        return columns, names

    def names(self, count: int = 0) -> list[tuple[str, str]]:
        """(component, name) by number, followed by `NAMELESS`. The list grows; it is read again if `count` names are needed."""
        if not self._names or len(self._names) <= count:
            self._names = [*unpack_names(read_at(self._file, HEADER_BYTES, NAMES_END - HEADER_BYTES)), NAMELESS]
        return self._names

    def _look(self) -> tuple[SegmentHeader, int]:
        header, sealed = unpack_header(read_at(self._file, 0, HEADER_BYTES))
        if header.kind != "actions":
            raise BadSegment(f"holds {header.kind}, not actions")
        size = os.fstat(self._file).st_size
        if size < NAMES_END:
            raise BadSegment(f"is cut off: {size} bytes are less than its names take")
        if not 0 <= sealed <= SEALED_MAX:
            return header, -1
        if sealed < self.capacity and is_valid(self._words(sealed, sealed + 1), sealed)[0]:
            return header, -1  # the seal is damaged: there are records behind it
        return header, sealed

    def _words(self, start: int, stop: int) -> np.ndarray:
        """Read records as an array (count, 13); fewer at the end of the file."""
        data = read_at(self._file, NAMES_END + start * RECORD_BYTES, (stop - start) * RECORD_BYTES)
        return np.frombuffer(data, dtype="<i8", count=len(data) // RECORD_BYTES * WORDS).reshape(-1, WORDS)


class Gone(BadSegment):
    """The file was removed since it was found."""

    def __init__(self) -> None:
        super().__init__("was removed since it was found")


def opened(path: str) -> int:
    """Open for reading; returns the descriptor. Raises `BadSegment`."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise Gone from error
    except OSError as error:
        raise BadSegment(f"cannot be read: {error.strerror}") from error


def read_at(file: int, offset: int, length: int) -> bytes:
    """Read up to `length` bytes; fewer at the end of the file. Never by mmap: truncating a mapped file kills its readers."""
    parts = []
    try:
        while length > 0 and (part := os.pread(file, length, offset)):
            parts.append(part)
            offset += len(part)
            length -= len(part)
    except OSError as error:
        raise BadSegment(f"cannot be read: {error.strerror}") from error
    return parts[0] if len(parts) == 1 else b"".join(parts)


def is_valid(words: np.ndarray, start: int) -> np.ndarray:
    """Mask of the records with a correct checksum; `start`: index of the first."""
    expected = np.arange(start, start + len(words)) ^ SALT
    found = np.bitwise_xor.reduce(words, axis=1)
    unsigned = words.view(np.uint64)
    for word, bits in SHIFTED:
        found ^= (unsigned[:, word] >> np.uint64(bits)).view(np.int64)
    valid: np.ndarray = found == expected
    return valid


def column(words: np.ndarray, field: Field) -> np.ndarray:
    """Copy one field of all records: int64 if it is a whole word, bool if it is one bit, else int32."""
    if field.bits == 64:
        whole: np.ndarray = words[:, field.word].copy()
        return whole
    byte = field.word * 8 + field.shift // 8
    if field.bits > 8:
        half: np.ndarray = words.view("<i4")[:, byte // 4] & np.int32((1 << min(field.bits, 31)) - 1)
        return half
    values = words.view("u1")[:, byte] & np.uint8((1 << field.bits) - 1)
    return values.astype(np.bool_ if field.bits == 1 else np.int32)
