"""Registration file: the registrations on disk, so that they outlive the gateway's process.

A database of SQLite with a write-ahead log: a change is there when its write returns, also after kill -9. It is not forced to
the disk, so a power cut may undo the last ones, and damages none. The folder is that of the system's log, which outlives the
system.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from appbackplane.transport.errors import FailedPrecondition

from .registered_things import Change, RegisteredThing, RegisteredThings

#: Version of the table. A file of another one is refused, and not guessed at.
_VERSION: Final = 1
#: Seconds for which a predecessor that is still ending may hold the file.
_LOCK_S: Final = 5.0
_COLUMNS: Final = "id, td, created_ns, modified_ns, ttl_s, expires_ns"


def registration_path(run_dir: str, gateway: str) -> Path | None:
    """The file of a gateway; None: there is no run directory, as under a virtual clock."""
    folder = Path(run_dir)
    if not folder.is_dir():
        return None
    log = folder / "log"  # while the system runs, a link to the folder that outlives it
    return (log.resolve() if log.is_dir() else folder) / "things" / f"{gateway}.sqlite3"


class RegistrationFile:
    """The file of one gateway, and the registrations in it. One writer, from one thread at a time."""

    def __init__(self, path: Path | None) -> None:
        """None: nothing is kept. Raises `FailedPrecondition` for a file that cannot be read, or that another gateway uses."""
        self._database: sqlite3.Connection | None = None
        self.things = RegisteredThings()
        if path is None:
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # nobody else may read it
            database = sqlite3.connect(path, timeout=_LOCK_S, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise FailedPrecondition(f"{path}: registrations cannot be kept: {error}") from error
        try:
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute(
                "CREATE TABLE IF NOT EXISTS registration (id TEXT PRIMARY KEY, td BLOB NOT NULL, created_ns INTEGER NOT NULL,"
                " modified_ns INTEGER NOT NULL, ttl_s, expires_ns INTEGER)"
            )
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version not in (0, _VERSION):
                raise FailedPrecondition(f"{path} is of version {version}: this program knows {_VERSION}. Move it away")
            database.execute(f"PRAGMA user_version = {_VERSION}")
            self.things = RegisteredThings(_read(database))
        except (sqlite3.Error, ValueError) as error:  # of a row, too
            database.close()
            is_locked = isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
            remedy = "give each gateway a name of its own" if is_locked else "move it away to begin anew"
            raise FailedPrecondition(f"{path}: registrations cannot be read: {error}: {remedy}") from error
        except FailedPrecondition:
            database.close()
            raise
        self._database = database

    def write(self, change: Change) -> None:
        """Keep a change. Raises sqlite3.Error if it cannot be written, such as to a full disk."""
        if self._database is None:
            return
        after = change.after
        if after is not None:
            row = (
                after.id,
                msgspec.json.encode(after.td),
                after.created_ns,
                after.modified_ns,
                after.ttl_s,
                after.expires_ns,
            )
            self._database.execute(f"INSERT OR REPLACE INTO registration ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", row)
        elif change.before is not None:
            self._database.execute("DELETE FROM registration WHERE id = ?", (change.before.id,))

    def close(self) -> None:
        """Close the file; it stays where it is."""
        if self._database is not None:
            self._database.close()
            self._database = None


def _read(database: sqlite3.Connection) -> Iterator[RegisteredThing]:
    for id, td, created_ns, modified_ns, ttl_s, expires_ns in database.execute(f"SELECT {_COLUMNS} FROM registration"):
        yield RegisteredThing(id, msgspec.json.decode(td), created_ns, modified_ns, ttl_s, expires_ns, len(td))
