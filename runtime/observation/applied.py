"""Applied: which rows of a batch are new, so that a batch that is sent again is applied once, whoever is killed meanwhile.

Batches come from outside, in order: a group's batch is numbered above all before it, and its rows count from 0. Before rows
go to a recorded topic, an entry of a ledger says which, and at what position of the topic the first will be; after them, that
they are there. Whoever finds an entry without its end was killed between: what the topic holds from that position on are
those rows and nothing else, because nothing comes between the rows of one entry. So they are counted, and the rest is new.
Decides only; the file and the topic are execution/applying.py's. An entry takes about 120 bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final

import msgspec

from appbackplane.transport.errors import Busy, FailedPrecondition

#: Of one ledger, topics times groups. One that nobody used for `IDLE_NS` makes room; else a new one is refused.
GROUPS_MAX: Final = 10_000
#: Whoever replays a batch does so as soon as he is back; in an hour he would have been restarted.
IDLE_NS: Final = 3_600_000_000_000
#: length of the entry, CRC-32 of it.
ENTRY: Final = Struct("<II")
ENTRY_BYTES_MAX: Final = 4096


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """Of the ledger: rows `first` to `first + count` of a batch are about to be applied; `count` 0: all before are."""

    topic: str
    group: str
    batch: int
    first: int
    count: int
    #: Where the topic's next message would be: (segment, index), of this generation; 0, 0: the topic is not recorded.
    generation: int
    segment: int
    index: int
    #: Of the machine's clock.
    time_ns: int


class Applied:
    """What is known of each group: its last batch, and how many rows of it are applied."""

    def __init__(self) -> None:
        #: By topic and group, the one that was used last at the end. `count` is 0, but while rows are being applied.
        self._last: dict[tuple[str, str], Entry] = {}

    def __len__(self) -> int:
        return len(self._last)

    def recover(self, entries: Iterable[Entry], present: Callable[[Entry], int], now_ns: int) -> None:
        """What a ledger says. `present`: how many messages its topic holds from an entry's position on."""
        for entry in entries:  # the clock begins again with the machine: of those before, the hour begins now
            self._put(msgspec.structs.replace(entry, time_ns=min(entry.time_ns, now_ns)))
        for pair, entry in list(self._last.items()):
            if (
                entry.count
            ):  # killed between; a topic that is not recorded is told at most once, so that it counts as told
                there = entry.count if not entry.segment else min(entry.count, present(entry))
                self._last[pair] = settled(entry, there)

    def done(self, topic: str, group: str, batch: int) -> int:
        """How many rows of the batch are applied. Raises `FailedPrecondition` if a later batch is."""
        last = self._last.get((topic, group))
        if last is None or batch > last.batch:
            return 0
        if batch < last.batch:
            raise FailedPrecondition(
                f"group {group!r} of topic {topic} has had batch {last.batch}, this is {batch}: "
                "it begins again (with a new checkpoint?); give it a group of its own"
            )
        return last.first

    def begin(self, entry: Entry) -> None:
        """The rows of an entry are about to be applied. Raises `Busy` for a group more than there is room for."""
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

    def end(self, entry: Entry, count: int) -> Entry:
        """So many of them are. What the ledger is to say of it."""
        done = settled(entry, count)
        self._put(done)
        return done

    def entries(self) -> list[Entry]:
        """All that is known, for a ledger that begins with it; the one that was used last at the end."""
        return list(self._last.values())

    def _put(self, entry: Entry) -> None:
        self._last.pop((entry.topic, entry.group), None)
        self._last[entry.topic, entry.group] = entry


def settled(entry: Entry, count: int) -> Entry:
    """The same, with `count` of its rows applied."""
    return msgspec.structs.replace(entry, first=entry.first + count, count=0)


def pack(entry: Entry) -> bytes:
    """As the ledger holds it."""
    told = msgspec.msgpack.encode(entry)
    return ENTRY.pack(len(told), zlib.crc32(told)) + told


def unpack(data: bytes) -> list[Entry]:
    """The entries of a ledger, up to the first that is not whole: kill -9 may tear the last one."""
    found: list[Entry] = []
    at = 0
    while at + ENTRY.size <= len(data):
        length, check = ENTRY.unpack_from(data, at)
        told = data[at + ENTRY.size : at + ENTRY.size + length]
        if not 0 < length <= ENTRY_BYTES_MAX or len(told) != length or zlib.crc32(told) != check:
            break
        found.append(msgspec.msgpack.decode(told, type=Entry))
        at += ENTRY.size + length
    return found
