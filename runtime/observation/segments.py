"""Segments: the format of the files in which a backplane records actions and messages; recorder and readers share it.

A segment is complete in itself: a header, the names that its records use by number, and the records. Each record has a check
of its own, so readers skip one that was torn by kill -9 or damaged later, and read those around it. A segment is written
through shared memory, only forwards, and never changed, so readers need no lock: the first place without a valid record is
the current end. A position, (segment number, index), names one record for ever.

| bytes | what |
|---|---|
| 0 … 4095 | header: `HEADER`, then JSON |
| 4096 … 262143 | actions only: names, one after the other: `NAME`, then component, NUL, name |
| 262144 … | actions only: records of 13 words (`FIELDS`) |
| 4096 … | messages only: `MESSAGE`, then the body, up to a multiple of 8 |
"""

from __future__ import annotations

import zlib
from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple

import msgspec

#: Version of the layout. Raise it with any change of a byte; readers refuse versions that they do not know.
VERSION: Final = 1
MAGIC: Final = b"ABPSEGM\n"
#: Magic, version, length of the JSON, its CRC-32, 0, seal: the number of records, or -1 while the segment may grow.
HEADER: Final = Struct("<8sIIIIq")
HEADER_BYTES: Final = 4096
#: Offset of the seal in the header.
SEAL_OFFSET: Final = 24
NAMES_END: Final = 1 << 18
#: Length (0: no more names), 0, CRC-32 of the text that follows.
NAME: Final = Struct("<HHI")
#: Longer names are cut; routes and keys that people write are shorter.
NAME_BYTES_MAX: Final = 512

WORDS: Final = 13
RECORD: Final = Struct(f"<{WORDS}q")
RECORD_BYTES: Final = RECORD.size
#: The last word of a record is the XOR of all others, this salt and the index. So neither zeros nor a record from another place
#: are valid.
SALT: Final = 0x5EA5_0F1E_2D3C_4B5A
#: (Word, bits): words that often equal another one (cpu and took equal run, span trace_low, parent trace_high) enter the check
#: a second time, shifted right; otherwise the same damage to both would cancel out.
SHIFTED: Final = ((3, 1), (4, 2), (8, 1), (9, 2))
#: The margin of an action without a deadline.
NO_DEADLINE: Final = -(1 << 63)


class Field(NamedTuple):
    """The place of a value in a record: word, lowest bit, number of bits (64: the whole word, signed)."""

    word: int
    shift: int = 0
    bits: int = 64


#: Times in ns. `start`: Unix time at which it first ran; `wait`: in queues; `took`: from start to end, awaiting included;
#: `margin`: time left to the deadline at its end. `operation` and `object`: numbers of names in this segment. `lane`: that of
#: a request, 0 for other actions. `priority`: as requested; `effective`: at its end. `outcome`: a Status (0: OK).
FIELDS: Final = {
    "start": Field(0),
    "wait": Field(1),
    "run": Field(2),
    "cpu": Field(3),
    "took": Field(4),
    "margin": Field(5),
    "trace_high": Field(6),
    "trace_low": Field(7),
    "span": Field(8),
    "parent": Field(9),
    "operation": Field(10, 0, 32),
    "object": Field(10, 32, 31),
    "priority": Field(11, 0, 8),
    "effective": Field(11, 8, 8),
    "lane": Field(11, 16, 8),
    "outcome": Field(11, 24, 8),
    "boosted": Field(11, 32, 1),
}
#: Index of the last word, the check.
CHECK_WORD: Final = WORDS - 1

#: 0x6d736731, CRC-32 of the rest, length of the body, 0, number in the segment, Unix time in ns. Begins at a multiple of 8.
MESSAGE: Final = Struct("<IIIIqq")
MESSAGE_MARK: Final = 0x6D73_6731

ACTIONS_SUFFIX: Final = ".actions"
MESSAGES_SUFFIX: Final = ".messages"
#: Below the run directory: RECORDS/BACKPLANE/00000001.actions, RECORDS/BACKPLANE/TOPIC/00000001.messages.
RECORDS: Final = "records"


class SegmentHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON in the header of a segment: its writer, its number, and the writer's limits."""

    kind: str
    system: str
    node: str
    backplane: str
    generation: int
    pid: int
    #: Counted from 1 for each backplane (and topic), over all its generations.
    number: int
    created_ns: int
    #: The topic of recorded messages; None for actions.
    topic: str | None = None
    #: The backplane's settings threads, priorities, quotas, cpu_limit and nice, to judge later whether they sufficed.
    limits: dict[str, Any] = {}


class BadSegment(Exception):
    """A file is no segment, or of an unknown version. The message is one line without the file's name."""


def pack_header(header: SegmentHeader) -> bytes:
    """The first bytes of an unsealed segment. `limits` are left out if they do not fit (hundreds of quotas)."""
    told = msgspec.json.encode(header)
    if HEADER.size + len(told) > HEADER_BYTES:
        told = msgspec.json.encode(msgspec.structs.replace(header, limits={}))
    if HEADER.size + len(told) > HEADER_BYTES:
        raise ValueError(f"a header of {len(told)} bytes: at most {HEADER_BYTES - HEADER.size} fit")
    return HEADER.pack(MAGIC, VERSION, len(told), zlib.crc32(told), 0, -1) + told


