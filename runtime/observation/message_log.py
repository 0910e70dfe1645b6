"""MessageLog: the messages of one recorded topic in the order of publishing, each with its number, its time and a CRC-32.

The publishing backplane writes each message before it is sent. A message that cannot be written is still sent, and
counted as missing from the log. A position is (segment number, number in the segment). Costs 3 us per message, and a copy of
its body.
"""

from __future__ import annotations

from .recorder import SegmentRoom, Supply
from .segments import HEADER_BYTES, MESSAGE, pack_message

#: The next segment is requested when 1 / `_HALF` of the current one is used.
_HALF = 2


class MessageLog:
    """The log of one topic. Part of the engine: every caller must hold the lead."""

    def __init__(self, supply: Supply) -> None:
        self._supply = supply
        self._room: SegmentRoom | None = None
        self._at = 0
        self._number = 0
        #: Number of the last segment that was written to.
        self._segment = 0
        self._has_asked = False
        #: Messages written since the process began.
        self.count = 0
        self.lost_count = 0

    @property
    def position(self) -> tuple[int, int]:
        """The next message will be here or behind it: (segment number, number in the segment)."""
        return (self._segment + 1, 0) if self._room is None else (self._segment, self._number)

    def append(self, body: bytes, now_ns: int) -> bool:
        """Write one message; False if there is no segment for it: then it is counted in `lost_count`."""
        length = MESSAGE.size + len(body) + -len(body) % 8
        if self._room is None or self._at + length > self._room.size:
            self.close()
            self._room = self._supply.take(HEADER_BYTES + length)
            if self._room is None:
                self.lost_count += 1
                return False
            self._segment = self._room.number
        room = self._room
        message = pack_message(self._number, now_ns + room.unix_ns, body)
        # The header comes last: until then a concurrent reader finds no message here.
        end = self._at + len(message)
        room.buffer[self._at + MESSAGE.size : end] = message[MESSAGE.size :]
        room.buffer[self._at : self._at + MESSAGE.size] = message[: MESSAGE.size]
        self._at, self._number = end, self._number + 1
        self.count += 1
        if not self._has_asked and self._at * _HALF > room.size:
            self._has_asked = True
            self._supply.prepare()
        return True

    def turn(self) -> None:
        """Close the segment because of its age; the next message begins another one."""
        if self._number:
            self.close()

    def close(self) -> None:
        """Hand back the current segment, if there is one; the next record begins another one."""
        if self._room is not None:
            self._supply.finished(self._room, self._number, self._at)
        self._room, self._at, self._number = None, HEADER_BYTES, 0
        self._has_asked = False
