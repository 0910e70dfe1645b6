"""Offsets: the position of a stream in Spark's checkpoint, {line: [segment, index, created_ns]}: the first record not yet
read.

A line is the sequence of one writer's records: a backplane's, or for recorded topics BACKPLANE/TOPIC. Numbers of segments
begin again when a run directory is emptied, so a position includes its segment's time of creation. Spark compares offsets as
text, so equal offsets always have the same text. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple

import msgspec

from appbackplane.transport.errors import InvalidArgument

EARLIEST: Final = "earliest"
LATEST: Final = "latest"


class Position(NamedTuple):
    """The next record to read, by segment and index in it; all records before it have been read."""

    segment: int
    record: int
    #: Unix time at which the segment was created; 0: unknown, as in a position that the user gave.
    created_ns: int = 0

    def __str__(self) -> str:
        return str(list(self[:2]))


#: Start of a line that was not seen before.
BEGIN: Final = Position(1, 0)


_Said = Annotated[list[int], msgspec.Meta(min_length=2, max_length=3)]


class BadOffsets(InvalidArgument):
    """The value of startingOffsets is not usable. One line."""


def packed(positions: Mapping[str, Position]) -> dict[str, list[int]]:
    """Convert positions to Spark's form, sorted by line."""
    return {line: list(at if at.created_ns else at[:2]) for line, at in sorted(positions.items())}


def unpacked(offsets: Mapping[str, list[int]]) -> dict[str, Position]:
    """Inverse of `packed`: Spark's form as positions."""
    return {line: Position(*at) for line, at in offsets.items()}


def wanted(text: str) -> str | dict[str, Position | str]:
    """Parse the option startingOffsets: "earliest", "latest", or JSON of line to [segment, index], "earliest" or "latest".

    Offsets as a stream itself reports them, with `created_ns`, are accepted, too. Raises `BadOffsets`.
    """
    if text in (EARLIEST, LATEST):
        return text
    said = f"option startingOffsets: {text[:80]!r} is not"
    try:
        given = msgspec.json.decode(text, type=dict[str, _Said | str])
    except msgspec.MsgspecError as error:
        raise BadOffsets(f'{said} earliest, latest or JSON such as {{"index": [3, 1200]}}: {error}') from error
    found: dict[str, Position | str] = {}
    for line, at in given.items():
        if isinstance(at, str):
            if at not in (EARLIEST, LATEST):
                raise BadOffsets(
                    f"{said} possible: {line} begins at {at!r}; expected earliest, latest or [segment, index]"
                )
            found[line] = at
        elif at[0] < 1 or at[1] < 0:
            raise BadOffsets(f"{said} possible: {line} begins at {list(at)}; segments count from 1, records from 0")
        else:
            found[line] = Position(*at)
    return found


def shares(available: Mapping[str, int], rows_max: int) -> dict[str, int]:
    """Split a micro-batch of `rows_max` rows fairly among lines, so that a busy line delays no other."""
    left = rows_max
    taken = dict.fromkeys(available, 0)
    hungry = [line for line in sorted(available) if available[line]]
    while hungry and left:
        share = max(1, left // len(hungry))
        for line in hungry:
            more = min(share, available[line] - taken[line], left)
            taken[line] += more
            left -= more
        hungry = [line for line in hungry if taken[line] < available[line]]
    return taken
