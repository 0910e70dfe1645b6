"""Ledger: the last decision, in one file of the checkpoint folder, replaced atomically, so that there is always exactly one.

It also locks the checkpoint against a second program. Not synced to the disk: like recorded segments, it survives the end of
any process, but not a power cut.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from .decisions import VERSION, BadCheckpoint, Decision

_NAME: Final = "windows.msgpack"
_LOCK: Final = "stream.lock"


class CheckpointLedger:
    """The last decision in a checkpoint folder, locked for this process."""

    def __init__(self, folder: Path, size_ns: int, backplane: Callable[[], str]) -> None:
        """`backplane`: called for a new checkpoint. Raises `BadCheckpoint`, OSError, and errors of `backplane`."""
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / _NAME
        self._lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise BadCheckpoint(f"{folder}: another 'pipeline stream' is using it") from error
        try:
            self.last = self._read(size_ns, backplane)
        except BaseException:
            self.close()
            raise

    def keep(self, decision: Decision) -> None:
        """Store a decision as the last one."""
        new = self._path.with_suffix(".tmp")
        new.write_bytes(msgspec.msgpack.encode(decision))
        os.replace(new, self._path)
        self.last = decision

    def close(self) -> None:
        """Release the lock, so that another process may go on."""
        os.close(self._lock)

    def _read(self, size_ns: int, backplane: Callable[[], str]) -> Decision:
        if not self._path.exists():
            first = Decision(group=f"stream-{secrets.token_hex(8)}", backplane=backplane(), size_ns=size_ns)
            self.keep(first)
            return first
        try:
            last = msgspec.msgpack.decode(self._path.read_bytes(), type=Decision)
        except msgspec.MsgspecError as error:
            raise BadCheckpoint(f"{self._path}: {error}: remove the folder to begin anew") from error
        if last.version != VERSION:
            raise BadCheckpoint(f"{self._path}: has version {last.version}, this program knows {VERSION}")
        if last.size_ns != size_ns:
            raise BadCheckpoint(
                f"{self._path.parent}: was begun with windows of {last.size_ns / 1e9:g} s: go on with these, "
                "or name another folder with --checkpoint"
            )
        return last
