"""Turns: whether a chunk has come to its lane in the order in which it was sent. Pure.

A sender learns a moment late that a chunk has come back, because a process has died or is not there yet. By then it may have
sent the next one, which the successor would serve first. So each chunk names the one before it that may still come back.
"""

from __future__ import annotations

from typing import Final

#: A sender, the number of its chunk, and the number of the chunk that it follows.
Turn = tuple[str, int, int | None]
#: In the place of the number of lanes: the chunk was not served, and is to be sent again.
CAME_EARLY: Final = 0
#: Senders whose chunks are remembered: more than there are replicas of a stage.
SENDERS_MAX: Final = 1_000


class Turns:
    """The chunk of each sender that one lane has had last."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def is_next(self, sender: str, number: int, follows: int | None) -> bool:
        """Whether the chunk may be served now; it counts as served from now on."""
        if follows is not None and self._last.get(sender) != follows:
            return False
        self._last.pop(sender, None)
        if len(self._last) >= SENDERS_MAX:
            del self._last[next(iter(self._last))]
        self._last[sender] = number
        return True
