"""Offsets: how far a stream has read, as Spark keeps it: {line: [segment, index, created_ns]}, the first record not read yet.

A line is what one writer has written: a backplane, or for recorded topics BACKPLANE/TOPIC. Segments are counted anew in a
run directory that was emptied, so a position says when its segment was created. Spark compares offsets as text, so the same
offsets are always the same text. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple

import msgspec

from appbackplane.transport.errors import InvalidArgument

EARLIEST: Final = "earliest"
LATEST: Final = "latest"


class Position(NamedTuple):
    """A record by its index in its segment; all before it are behind us."""

    segment: int
    record: int
    #: When the segment was, Unix time; 0: nobody knows, as of a position that a person has named.
    created_ns: int = 0

    def __str__(self) -> str:
        return str(list(self[:2]))


#: Where a line begins that nobody has seen before.
BEGIN: Final = Position(1, 0)


_Said = Annotated[list[int], msgspec.Meta(min_length=2, max_length=3)]


class BadOffsets(InvalidArgument):
    """What was given as startingOffsets says nothing that can be done. One line."""


def packed(positions: Mapping[str, Position]) -> dict[str, list[int]]:
    """As Spark is told."""
    return {line: list(at if at.created_ns else at[:2]) for line, at in sorted(positions.items())}


def unpacked(offsets: Mapping[str, list[int]]) -> dict[str, Position]:
    """What `packed` has made."""
    return {line: Position(*at) for line, at in offsets.items()}


def wanted(text: str) -> str | dict[str, Position | str]:
    """The option startingOffsets: "earliest", "latest", or JSON of line to [segment, index], "earliest" or "latest".

    What a stream itself says of its offsets, with `created_ns`, is understood, too. Raises `BadOffsets`.
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
                raise BadOffsets(f"{said} possible: {line} begins at {at!r}; earliest and latest are known")
            found[line] = at
        elif at[0] < 1 or at[1] < 0:
            raise BadOffsets(f"{said} possible: {line} begins at {list(at)}; segments count from 1, records from 0")
        else:
            found[line] = Position(*at)
    return found


def shares(available: Mapping[str, int], rows_max: int) -> dict[str, int]:
    """How many rows of each line a micro-batch of `rows_max` takes: nobody waits behind a busier one."""
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
