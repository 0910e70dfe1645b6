"""Stores: the port to the store of a cluster's record: two calls, compare-and-swap. opening.py makes one.

Any store with compare-and-swap will do; times are the lease's own affair (record.py). A call may block for as long as the
store likes: keeper.py makes it in a thread of its own.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from .record import LeaseRecord, Snapshot

#: A record is some 200 bytes; longer data is no record.
RECORD_BYTES_MAX = 64 << 10


class StoreError(Exception):
    """The store failed, or its data makes no sense; the message gives the reason."""


class Store(Protocol):
    """Keeps the record of one cluster. Each call may raise `StoreError`; a swap may then be done or not."""

    def look(self) -> Snapshot:
        """The stored record and its version."""

    def swap(self, version: str, record: LeaseRecord) -> Snapshot | None:
        """Replace the record if it is at `version`, and return the new content. None: it is at another version."""

    def close(self) -> None:
        """Release the file or connection; no call may follow."""


def encoded(cluster: str, record: LeaseRecord) -> bytes:
    """The stored bytes: JSON of the record and its cluster's name."""
    return msgspec.json.encode({"cluster": cluster, "record": record})


class _Kept(msgspec.Struct):
    cluster: str
    record: LeaseRecord


def decoded(cluster: str, kept: bytes, where: str) -> LeaseRecord:
    """The record in the stored bytes; `where` is for messages. Raises `StoreError`."""
    try:
        found = msgspec.json.decode(kept, type=_Kept)
    except msgspec.DecodeError as error:
        raise StoreError(f"{where} is not a lease record: {error}") from error
    if found.cluster != cluster:
        raise StoreError(f"{where}: this lease belongs to cluster {found.cluster!r}, not to {cluster!r}")
    return found.record
