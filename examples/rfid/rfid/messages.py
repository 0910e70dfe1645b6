"""Messages: frames of LLRP as a reader sends them, and those that the dispatcher sends to itself.

None has a key: messages without one are handled in the order of their connection, whatever their types. With a key, only those
of one type would be, and a round event could overtake the reads of its round.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

from appbackplane.runtime.dispatcher import Message, message
from appbackplane.runtime.dispatcher.message import Messages

#: The messages that a peer may send: frames of LLRP alone.
FRAMES: Final = Messages()


class FrameCategory(IntEnum):
    """Where a message comes from."""

    READER = 10
    OWN = 40


class TagRead(msgspec.Struct, frozen=True):
    """One TagReportData: `count` reads of one tag by one antenna. Times are the reader's, microseconds since 1970 (UTC)."""

    #: Hexadecimal digits.
    epc: str
    antenna: int
    #: dBm.
    rssi: int
    first_us: int
    last_us: int
    count: int


@message(category=FrameCategory.READER, id=61, internal=True, among=FRAMES)
class ReadsReported(Message):
    """RO_ACCESS_REPORT."""

    reader: str
    reads: tuple[TagRead, ...]
    connection: int = 0


@message(category=FrameCategory.READER, id=62, internal=True, among=FRAMES)
class AcknowledgementAsked(Message):
    """KEEPALIVE. `id`: of the frame."""

    reader: str
    id: int
    connection: int = 0


@message(category=FrameCategory.READER, id=63, internal=True, among=FRAMES)
class ReaderEvent(Message):
    """READER_EVENT_NOTIFICATION. `time_us`: the reader's clock, which all its reads have reached.

    None: the event of a new connection, over which older reads may follow. `is_refused`: the reader has another client.
    """

    reader: str
    time_us: int | None
    is_refused: bool = False
    connection: int = 0


@message(category=FrameCategory.READER, id=0, internal=True, among=FRAMES)
class OtherFrame(Message):
    """A frame of another type: it only shows that the reader lives."""

    reader: str
    connection: int = 0


@message(category=FrameCategory.OWN, id=1, internal=True)
class Connect(Message):
    """It is time to connect to a reader."""

    reader: str


@message(category=FrameCategory.OWN, id=2, internal=True)
class FellSilent(Message):
    """A reader has sent nothing for too long, not even a keepalive."""

    reader: str
