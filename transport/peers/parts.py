"""Parts: what goes over a line between two nodes: frames, cut up, each part with the number of its line.

A part begins with a byte that begins no batch (msgpack never uses it); what has none is a frame as it is. Whoever is asked to
tell how far he is answers with the total that he has taken in (`Took`), over his own line to the asker: that is the credit.
A line's number is drawn by its dialler, so that what is told of a former line means nothing. Trusts nobody: the parts of a
frame are bounded as a frame is (a part may be empty), and of each key no more lines are known than it can have: the last to
speak.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from ..codec import FRAME_BYTES_MAX

#: Never used in msgpack.
_MARK: Final = 0xC1
#: The rest of the frame comes in other parts; tell how far you are; this tells how far.
_MORE, _TELL, _TOOK = 1, 2, 4
_head: Final = struct.Struct(">BBQ")
_took: Final = struct.Struct(">BBQQ")
#: Lines of one key that are known: its two, and the two before them, of which something may still wait at the door.
LINES_MAX: Final = 4


class Took(NamedTuple):
    """So many bytes of this line of ours were taken in."""

    line: int
    total: int

    def packed(self) -> bytes:
        """As it travels."""
        return _took.pack(_MARK, _TOOK, self.line, self.total)


def part(line: int, data: bytes | memoryview, *, is_last: bool, is_to_tell: bool) -> bytes:
    """A part of a frame as it travels."""
    return b"".join((_head.pack(_MARK, _MORE * (not is_last) | _TELL * is_to_tell, line), data))


#: What a part is longer than what it carries.
HEAD_BYTES: Final = _head.size


class _Incoming:
    __slots__ = ("is_lost", "joined", "total")

    def __init__(self) -> None:
        self.total = 0
        #: Of a frame that is not all there. Bytes, not a list of them: of parts of a byte each it would be 200 times as large.
        self.joined = bytearray()
        #: Too much came: nothing is kept up to the next frame.
        self.is_lost = False


class Joining:
    """What comes in, by whose key it comes under."""

    def __init__(self) -> None:
        self._lines: dict[bytes, dict[int, _Incoming]] = {}
        #: Who is to be told, of which line: the totals.
        self.owed: dict[tuple[bytes, int], int] = {}
        #: Parts that made no sense, and frames that were longer than any may be.
        self.malformed_count = 0

    def take(self, key: bytes, came: bytes) -> bytes | Took | None:
        """A frame that is whole; what is told of a line of ours; None: it is not all there yet, or makes no sense."""
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
        """What was told may be lost: the line that it went by was another."""
        for number, line in self._lines.get(key, {}).items():
            self.owed[key, number] = line.total

    def keep(self, is_trusted: Callable[[bytes], object]) -> None:
        """Let go of what came under other keys."""
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
        lines[number] = line  # behind all others: the first is the one that was silent for longest
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
