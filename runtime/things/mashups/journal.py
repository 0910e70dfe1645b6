"""Journal: the file of a mashup's run records, so that a new process knows which events have started which rules.

A record is appended by one `write` before what it says is done. The kernel has it then, whatever becomes of this process; a
power cut may lose the last seconds, since nothing is synced. One process at a time has the file: a lock beside it is held.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from .run_log import RunRecord

#: Size above which the file is rewritten, with the keys and the lines of the log alone: some 100,000 runs.
BYTES_MAX: Final = 32 << 20
#: Bytes of the length before each record.
_LENGTH: Final = 4


class JournalError(Exception):
    """The journal cannot be opened or written, so that no rule may start."""


class Journal:
    """One file. Used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Open or create it, for this process alone. Raises `JournalError`."""
        self.path = path
        self._encoder = msgspec.msgpack.Encoder()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            except BaseException:
                os.close(self._lock)
                raise
        except BlockingIOError:
            raise JournalError(f"{path}: another process writes it: give each mashup a journal of its own") from None
        except OSError as error:
            raise JournalError(f"{path}: {error.strerror}") from None
        self._size = 0
        self._limit = BYTES_MAX

    def read(self) -> list[RunRecord]:
        """All records. What follows the last whole one is cut off: its process was killed while it wrote."""
        data = self.path.read_bytes()
        decoder = msgspec.msgpack.Decoder(RunRecord)
        found: list[RunRecord] = []
        at = 0
        while at + _LENGTH <= len(data):
            end = at + _LENGTH + int.from_bytes(data[at : at + _LENGTH])
            if end > len(data):
                break
            try:
                found.append(decoder.decode(data[at + _LENGTH : end]))
            except msgspec.DecodeError:
                break
            at = end
        if at < len(data):
            os.ftruncate(self._file, at)
        self._size = at
        return found

    @property
    def is_large(self) -> bool:
        """Whether it is time to rewrite it."""
        return self._size > self._limit

    def append(self, record: RunRecord) -> None:
        """Write a record at the end. Raises `JournalError`; then nothing of it is there."""
        data = self._packed(record)
        try:
            written = os.write(self._file, data)
            if written < len(data):
                os.ftruncate(self._file, self._size)
                raise JournalError(f"{self.path}: no space is left")
        except OSError as error:
            raise JournalError(f"{self.path}: {error.strerror}") from None
        self._size += len(data)

    def rewrite(self, records: Iterable[RunRecord]) -> None:
        """Replace its content, in one step. Raises `JournalError`; then the old content stays."""
        new = self.path.with_suffix(".new")
        data = b"".join(self._packed(record) for record in records)
        try:
            new.unlink(missing_ok=True)
            file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                with os.fdopen(os.dup(file), "wb") as whole:
                    whole.write(data)
                os.replace(new, self.path)
            except BaseException:
                os.close(file)
                raise
        except OSError as error:
            raise JournalError(f"{self.path}: {error.strerror}") from None
        os.close(self._file)
        self._file, self._size = file, len(data)
        self._limit = max(BYTES_MAX, 2 * len(data))

    def close(self) -> None:
        """Let another process have it."""
        os.close(self._file)
        os.close(self._lock)

    def _packed(self, record: RunRecord) -> bytes:
        data = self._encoder.encode(record)
        return len(data).to_bytes(_LENGTH) + data
