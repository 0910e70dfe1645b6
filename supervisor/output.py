"""Output: where the lines of a system go, without ever making it wait.

A terminal that was stopped, or a pipe that nobody reads, must not stop the supervisor, and with it restarts. Lines wait
here up to a bound; beyond it they are counted, and the count is shown in their place. Written when poll says there is
room, in pieces no larger than what a pipe then takes at once (PIPE_BUF), because the descriptor is often shared with
others and cannot be made non-blocking. A log file (`up --detach`) begins anew at its bound and keeps one predecessor.
"""

from __future__ import annotations

import os
import select
from collections import deque
from pathlib import Path

#: Bytes that may wait for a reader: a minute of a chatty system, and nothing beside a backplane's own memory.
PENDING_BYTES_MAX = 1 << 20
#: What a pipe that is ready takes without blocking.
PIECE_BYTES = select.PIPE_BUF
#: A log file and its predecessor together hold a day of a chatty system, and no disk is filled.
LOG_BYTES_MAX = 8 << 20
#: Pieces written in one turn, so that a flood of lines does not keep the loop from a death: about a megabyte.
PIECES_MAX = 256


class Output:
    """Lines to one descriptor, in order."""

    def __init__(self, fd: int, log_path: Path | None = None) -> None:
        """With `log_path`, `fd` is that file's, and is exchanged when it is full."""
        self.fd = fd
        #: Lines that found no room.
        self.lost_count = 0
        self._log_path = log_path
        self._log_bytes = 0
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._lost_now = 0
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def __bool__(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._lines)

    def say(self, text: str) -> None:
        """Put a line behind the others; several, if it has several."""
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

    def write(self, timeout_ms: int = 0) -> None:
        """Write what there is room for; waits at most `timeout_ms` for each piece (0: never)."""
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
            self._log_bytes += written
            if self._log_path is not None and self._log_bytes >= LOG_BYTES_MAX:
                self._begin_anew(self._log_path)

    def _begin_anew(self, log_path: Path) -> None:
        log_path.replace(log_path.with_name(log_path.name + ".1"))
        fresh = open_log(log_path)
        os.dup2(fresh, self.fd, inheritable=False)
        os.close(fresh)
        self._log_bytes = 0


def open_log(path: Path) -> int:
    """A log file, empty; ours alone."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
