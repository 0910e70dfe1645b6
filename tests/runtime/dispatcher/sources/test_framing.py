"""Framing: a foreign protocol's bytes become messages by (category, id); what is wrong with them is an error, no more."""

from __future__ import annotations

import struct
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.dispatcher import Message, message
from appbackplane.runtime.dispatcher.sources.sockets import BadFrame, Frame, Framing, Packets


@message(category=964, id=1)
class Measured(Message):
    sensor: str
    value: float
    connection: int = 0


@message(category=964, id=97, key="number")
class Keyed(Message):
    number: int


class Lines(Framing):
    """`sensor value\\n`: what small devices speak."""

    frame_bytes_max = 100

    def split(self, buffer: bytearray) -> Frame | None:
        end = buffer.find(b"\n")
        if end < 0:
            return None
        line = bytes(buffer[:end])
        del buffer[: end + 1]
        return Frame(964, 1, line)

    def decode(self, frame: Frame, kind: type[Message]) -> Message:
        sensor, value = frame.body.decode().split()
        return Measured(sensor, float(value))


@given(st.lists(st.tuples(st.text(), st.floats(allow_nan=False))), st.data())
def test_what_is_encoded_comes_out_however_it_is_cut(values: list[tuple[str, float]], data: st.DataObject) -> None:
    """TCP knows no messages: they come in pieces and in heaps."""
    packets = Packets()
    sent = [Measured(sensor, value) for sensor, value in values]
    stream = b"".join(packets.encode(each) for each in sent)
    buffer, got = bytearray(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        buffer += stream[:size]
        stream = stream[size:]
        while (frame := packets.split(buffer)) is not None:
            got.append(packets.message_of(frame))
    assert got == sent and not buffer


@given(st.binary(max_size=200))
def test_no_bytes_are_fatal(stream: bytes) -> None:
    """Whatever comes is messages, or an error that says what is wrong."""
    packets, buffer = Packets(), bytearray(stream)
    with suppress(BadFrame, msgspec.DecodeError):
        while (frame := packets.split(buffer)) is not None:
            assert isinstance(packets.message_of(frame), Message)


def test_a_length_bomb_is_refused_before_it_has_come() -> None:
    """Or a peer would have us wait for, and keep, four gigabytes."""
    with pytest.raises(BadFrame, match="a packet of 4,294,967,295 bytes: at most 65,536"):
        Packets().split(bytearray(struct.pack(">HHI", 964, 1, 0xFFFFFFFF)))


def test_a_message_is_told_on_which_connection_it_came() -> None:
    """If it has a field for it: its handler may want to answer."""
    lines, buffer = Lines(), bytearray(b"attic 21.5\ncell")
    frame = lines.split(buffer)
    assert frame is not None and buffer == b"cell" and lines.split(buffer) is None
    assert lines.message_of(frame, connection=7) == Measured("attic", 21.5, connection=7)


def test_what_is_none_of_its_messages_is_refused() -> None:
    """By its identity, and by what the framing has made of it."""
    with pytest.raises(BadFrame, match="category 964, id 99: there is no such message"):
        Packets().message_of(Frame(964, 99, b""))

    class Mistaken(Lines):
        def decode(self, frame: Frame, kind: type[Message]) -> Message:
            return "a string"  # type: ignore[return-value]

    with pytest.raises(BadFrame, match="decode returned str, expected Measured"):
        Mistaken().message_of(Frame(964, 1, b"attic 21.5"))

    class Careless(Lines):
        def decode(self, frame: Frame, kind: type[Message]) -> Message:
            return Keyed([frame.body])  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="unhashable type: 'list'"):  # here, where it is told as malformed
        Careless().message_of(Frame(964, 97, b"attic 21.5"))
