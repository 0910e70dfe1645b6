"""Framing: how the bytes of a foreign protocol become messages, and messages bytes. Pure: fed with bytes, it touches no socket.

A frame names its message by the pair (category, id), which the registry of messages knows (message.py). Subclass `Framing` for
a protocol of your own: `split` takes one frame off what has come, `decode` makes the message, `encode` the bytes of one. What
either raises is told as `Malformed`: after a bad body the next frame is looked at, after a bad frame the connection ends,
since nobody knows where the next one begins.
"""

from __future__ import annotations

import struct
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from ...handles import lane_of
from ...message import MESSAGES, Message, Messages
from .completions import READY

#: A peer that is not to be trusted makes 71 MiB of 1 MiB of empty maps, where a field takes anything; messages of devices have
#: hundreds of bytes.
FRAME_BYTES_MAX_DEFAULT: Final = 64 << 10


class BadFrame(ValueError):
    """What has come is no frame, or no body, of the protocol."""


class Frame(NamedTuple):
    """One message as it came."""

    category: int
    id: int
    body: bytes


class Framing:
    """One for each connection, so that it may remember what it likes."""

    #: A frame that says it is longer, or has no end within this, is bad.
    frame_bytes_max: ClassVar[int] = FRAME_BYTES_MAX_DEFAULT
    #: Where its messages are found.
    messages: ClassVar[Messages] = MESSAGES

    def split(self, buffer: bytearray) -> Frame | None:
        """Take the first frame off; None: it is not there whole yet. Raises `BadFrame` (or anything)."""
        raise NotImplementedError

    def decode(self, frame: Frame, kind: type[Message]) -> Message:
        """Its message. Raises anything. By default its body is MessagePack, a map of the fields."""
        return msgspec.msgpack.decode(frame.body, type=kind)

    def encode(self, message: Message) -> bytes:
        """The bytes of a message."""
        raise NotImplementedError

    def message_of(self, frame: Frame, **facts: Any) -> Message:
        """The message, with those of the facts for which it has fields. Raises `BadFrame`, or what `decode` raises."""
        spec = self.messages.find(frame.category, frame.id)
        if spec is None or spec.type in READY:  # what ends in these was not begun by a stranger
            raise BadFrame(f"category {frame.category}, id {frame.id}: there is no such message")
        message = self.decode(frame, spec.type)
        if type(message) is not spec.type:
            raise BadFrame(f"{type(self).__name__}.decode made a {type(message).__name__} of {spec.type.__name__}")
        hash(lane_of(message))  # its key is what `decode` has made of a stranger's bytes
        known = {name: value for name, value in facts.items() if name in spec.type.__struct_fields__}
        return msgspec.structs.replace(message, **known) if known else message


class Packets(Framing):
    """Category and id (16 bits each) and the length of the body (32), big-endian; then the body, MessagePack."""

    _HEAD: ClassVar = struct.Struct(">HHI")

    def split(self, buffer: bytearray) -> Frame | None:
        """Take the first packet off."""
        head = self._HEAD.size
        if len(buffer) < head:
            return None
        category, id, size = self._HEAD.unpack_from(buffer)
        if size > self.frame_bytes_max:
            raise BadFrame(f"a packet of {size:,} bytes: at most {self.frame_bytes_max:,} (frame_bytes_max)")
        if len(buffer) < head + size:
            return None
        frame = Frame(category, id, bytes(buffer[head : head + size]))
        del buffer[: head + size]
        return frame

    def encode(self, message: Message) -> bytes:
        """One packet."""
        spec = type(message).__message__
        body = msgspec.msgpack.encode(message)
        return self._HEAD.pack(spec.category, spec.id, len(body)) + body
