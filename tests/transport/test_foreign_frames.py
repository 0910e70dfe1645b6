"""Foreign frames: what another host sends is what the codec makes of it, and what would hold its reader up is refused."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.transport import codec, foreign_frames
from appbackplane.transport.envelope import BOOST, CALL, CANCEL, CAST, PUBLISH, REPLY, STATUS
from appbackplane.transport.errors import MalformedFrame
from appbackplane.transport.foreign_frames import (
    BY_HAND_LENGTH_MAX,
    CHOSEN_KEYS_MAX,
    NAMES_MAX,
    SAME_HASH_MAX,
    WIDTH_MAX,
)  # fmt: skip
from appbackplane.transport.unpacking import TooComplicated
from tests.figures import Stopwatch, judge
from tests.transport.large_frames import LARGE, frame, listed, mapped, values


def nested(levels: int, width: int) -> bytes:
    """Maps, each but the first the last value of another: none is complete before all are."""
    begun = (mapped(range(level * width, (level + 1) * width), b"") for level in reversed(range(levels)))
    return b"".join(begun) + b"\xc0"


def value_of(packed: bytes) -> Any:
    """What is made of it."""
    (envelope,) = foreign_frames.decode(frame(packed))
    return envelope.body["x"]


@given(values, st.sampled_from(["", LARGE]))
def test_what_is_within_the_bounds_is_what_it_was(value: Any, ballast: str) -> None:
    """The same as between processes of one host: in frames that are counted, too."""
    packed = frame(msgpack.packb([value, ballast]))
    assert foreign_frames.decode(packed) == codec.decode(packed)


@pytest.mark.parametrize(
    "made",
    [
        lambda: list(range(2_000_000)),
        lambda: [{"id": n, "score": 0.5} for n in range(200_000)],
        lambda: {str(n): None for n in range(NAMES_MAX - 1)},
        lambda: {"a": {"b": [{str(n): [n] for n in range(100_000)}, b"x" * 1_000_000]}},
        lambda: [{f"{column}": row for column in range(1_000)} for row in range(500)],
        lambda: {n: LARGE[:80] for n in range(CHOSEN_KEYS_MAX)},
        lambda: {(x, y, z): x for x in range(-10, 10) for y in range(-10, 10) for z in range(-10, 10)},
    ],
    ids=["numbers", "records", "names", "nested", "rows", "integer keys", "points in space"],
)
def test_honest_data_passes(made: Callable[[], Any]) -> None:
    """Or programs that work on one host would not on two."""
    value = made()
    assert value_of(msgpack.packb(value)) == value


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (lambda: listed(15 << 20, b"\x90"), "lists, maps and extension values"),
        (lambda: listed(15 << 20, b"\x80"), "lists, maps and extension values"),
        (lambda: listed(5 << 20, b"\xd4\x05x"), "lists, maps and extension values"),
        (lambda: listed(3 << 20, b"\x91\x81\xa0\x90"), "lists, maps and extension values"),
        (lambda: mapped(range(NAMES_MAX + 1)), "names in its maps"),
        (lambda: listed(BY_HAND_LENGTH_MAX + 1, mapped(range(WIDTH_MAX))), "names in its maps"),
        (lambda: nested(10, 100_000), "names in its maps"),
        (lambda: nested(900, WIDTH_MAX), "names in its maps"),
        (lambda: listed(BY_HAND_LENGTH_MAX + 1, b"\xc0")[:-1] + nested(2, 300_000), "names in a map"),
        (lambda: msgpack.packb({n: 0 for n in range(CHOSEN_KEYS_MAX + 1)}), "keys that are neither text nor bytes"),
        (lambda: msgpack.packb([{n: 0, n + 1: LARGE[:80]} for n in range(CHOSEN_KEYS_MAX)]), "keys that are neither"),
        (lambda: b"\xde\x00\x0c" + b"\x01\xc0" * 12, "same hash"),
    ],
    ids=[
        "lists",
        "maps",
        "extensions",
        "both",
        "names",
        "maps of names",
        "nested",
        "deep",
        "hidden",
        "integers",
        "sum",
        "repeated",
    ],
)
def test_what_would_hold_the_reader_up_is_refused(made: Callable[[], bytes], what: str) -> None:
    """In the time that it takes nobody is served; of some it was a second, of others it would be hours."""
    packed = made()
    watch = Stopwatch()
    with pytest.raises(TooComplicated, match=what):
        foreign_frames.decode(frame(packed))
    judge(f"to refuse a frame of {len(packed):,} bytes", watch.taken_s, 2.0)


@pytest.mark.parametrize("ballast", ["", LARGE])
def test_keys_that_are_made_to_collide_are_refused(ballast: str) -> None:
    """-1 and -2 have the same hash, so do all tuples of them: 4,096 of these took 0.24 s, twice as many four times as long."""
    keys = [b"\x9c" + bytes(0xFE | bits >> at & 1 for at in range(12)) + b"\xc0" for bits in range(4_096)]
    ends = [msgpack.packb([ballast])[1:], b"\xde" + len(keys).to_bytes(2) + b"".join(keys)]
    with pytest.raises(TooComplicated, match=f"{SAME_HASH_MAX} keys with the same hash"):
        value_of(b"\x92" + b"".join(ends))


#: Of each kind an envelope, and the places of its integers.
INTEGERS: dict[int, tuple[list[Any], tuple[int, ...]]] = {
    CALL: ([1, 1, 2, "a.b", "key", 3, "trace", {"x": 1}, [["a", "b"]]], (0, 1, 2, 5)),
    CAST: ([4, 0, 2, "a.b", "key", 3, "trace", {"x": 1}, None], (0, 1, 2, 5)),
    PUBLISH: ([5, 1, 2, "a.b", None, 3, "trace", {"x": 1}, None], (0, 1, 2, 5)),
    REPLY: ([2, 1, None, None, None, None, None, 5, None], (0, 1)),
    STATUS: ([3, 1, None, "refused", None, None, None, [14, "busy", 0.5, None], None], (0, 1)),
    CANCEL: ([6, 1, None, None, None, None, None, None, None], (0, 1)),
    BOOST: ([7, 1, 2, None, None, None, None, 5, [["a", "b"]]], (0, 1, 2, 7)),
}


@pytest.mark.parametrize("kind", list(INTEGERS))
@pytest.mark.parametrize("seconds", [5, 2**62, -(2**62)])
def test_a_timestamp_is_no_integer_of_an_envelope(kind: int, seconds: int) -> None:
    """It was one of 92 bits. A call under such an id ran, its answer could not be packed, and the node's process ended."""
    row, places = INTEGERS[kind]
    assert foreign_frames.decode(msgpack.packb([row]))
    for place in places:
        wrong = [*row[:place], msgpack.Timestamp(seconds, 0), *row[place + 1 :]]
        with pytest.raises(MalformedFrame):
            foreign_frames.decode(msgpack.packb([wrong]))


