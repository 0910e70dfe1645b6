"""Stores: where the record of a cluster is kept. A port of two calls, by compare-and-swap; opening.py makes one.

Any store that can swap a value, if nobody has swapped it before, will do; times are the lease's own affair (record.py). A
call may block for as long as the store likes: it is made in a thread of its own (keeper.py).
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from .record import Record, Snapshot

#: A record is some 200 bytes; what is longer is none.
RECORD_BYTES_MAX = 64 << 10


class StoreError(Exception):
    """The store could not be asked, or what it says makes no sense; the message says why."""


class Store(Protocol):
    """Keeps the record of one cluster. Each call raises `StoreError`; then a swap may be done or not."""

    def look(self) -> Snapshot:
        """What it holds."""

    def swap(self, version: str, record: Record) -> Snapshot | None:
        """Have it hold `record` if it is at `version`; what it holds then. None: it is at another."""

    def close(self) -> None:
        """Nothing more is asked."""


def encoded(cluster: str, record: Record) -> bytes:
    """As it is kept."""
    return msgspec.json.encode({"cluster": cluster, "record": record})


class _Kept(msgspec.Struct):
    cluster: str
    record: Record


def decoded(cluster: str, kept: bytes, where: str) -> Record:
    """What was kept. Raises `StoreError`."""
    try:
        found = msgspec.json.decode(kept, type=_Kept)
    except msgspec.DecodeError as error:
        raise StoreError(f"{where} is no record of a lease: {error}") from error
    if found.cluster != cluster:
        raise StoreError(f"{where} is the lease of cluster {found.cluster!r}")
    return found.record
