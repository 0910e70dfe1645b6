"""The layout of recorded segments: what is packed comes back, and what is damaged is never read as data."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.observation import segments
from appbackplane.runtime.observation.segments import BadSegment, SegmentHeader

HEADER = SegmentHeader(
    kind="actions", system="shop", node="here", backplane="web", generation=3, pid=7, number=12, created_ns=5,
    limits={"threads": 2},
)  # fmt: skip


def test_a_header_says_whose_it_is() -> None:
    """Who reads years later has nothing else."""
    assert segments.unpack_header(segments.pack_header(HEADER)) == (HEADER, -1)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (bytes(4096), "empty"),
        (b"PAR1" + bytes(100), "no segment"),
        (segments.pack_header(HEADER)[:40], "damaged header"),
        (segments.MAGIC + (9).to_bytes(4, "little") + bytes(4096), "schema version 9"),
    ],
)
def test_what_is_no_segment_is_refused_in_one_line(data: bytes, why: str) -> None:
    """A foreign file in the folder, and one of a later version, are told from each other."""
    with pytest.raises(BadSegment, match=why):
        segments.unpack_header(data)


@given(st.lists(st.tuples(st.text(max_size=20).filter(lambda text: "\0" not in text), st.text(max_size=50))))
def test_names_come_back_in_their_order(names: list[tuple[str, str]]) -> None:
    """A record holds a number only: one name too many or too few, and all that follow are somebody else's."""
    names = [(component, name.replace("\0", "")) for component, name in names]
    packed = b"".join(segments.pack_name(component, name) for component, name in names)
    assert segments.unpack_names(packed + bytes(64)) == names


def test_a_damaged_name_is_unknown_and_those_after_it_keep_their_numbers() -> None:
    """Rather a question mark than the name of another operation."""
    packed = bytearray(b"".join(segments.pack_name("web", name) for name in ("one", "two", "three")))
    packed[segments.NAME.size] ^= 1
    assert segments.unpack_names(bytes(packed)) == [("", "?"), ("web", "two"), ("web", "three")]


@given(st.integers(0, 15), st.integers(0, 2), st.integers(1, 40))
def test_a_damaged_length_of_a_name_moves_no_other(bit: int, which: int, size: int) -> None:
    """One bit, and the next name may look like a part of this one: all that follow would be somebody else's."""
    names = [("web", "one"), ("web", "x" * size), ("web", "three"), ("web", "four")]
    packed = bytearray(b"".join(segments.pack_name(*name) for name in names) + bytes(64))
    at = sum(len(segments.pack_name(*name)) for name in names[:which])
    packed[at + bit // 8] ^= 1 << bit % 8
    assert segments.unpack_names(bytes(packed)) == names


@given(st.data(), st.integers(0, 2**31))
def test_a_record_with_a_bit_changed_is_none(data: st.DataObject, index: int) -> None:
    """Any bit of it; nor is it one in another place, nor are zeros."""
    words = [data.draw(st.integers(-(2**63), 2**63 - 1)) for _ in range(segments.CHECK_WORD)]
    check = segments.check_of((*words, 0), index)
    packed = bytearray(segments.RECORD.pack(*words, check))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    changed = segments.RECORD.unpack(packed)
    assert changed[-1] != segments.check_of(changed, index)
    assert check != segments.check_of((*words, 0), index + 1)
    assert segments.check_of((0,) * segments.WORDS, index) != 0


@pytest.mark.parametrize("pair", [(2, 3), (2, 4), (3, 4), (7, 8), (6, 9)])
def test_two_equal_words_that_are_struck_alike_are_seen(pair: tuple[int, int]) -> None:
    """A plain action runs as long as it takes, on the CPU, and a root is its own trace: by XOR alone they cancel."""
    words = [1_700_000_000, 5, 800, 800, 800, segments.NO_DEADLINE, 0, 42, 42, 0, 7, 3, 0]
    check = segments.check_of(tuple(words), 9)
    for value in (0, 2**63 - 1, -1, 777_777):
        changed = list(words)
        changed[pair[0]] = changed[pair[1]] = value
        assert changed == words or segments.check_of(tuple(changed), 9) != check


@given(st.binary(max_size=200), st.data())
def test_a_message_with_a_bit_changed_is_none(body: bytes, data: st.DataObject) -> None:
    """Its number and its time are under the check as well."""
    packed = bytearray(segments.pack_message(4, 99, body))
    found = segments.unpack_message(bytes(packed), 0)
    assert found is not None
    assert (found[0], found[1], bytes(found[2]), found[3]) == (4, 99, body, len(packed))
    end = segments.MESSAGE.size + len(body)
    packed[data.draw(st.integers(0, end - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert segments.unpack_message(bytes(packed), 0) is None
    assert segments.unpack_message(bytes(packed[: end - 1]), 0) is None


def test_fields_do_not_overlap() -> None:
    """Two fields in the same bits would each read the other's figure."""
    bits: list[tuple[int, int]] = []
    for field in segments.FIELDS.values():
        bits += [(field.word, bit) for bit in range(field.shift, field.shift + field.bits)]
    assert len(bits) == len(set(bits))
    assert all(word < segments.CHECK_WORD and bit < 64 for word, bit in bits)


def test_a_header_that_is_too_large_is_refused() -> None:
    """It would run into the names."""
    with pytest.raises(ValueError, match="at most"):
        segments.pack_header(msgspec.structs.replace(HEADER, system="x" * 5000))


def test_limits_that_do_not_fit_are_left_out() -> None:
    """Any client may set 255 quotas of any size: the header is packed where actions are booked, and an error there ends all."""
    header = msgspec.structs.replace(HEADER, limits={"quotas": [10**18] * 255})
    assert segments.unpack_header(segments.pack_header(header))[0] == msgspec.structs.replace(header, limits={})
