"""Salvage: of a malformed frame all that is in order is heard, and whoever waits for the rest is told."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.transport import codec
from appbackplane.transport.envelope import ARGUMENT_ITEMS, CALL, CANCEL, CAST, STATUS, Envelope, cancel, reply, status
from appbackplane.transport.errors import InvalidArgument, MalformedFrame
from appbackplane.transport.salvage import salvage
from tests.nesting import UNREADABLE_DEPTH, nested

encoder = codec.Encoder()
#: One of every size of every type of msgpack.
VALUES = [
    None, True, False, 1.5,
    0, 127, 128, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**64 - 1, -1, -32, -33, -128, -129, -(2**15) - 1, -(2**31) - 1,
    *("x" * size for size in (0, 31, 32, 255, 256, 65_536)),
    *(b"x" * size for size in (0, 255, 256, 65_536)),
    *(msgpack.ExtType(5, b"x" * size) for size in (0, 1, 2, 3, 4, 8, 16, 17, 256, 65_536)),
    *([None] * size for size in (0, 15, 16, 65_536)),
    *({str(n): [n] for n in range(size)} for size in (0, 15, 16, 65_536)),
]  # fmt: skip
BAD = encoder.reply(7, nested(UNREADABLE_DEPTH))


@pytest.mark.parametrize("value", VALUES, ids=[f"{type(value).__name__}-{n}" for n, value in enumerate(VALUES)])
def test_behind_a_value_of_any_size_the_next_envelope_is_found(value: object) -> None:
    """The size of each is read by hand."""
    before, after = encoder.reply(1, value), encoder.reply(2, "next")
    heard, refusals = salvage(codec.batch([before, BAD, after]))
    assert [heard[0], heard[2]] == [reply(1, value), reply(2, "next")] and refusals == []
    assert (heard[1].kind, heard[1].id, heard[1].is_refused) == (STATUS, 7, False)
    assert "the answer cannot be read" in heard[1].body[1]


@pytest.mark.parametrize("count", [1, 14, 15, 16, 400])
def test_a_batch_of_any_length_is_salvaged(count: int) -> None:
    """Its header has two forms."""
    heard, _ = salvage(codec.batch([*(encoder.reply(n, n) for n in range(count)), BAD]))
    assert heard[:-1] == [reply(n, n) for n in range(count)]


def test_the_caller_of_a_bad_call_is_refused_and_a_bad_cast_is_dropped() -> None:
    """Nobody waits for a cast; the reader has counted the frame as malformed."""
    body = {"x": nested(UNREADABLE_DEPTH)}
    bad = [Envelope(CALL, 3, None, "a.b", body=body), Envelope(CAST, 0, None, "a.b", body=body)]
    heard, refusals = salvage(codec.batch([*map(encoder.encode, bad), encoder.reply(2, "next")]))
    assert heard == [reply(2, "next")]
    assert [(one.kind, one.id, one.is_refused) for one in refusals] == [(STATUS, 3, True)]


def test_bad_items_of_an_argument_end_the_call_on_both_sides() -> None:
    """The caller is told, and the operation is cancelled: it would wait for items that never come until its deadline."""
    good, bad = Envelope(CANCEL, 9).row(), [ARGUMENT_ITEMS, 7, -1, None, None, None, None, [1], None]
    heard, refusals = salvage(msgpack.packb([bad, good]))
    assert heard == [cancel(7), cancel(9)]
    assert [(told.kind, told.id, told.body[1]) for told in refusals] == [
        (STATUS, 7, "items of an argument cannot be read: items are a list, and have the number of the first")
    ]


def test_a_row_that_is_no_envelope_costs_itself_alone() -> None:
    """Fields of the wrong type are as bad as bytes that are no value."""
    frame = msgpack.packb([reply(1, "a").row(), [1, 2], [CALL, 4, True, "a.b", None, None, None, {}, None], 5])
    heard, refusals = salvage(frame)
    assert heard == [reply(1, "a")] and [one.id for one in refusals] == [4]


def test_of_a_frame_that_is_cut_off_the_complete_envelopes_are_heard() -> None:
    """What is cut off has no end to look behind."""
    whole = codec.batch([encoder.reply(1, "a"), encoder.reply(2, "b" * 50)])
    assert salvage(whole[:-10]).heard == [reply(1, "a")]


def test_a_frame_too_large_for_a_batch_is_not_walked_through() -> None:
    """It takes a microsecond a value with the lead held, and 16 MiB hold as many; large frames hold one envelope."""
    large = codec.batch([encoder.reply(9, [nested(UNREADABLE_DEPTH - 1), b"x" * (2 << 20)])])
    (told,) = salvage(memoryview(large)).heard
    assert (told.kind, told.id) == (STATUS, 9)


def test_more_envelopes_than_a_frame_may_hold_are_not_heard() -> None:
    """The bound of `decode` holds here, too."""
    one = encoder.reply(1, None)
    frame = b"\xdc" + (codec.ENVELOPES_MAX + 1).to_bytes(2, "big") + one * (codec.ENVELOPES_MAX + 1)
    with pytest.raises(MalformedFrame):
        codec.decode(frame)
    assert salvage(frame) == ([], [])


def test_the_reader_decides_what_is_in_order() -> None:
    """Frames of another host have bounds of their own (foreign_frames.py)."""

    def decode(frame: bytes) -> list[Envelope]:
        if b"never" in frame:
            raise MalformedFrame("never")
        return codec.decode(frame)

    heard, _ = salvage(codec.batch([encoder.reply(1, "never"), encoder.reply(2, "ever")]), decode)
    assert heard == [status(1, InvalidArgument("the answer cannot be read: never")), reply(2, "ever")]


@given(st.binary(max_size=64))
def test_random_bytes_raise_nothing(frame: bytes) -> None:
    """It reads what has proved to be malformed."""
    assert all(type(one) is Envelope for one in [*salvage(frame).heard, *salvage(frame).refusals])
