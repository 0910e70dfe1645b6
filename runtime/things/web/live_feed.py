"""Live feed: the last messages of all things, for pages that show many of them over one connection, and those of one thing.

Ids of messages are times, not numbers: a gap in numbers would tell a user how much happens at things that are hidden from them.
It keeps nothing until its first reader comes.
"""

from __future__ import annotations

import secrets
from typing import Any, Final, NamedTuple

import msgspec

from .history import BYTES_MAX, MESSAGES_MAX, History, HistoryEntry, number_of

#: Messages kept, and their bytes: some seconds of a busy system, for a page that is slow or connects again.
FEED_MESSAGES_MAX: Final = 10_000
FEED_BYTES_MAX: Final = 16 << 20
#: How a message names the kind of its affordance, by the group of the Thing Description.
KIND_OF_GROUP: Final = {"properties": "property", "events": "event"}

_encode = msgspec.json.encode


class MessageOrigin(NamedTuple):
    """The affordance of a message, and its time in microseconds: later than that of each message before."""

    stamp_us: int
    thing: str
    group: str
    name: str


class LiveFeed:
    """The messages, the newest last. Readers hold places in it, and no queues."""

    def __init__(self, messages_max: int = FEED_MESSAGES_MAX, bytes_max: int = FEED_BYTES_MAX) -> None:
        self.history = History(messages_max, bytes_max)
        self._stamp_us = 0
        #: Time of the first message, from which the ids count: the host's own is nobody's business.
        self._first_us: int | None = None
        self._is_read = False

    @property
    def is_closed(self) -> bool:
        return self.history.is_closed

    def begin(self) -> int:
        """The place of a new reader: behind the newest message."""
        self._is_read = True
        return self.history.last

    def add(self, now_us: int, thing: str, group: str, name: str, data: bytes) -> None:
        """Add a new value or an event. `now_us`: monotonic. `group`: "properties" or "events". `data`: JSON."""
        if self._is_read:
            said = self._message(thing, group, name, data)
            self.history.add(said, MessageOrigin(self._next_stamp(now_us), thing, group, name))

    def lost(self, now_us: int) -> None:
        """Messages were lost on their way to the gateway."""
        if self._is_read:
            self.history.add(None, MessageOrigin(self._next_stamp(now_us), "", "", ""))

    def after(self, place: int) -> tuple[HistoryEntry | None, bool]:
        """The first message behind a place, whose `about` is its `MessageOrigin`, and whether others before it are lost."""
        found, lost = self.history.after(place)
        return found, bool(lost) or (found is not None and found.data is None)

    def resume(self, last_id: str, epoch: str, floor: int) -> tuple[int, bool]:
        """The place behind the message that a reader had last, and whether they miss messages.

        `epoch`: in the ids of this feed. `floor`: the newest message that the reader must not get.
        """
        stamp_us = number_of(last_id, epoch)
        place, is_gap = (self.history.last, True) if stamp_us is None else self.place_of(stamp_us)
        return max(place, floor), is_gap or place < floor

    def place_of(self, stamp_us: int) -> tuple[int, bool]:
        """The place behind the message with this time, and whether messages since may be gone. O(messages)."""
        place = self.history.last
        found, _ = self.history.after(0)
        if found is None:
            return place, False
        if stamp_us < found.about.stamp_us:
            return found.number - 1, found.number > 1
        while found is not None and found.about.stamp_us <= stamp_us:
            place = found.number
            found, _ = self.history.after(place)
        return place, False

    async def wait(self) -> None:
        """Return at the next message, and when a reader is to look again."""
        await self.history.wait()

    def wake(self) -> None:
        """Have all readers look again."""
        self.history.wake()

    def close(self) -> None:
        """The gateway ends."""
        self.history.close()

    def _message(self, thing: str, group: str, name: str, data: bytes) -> bytes:
        said: dict[str, Any] = {"thing": thing, "kind": KIND_OF_GROUP[group], "name": name, "data": msgspec.Raw(data)}
        return _encode(said)

    def _next_stamp(self, now_us: int) -> int:
        if self._first_us is None:
            self._first_us = now_us
        self._stamp_us = max(self._stamp_us + 1, now_us - self._first_us)
        return self._stamp_us


class ThingFeed(LiveFeed):
    """The messages of all properties, or of all events, of one thing: their data as it is."""

    def __init__(self) -> None:
        super().__init__(MESSAGES_MAX, BYTES_MAX)
        #: In ids of messages: those of another feed, of this thing or of another gateway, mean nothing here.
        self.epoch = secrets.token_hex(4)

    def _message(self, thing: str, group: str, name: str, data: bytes) -> bytes:
        return data
