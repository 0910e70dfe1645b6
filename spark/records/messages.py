"""Messages: a segment of a recorded topic, message by message, each checked, while it may still be written.

Messages have lengths of their own, so that whoever wants the thousandth passes the others; a place in the file saves that.
After damage the next message is found by its mark and its check. As with actions, what is not valid with a valid one behind
it is read once more, and what is not valid at the end of an unsealed segment is the end, for now. 0.4 million a second.
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

#: Read at a time, and more for a message that is longer.
BLOCK: Final = 1 << 20
#: How far behind the end of a segment that grows is looked for more.
LOOK: Final = 4 * BLOCK
_MARK: Final = Struct("<I").pack(MESSAGE_MARK)
_ALIGNED: Final = 8


class Message(NamedTuple):
    """One, and where the next begins."""

    number: int
    time_ns: int
    body: bytes
    next: int


class MessageFile:
    """An open segment of messages. `with MessageFile(path) as messages`."""

    def __init__(self, path: Path | str) -> None:
        """Raises `BadSegment` if it is none."""
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
        """(one behind the last message, its place), for now; `index` and `place` of one that is known.

        While it grows, damage of more than `LOOK` bytes is its end: what is not written yet is not looked through each time.
        """
        last, where = index, place or HEADER_BYTES
        for message in self._walk(where, 0 if is_closed or self.sealed >= 0 else LOOK):
            last, where = message.number + 1, message.next
        return max(last, self.sealed), where

    def read(self, start: int, stop: int, found: Found, place: int = 0) -> Iterator[Message]:
        """Messages from `start` to before `stop` (-1: the end, for now). What is missing between is counted as damaged.

        `place`: of the message `start`, or of one before it.
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

    def _walk(self, place: int, look: int = 0) -> Iterator[Message]:
        """Valid messages from a place on, in ascending order. `look`: how far over damage; 0: to the end."""
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
                    # What follows was written later, so what is here was complete when that was.
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
                yield Message(number, time_ns, bytes(body), place)

    def _block(self, place: int) -> bytes:
        """What is from a place on, at least the whole of the message that begins there."""
        data = read_at(self._file, place, BLOCK)
        if len(data) >= MESSAGE.size:
            mark, _, length, *_rest = MESSAGE.unpack_from(data)
            if mark == MESSAGE_MARK and len(data) == BLOCK < MESSAGE.size + length <= os.fstat(self._file).st_size:
                data = read_at(self._file, place, MESSAGE.size + length)
        return data

    def _next_mark(self, place: int, limit: int | None) -> int | None:
        """Where from a place on, and before `limit`, the next valid message begins."""
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
