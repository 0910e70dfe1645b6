"""Plan: which requests there are, and how each is to end; from a seed, so that whoever executes and whoever checks agree. Pure.

A root posts files, a file posts chunks: feeders, transactions and parts of them (seed 001, section 5.1.3).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

#: Requests below each, and in one whole hierarchy.
FILES, CHUNKS = 8, 10
TREE: Final = 1 + FILES + FILES * CHUNKS
#: Of so many, each end is drawn for some.
OF = 1000


class Fate(StrEnum):
    """How a request is to end, if its worker lives."""

    GOOD = "good"
    RAISES = "raises"
    EXITS = "exits"  # sys.exit: of the request, not of the process
    RAISES_EARLY = "raises early"  # before it has rejoined what it posted: what has not begun never will
    LEAVES_EARLY = "leaves early"  # it ends well, and does not wait for what it posted


#: By level (roots, files, chunks): below which number each is drawn.
FATES: Final = (
    ((3, Fate.RAISES), (6, Fate.RAISES_EARLY), (9, Fate.LEAVES_EARLY)),
    ((4, Fate.RAISES), (7, Fate.RAISES_EARLY), (10, Fate.LEAVES_EARLY), (12, Fate.EXITS)),
    ((8, Fate.RAISES), (12, Fate.EXITS)),
)


def name_of(path: list[int]) -> str:
    return ".".join(map(str, path))


def fate_of(seed: int, path: list[int]) -> Fate:
    drawn = zlib.crc32(f"{seed}/{name_of(path)}".encode()) % OF
    return next((fate for below, fate in FATES[len(path) - 1] if drawn < below), Fate.GOOD)


def below(path: list[int]) -> Iterator[list[int]]:
    count = (FILES, CHUNKS, 0)[len(path) - 1]
    for number in range(count):
        yield [*path, number]


def is_async(path: list[int]) -> bool:
    """Every other file waits in a coroutine."""
    return len(path) == 2 and path[1] % 2 == 1


def result_of(path: list[int]) -> int:
    """What it returns if it ends well."""
    return zlib.crc32(name_of(path).encode())