@pytest.mark.parametrize("ballast", ["", LARGE], ids=["small", "large"])
@pytest.mark.parametrize("seconds", [5, 2**62, -(2**62)])
def test_a_timestamp_in_a_body_can_be_packed_again(ballast: str, seconds: int) -> None:
    """What comes from another host is packed again for this system."""
    value = value_of(msgpack.packb([msgpack.Timestamp(seconds, 0), ballast]))
    assert value == [float(seconds), ballast]
    assert codec.Encoder().pack(value)


def test_a_status_with_a_timestamp_can_be_packed_again() -> None:
    """The call was off the books, and its caller heard nothing before its deadline."""
    row, _ = INTEGERS[STATUS]
    instant = msgpack.Timestamp(2**62, 0)
    (envelope,) = foreign_frames.decode(msgpack.packb([[*row[:7], [14, "busy", instant, None], None]]))
    assert codec.Encoder().encode(envelope)
    with pytest.raises(MalformedFrame):
        foreign_frames.decode(msgpack.packb([[*row[:7], [instant, "busy", None, None], None]]))


@pytest.mark.parametrize("ballast", ["", LARGE], ids=["small", "large"])
def test_an_extension_value_arrives_as_it_was_sent(ballast: str) -> None:
    """As between processes of one host."""
    value = [msgpack.ExtType(5, b"x"), {msgpack.ExtType(5, b"y"): 1}, ballast]
    assert value_of(msgpack.packb(value)) == value


def test_what_is_cut_off_or_longer_than_it_says_makes_no_sense() -> None:
    """As in frames that are not counted."""
    packed = frame(msgpack.packb([{1: 2}, LARGE]))
    for wrong in (packed[:-1], packed[: len(packed) // 2], packed + b"\xc0", frame(b"\xc1")):
        with pytest.raises(MalformedFrame):
            foreign_frames.decode(wrong)


def test_the_collector_waits_while_a_frame_is_made() -> None:
    """It would look through all that there is already, again and again: 0.7 s of 0.8 for 520,000 lists."""
    looks: list[str] = []

    def note(phase: str, _info: dict[str, int]) -> None:
        looks.append(phase)

    packed = frame(listed(500_000, b"\x90"))
    gc.callbacks.append(note)
    try:
        envelopes = foreign_frames.decode(packed)
        assert len(looks) <= 6, "one a generation, when it goes on"
    finally:
        gc.callbacks.remove(note)
    assert len(envelopes[0].body["x"]) == 500_000


def test_the_collector_goes_on_afterwards() -> None:
    """Whether it came to an end or not; and where it was off it stays so."""
    for is_on in (True, False):
        (gc.enable if is_on else gc.disable)()
        try:
            value_of(listed(100_000, b"\x90"))
            assert gc.isenabled() is is_on
            with pytest.raises(TooComplicated):
                value_of(listed(2 << 20, b"\x90"))
            assert gc.isenabled() is is_on
        finally:
            gc.enable()
