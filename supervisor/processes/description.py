"""Description: a backplane that is imported and constructed aside says what it would register, or why it cannot be started.

Its process prints one `Registration` and ends; nothing is served (runtime/process.py). `check`, `reload` and a restart ask for
it, so that code which cannot be constructed is found while nothing has been ended for it.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

from appbackplane.transport.directory import Registration

from .spawn import Process

#: Kept of each stream. A description of ten thousand routes takes 2 MiB; of the errors the last line is told.
PRINTED_BYTES_MAX: Final = 8 << 20
#: Read of one pipe at a time: what a pipe holds by default.
READ_BYTES: Final = 65_536


class Undescribed(Exception):
    """No description came; the message says why."""


def registration_of(code: int, printed: bytes, errors: bytes) -> Registration:
    """What a process with this exit code has described. Raises `Undescribed`."""
    if code != 0:
        last = [line for line in errors.decode(errors="replace").splitlines() if line.strip()][-1:]
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        raise Undescribed(last[0].strip() if last else how)
    try:
        return msgspec.json.decode(printed.splitlines()[-1], type=Registration)
    except (IndexError, msgspec.DecodeError) as error:
        raise Undescribed(f"its description cannot be read: {error}") from error


class Printed:
    """The last `PRINTED_BYTES_MAX` that a process has written to one pipe. Never blocks."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        #: Trimmed when it is twice as long as it may be: each byte is moved once, however much comes.
        self._data = bytearray()

    def read(self) -> bool:
        """Take what has come. False: there will be no more."""
        try:
            data = os.read(self.fd, READ_BYTES)
        except BlockingIOError:
            return True
        self._data += data
        if len(self._data) >= 2 * PRINTED_BYTES_MAX:
            del self._data[:-PRINTED_BYTES_MAX]
        return bool(data)

    def finish(self) -> bytes:
        """All that is left, once the process has ended; others that have the pipe are not waited for."""
        for _ in range(PRINTED_BYTES_MAX // READ_BYTES):  # they may write there for ever
            size = len(self._data)
            self.read()
            if len(self._data) == size:
                break
        return bytes(self._data[-PRINTED_BYTES_MAX:])


class Describing:
    """One process that describes a backplane, for an owner that waits for its pidfd."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.pid, self.pidfd = process.pid, process.pidfd
        self.pipes = (Printed(process.stdout.fileno()), Printed(process.stderr.fileno()))

    def kill(self) -> None:
        """End it, and whatever it has started."""
        self._process.kill()

    def end(self) -> Registration:
        """What it has described, once its pidfd was readable. Raises `Undescribed`."""
        printed, errors = (pipe.finish() for pipe in self.pipes)
        return registration_of(self._process.reap(), printed, errors)
