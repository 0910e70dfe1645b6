"""Likeness: the "did you mean" hint for an unknown name, within a bound of CPU time.

A search of 256 routes takes 20 ms, and a frame has room for 4,096 calls. So one frame of a peer, or a program of this host in
a loop, kept the one thread of all connections busy for more than a minute. Comparisons are therefore limited to 8 % of that
thread; beyond that, errors carry no hint. Pure: `now_ns` comes in.
"""

from collections.abc import Collection
from typing import Final

from ..directory import nearest

#: Names compared for one word at most: 256 take 20 ms.
NAMES_MAX: Final = 256
#: Names compared in all, and the period for that.
PERIOD_NS: Final = 1_000_000_000
COMPARED_MAX: Final = 4 * NAMES_MAX


class Likeness:
    """The hints of one thread, and their budget."""

    def __init__(self) -> None:
        self._since_ns = 0
        self._count = 0

    def nearest(self, word: str, known: Collection[str], now_ns: int) -> str | None:
        """The known word most like this one; None: there is none, or too many names to search now."""
        if now_ns - self._since_ns >= PERIOD_NS:
            self._since_ns, self._count = now_ns, 0
        if len(known) > NAMES_MAX or self._count + len(known) > COMPARED_MAX:
            return None
        self._count += len(known)
        return nearest(word, known)
