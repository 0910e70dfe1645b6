"""Pinned: pieces with ends fixed before the first of them is read.

A segment grows while the system runs. All questions of a report, and all queries of one DataFrame, have to count the same
records. So the end of each growing segment is looked up once, at 50 million records/s.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import psutil

from appbackplane.runtime.observation.segments import ACTIONS_SUFFIX, BadSegment, SegmentHeader

from .found import Found
from .pieces import PIECE_RECORDS, Piece
from .segment_file import SegmentFile


def pinned(several: Iterable[Piece], found: Found) -> list[Piece]:
    """The same pieces, with fixed ends, except for unreadable files, which their reader counts.

    A torn last record is counted in `found` if its writer is dead; otherwise it is being written at this moment.
    """
    return [each for piece in several for each in _ranges(piece, found)]


def is_gone(header: SegmentHeader) -> bool:
    """Whether the writer process of a segment has ended; False for one on another machine, which cannot be seen from here.

    A wrong True does no harm: later records are read later.
    """
    if header.node != os.uname().nodename:
        return False
    try:
        return psutil.Process(header.pid).create_time() * 1e9 > header.created_ns + 1e9
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False


def _ranges(piece: Piece, found: Found) -> Iterator[Piece]:
    if piece.stop >= 0 or not piece.path.endswith(ACTIONS_SUFFIX):
        yield piece
        return
    try:
        with SegmentFile(piece.path) as segment:
            end = segment.end()
            if segment.is_torn(end) and is_gone(segment.header):
                found.torn[piece.path] = 1
    except BadSegment:
        yield piece
        return
    for start in range(piece.start, end, PIECE_RECORDS):
        yield Piece(piece.path, start, min(start + PIECE_RECORDS, end))
