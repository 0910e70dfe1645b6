"""Log reader: the lines of a log folder, the last ones first, or from an instant on, or as they come.

Reads files and calls no process, so it is as quick when every backplane is busy, or none runs. From the end it reads blocks
backwards, and skips those in which no line can match; it finds an instant by bisection. A follower ends a file before it
begins the next: files have numbers and are never written again, so no line is missed or shown twice.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from appbackplane.runtime.observation.log_line import LogLine, decode

from .filter import LogFilter, may_match
from .folder import name_of, numbers

#: Read at once: a file in a few steps, and a line in a fraction of a millisecond.
BLOCK_BYTES = 1 << 20
#: Lines are written in the order in which rings were read: a full ring, or a stopped supervisor, brings old ones late. A search
#: by time allows for this much disorder, and for no more.
DISORDER = timedelta(seconds=10)
#: Longest line; a follower that reads this much without a newline does not read a log.
_PARTIAL_BYTES_MAX = 1 << 20

#: A raw line, and its decoded form; None: it cannot be decoded.
Found = tuple[bytes, LogLine | None]


class LogPosition(NamedTuple):
    """A position between two lines: the number of a file, and an offset in it."""

    number: int
    offset: int


def end_of(folder: Path) -> LogPosition:
    """Position behind the last whole line."""
    for number in reversed(numbers(os.listdir(folder))):
        with suppress(FileNotFoundError), open(folder / name_of(number), "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            begin = max(0, size - BLOCK_BYTES)
            return LogPosition(number, begin + os.pread(file.fileno(), size - begin, begin).rfind(b"\n") + 1)
    return LogPosition(0, 0)


def start_of(folder: Path, since: datetime) -> LogPosition:
    """Position before the first line that may be of that time."""
    present = numbers(os.listdir(folder))
    number = present[_first_since(folder, present, since)] if present else 0
    with suppress(FileNotFoundError), open(folder / name_of(number), "rb", buffering=0) as file:
        return LogPosition(number, _offset_since(file.fileno(), os.fstat(file.fileno()).st_size, since))
    return LogPosition(number, 0)


def last(folder: Path, wanted: LogFilter, count: int, end: LogPosition) -> list[Found]:
    """The last `count` lines before `end` that match, the oldest first."""
    found: deque[Found] = deque()
    marks = wanted.marks()
    for number in reversed(numbers(os.listdir(folder))):
        if number > end.number:
            continue
        for block in _blocks_backwards(folder / name_of(number), end.offset if number == end.number else None):
            if not may_match(block, marks):
                if wanted.since is not None and _is_before(block, wanted.since):
                    return list(found)
                continue
            for raw in reversed(block.split(b"\n")):
                if len(found) >= count:
                    return list(found)
                if not raw or not may_match(raw, marks):
                    continue
                line = decode(raw)
                if line is not None and wanted.since is not None and line.time < wanted.since - DISORDER:
                    return list(found)
                if _is_wanted(line, wanted):
                    found.appendleft((raw, line))
    return list(found)


class LogReader:
    """Goes forward from a place in a log."""

    def __init__(self, folder: Path, wanted: LogFilter, begin: LogPosition) -> None:
        self._folder, self._wanted, self._marks = folder, wanted, wanted.marks()
        self._file = -1
        self._number, self._rest = 0, b""
        #: Files that rotation removed before they were read.
        self.missed_count = 0
        self._open(begin.number)
        if self._file >= 0:
            os.lseek(self._file, begin.offset, os.SEEK_SET)

    def read(self) -> list[Found]:
        """Matching lines that are written by now; [] when there are no more."""
        while True:
            data = os.read(self._file, BLOCK_BYTES) if self._file >= 0 else b""
            if data:
                *raws, self._rest = (self._rest + data).split(b"\n")
                if len(self._rest) > _PARTIAL_BYTES_MAX:
                    self._rest = b""
                if found := list(self._matching(raws)):
                    return found
            elif not self._next():
                return []

    def close(self) -> None:
        """Close the file that is being read."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _matching(self, raws: list[bytes]) -> Iterator[Found]:
        for raw in raws:
            if raw and may_match(raw, self._marks):
                line = decode(raw)
                if _is_wanted(line, self._wanted):
                    yield raw, line

    def _next(self) -> bool:
        """Whether reading goes on: in this file, which its successor's start may have ended later, or in the next, now open."""
        present = [number for number in numbers(os.listdir(self._folder)) if number > self._number]
        if not present:
            return False
        # It may have been written between our last read and the creation of its successor.
        if self._file >= 0 and os.fstat(self._file).st_size > os.lseek(self._file, 0, os.SEEK_CUR):
            return True
        if self._number:
            self.missed_count += present[0] - self._number - 1
        self._open(present[0])
        return True

    def _open(self, number: int) -> None:
        self.close()
        self._number, self._rest = number, b""
        with suppress(FileNotFoundError):  # removed by rotation meanwhile: the next one is tried
            self._file = os.open(self._folder / name_of(number), os.O_RDONLY | os.O_CLOEXEC)


def _is_wanted(line: LogLine | None, wanted: LogFilter) -> bool:
    return wanted == LogFilter() if line is None else wanted.matches(line)


def _blocks_backwards(path: Path, end: int | None) -> Iterator[bytes]:
    """Blocks of whole lines, about a megabyte each, backwards from `end`; None: from the end of the file."""
    with suppress(FileNotFoundError), open(path, "rb", buffering=0) as file:
        end = os.fstat(file.fileno()).st_size if end is None else end
        rest = b""
        while end > 0:
            begin = max(0, end - BLOCK_BYTES)
            data = os.pread(file.fileno(), end - begin, begin) + rest
            if begin == 0:
                yield data
                return
            cut = data.find(b"\n") + 1
            rest, whole = (data[:cut], data[cut:]) if cut else (data, b"")
            if whole:
                yield whole
            end = begin


def _is_before(block: bytes, since: datetime) -> bool:
    for raw in block.split(b"\n", 50):
        if (line := decode(raw)) is not None:
            return line.time < since - DISORDER
    return False


def _first_since(folder: Path, present: list[int], since: datetime) -> int:
    """Index of the file in which that time begins."""
    low, high = 0, len(present)
    while high - low > 1:
        middle = (low + high) // 2
        time = _time_at(folder / name_of(present[middle]))
        if time is not None and time < since - DISORDER:
            low = middle
        else:
            high = middle
    return low


def _time_at(path: Path) -> datetime | None:
    try:
        with open(path, "rb", buffering=0) as file:
            return _time_behind(file.fileno(), 0)[0]
    except FileNotFoundError:
        return None


def _offset_since(fd: int, size: int, since: datetime) -> int:
    """Offset at which lines of that time begin, by bisection."""
    low, high = 0, size
    while high - low > BLOCK_BYTES:
        middle = (low + high) // 2
        time, begin = _time_behind(fd, middle)
        if time is not None and time < since - DISORDER:
            low = begin
        else:
            high = middle
    return low


def _time_behind(fd: int, offset: int) -> tuple[datetime | None, int]:
    """Time of the first whole line behind `offset` that can be decoded, and where it begins."""
    data = os.pread(fd, BLOCK_BYTES // 4, offset)
    begin = 0 if offset == 0 else data.find(b"\n") + 1
    for match in re.compile(rb"[^\n]+\n").finditer(data, begin):
        if (line := decode(match[0])) is not None:
            return line.time, offset + match.start()
    return None, offset
