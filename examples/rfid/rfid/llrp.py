"""LLRP: the binary format in which RFID readers report, of the Low Level Reader Protocol 1.1 (EPCglobal, 2010), section 16.

A frame is a header (version, type, length, id) and parameters. A parameter is TLV (type, length, value) or TV (a type below
128, whose length the standard fixes). Pure: bytes in, messages out. `Llrp` decodes the frames of a reader. `frame` and the
functions below it encode those of the simulated reader.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from appbackplane.runtime.dispatcher import Message
from appbackplane.runtime.dispatcher.message import Messages
from appbackplane.runtime.dispatcher.sources.sockets import BadFrame, Frame, Framing

from .messages import FRAMES, AcknowledgementAsked, FrameCategory, OtherFrame, ReaderEvent, ReadsReported, TagRead

#: Reserved bits, version (3 bits) and type (10 bits); length with this header; id of the frame.
_HEADER: Final = struct.Struct(">HII")
#: Reserved bits and type (10 bits); length with these four bytes.
_TLV: Final = struct.Struct(">HH")
#: 1 is LLRP 1.0.1, with which each connection begins; 2 is LLRP 1.1.
VERSIONS: Final = (1, 2)

RO_ACCESS_REPORT, KEEPALIVE, READER_EVENT_NOTIFICATION, KEEPALIVE_ACK = 61, 62, 63, 72
_HEARD: Final = (RO_ACCESS_REPORT, KEEPALIVE, READER_EVENT_NOTIFICATION)

_ANTENNA, _FIRST_SEEN_UTC, _LAST_SEEN_UTC, _PEAK_RSSI, _SEEN_COUNT, _EPC_96 = 1, 2, 4, 6, 8, 13
_UTC, _TAG_REPORT, _EPC_DATA, _READER_EVENT, _ROUND_EVENT, _CONNECTION_ATTEMPT = 128, 240, 241, 246, 254, 256
#: Bytes of the value of each TV parameter (section 17.2.1.1 ff.).
_TV_BYTES: Final = {
    1: 2, 2: 8, 3: 8, 4: 8, 5: 8, 6: 1, 7: 2, 8: 2, 9: 4, 10: 2, 11: 2, 12: 2, 13: 12, 14: 2, 15: 2, 16: 4, 17: 2, 18: 4,
    19: 2, 20: 2,
}  # fmt: skip
#: Of an EPC, which a reader reads from at most 31 words of a tag's memory.
_EPC_BYTES_MAX: Final = 62
#: Later times than the year 9999, in microseconds, are a broken clock's, and have no date.
_TIME_US_MAX: Final = 253_402_300_799_000_000


class Llrp(Framing):
    """Converts the frames of one reader to messages. `reader`: its name in the settings."""

    #: A report of 1,000 tags has 45 KB. Readers send a report when their own buffer is full, which is smaller.
    frame_bytes_max: ClassVar[int] = 64 << 10
    messages: ClassVar[Messages] = FRAMES

    def __init__(self, reader: str) -> None:
        self.reader = reader

    def split(self, buffer: bytearray) -> Frame | None:
        if len(buffer) < _HEADER.size:
            return None
        word, length, _ = _HEADER.unpack_from(buffer)
        version, kind = word >> 10 & 0b111, word & 0x3FF
        if version not in VERSIONS:
            raise BadFrame(
                f"version {version}: expected {' or '.join(map(str, VERSIONS))}: is this a reader that speaks LLRP?"
            )
        if not _HEADER.size <= length <= self.frame_bytes_max:
            raise BadFrame(f"a frame of {length:,} bytes: expected {_HEADER.size} to {self.frame_bytes_max:,}")
        if len(buffer) < length:
            return None
        frame = Frame(FrameCategory.READER, kind if kind in _HEARD else 0, bytes(buffer[:length]))
        del buffer[:length]
        return frame

    def decode(self, frame: Frame, kind: type[Message]) -> Message:
        (_, _, id), body = _HEADER.unpack_from(frame.body), memoryview(frame.body)[_HEADER.size :]
        if kind is ReadsReported:
            return ReadsReported(
                self.reader, tuple(_read_of(value) for type, value in _parameters(body) if type == _TAG_REPORT)
            )
        if kind is AcknowledgementAsked:
            return AcknowledgementAsked(self.reader, id)
        return self._event(body) if kind is ReaderEvent else OtherFrame(self.reader)

    def _event(self, body: memoryview) -> ReaderEvent:
        for type, value in _parameters(body):
            if type == _READER_EVENT:
                found = dict(_parameters(value))
                if _CONNECTION_ATTEMPT in found:
                    return ReaderEvent(self.reader, None, is_refused=_number(found, _CONNECTION_ATTEMPT, "H") != 0)
                return ReaderEvent(self.reader, _number(found, _UTC, "Q"))
        raise BadFrame("READER_EVENT_NOTIFICATION without ReaderEventNotificationData")


def _parameters(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Type and value of each parameter. Raises `BadFrame` where one does not end within `data`."""
    at = 0
    while at < len(data):
        if data[at] & 0x80:
            type = data[at] & 0x7F
            start, size = at + 1, _TV_BYTES.get(type, -1)
            if size < 0:
                raise BadFrame(f"TV parameter {type} is none of LLRP 1.1, so its length is unknown")
        else:
            if len(data) - at < _TLV.size:
                raise BadFrame("a parameter ends within its header")
            word, length = _TLV.unpack_from(data, at)
            type, start, size = word & 0x3FF, at + _TLV.size, length - _TLV.size
            if size < 0:
                raise BadFrame(f"parameter {type} claims {length} bytes: expected {_TLV.size} or more")
        at = start + size
        if at > len(data):
            raise BadFrame(f"parameter {type} ends {at - len(data)} bytes behind its frame")
        yield type, data[start:at]


