"""Applied: decides which rows of a batch are new, so that a batch sent again is applied once, whichever process was killed.

Batches arrive from outside, in order: each batch of a group has a higher number than all before it; its rows count from 0.
Before rows go to a recorded topic, a ledger entry notes their numbers and the topic position of the first; after them, a
second entry notes that they are there. An entry without its end means that the process was killed in between. Only rows of
that entry can follow its position, because no other message comes between them. So they are counted, and the rest is new.
Decides only; execution/records/applying.py owns the file and the topic. An entry takes about 120 bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final

import msgspec

from appbackplane.transport.errors import Busy, FailedPrecondition

#: Bound of the (topic, group) pairs of one ledger. A new pair replaces one unused for `IDLE_NS`, or else is refused.
GROUPS_MAX: Final = 10_000
#: A sender repeats a batch as soon as it runs again, and within an hour it would have been restarted.
IDLE_NS: Final = 3_600_000_000_000
#: Length of the entry, CRC-32 of the entry.
ENTRY: Final = Struct("<II")
ENTRY_BYTES_MAX: Final = 4096


class LedgerEntry(msgspec.Struct, frozen=True, array_like=True):
    """A ledger entry: rows `first` up to `first + count` are about to be applied; `count` 0: all before `first` are applied."""

    topic: str
    group: str
    batch: int
    first: int
    count: int
    #: Position of the topic's next message: (segment, index), in this generation; 0, 0: the topic is not recorded.
    generation: int
    segment: int
    index: int
    #: Monotonic ns of the machine.
    time_ns: int


class Applied:
    """The state of each group: its last batch, and how many of its rows are applied."""

    def __init__(self) -> None:
        #: By (topic, group), the most recently used last. `count` is 0, except while rows are being applied.
        self._last: dict[tuple[str, str], LedgerEntry] = {}

    def recover(self, entries: Iterable[LedgerEntry], present: Callable[[LedgerEntry], int], now_ns: int) -> None:
        """Take over the entries of a ledger. `present`: how many messages the topic holds from an entry's position on."""
        for entry in entries:  # monotonic time restarts with the machine: an entry from before counts as used now
            self._put(msgspec.structs.replace(entry, time_ns=min(entry.time_ns, now_ns)))
        for pair, entry in list(self._last.items()):
            if entry.count:  # killed in between; an unrecorded topic gets rows at most once, so they count as published
                there = entry.count if not entry.segment else min(entry.count, present(entry))
                self._last[pair] = settled(entry, there)

    def done(self, topic: str, group: str, batch: int) -> int:
        """How many rows of the batch are applied. Raises `FailedPrecondition` if a later batch was begun."""
        last = self._last.get((topic, group))
        if last is None or batch > last.batch:
            return 0
        if batch < last.batch:
            raise FailedPrecondition(
                f"group {group!r} of topic {topic} has had batch {last.batch}, this is {batch}: "
                "the sender began again (with a new checkpoint?): give it a group of its own"
            )
        return last.first

    def begin(self, entry: LedgerEntry) -> None:
        """Note that the rows of an entry are about to be applied. Raises `Busy` for a new group beyond `GROUPS_MAX`."""
        pair = (entry.topic, entry.group)
        if pair not in self._last and len(self._last) >= GROUPS_MAX:
            oldest = next(iter(self._last))
            if entry.time_ns - self._last[oldest].time_ns < IDLE_NS:
                raise Busy(
                    f"{GROUPS_MAX} groups have applied batches here within the hour: use the same group again",
                    retry_after=60.0,
                )
            del self._last[oldest]
        self._put(entry)

    def end(self, entry: LedgerEntry, count: int) -> LedgerEntry:
        """Note that `count` of its rows are applied. Returns the entry to write to the ledger."""
        done = settled(entry, count)
        self._put(done)
        return done

    def entries(self) -> list[LedgerEntry]:
        """All current entries, to begin a new ledger with; the most recently used last."""
        return list(self._last.values())

    def _put(self, entry: LedgerEntry) -> None:
        self._last.pop((entry.topic, entry.group), None)
        self._last[entry.topic, entry.group] = entry


def settled(entry: LedgerEntry, count: int) -> LedgerEntry:
    """The entry after `count` of its rows were applied."""
    return msgspec.structs.replace(entry, first=entry.first + count, count=0)


def pack(entry: LedgerEntry) -> bytes:
    """The bytes of the entry in the ledger: length, CRC-32, msgpack."""
    told = msgspec.msgpack.encode(entry)
    return ENTRY.pack(len(told), zlib.crc32(told)) + told


def unpack(data: bytes) -> list[LedgerEntry]:
    """The entries of a ledger, up to the first incomplete one: kill -9 may tear the last one."""
    found: list[LedgerEntry] = []
    at = 0
    while at + ENTRY.size <= len(data):
        length, check = ENTRY.unpack_from(data, at)
        told = data[at + ENTRY.size : at + ENTRY.size + length]
        if not 0 < length <= ENTRY_BYTES_MAX or len(told) != length or zlib.crc32(told) != check:
            break
        found.append(msgspec.msgpack.decode(told, type=LedgerEntry))
        at += ENTRY.size + length
    return found
