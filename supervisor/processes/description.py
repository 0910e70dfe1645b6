"""Description: a backplane, constructed in a separate process, prints its registration, or the reason why it cannot start.

Its process prints one `Registration` and ends; nothing is served (runtime/process.py). `check`, `reload` and a restart use
it, so that code that cannot be constructed is found before any process is ended for it.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

from appbackplane.transport.directory import Registration

from .spawn import Process

#: Bytes kept of each stream. A description of ten thousand routes takes 2 MiB; of the errors the last line is shown.
PRINTED_BYTES_MAX: Final = 8 << 20
#: Bytes read from a pipe at a time: its default capacity.
READ_BYTES: Final = 65_536


class Undescribed(Exception):
    """No description came; the message says why."""


def registration_of(code: int, printed: bytes, errors: bytes) -> Registration:
    """The registration that a process with this exit code has printed. Raises `Undescribed`."""
    if code != 0:
        last = [line for line in errors.decode(errors="replace").splitlines() if line.strip()][-1:]
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        raise Undescribed(last[0].strip() if last else how)
    try:
        return msgspec.json.decode(printed.splitlines()[-1], type=Registration)
    except (IndexError, msgspec.DecodeError) as error:
        raise Undescribed(f"its description cannot be read: {error}") from error


class Printed:
    """Keeps the last `PRINTED_BYTES_MAX` that a process has written to one pipe. Never blocks."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        #: Trimmed at twice its bound, so that each byte is moved once, however many come.
        self._data = bytearray()

    def read(self) -> bool:
        """Read once. False: there will be no more."""
        try:
            data = os.read(self.fd, READ_BYTES)
        except BlockingIOError:
            return True
        self._data += data
        if len(self._data) >= 2 * PRINTED_BYTES_MAX:
            del self._data[:-PRINTED_BYTES_MAX]
        return bool(data)

    def finish(self) -> bytes:
        """All that is left, once the process has ended; other processes with the pipe are not waited for."""
        for _ in range(PRINTED_BYTES_MAX // READ_BYTES):  # they may write there for ever
            size = len(self._data)
            self.read()
            if len(self._data) == size:
                break
        return bytes(self._data[-PRINTED_BYTES_MAX:])


class Describing:
    """One process that describes a backplane; its owner waits for its pidfd."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.pid, self.pidfd = process.pid, process.pidfd
        self.pipes = (Printed(process.stdout.fileno()), Printed(process.stderr.fileno()))

    def kill(self) -> None:
        """Kill it, with the processes that it has started."""
        self._process.kill()

    def end(self) -> Registration:
        """Its registration, once its pidfd was readable. Raises `Undescribed`."""
        printed, errors = (pipe.finish() for pipe in self.pipes)
        return registration_of(self._process.reap(), printed, errors)
