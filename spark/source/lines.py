"""Lines: the segments of one writer in order, and their ends while they grow.

A segment is closed when it is sealed or a later one exists: its writer begins the next only after finishing this one. A closed
segment never changes; an open one is read from its last known end. No other state is kept here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from appbackplane.runtime.observation.segments import (
    ACTIONS_SUFFIX,
    HEADER_BYTES,
    MESSAGES_SUFFIX,
    RECORDS,
    BadSegment,
    file_name,
    unpack_header,
)

from ..offsets import BEGIN, Position
from ..records.messages import MessageFile
from ..records.pieces import Piece, nothing_in
from ..records.segment_file import SegmentFile


class BackplaneActions:
    """The actions of one backplane."""

    suffix = ACTIONS_SUFFIX

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: Ends of closed segments.
        self._closed: dict[int, int] = {}

    def numbers(self) -> list[int]:
        """Numbers of the existing segments, ascending."""
        names = [path.name.removesuffix(self.suffix) for path in self._folder.glob(f"*{self.suffix}")]
        return sorted(int(name) for name in names if name.isdigit())

    def path(self, number: int) -> Path:
        """Path of a segment, which need not exist."""
        return self._folder / file_name(number, self.suffix)

    def created_ns(self, number: int) -> int:
        """Unix time at which a segment was created, which tells recordings apart; 0: it is missing or unreadable."""
        try:
            with self.path(number).open("rb") as file:
                return unpack_header(file.read(HEADER_BYTES))[0].created_ns
        except (OSError, BadSegment):
            return 0

    def first(self) -> Position:
        """Position of the first record that still exists."""
        numbers = self.numbers()
        return self.dated(Position(numbers[0], 0)) if numbers else BEGIN

    def dated(self, at: Position) -> Position:
        """Add the time at which the position's segment was created."""
        return at._replace(created_ns=self.created_ns(at.segment))

    def is_other(self, at: Position) -> bool:
        """Whether the position's segment exists but belongs to another recording."""
        return at.created_ns not in (0, here := self.created_ns(at.segment)) and here != 0

    def forget(self) -> None:
        """Drop known ends: the numbers belong to another recording now."""
        self._closed.clear()

    def end(self, number: int, known: int, *, is_last: bool) -> int:
        """Present end of a segment's records; those before `known` are not read again. Raises `BadSegment`."""
        if number not in self._closed:
            end, is_closed = self._look(number, known, is_last=is_last)
            if not is_closed:
                return end
            self._closed[number] = end
        return self._closed[number]

    def was_read(self, at: Position) -> bool:
        """Whether the segment, which may be gone by now, is known to end at this position."""
        return self._closed.get(at.segment) == at.record

    def place(self, number: int, index: int) -> int:
        """Place in the file of a message, or of a known earlier one; 0: unknown, or not needed."""
        return 0

    def piece(self, number: int, start: int, stop: int) -> Piece:
        """A range of a segment as a piece."""
        return Piece(str(self.path(number)), start, stop)

    def _look(self, number: int, known: int, *, is_last: bool) -> tuple[int, bool]:
        with SegmentFile(self.path(number)) as segment:
            is_closed = segment.sealed >= 0 or not is_last
            return segment.end() if is_closed else segment.end_after(known), is_closed


class MessagesLine(BackplaneActions):
    """The messages of a topic that one backplane has published."""

    suffix = MESSAGES_SUFFIX
    #: Places remembered for each segment: a stream needs those of its last batches.
    _PLACES_MAX = 64

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        #: By segment: (message, its place in the file), ascending.
        self._places: dict[int, list[tuple[int, int]]] = {}

    def place(self, number: int, index: int) -> int:
        """Place in the file of a message, or of a known earlier one; 0: unknown."""
        return max((place for at, place in self._places.get(number, ()) if at <= index), default=0)

    def forget(self) -> None:
        """Drop known ends and places: the numbers belong to another recording now."""
        super().forget()
        self._places.clear()

    def _look(self, number: int, known: int, *, is_last: bool) -> tuple[int, bool]:
        places = self._places.setdefault(number, [(0, 0)])
        with MessageFile(self.path(number)) as messages:
            is_closed = messages.sealed >= 0 or not is_last
            index, place = messages.end(*places[-1], is_closed=is_closed)
        if place > places[-1][1]:
            places.append((index, place))
            del places[: -self._PLACES_MAX]
        return index, is_closed


