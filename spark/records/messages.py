"""Messages: read a segment of a recorded topic, message by message, each checked, even while it is written.

Messages vary in length, so reading from the thousandth means passing the others, unless its place in the file is known. After
damage the next message is found by its mark and its check. As with actions, an invalid message before a valid one is read once
more. At the end of an unsealed segment, invalid data is its present end. 0.4 million a second.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from appbackplane.runtime.observation.segments import (
    HEADER_BYTES,
    MESSAGE,
    MESSAGE_MARK,
    BadSegment,
    unpack_header,
    unpack_message,
)

from .found import Found
from .segment_file import SEALED_MAX, opened, read_at

#: Bytes read at a time; more for a longer message.
BLOCK: Final = 1 << 20
#: How far to search behind damage at the end of a growing segment.
LOOK: Final = 4 * BLOCK
_MARK: Final = Struct("<I").pack(MESSAGE_MARK)
_ALIGNED: Final = 8


class RecordedMessage(NamedTuple):
    """One message; `next` is the place at which the next one begins."""

    number: int
    time_ns: int
    body: bytes
    next: int


class MessageFile:
    """An open segment of messages. `with MessageFile(path) as messages`."""

    def __init__(self, path: Path | str) -> None:
        """Raises `BadSegment` if the file is no segment of messages."""
        self.path = os.fspath(path)
        self._file = opened(self.path)
        try:
            self.header, self.sealed = unpack_header(read_at(self._file, 0, HEADER_BYTES))
            if self.header.kind != "messages":
                raise BadSegment(f"holds {self.header.kind}, not messages")
        except BadSegment:
            os.close(self._file)
            raise
        if not 0 <= self.sealed <= SEALED_MAX:
            self.sealed = -1

    def __enter__(self) -> MessageFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def end(self, index: int = 0, place: int = 0, *, is_closed: bool = False) -> tuple[int, int]:
        """(index behind the last message, its place), at present; `index` and `place` of a known message to begin with.

        In a growing segment, damage of more than `LOOK` bytes counts as the end: unwritten space is not searched each time.
        """
        last, where = index, place or HEADER_BYTES
        for message in self._walk(where, 0 if is_closed or self.sealed >= 0 else LOOK):
            last, where = message.number + 1, message.next
        return max(last, self.sealed), where

    def read(self, start: int, stop: int, found: Found, place: int = 0) -> Iterator[RecordedMessage]:
        """Yield messages `start` to before `stop` (-1: the present end). Missing messages between are counted as damaged.

        `place`: of the message `start`, or of an earlier one.
        """
        expected = start
        for message in self._walk(place or HEADER_BYTES):
            if 0 <= stop <= message.number:
                break
            if message.number >= start:
                found.note_damaged(self.path, message.number - expected)
                found.records += 1
                expected = message.number + 1
                yield message
        found.note_damaged(self.path, max(0, (self.sealed if stop < 0 else stop) - expected))

    def _walk(self, place: int, look: int = 0) -> Iterator[RecordedMessage]:
        """Yield valid messages from a place on, in ascending order. `look`: bytes to search behind damage; 0: to the end."""
        data, first = b"", place
        after = -1
        while True:
            known = unpack_message(data, place - first)
            if known is None:
                data, first = self._block(place), place
                known = unpack_message(data, 0)
                if known is None:
                    following = self._next_mark(place + _ALIGNED, place + look if look else None)
                    if following is None:
                        return
                    # The following message was written later, so this one was complete by then: read it once more.
                    data, first = self._block(place), place
                    known = unpack_message(data, 0)
                    if known is None:
                        place = following
                        data, first = self._block(place), place
                        known = unpack_message(data, 0)
                        if known is None:
                            return
            number, time_ns, body, end = known
            place = first + end
            if number > after:
                after = number
                yield RecordedMessage(number, time_ns, bytes(body), place)

    def _block(self, place: int) -> bytes:
        """Read from a place on, at least the whole of the message that begins there."""
        data = read_at(self._file, place, BLOCK)
        if len(data) >= MESSAGE.size:
            mark, _, length, *_rest = MESSAGE.unpack_from(data)
            if mark == MESSAGE_MARK and len(data) == BLOCK < MESSAGE.size + length <= os.fstat(self._file).st_size:
                data = read_at(self._file, place, MESSAGE.size + length)
        return data

    def _next_mark(self, place: int, limit: int | None) -> int | None:
        """Place of the next valid message at or after `place` and before `limit`."""
        while (limit is None or place < limit) and (data := read_at(self._file, place, BLOCK)):
            at = data.find(_MARK)
            while at >= 0:
                if (place + at) % _ALIGNED == 0 and unpack_message(self._block(place + at), 0) is not None:
                    return place + at
                at = data.find(_MARK, at + 1)
            if len(data) < BLOCK:
                return None
            place += len(data) - _ALIGNED
        return None
