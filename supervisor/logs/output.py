"""Output: shows the lines of a system without ever blocking it.

A stopped terminal, or a pipe that nobody reads, must not stop the supervisor, and with it restarts. Lines wait here up to a
bound; further ones are counted, and the count is shown in their place. The descriptor is often shared with others and cannot
be made non-blocking. So lines are written when poll reports room, in pieces no larger than a ready pipe takes at once
(PIPE_BUF).
"""

from __future__ import annotations

import os
import select
from collections import deque

#: Bytes that may wait for a reader: a minute of a chatty system, and nothing beside a backplane's own memory.
PENDING_BYTES_MAX = 1 << 20
#: Size of an ordinary line. With less room than this, none is formatted.
LINE_BYTES = 256
#: Bytes that a ready pipe takes without blocking.
PIECE_BYTES = select.PIPE_BUF
#: Pieces written in one iteration, so that a flood of lines does not delay the detection of a death: about a megabyte.
PIECES_MAX = 256


class Output:
    """Lines to one descriptor, in order."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        #: Whether a terminal shows the lines, which may then be coloured.
        self.is_terminal = os.isatty(fd)
        #: Lines dropped for lack of room or of a reader.
        self.lost_count = 0
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._lost_now = 0
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def __bool__(self) -> bool:
        """Whether lines wait to be written."""
        return bool(self._lines)

    def say(self, text: str) -> None:
        """Queue a text of one line or several."""
        line = text.encode(errors="replace") + b"\n"
        if self._bytes + len(line) > PENDING_BYTES_MAX:
            self.lost_count += 1
            self._lost_now += 1
            return
        if self._lost_now:
            line = b"(%d lines were not shown: nobody reads)\n" % self._lost_now + line
            self._lost_now = 0
        self._lines.append(line)
        self._bytes += len(line)

    def count_if_full(self, count: int) -> bool:
        """Whether there is no room for `count` more lines: they are counted as lost and need not be formatted."""
        if self._bytes + LINE_BYTES < PENDING_BYTES_MAX:
            return False
        self.lost_count += count
        self._lost_now += count
        return True

    def write(self, timeout_ms: int = 0) -> None:
        """Write the lines that find room; waits at most `timeout_ms` for each piece (0: never)."""
        for _ in range(PIECES_MAX):
            if not self._lines or not self._poll.poll(timeout_ms):
                return
            piece = self._lines.popleft()
            while self._lines and len(piece) + len(self._lines[0]) <= PIECE_BYTES:
                piece += self._lines.popleft()
            try:
                written = os.write(self.fd, piece[:PIECE_BYTES])
            except BlockingIOError:
                written = 0
            except OSError:  # its reader has gone for good (EPIPE, EIO, ENOSPC): a system outlives its terminal
                self.lost_count += 1 + len(self._lines)
                self._lines.clear()
                self._bytes = 0
                return
            self._bytes -= written
            if written < len(piece):
                self._lines.appendleft(piece[written:])
