"""Pieces: list the data in a folder as pieces, each the work of one task; and read a piece.

A piece is a range of records of one segment, or of rows of one Parquet file written by `pipeline compact`. Pieces are
identified by position, so the same piece is the same records for ever. Listing a folder reads no records, only a header for
each segment and a footer for each Parquet file.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from appbackplane.runtime.observation.segments import ACTIONS_SUFFIX, RECORDS, BadSegment
from appbackplane.transport.errors import FailedPrecondition

from . import parquet
from .batch import Actions
from .found import Found
from .segment_file import CHUNK, Keep, SegmentFile

#: Records of a piece at most: some tenths of a second of work for a task, which costs 10 ms to start.
PIECE_RECORDS: Final = CHUNK * 16
PARQUET_SUFFIX: Final = ".parquet"


class Piece(NamedTuple):
    """Records `start` to before `stop` of a file; -1: to its end at the time of reading."""

    path: str
    start: int = 0
    stop: int = -1


class NothingRecorded(FailedPrecondition):
    """The folder holds no records. One line, with the remedy."""


def pieces(
    where: Path | str,
    *,
    since_ns: int | None = None,
    until_ns: int | None = None,
    backplanes: Collection[str] | None = None,
) -> list[Piece]:
    """List the pieces of `where`: a run directory, its folder `records`, or a folder of compacted Parquet.

    The time window only rules out whole files and row groups; a piece may hold records outside it. An unreadable file is a
    piece, too, so that its reader counts it. Raises `NothingRecorded`.
    """
    where = Path(where).absolute()
    found: list[Piece] = []
    is_anything = False
    for path in files(where):
        is_anything = True
        if path.suffix == PARQUET_SUFFIX:
            found += parquet_pieces(path, since_ns, until_ns, backplanes)
    segments = [path for path in files(where) if path.suffix == ACTIONS_SUFFIX]
    for folder in sorted({path.parent for path in segments}):
        found += _of_folder([path for path in segments if path.parent == folder], since_ns, backplanes)
    if not is_anything:
        raise nothing_in(where)
    return found


def read(
    piece: Piece, fields: Sequence[str], found: Found | None = None, keep: Keep | None = None
) -> Iterator[Actions]:
    """Yield the records of a piece, some ten thousand at a time; records left out are counted in `found`.

    `fields`: names from `segments.FIELDS`, `index` and `route`. `keep`: filter by some of the columns. Raises `BadSegment` for
    a file that cannot be read at all (`read_all` counts it instead).
    """
    found = Found() if found is None else found
    if piece.path.endswith(PARQUET_SUFFIX):
        yield from parquet.read(piece.path, piece.start, piece.stop, fields, found, keep)
        return
    with SegmentFile(piece.path) as segment:
        yield from segment.read(piece.start, piece.stop, fields, found, keep)


def read_all(
    several: Iterable[Piece], fields: Sequence[str], found: Found, keep: Keep | None = None
) -> Iterator[Actions]:
    """Yield the records of several pieces; a file that cannot be read is counted in `found`, and the others are read."""
    for piece in several:
        try:
            yield from read(piece, fields, found, keep)
        except BadSegment as error:
            found.unreadable[piece.path] = str(error)


def files(where: Path) -> list[Path]:
    """List segments of actions and Parquet files by name, without names that begin with a dot or _: these are unfinished."""
    folder = where / RECORDS if (where / RECORDS).is_dir() else where
    found: list[Path] = []
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        found += [
            Path(at, name)
            for name in sorted(names)
            if name.endswith((ACTIONS_SUFFIX, PARQUET_SUFFIX)) and not name.startswith((".", "_"))
        ]
    return found


def nothing_in(where: Path) -> NothingRecorded:
    """Build the one-line error that says why `where` has no records."""
    if not where.exists():
        return NothingRecorded(f"{where}: there is no such folder; give the run directory of a system with recordings")
    if not where.is_dir():
        return NothingRecorded(f"{where} is a file; give the run directory of a system with recordings")
    return NothingRecorded(
        f"{where}: nothing is recorded here; [record] in the system's file switches it on, or give another folder"
    )


def _of_folder(paths: Sequence[Path], since_ns: int | None, backplanes: Collection[str] | None) -> Iterator[Piece]:
    """Pieces of one folder's segments, which are one backplane's, in order."""
    opened: list[tuple[Path, int, int, str, int | None]] = []
    for path in paths:
        try:
            with SegmentFile(path) as segment:
                header, end_ns = segment.header, None if since_ns is None else segment.last_end_ns()
                opened.append((path, segment.sealed, header.created_ns, header.backplane, end_ns))
        except BadSegment:
            yield Piece(str(path))
    for number, (path, sealed, created_ns, backplane, end_ns) in enumerate(opened):
        if backplanes is not None and backplane not in backplanes:
            continue
        # Its actions had ended when the next segment was begun, unless the clock was set back in between.
        if since_ns is not None and end_ns is not None and number + 1 < len(opened):
            following_ns = opened[number + 1][2]
            if created_ns <= end_ns <= following_ns <= since_ns:
                continue
        if sealed < 0:
            yield Piece(str(path))
        else:
            for start in range(0, sealed, PIECE_RECORDS):
                yield Piece(str(path), start, min(start + PIECE_RECORDS, sealed))


def parquet_pieces(
    path: Path, since_ns: int | None, until_ns: int | None, backplanes: Collection[str] | None
) -> Iterator[Piece]:
    """Pieces of a Parquet file, each some row groups that the footer does not rule out."""
    try:
        ranges = parquet.ranges(path, PIECE_RECORDS, since_ns, until_ns, backplanes)
    except BadSegment:
        ranges = [(0, -1)]
    for start, stop in ranges:
        yield Piece(str(path), start, stop)
