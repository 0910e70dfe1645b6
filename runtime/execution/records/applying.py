"""Applying: publishes batches of rows from outside on a topic, each row once, despite kills and repeated sending.

observation/applied.py decides which rows of a batch are new; this file keeps the ledger of applied rows and publishes them. The
lead is held for one slice of rows at a time: entry, rows, end of the entry, with nothing between them. Written entries are in
the kernel's memory, like the records: they survive kill -9 of this process, but no power cut.
Cost: a row costs as much as publishing it; a slice adds two writes to the ledger, 10 us.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from appbackplane.transport.errors import Unavailable

from ...observation import segments
from ...observation.applied import Applied, LedgerEntry, pack, unpack
from ..outgoing.publishing import Publishing
from ..outgoing.sender import Sender
from ..workers.clock import Clock
from ..workers.poll_leader import PollLeader

log = logging.getLogger("appbackplane.runtime")

#: Rows published in one hold of the lead: 64 take half a millisecond.
SLICE: Final = 64
#: A ledger that has grown by this is written anew, with one entry a group: 1 MiB is 4,000 slices, and takes 10 ms at most.
LEDGER_BYTES_MAX: Final = 1 << 20
LEDGER: Final = "applied.ledger"
#: Bytes allocated beyond that limit, for a slice whose entry began below it.
SPARE: Final = 16_384


class Applying:
    """Applies batches in one backplane. Its operation runs one batch at a time."""

    def __init__(
        self, backplane: str, run_dir: Path, generation: int, *, lead: threading.RLock, clock: Clock, poll_leader: PollLeader,
        sender: Sender, publishing: Publishing,
    ) -> None:  # fmt: skip
        self._backplane = backplane
        self._lead = lead
        self._clock = clock
        self._poll_leader = poll_leader
        self._sender = sender
        self._publishing = publishing
        self._run_dir, self._generation = run_dir, generation
        self._applied: Applied | None = None
        self._ledger = -1
        self._size = self._limit = 0

    def apply(
        self, topic: str, group: str, batch: int, first: int, rows: Sequence[Mapping[str, Any]]
    ) -> dict[str, int]:
        """Publish the new ones of rows `first` and following. Returns `applied`, their number, and `done`, the batch's total.

        Rows beyond a gap are left out: continue with row number `done`. Raises `FailedPrecondition` if a later batch of the
        group was applied, `Busy` at the bound of groups, `Unavailable` if the topic cannot be recorded now.
        """
        applied = 0
        while True:
            with self._lead:
                done = self._known().done(topic, group, batch)
                if not first <= done < first + len(rows):
                    return {"applied": applied, "done": done}
                fresh = rows[done - first : done - first + SLICE]
                self._slice(topic, group, batch, done, fresh)
                applied += len(fresh)
                self._poll_leader.notify()

    def recover(self) -> None:
        """Load the ledger of an earlier process. Call it before any recording, and before retention removes the records."""
        path = self._path()
        if not path.exists():
            return
        self._applied = Applied()
        self._applied.recover(unpack(path.read_bytes()), self._present, self._clock.now_ns())
        try:
            self._begin_ledger(self._applied)
        except Unavailable as error:
            log.warning("%s", error)  # batches are refused until the ledger can be written

    def close(self) -> None:
        if self._ledger >= 0:
            os.close(self._ledger)
            self._ledger = -1

    # -- steps --------------------------------------------------------------------------------------------------------

    def _slice(self, topic: str, group: str, batch: int, first: int, rows: Sequence[Mapping[str, Any]]) -> None:
        known, now_ns = self._known(), self._clock.now_ns()
        records = self._publishing.records.get(topic)
        segment, index = (0, 0) if records is None else records.position
        entry = LedgerEntry(topic, group, batch, first, len(rows), self._generation, segment, index, now_ns)
        known.begin(entry)
        self._write(pack(entry))
        there = 0
        try:
            for row in rows:
                if records is not None and not records.append(self._sender.encoder.pack(row), now_ns):
                    why = f"topic {topic} cannot be recorded now (see status --stats for why)"
                    raise Unavailable(why, retry_after=1.0)  # this row is not published, nor any behind it
                there += 1
                self._publishing.tell(topic, row, None, now_ns)
        finally:
            self._write(pack(known.end(entry, there)))

    def _known(self) -> Applied:
        if self._applied is None:
            self.recover()
        if self._applied is None:
            self._applied = Applied()
        if self._ledger < 0 or self._size > self._limit:
            self._begin_ledger(self._applied)
        return self._applied

    def _begin_ledger(self, known: Applied) -> None:
        """Replace the ledger atomically. Its room is allocated in advance, so that no entry fails on a full disk."""
        self.close()
        path = self._path()
        new = path.with_suffix(".tmp")
        told = b"".join(map(pack, known.entries()))
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._ledger = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            self._limit = len(told) + LEDGER_BYTES_MAX
            os.posix_fallocate(self._ledger, 0, self._limit + SPARE)
            self._size = os.pwrite(self._ledger, told, 0)
            os.rename(new, path)
        except OSError as error:
            self.close()
            with suppress(OSError):  # the part of it that a full disk held
                new.unlink(missing_ok=True)
            raise Unavailable(f"{new}: {error.strerror or error}", retry_after=1.0) from error

    def _write(self, told: bytes) -> None:
        self._size += os.pwrite(self._ledger, told, self._size)

    def _path(self) -> Path:
        return segments.actions_folder(self._run_dir, self._backplane) / LEDGER

    def _present(self, entry: LedgerEntry) -> int:
        folder = segments.messages_folder(self._run_dir, self._backplane, entry.topic)
        return sum(
            messages_of(path, entry.generation, entry.index if number == entry.segment else 0)
            for number, path in segments.files_in(folder, segments.MESSAGES_SUFFIX)
            if number >= entry.segment
        )


def messages_of(path: Path, generation: int, since: int) -> int:
    """How many messages from number `since` on a segment holds; 0 if it is of another generation."""
    data = path.read_bytes()
    try:
        header, _ = segments.unpack_header(data)
    except segments.BadSegment:
        return 0  # killed before it had one: nothing was written to it
    at, number = segments.HEADER_BYTES, -1
    if header.generation != generation:
        return 0
    while (found := segments.unpack_message(data, at)) is not None:
        number, _, _, at = found
    return max(0, number + 1 - since)
