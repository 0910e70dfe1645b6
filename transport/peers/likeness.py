"""Likeness: what somebody may have meant who named what is not there, within what that may cost.

To look through 256 routes takes 20 ms, and a frame has room for 4,096 calls: one frame of a peer, or a program of this host in
a loop, kept the one thread that all lines have for more than a minute. So as many names are compared as cost 8 % of that
thread, and who comes then is told without a hint. Pure: `now_ns` comes in.
"""

from collections.abc import Collection
from typing import Final

from ..directory import nearest

#: What is looked through for one word, names at most: more take milliseconds each.
NAMES_MAX: Final = 256
#: And in all, in so much time.
PERIOD_NS: Final = 1_000_000_000
COMPARED_MAX: Final = 4 * NAMES_MAX


class Likeness:
    """Of one thread."""

    def __init__(self) -> None:
        self._since_ns = 0
        self._count = 0

    def nearest(self, word: str, known: Collection[str], now_ns: int) -> str | None:
        """The known word most like this one; None: there is none, or there are too many to look for it now."""
        if now_ns - self._since_ns >= PERIOD_NS:
            self._since_ns, self._count = now_ns, 0
        if len(known) > NAMES_MAX or self._count + len(known) > COMPARED_MAX:
            return None
        self._count += len(known)
        return nearest(word, known)
