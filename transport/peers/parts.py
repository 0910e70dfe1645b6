"""Parts: frames cut into numbered pieces for one connection between two nodes.

A part begins with a byte that msgpack never uses, so no batch begins like a part; a message without that byte is a whole
frame. A part may request an acknowledgement. The receiver answers with the total of bytes received (`Took`) over its own
connection to the sender: that is the credit of flow control. The dialler draws the connection's number at random, so
acknowledgements of a former connection mean nothing. Peers are not trusted: a reassembled frame is bounded as any frame is (a
part may be empty), and of each key at most `LINES_MAX` connections are tracked, the most recently used.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from ..codec import FRAME_BYTES_MAX

#: First byte of a part; msgpack never uses it.
_MARK: Final = 0xC1
#: Flags: more parts of this frame follow; acknowledge all bytes so far; this is an acknowledgement.
_MORE, _TELL, _TOOK = 1, 2, 4
_head: Final = struct.Struct(">BBQ")
_took: Final = struct.Struct(">BBQQ")
#: Connections tracked of one key: its present two and its former two, of which frames may still wait in the listening socket.
LINES_MAX: Final = 4


class Took(NamedTuple):
    """Acknowledgement: the peer has received `total` bytes of our connection number `line`."""

    line: int
    total: int

    def packed(self) -> bytes:
        """The acknowledgement in wire format."""
        return _took.pack(_MARK, _TOOK, self.line, self.total)


def part(line: int, data: bytes | memoryview, *, is_last: bool, is_to_tell: bool) -> bytes:
    """One part of a frame in wire format. `is_to_tell`: request an acknowledgement."""
    return b"".join((_head.pack(_MARK, _MORE * (not is_last) | _TELL * is_to_tell, line), data))


#: Bytes that a part adds to its payload.
HEAD_BYTES: Final = _head.size


class _Incoming:
    __slots__ = ("is_lost", "joined", "total")

    def __init__(self) -> None:
        self.total = 0
        #: The incomplete frame. A bytearray: a list of one-byte parts would take 200 times the memory.
        self.joined = bytearray()
        #: The frame exceeded FRAME_BYTES_MAX: its further parts are discarded.
        self.is_lost = False


class Joining:
    """Reassembles frames from parts, for all connections of all keys."""

    def __init__(self) -> None:
        self._lines: dict[bytes, dict[int, _Incoming]] = {}
        #: Acknowledgements due: total of bytes received, by key and connection number.
        self.owed: dict[tuple[bytes, int], int] = {}
        #: Malformed parts, and frames longer than FRAME_BYTES_MAX.
        self.malformed_count = 0

    def take(self, key: bytes, came: bytes) -> bytes | Took | None:
        """A complete frame, or an acknowledgement of one of our connections; None: incomplete, or malformed."""
        if came[:1] != b"\xc1":
            return came
        try:
            _, flags, number = _head.unpack_from(came)
            if flags == _TOOK:
                return Took(*_took.unpack(came)[2:])
        except struct.error:
            self.malformed_count += 1
            return None
        if flags & ~(_MORE | _TELL):
            self.malformed_count += 1
            return None
        line = self._line(key, number)
        line.total += len(came)
        if flags & _TELL:
            self.owed[key, number] = line.total
        return self._joined(line, memoryview(came)[HEAD_BYTES:], is_last=not flags & _MORE)

    def tell_again(self, key: bytes) -> None:
        """Owe all acknowledgements of this key again: earlier ones may be lost with our previous connection to it."""
        for number, line in self._lines.get(key, {}).items():
            self.owed[key, number] = line.total

    def keep(self, is_trusted: Callable[[bytes], object]) -> None:
        """Drop the state of keys that are no longer trusted."""
        self._lines = {key: lines for key, lines in self._lines.items() if is_trusted(key)}
        self.owed = {whose: total for whose, total in self.owed.items() if whose[0] in self._lines}

    def _line(self, key: bytes, number: int) -> _Incoming:
        lines = self._lines.setdefault(key, {})
        line = lines.pop(number, None)
        if line is None:
            if len(lines) >= LINES_MAX:
                oldest = next(iter(lines))
                del lines[oldest]
                self.owed.pop((key, oldest), None)
            line = _Incoming()
        lines[number] = line  # moved to the end: the first is the least recently used
        return line

    def _joined(self, line: _Incoming, piece: memoryview, *, is_last: bool) -> bytes | None:
        if is_last and not line.joined and not line.is_lost:  # the usual case: a frame of one part
            return bytes(piece)
        if len(line.joined) + len(piece) > FRAME_BYTES_MAX and not line.is_lost:
            self.malformed_count += 1
            line.is_lost = True
            line.joined = bytearray()
        if not line.is_lost:
            line.joined += piece
        if not is_last:
            return None
        whole = None if line.is_lost else bytes(line.joined)
        line.joined, line.is_lost = bytearray(), False
        return whole
