"""Source file: where a source goes on after its process has died, and how many of its items died with it.

Two slots, written in turns by one system call each, with a number and a checksum: a killed process leaves the slot before, and
so does a power failure. A write takes 2 us, so that it may be done for each piece of the source. The folder is that of the
system's log, which outlives the system.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import Any

import msgpack
import msgspec

from appbackplane.transport.errors import FailedPrecondition, InvalidArgument

#: Bytes of a slot: a page, which disks write as a whole.
SLOT_BYTES = 4_096
#: Number of the record, its length, its checksum.
_HEAD = struct.Struct("<QII")
#: Below the run directory, while the system runs: a link to the folder that outlives it.
_LOG, _FLOWS = "log", "flows"


class SourceRecord(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of a source."""

    #: Behind which position it goes on; None: at its beginning.
    position: Any = None
    #: Items that it gave, and those of them that have ended, since the file was made.
    given: int = 0
    ended: int = 0
    #: Items that died with processes of this source, or of the stage behind it.
    lost: int = 0


def file_of(run_dir: str, flow: str, backplane: str) -> Path | None:
    """The file of a flow's source in one backplane; None: there is no run directory, as under a virtual clock."""
    folder = Path(run_dir)
    if not folder.is_dir():
        return None
    log = folder / _LOG
    return (log.resolve() if log.is_dir() else folder) / _FLOWS / f"{flow}-{backplane}.source"


class SourceFile:
    """The record of one source, on disk. One writer at a time."""

    def __init__(self, path: Path | None) -> None:
        """Reads what an earlier process has left. Raises `FailedPrecondition` for a file that is none of ours."""
        self._path = path
        self._number = 0
        self._fd = -1
        self.record = SourceRecord()
        if path is None:
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            content = os.pread(self._fd, 2 * SLOT_BYTES + 1, 0)
        except OSError as error:
            raise FailedPrecondition(f"{path}: the position of a source cannot be kept: {error.strerror}") from error
        found = [record for at in (0, SLOT_BYTES) if (record := _read(content[at : at + SLOT_BYTES])) is not None]
        if content and not found:
            os.close(self._fd)
            raise FailedPrecondition(
                f"{path} does not say where the source goes on: it is damaged. Remove it to begin anew"
            )
        if found:
            self._number, self.record = max(found, key=lambda each: each[0])

    def write(self, record: SourceRecord) -> None:
        """Keep a record. Raises `InvalidArgument` for a position that cannot be kept, OSError for a full disk."""
        try:
            packed = msgpack.packb(msgspec.to_builtins(record, builtin_types=(bytes,)))
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgument(f"the position {record.position!r} of a source cannot be kept: {error}") from error
        if len(packed) > SLOT_BYTES - _HEAD.size:
            raise InvalidArgument(f"the position of a source takes {len(packed):,} bytes: at most 4,000 can be kept")
        self.record = record
        if self._path is None:
            return
        self._number += 1
        slot = _HEAD.pack(self._number, len(packed), zlib.crc32(packed)) + packed
        os.pwrite(self._fd, slot, (self._number % 2) * SLOT_BYTES)

    def close(self) -> None:
        """Close the file; it stays where it is."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _read(slot: bytes) -> tuple[int, SourceRecord] | None:
    if len(slot) < _HEAD.size:
        return None
    number, length, checksum = _HEAD.unpack_from(slot)
    packed = slot[_HEAD.size : _HEAD.size + length]
    if not number or not length or len(packed) != length or zlib.crc32(packed) != checksum:
        return None
    return number, msgspec.convert(msgpack.unpackb(packed), SourceRecord)