def unpack_header(data: bytes) -> tuple[SegmentHeader, int]:
    """The header, and the sealed number of records (-1: the segment may grow). Raises `BadSegment`."""
    if len(data) < HEADER.size or data[: len(MAGIC)] != MAGIC:
        raise BadSegment("is no segment" if any(data) else "is empty: nothing was written to it")
    _, version, length, check, _, sealed = HEADER.unpack_from(data)
    if version != VERSION:
        raise BadSegment(f"has schema version {version}: this program reads {VERSION}")
    told = data[HEADER.size : HEADER.size + length]
    if len(told) != length or zlib.crc32(told) != check:
        raise BadSegment("has a damaged header")
    try:
        return msgspec.json.decode(told, type=SegmentHeader), sealed
    except msgspec.MsgspecError as error:
        raise BadSegment(f"has a header that says something else: {error}") from error


def pack_name(component: str, name: str) -> bytes:
    """An entry of the names: length, CRC-32 and text, cut to `NAME_BYTES_MAX`."""
    text = f"{component}\0{name}".encode("utf-8", "replace")[:NAME_BYTES_MAX]
    return NAME.pack(len(text), 0, zlib.crc32(text)) + text


def unpack_names(data: bytes) -> list[tuple[str, str]]:
    """(component, name) by number; ("", "?") for one that is damaged. `data`: from the end of the header on."""
    found: list[tuple[str, str]] = []
    at = 0
    while at + NAME.size <= len(data):
        length, _, check = NAME.unpack_from(data, at)
        if not length and not check:
            break
        at += NAME.size
        text = data[at : at + length]
        if zlib.crc32(text) != check:  # if the length is damaged, all later names would get wrong numbers
            text = _checked(data[at : at + NAME_BYTES_MAX], check) or text
        if not 0 < len(text) <= NAME_BYTES_MAX:
            break
        at += len(text)
        if zlib.crc32(text) == check:
            component, _, name = text.decode("utf-8", "replace").partition("\0")
            found.append((component, name))
        else:
            found.append(("", "?"))
    return found


def _checked(data: bytes, check: int) -> bytes:
    """The shortest prefix of `data` with this CRC-32; empty if there is none."""
    crc = 0
    for end in range(1, len(data) + 1):
        crc = zlib.crc32(data[end - 1 : end], crc)
        if crc == check:
            return data[:end]
    return b""


def check_of(words: tuple[int, ...], index: int) -> int:
    """The check, signed, of a record with these words at `index` in its segment."""
    check = SALT ^ index
    for word in words[:CHECK_WORD]:
        check ^= word
    for number, bits in SHIFTED:
        check ^= words[number] >> bits & (1 << 64 - bits) - 1
    return check


def pack_message(number: int, time_ns: int, body: bytes) -> bytes:
    """The bytes of a recorded message, padded to a multiple of 8. `number` counts from 0 in its segment."""
    head = MESSAGE.pack(MESSAGE_MARK, 0, len(body), 0, number, time_ns)
    check = zlib.crc32(body, zlib.crc32(head[8:]))
    return MESSAGE.pack(MESSAGE_MARK, check, len(body), 0, number, time_ns) + body + bytes(-len(body) % 8)


def unpack_message(data: bytes | memoryview, at: int) -> tuple[int, int, memoryview, int] | None:
    """(number, Unix time in ns, body, offset of the next message) of the message at `at`; None: none, or it is incomplete."""
    if at + MESSAGE.size > len(data):
        return None
    mark, check, length, _, number, time_ns = MESSAGE.unpack_from(data, at)
    body_at = at + MESSAGE.size
    if mark != MESSAGE_MARK or body_at + length > len(data):
        return None
    view = memoryview(data)
    body = view[body_at : body_at + length]
    if zlib.crc32(body, zlib.crc32(view[at + 8 : body_at])) != check:
        return None
    return number, time_ns, body, body_at + length + (-length % 8)


def file_name(number: int, suffix: str) -> str:
    """The file name of a segment: its number in eight digits and the suffix."""
    return f"{number:08d}{suffix}"


def files_in(folder: Path, suffix: str) -> list[tuple[int, Path]]:
    """The segments in a folder, in the order of their numbers, each with its number."""
    named = ((path.name[: -len(suffix)], path) for path in folder.glob(f"*{suffix}"))
    return sorted((int(number), path) for number, path in named if number.isdecimal())


def actions_folder(run_dir: Path, backplane: str) -> Path:
    """The folder of a backplane's recorded actions."""
    return run_dir / RECORDS / backplane


def messages_folder(run_dir: Path, backplane: str, topic: str) -> Path:
    """The folder of the messages that a backplane publishes on a recorded topic."""
    return run_dir / RECORDS / backplane / topic
