"""Framing: converts bytes of a foreign protocol to messages, and messages to bytes. Pure: fed with bytes, without a socket.

A frame names its message by the pair (category, id), which the registry of messages knows (message.py). Subclass `Framing` for
your own protocol: `split` takes one frame off the received bytes, `decode` makes its message, `encode` makes the bytes of one.
Errors of `split` and `decode` are reported as `Malformed`. After a bad body, the next frame is read. After a bad frame, the
connection ends, because the start of the next frame is unknown.
"""

from __future__ import annotations

import struct
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from ...handles import ordering_key_of
from ...message import MESSAGES, Message, Messages
from .completions import READY

#: If a field accepts any type, an untrusted peer can turn 1 MiB of empty maps into 71 MiB. Messages of devices have hundreds
#: of bytes.
FRAME_BYTES_MAX_DEFAULT: Final = 64 << 10


class BadFrame(ValueError):
    """The received bytes are no frame, or no body, of the protocol."""


class Frame(NamedTuple):
    """One received message, not decoded yet."""

    category: int
    id: int
    body: bytes


class Framing:
    """Each connection has its own instance, which may keep state."""

    #: A frame that claims to be longer, or has no end within this, is bad.
    frame_bytes_max: ClassVar[int] = FRAME_BYTES_MAX_DEFAULT
    #: The registry of its messages.
    messages: ClassVar[Messages] = MESSAGES

    def split(self, buffer: bytearray) -> Frame | None:
        """Take the first frame off `buffer`; None: it is incomplete. Raises `BadFrame` (or anything)."""
        raise NotImplementedError

    def decode(self, frame: Frame, kind: type[Message]) -> Message:
        """The message of a frame. May raise anything. By default the body is MessagePack, a map of the fields."""
        return msgspec.msgpack.decode(frame.body, type=kind)

    def encode(self, message: Message) -> bytes:
        """The bytes by which a message is sent."""
        raise NotImplementedError

    def message_of(self, frame: Frame, **facts: Any) -> Message:
        """The message, with the `facts` for which it has fields. Raises `BadFrame`, or the errors of `decode`."""
        spec = self.messages.find(frame.category, frame.id)
        if spec is None or spec.type in READY:  # a peer must not forge completions
            raise BadFrame(f"category {frame.category}, id {frame.id}: there is no such message")
        message = self.decode(frame, spec.type)
        if type(message) is not spec.type:
            raise BadFrame(
                f"{type(self).__name__}.decode returned {type(message).__name__}, expected {spec.type.__name__}"
            )
        hash(ordering_key_of(message))  # raises if its key, decoded from a peer's bytes, has no hash
        known = {name: value for name, value in facts.items() if name in spec.type.__struct_fields__}
        return msgspec.structs.replace(message, **known) if known else message


class Packets(Framing):
    """Category and id (16 bits each) and the length of the body (32), big-endian; then the body, MessagePack."""

    _HEAD: ClassVar = struct.Struct(">HHI")

    def split(self, buffer: bytearray) -> Frame | None:
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
        spec = type(message).__message__
        body = msgspec.msgpack.encode(message)
        return self._HEAD.pack(spec.category, spec.id, len(body)) + body
