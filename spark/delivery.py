"""Delivery: rows of a batch to a topic or a route of a running system, each once, however often the batch is sent.

To a topic: one backplane publishes the rows and records, in a file, how far each batch of each group has come
(`backplane.NAME.apply`); so it may be killed, and so may we. To a route: each row is a call with an idempotency key, which
the serving backplane remembers until it restarts, within bounds (`ReplayPolicy`). Passing failures are retried until a
deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from appbackplane.transport import Client, addressing, connect
from appbackplane.transport.call_checks import IDEMPOTENCY_KEY_MAX
from appbackplane.transport.errors import (
    BackplaneError,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    PeerError,
    Unavailable,
)

#: Seconds for a batch to be accepted, restarts of the system included.
PATIENCE_S: Final = 60.0
#: Seconds for one attempt: longer than a backplane's restart, so that the client retries through it where it can.
TRY_S: Final = 5.0
#: Shortest pause between attempts, seconds.
PAUSE_S: Final = 0.2
#: Rows of one call, and their bytes: enough to make its cost small (0.2 ms), few enough for 3 ms of the backplane's time.
ROWS_MAX: Final = 256
BYTES_MAX: Final = 256 << 10
#: Calls to a route that are in flight at a time.
CALLS_MAX: Final = 256

Row = dict[str, Any]


class SystemDelivery:
    """Delivers to one system, as one group."""

    def __init__(
        self,
        system: str | Path,
        group: str,
        *,
        backplane: str | None = None,
        patience_s: float = PATIENCE_S,
        is_to_end: Callable[[], bool] = lambda: False,
    ) -> None:
        """`system`: name, run directory or TOML. `backplane`: the publisher; None: the first by name. `is_to_end`: returns
        True once nothing is to be retried any more.
        """
        self._system, self._group, self._backplane, self._patience_s = str(system), group, backplane, patience_s
        self._is_to_end = is_to_end
        self._client: Client | None = None

    def to_topic(self, topic: str, batch: int, rows: Sequence[Row]) -> int:
        """Publish a batch; returns how many of its rows had not been published before. Raises `BackplaneError`."""
        end_s = time.monotonic() + self._patience_s
        done = applied = 0
        while done < len(rows):
            part = _part(rows, done)
            arguments = {"topic": topic, "group": self._group, "batch": batch, "first": done, "rows": part}
            answer = self._call_until(end_s, arguments)
            if not answer["applied"] and answer["done"] == done:
                raise FailedPrecondition(f"topic {topic}: batch {batch} does not get beyond row {done}")
            applied += answer["applied"]
            done = answer["done"]
        return applied

    def to_route(self, route: str, batch: int, rows: Sequence[Row], key: str | None = None) -> int:
        """Call `route` with each row; returns their number. `key`: column with the object's key. Raises `BackplaneError`."""
        end_s = time.monotonic() + self._patience_s
        for first in range(0, len(rows), CALLS_MAX):
            left = dict(enumerate(rows[first : first + CALLS_MAX], first))
            while left:
                left = self._calls(route, batch, left, key, end_s)
        return len(rows)

    def try_call(self, route: str, key: str | None, arguments: Row, id: str, limit_s: float) -> None:
        """Make one call, done once per `id`. Raises `BackplaneError`, also where a later attempt may succeed."""
        self._connected().call(route, key=key, arguments=arguments, idempotency_key=id, timeout=limit_s)

    def check(self) -> None:
        """Raises `BackplaneError` unless the system runs."""
        self._connected()

    def close(self) -> None:
        """Close the connection to the system, if there is one."""
        if self._client is not None:
            self._client.close()
            self._client = None

    # -- steps --------------------------------------------------------------------------------------------------------

    def _connected(self) -> Client:
        if self._client is None:
            self._client = connect(self._system)
        return self._client

    def _call_until(self, end_s: float, arguments: Row) -> Any:
        while True:
            try:
                client = self._connected()
                route = addressing.backplane_route(self._backplane or _first(client), "apply")
                return client.call(route, timeout=min(TRY_S, _left(end_s)), arguments=arguments)
            except BackplaneError as error:
                self._pause(error, end_s)

    def _calls(self, route: str, batch: int, rows: dict[int, Row], key: str | None, end_s: float) -> dict[int, Row]:
        """Make the calls, and pause if one failed. Returns the rows to be called again."""
        pending, again = {}, {}
        problem: BackplaneError | None = None
        for index, row in rows.items():
            if key is not None and row[key] is None:
                raise InvalidArgument(
                    f"row {index} of batch {batch}: column {key} names the object to call, and is NULL"
                )
            name = f"{self._group}/{batch}/{index}"
            arguments = {column: value for column, value in row.items() if column != key}
            try:
                pending[index] = self._connected().submit(
                    route, key=None if key is None else str(row[key]), arguments=arguments,
                    timeout=min(TRY_S, _left(end_s)), idempotency_key=name,
                )  # fmt: skip
            except BackplaneError as error:
                problem, again[index] = error, row
        for index, call in pending.items():
            try:
                call.result()
            except BackplaneError as error:
                if not _may_pass(error):
                    raise FailedPrecondition(f"row {index} of batch {batch}: {error.message}") from error
                problem, again[index] = error, rows[index]
        if problem is not None:
            self._pause(problem, end_s)
        return again

    def _pause(self, error: BackplaneError, end_s: float) -> None:
        """Wait before a retry. Raises the error if a retry would not help, or comes too late."""
        if not _may_pass(error) or time.monotonic() + PAUSE_S >= end_s or self._is_to_end():
            raise error
        time.sleep(max(PAUSE_S, min(error.retry_after or 0.0, 1.0)))


def first_backplane(system: str | Path) -> str:
    """The first backplane of a running system, by name. Raises `BackplaneError`."""
    with connect(system) as client:
        return _first(client)


def _first(client: Client) -> str:
    names = client.directory().backplanes
    if not names:
        raise Unavailable("the system has no backplane yet")
    return min(names)


def check_group(group: str) -> str:
    """Returns `group`, which names a sequence of batches. Raises ValueError if it is empty or too long."""
    longest = IDEMPOTENCY_KEY_MAX - 42  # two numbers of 20 digits, and their separators
    if not 0 < len(group) <= longest:
        raise ValueError(f"a group's name has 1 to {longest} characters, got {len(group)}")
    return group


def _part(rows: Sequence[Row], first: int) -> Sequence[Row]:
    """As many rows as fit into one call, at least one."""
    size = 0
    for count in range(min(ROWS_MAX, len(rows) - first)):
        size += len(msgspec.msgpack.encode(rows[first + count]))
        if size > BYTES_MAX and count:
            return rows[first : first + count]
    return rows[first : first + ROWS_MAX]


def _may_pass(error: BackplaneError) -> bool:
    return isinstance(error, PeerError | DeadlineExceeded)


def _left(end_s: float) -> float:
    return max(0.05, end_s - time.monotonic())
