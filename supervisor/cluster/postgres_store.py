"""PostgreSQL store: the record in a row, swapped by one UPDATE that names the version to replace.

One connection, reopened after it broke. Versions are random, so that a row that was removed and rewritten never repeats one.
The server's clock is not used, and no lock is held between two calls. The kernel gives up a silent connection within half a
lease. Needs psycopg, of the extra `postgresql`.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Any

from appbackplane.transport.errors import FailedPrecondition

from .record import LeaseRecord, Snapshot
from .stores import StoreError, decoded, encoded

TABLE = "appbackplane_lease"
_MAKE = f"CREATE TABLE IF NOT EXISTS {TABLE} (cluster text PRIMARY KEY, version text NOT NULL, record bytea NOT NULL)"
_LOOK = f"SELECT version, record FROM {TABLE} WHERE cluster = %s"
_FIRST = f"INSERT INTO {TABLE} (version, record, cluster) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
_SWAP = f"UPDATE {TABLE} SET version = %s, record = %s WHERE cluster = %s AND version = %s"
#: The version of an absent row.
_NONE = "0"


class PostgresStore:
    """A `Store` (stores.py): the record in one row of a table, with `cluster` as its key."""

    def __init__(self, url: str, cluster: str, ttl_s: float) -> None:
        """Raises `FailedPrecondition` without psycopg. The server is first contacted by `look` or `swap`."""
        try:
            import psycopg
        except ImportError as error:
            what = "cluster.lease: postgresql:// needs psycopg: pip install 'appbackplane[postgresql]'"
            raise FailedPrecondition(f"{what} ({error})") from error
        self._driver: Any = psycopg
        self._url, self._cluster, self._ttl_s = url, cluster, ttl_s
        self._connection: Any = None

    def look(self) -> Snapshot:
        found = self._asked(_LOOK, (self._cluster,)).fetchone()
        if found is None:
            return Snapshot(_NONE)
        version, kept = found
        return Snapshot(str(version), decoded(self._cluster, bytes(kept), f"the row of {self._cluster!r} in {TABLE}"))

    def swap(self, version: str, record: LeaseRecord) -> Snapshot | None:
        made, kept = secrets.token_hex(8), encoded(self._cluster, record)
        if version == _NONE:
            done = self._asked(_FIRST, (made, kept, self._cluster))
        else:
            done = self._asked(_SWAP, (made, kept, self._cluster, version))
        return Snapshot(made, record) if done.rowcount == 1 else None

    def close(self) -> None:
        """Close the connection; a further call would open another."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with suppress(self._driver.Error):  # it may be broken, which is why it is closed
                connection.close()

    def _asked(self, statement: str, values: tuple[Any, ...]) -> Any:
        try:
            if self._connection is None:
                self._connection = self._connected()
            return self._connection.execute(statement, values)
        except self._driver.Error as error:
            self.close()
            raise StoreError(f"PostgreSQL: {' '.join(str(error).split())}") from error

    def _connected(self) -> Any:
        patience_ms = max(1, int(self._ttl_s * 500))
        connection = self._driver.connect(
            self._url,
            autocommit=True,
            prepare_threshold=None,  # a pooler between may give us another session each time
            connect_timeout=max(2, round(self._ttl_s / 2)),  # libpq's minimum is 2 s
            tcp_user_timeout=patience_ms,
            keepalives_idle=1,
            keepalives_interval=1,
            keepalives_count=2,
            options=f"-c statement_timeout={patience_ms}",
            application_name=f"appbackplane lease {self._cluster}",
        )
        try:
            connection.execute(_MAKE)
        except self._driver.Error:
            connection.close()
            raise
        return connection