def lines_of(where: Path, topic: str | None = None) -> dict[str, BackplaneActions]:
    """Lines by name: of each backplane, or of each that has recorded the topic ("files.*": all topics below "files")."""
    if topic is None:
        return {
            path.name: BackplaneActions(path) for path in _backplanes(where) if any(path.glob(f"*{ACTIONS_SUFFIX}"))
        }
    return {
        f"{path.parent.name}/{path.name}": MessagesLine(path)
        for path in topic_folders(where, topic)
        if any(path.glob(f"*{MESSAGES_SUFFIX}"))
    }


def topic_folders(where: Path, topic: str) -> list[Path]:
    """Folders of a topic ("files.*": of all below "files"), including empty ones that have no message yet."""
    return [
        below
        for path in _backplanes(where)
        for below in sorted(path.iterdir())
        if below.is_dir() and is_wanted(below.name, topic)
    ]


def _backplanes(where: Path) -> list[Path]:
    folder = where / RECORDS if (where / RECORDS).is_dir() else where
    if not folder.is_dir():
        raise nothing_in(where)
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def is_wanted(topic: str, pattern: str) -> bool:
    """Whether a topic matches: it equals the pattern, or is below "files" for "files.*"."""
    return topic.startswith(pattern[:-1]) if pattern.endswith(".*") else topic == pattern


class Walked(NamedTuple):
    """A position up to which a line can be read, and the number of records before it."""

    to: Position
    records: int


def walk(
    line: BackplaneActions, start: Position, records_max: int | None = None, until: Position | None = None
) -> Walked:
    """Advance from `start` over at most `records_max` records, not beyond `until`. Without new records, `to` is `start`."""
    numbers = line.numbers()
    ahead = [number for number in numbers if number >= start.segment]
    left, to = records_max, start
    records = 0
    for number in ahead:
        at = start.record if number == start.segment else 0
        if until is not None and (number, at) >= until[:2]:
            break
        is_last = number == numbers[-1]
        try:
            end = line.end(number, at, is_last=is_last)
        except BadSegment:
            end = at  # the reader will count the segment as unreadable
        if until is not None and number == until.segment:
            end = min(end, until.record)
        taken = max(0, end - at) if left is None else min(max(0, end - at), left)
        records += taken
        if left is not None:
            left -= taken
        if taken:
            to = Position(number, at + taken)
        if left == 0:
            break
    return Walked(line.dated(_beyond(line, to, numbers)) if records else start, records)


def last_of(line: BackplaneActions) -> Position:
    """Present end of a line."""
    return walk(line, line.first()).to


def ranges(line: BackplaneActions, start: Position, end: Position) -> Iterator[tuple[int, int, int]]:
    """Yield (segment, start, stop) of the data from `start` to before `end`; stop is -1 for an unreadable file."""
    numbers = line.numbers()
    for number in numbers:
        if not start.segment <= number <= end.segment:
            continue
        low = start.record if number == start.segment else 0
        if number == end.segment:
            high = end.record
        else:
            try:
                high = line.end(number, low, is_last=number == numbers[-1])
            except BadSegment:
                high = -1
        if high < 0 or low < high:
            yield number, low, high


def missing(line: BackplaneActions, start: Position, end: Position) -> list[int]:
    """Segments between two positions that no longer exist and were not read to their end."""
    there = set(line.numbers())
    first = start.segment + 1 if line.was_read(start) else start.segment
    last = end.segment if end.record else end.segment - 1
    return [number for number in range(first, last + 1) if number not in there]


def _beyond(line: BackplaneActions, at: Position, numbers: list[int]) -> Position:
    """Move a position at the end of a closed segment to the next one, so that retention may remove the closed one."""
    following = [number for number in numbers if number > at.segment]
    if following and line.was_read(at):
        return Position(following[0], 0)
    return at
