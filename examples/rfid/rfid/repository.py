"""Repository: stores EPCIS events, and finds them again. An SQLite file, so that events survive the death of its process.

A captured event is on disk before the caller has its reply. An event whose eventID is known is not stored again, so `capture`
may be repeated. Cost: one transaction a capture, whatever its number of events.
"""

from __future__ import annotations

import json
import os
import sqlite3
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from appbackplane.runtime import Component, FailedPrecondition, NotFound, operation

from .epcis import Event, EventFilter, checked, micros_of, text_of

#: Stored events: with two indexes some 1 KB each, so 1 GB of disk.
EVENTS_MAX_DEFAULT: Final = 1_000_000
#: Events in one answer, 300 bytes each.
PAGE_MAX: Final = 1_000
#: Capture jobs that are remembered: those of the last hours.
JOBS_MAX: Final = 10_000
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, type TEXT NOT NULL, time_us INTEGER NOT NULL,
    biz_step TEXT, read_point TEXT, body TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS by_time ON events (time_us);
CREATE TABLE IF NOT EXISTS epcs (epc TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (epc, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS jobs (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, created TEXT NOT NULL);
"""


class Repository(Component):
    """path: of the file; default: rfid/events.sqlite in the folder for state ($XDG_STATE_HOME). events_max: stored events."""

    def __init__(self, path: str = "", events_max: int = EVENTS_MAX_DEFAULT) -> None:
        state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        self._path = Path(path or f"{state}/rfid/events.sqlite").expanduser()
        self._events_max = events_max

    def on_initializing(self) -> None:
        """Open the file. Raises OSError or sqlite3.Error if that fails."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # Its actions run one at a time, but each may run in another thread.
        self._database = sqlite3.connect(self._path, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.executescript(_SCHEMA)
        [(self._count,)] = self._database.execute("SELECT count(*) FROM events")

    def on_down(self) -> None:
        """Close the file."""
        self._database.close()

    @operation(idempotent=True)
    def capture(self, events: list[dict[str, Any]]) -> str:
        """Store events, all or none. Returns the id of the capture job, which has ended by then.

        Raises `InvalidArgument` for an event that is none, `FailedPrecondition` if there is no room.
        """
        now = text_of(now_us())
        rows = [_row_of(event, now) for event in events]
        if self._count + len(rows) > self._events_max:
            raise FailedPrecondition(f"the repository is full: {self._events_max:,} events (events_max)")
        job = str(uuid.uuid4())
        with self._database as database:
            added = sum(_store(database, row, epcs) for row, epcs in rows)
            number = database.execute("INSERT INTO jobs (id, created) VALUES (?, ?)", (job, now)).lastrowid or 0
            database.execute("DELETE FROM jobs WHERE number <= ?", (number - JOBS_MAX,))
        self._count += added
        return job

    @operation(idempotent=True)
    def job(self, id: str) -> dict[str, Any]:
        """A capture job, as EPCIS describes it. Raises `NotFound`."""
        found = self._database.execute("SELECT created FROM jobs WHERE id = ?", (id,)).fetchone()
        if found is None:
            raise NotFound(f"no capture job {id!r}")
        return {
            "captureID": id, "createdAt": found[0], "finishedAt": found[0], "running": False, "success": True,
            "captureErrorBehaviour": "rollback", "errors": [],
        }  # fmt: skip

    @operation(idempotent=True)
    def query(self, filter: EventFilter, after: int = 0, limit: int = 30) -> dict[str, Any]:
        """The `events` numbered above `after`, in the order of capture; `next`: the number of the last, if there are more."""
        limit = max(1, min(limit, PAGE_MAX))
        conditions, values = _conditions(filter)
        sql = f"SELECT number, body FROM events WHERE number > ? {conditions} ORDER BY number LIMIT ?"
        rows = self._database.execute(sql, [after, *values, limit + 1]).fetchall()
        page = rows[:limit]
        return {"events": [json.loads(body) for _, body in page], "next": page[-1][0] if len(rows) > limit else None}


def _row_of(event: Event, now: str) -> tuple[tuple[Any, ...], list[str]]:
    """The row of an event, and its EPCs. Raises `InvalidArgument`."""
    found = checked(event)
    id = found.eventID or f"urn:uuid:{uuid.uuid4()}"
    body = json.dumps(event | {"eventID": id, "recordTime": now})
    read_point = None if found.readPoint is None else found.readPoint.id
    return (id, found.type, micros_of(event["eventTime"], "eventTime"), found.bizStep, read_point, body), found.epcList


def _store(database: sqlite3.Connection, row: tuple[Any, ...], epcs: list[str]) -> bool:
    """Whether the event was new."""
    columns = "id, type, time_us, biz_step, read_point, body"
    stored = database.execute(f"INSERT OR IGNORE INTO events ({columns}) VALUES (?, ?, ?, ?, ?, ?)", row)
    if stored.rowcount:
        database.executemany("INSERT INTO epcs VALUES (?, ?)", [(epc, stored.lastrowid) for epc in epcs])
    return stored.rowcount > 0


def _conditions(filter: EventFilter) -> tuple[str, list[Any]]:
    """The SQL of a filter, behind another condition, and its values."""
    conditions: list[tuple[str, list[Any]]] = [
        (f"{column} IN ({', '.join('?' * len(among))})", list(among))
        for column, among in (
            ("type", filter.types),
            ("biz_step", filter.biz_steps),
            ("read_point", filter.read_points),
        )
        if among
    ]
    if filter.from_us is not None:
        conditions.append(("time_us >= ?", [filter.from_us]))
    if filter.before_us is not None:
        conditions.append(("time_us < ?", [filter.before_us]))
    if filter.epcs:
        ranges = [_range(each) for each in filter.epcs]
        among = " OR ".join(["epc BETWEEN ? AND ?"] * len(ranges))
        conditions.append(
            (f"number IN (SELECT number FROM epcs WHERE {among})", [end for each in ranges for end in each])
        )
    return "".join(f" AND {sql}" for sql, _ in conditions), [value for _, values in conditions for value in values]


def _range(pattern: str) -> tuple[str, str]:
    """The first and the last EPC that match. EPCs are ASCII, and `~` is its last character but one."""
    prefix, star, _ = pattern.partition("*")
    return (prefix, f"{prefix}\x7f") if star else (prefix, prefix)


def now_us() -> int:
    """Microseconds since 1970."""
    return micros_of(datetime.now(UTC).isoformat(), "now")
