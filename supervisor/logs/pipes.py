"""Log pipes: read the output of a system's processes, line by line.

Lines are bounded, and so is the data read from one pipe in one iteration: a backplane that prints without end gets no more
of the supervisor than any other, and then blocks on its own pipe.
"""

from __future__ import annotations

import os

#: A line is cut here: more is data, not a line, and one child could otherwise fill our memory without a newline.
LINE_BYTES_MAX = 8192
#: Bytes read from one pipe in one iteration: the default capacity of a pipe.
TURN_BYTES_MAX = 65_536
#: Bytes read from the pipe of a dead process, at most: pipes may hold a megabyte.
REST_BYTES_MAX = 1 << 20


class LineCutter:
    """Bytes in, whole lines out."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """The lines that these bytes complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            lines.append(self._rest)
            self._rest = b""
        return [_text(line) for line in lines]

    def finish(self) -> list[str]:
        """The last line, if it has no newline."""
        rest, self._rest = self._rest, b""
        return [_text(rest)] if rest else []


class LogPipe:
    """Reading end of one output stream of a process. Never blocks."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._lines = LineCutter()

    def read(self, bytes_max: int = TURN_BYTES_MAX) -> list[str] | None:
        """Lines that have come; None: the pipe is closed, and there will be no more."""
        try:
            data = os.read(self.fd, bytes_max)
        except BlockingIOError:
            return []
        if not data:
            return None
        return self._lines.feed(data)

    def finish(self) -> list[str]:
        """The process is dead: its remaining lines. Other processes that inherited the pipe are not waited for."""
        lines: list[str] = []
        for _ in range(REST_BYTES_MAX // TURN_BYTES_MAX):
            more = self.read()
            if not more:  # nothing now, or closed
                break
            lines += more
        return lines + self._lines.finish()


def _text(line: bytes) -> str:
    text = line[:LINE_BYTES_MAX].decode(errors="replace").rstrip("\r")
    return text if len(line) <= LINE_BYTES_MAX else f"{text} (line cut: {len(line):,} bytes)"
