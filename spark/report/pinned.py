"""Pinned: where segments that are still written to end, found out once, so that all questions of a report speak of the same
records, although the system goes on while they are asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from appbackplane.runtime.observation.segments import ACTIONS_SUFFIX, BadSegment

from ..compaction import is_gone
from ..records.found import Found
from ..records.pieces import PIECE_RECORDS, Piece
from ..records.segment_file import SegmentFile


def pinned(several: Iterable[Piece], found: Found) -> list[Piece]:
    """The same pieces, with ends. A last record that nobody will finish any more is counted in `found`; one that is being
    written at this moment is no loss. A file that cannot be read stays as it is: its reader counts it.
    """
    return [each for piece in several for each in _ranges(piece, found)]


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
