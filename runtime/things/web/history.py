"""History: the last messages of one property or event, or of all (live_feed.py).

A subscriber holds a place, not a queue, so ten thousand cost nothing while nothing happens. One that falls behind the history
is told how many messages it has lost. Pure, but for the futures of those that wait.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import deque
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple

#: Messages kept per property or event, and their bytes. A slower subscriber is told how many it lost.
MESSAGES_MAX: Final = 1_024
BYTES_MAX: Final = 4 << 20
#: Of ids: the key of this process, the rounds of a pseudorandom permutation (Luby and Rackoff), and the form.
_KEY: Final = os.urandom(16)
_TURNS: Final = 4
_HALF: Final = 0xFFFF_FFFF
_SEALED: Final = re.compile("[0-9a-f]{16}")


class HistoryEntry(NamedTuple):
    """One message: its number, from 1, and its data as JSON. None: messages were lost here, and nobody knows how many.

    about: data of the owner of the history.
    """

    number: int
    data: bytes | None
    about: Any = None


class History:
    """The last messages, the newest last."""

    def __init__(self, messages_max: int = MESSAGES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._messages_max, self._bytes_max = messages_max, bytes_max
        self._entries: deque[HistoryEntry] = deque()
        self._bytes = 0
        self.last = 0
        #: The permissions as they were last seen, and the newest message by then (Access.floor_of).
        self.permissions_version, self.floor = -1, 0
        self.is_closed = False
        self._waiting: set[asyncio.Future[None]] = set()

    def add(self, data: bytes | None, about: Any = None) -> None:
        """Add a message, and wake all waiting subscribers."""
        self.last += 1
        entries = self._entries
        entries.append(HistoryEntry(self.last, data, about))
        self._bytes += len(data or b"")
        while len(entries) > self._messages_max or (self._bytes > self._bytes_max and len(entries) > 1):
            self._bytes -= len(entries.popleft().data or b"")
        self.wake()

    def close(self) -> None:
        """Nothing more will come: the thing is gone."""
        self.is_closed = True
        self.wake()

    def after(self, number: int) -> tuple[HistoryEntry | None, int]:
        """The first message after `number`, and how many before it are lost. (None, 0): there is none yet."""
        entries = self._entries
        if not entries or entries[-1].number <= number:
            return None, 0
        first = entries[0].number
        if number + 1 < first:
            return entries[0], first - number - 1
        return entries[number + 1 - first], 0

    async def wait(self) -> None:
        """Return at the next message, or when the history is closed."""
        if self.is_closed:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)

    def wake(self) -> None:
        """Wake all waiting subscribers."""
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()


def event_id(epoch: str, number: int) -> str:
    """The id of a message in a stream. `epoch` names the gateway's process: numbers of another one mean nothing here.

    The number is encrypted, since it counts all messages: two ids would tell a user how many between them he was not shown.
    """
    return f"{epoch}-{_sealed(number):016x}"


def number_of(id: str, epoch: str) -> int | None:
    """The number in such an id; None if the id is malformed or from another gateway process."""
    said, _, sealed = id.partition("-")
    return _opened(int(sealed, 16)) if said == epoch and _SEALED.fullmatch(sealed) else None


@lru_cache(maxsize=MESSAGES_MAX)  # 5 us, and each message has thousands of subscribers
def _sealed(number: int) -> int:
    """A permutation of the numbers of 64 bits: a Feistel network."""
    left, right = number >> 32, number & _HALF
    for turn in range(_TURNS):
        left, right = right, left ^ _mixed(right, turn)
    return left << 32 | right


def _opened(sealed: int) -> int:
    left, right = sealed >> 32, sealed & _HALF
    for turn in reversed(range(_TURNS)):
        left, right = right ^ _mixed(left, turn), left
    return left << 32 | right


def _mixed(half: int, turn: int) -> int:
    return int.from_bytes(blake2b(half.to_bytes(4), digest_size=4, key=_KEY, salt=bytes((turn,))).digest())