def _read_of(data: memoryview) -> TagRead:
    found = dict(_parameters(data))
    last_us = _number(found, _LAST_SEEN_UTC, "Q")
    return TagRead(
        epc=_epc_of(found),
        antenna=_number(found, _ANTENNA, "H"),
        rssi=_number(found, _PEAK_RSSI, "b", default=0),
        first_us=min(last_us, _number(found, _FIRST_SEEN_UTC, "Q", default=last_us)),
        last_us=last_us,
        count=_number(found, _SEEN_COUNT, "H", default=1),
    )


def _epc_of(found: dict[int, memoryview]) -> str:
    if _EPC_96 in found:
        return found[_EPC_96].hex()
    size = (_number(found, _EPC_DATA, "H") + 7) // 8
    value = found[_EPC_DATA][2:]
    if not 0 < size <= min(_EPC_BYTES_MAX, len(value)):
        raise BadFrame(f"an EPC of {size} bytes: expected 1 to {min(_EPC_BYTES_MAX, len(value))}")
    return value[:size].hex()


def _number(found: dict[int, memoryview], type: int, format: str, default: int | None = None) -> int:
    if type not in found:
        if default is None:
            raise BadFrame(f"parameter {type} is missing: configure the reader to report antennas, and times in UTC")
        return default
    value = found[type]
    if len(value) < struct.calcsize(f">{format}"):
        raise BadFrame(f"parameter {type} has {len(value)} bytes: expected {struct.calcsize(f'>{format}')}")
    number: int = struct.unpack_from(f">{format}", value)[0]
    if number > _TIME_US_MAX:
        raise BadFrame(f"parameter {type}: {number} is no time of the next 8,000 years")
    return number


def frame(type: int, id: int, body: bytes = b"", *, version: int = 1) -> bytes:
    """A frame, with its header."""
    return _HEADER.pack(version << 10 | type, _HEADER.size + len(body), id) + body


def report_frame(id: int, reads: Sequence[TagRead]) -> bytes:
    """RO_ACCESS_REPORT."""
    return frame(RO_ACCESS_REPORT, id, b"".join(map(_report_of, reads)))


def connection_frame(id: int, time_us: int, *, status: int = 0) -> bytes:
    """READER_EVENT_NOTIFICATION with a ConnectionAttemptEvent. `status` 0: success; 2: another client is connected."""
    return _event_frame(id, time_us, _tlv(_CONNECTION_ATTEMPT, struct.pack(">H", status)))


def round_frame(id: int, time_us: int) -> bytes:
    """READER_EVENT_NOTIFICATION with an AISpecEvent: a round of inventory, in which all tags were asked, has ended."""
    return _event_frame(id, time_us, _tlv(_ROUND_EVENT, struct.pack(">BIH", 0, 1, 1)))


def _event_frame(id: int, time_us: int, event: bytes) -> bytes:
    return frame(READER_EVENT_NOTIFICATION, id, _tlv(_READER_EVENT, _tlv(_UTC, struct.pack(">Q", time_us)) + event))


def _report_of(read: TagRead) -> bytes:
    values: tuple[tuple[int, str, Any], ...] = (
        (_EPC_96, "12s", bytes.fromhex(read.epc)), (_ANTENNA, "H", read.antenna), (_PEAK_RSSI, "b", read.rssi),
        (_FIRST_SEEN_UTC, "Q", read.first_us), (_LAST_SEEN_UTC, "Q", read.last_us), (_SEEN_COUNT, "H", read.count),
    )  # fmt: skip
    return _tlv(_TAG_REPORT, b"".join(struct.pack(f">B{format}", 0x80 | type, value) for type, format, value in values))


def _tlv(type: int, value: bytes) -> bytes:
    return _TLV.pack(type, _TLV.size + len(value)) + value
