"""Damage, fuzzed: whatever happens to the bytes of a segment, what is read was written, and what is not read is counted."""

from __future__ import annotations

import mmap
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from appbackplane.runtime.observation.segments import (
    FIELDS,
    HEADER_BYTES,
    MESSAGE,
    NAMES_END,
    RECORD_BYTES,
    SEAL_OFFSET,
    BadSegment,
    pack_message,
)
from appbackplane.spark.records.found import Found
from appbackplane.spark.records.messages import MessageFile
from appbackplane.spark.records.pieces import Piece, read_all
from appbackplane.spark.records.segment_file import SegmentFile
from tests.spark.made import EPOCH_NS, names_of, traffic, words_of, write_actions, write_messages

COUNT = 60
BODIES = [bytes([n]) * (n % 23) for n in range(COUNT)]
#: No two words of a record are the same: a check by XOR does not see what strikes two that are in the same way.
COLUMNS = traffic(COUNT) | {"took": traffic(COUNT, seed=2)["took"], "trace_low": (np.arange(COUNT) + 1) * 0x1234567}
#: Where, and what is written there.
DAMAGE = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=300)), max_size=6)
#: What is left of the file.
CUT = st.one_of(st.just(1.0), st.floats(0, 1))


def damaged(path: Path, begin: int, damage: list[tuple[float, bytes]], cut: float) -> None:
    """Write it there, behind `begin`, and cut the file."""
    data = bytearray(path.read_bytes())
    size = len(data)
    for place, text in damage:
        at = begin + int(place * (size - begin))
        data[at : at + len(text)] = text[: size - at]
    path.write_bytes(data[: max(begin, int(cut * size))])


@settings(max_examples=150, deadline=None)
@given(DAMAGE, CUT, st.booleans(), st.booleans())
def test_records_that_are_read_were_written_and_the_rest_is_counted(
    damage: list[tuple[float, bytes]], cut: float, sealed: bool, is_in_header: bool
) -> None:
    """An invented record is worse than a lost one; a lost one that nobody counts is nearly as bad."""
    with TemporaryDirectory() as folder:
        words = words_of(COUNT, COLUMNS)
        path = write_actions(Path(folder), "one", 1, words, names_of(), room=5, sealed=sealed)
        damaged(path, 0 if is_in_header else NAMES_END, damage, cut)
        found = Found()
        read = list(read_all([Piece(str(path))], [*FIELDS, "index"], found))
        indices = np.concatenate([batch["index"] for batch in read] or [np.array([], dtype=np.int64)])
        assert len(set(indices.tolist())) == len(indices) == found.records
        for batch in read:
            assert np.array_equal(batch["span"], words[batch["index"], 8])
            assert np.array_equal(batch["start"], words[batch["index"], 0])
            for field in ("operation", "object"):
                assert (batch[field] < len(batch.names)).all() and (batch[field] >= 0).all()
        if found.unreadable:
            assert is_in_header or cut < 1
        elif sealed and not is_in_header:
            assert len(indices) + found.skipped == COUNT
        elif not is_in_header and len(indices):
            assert found.damaged.get(str(path), 0) == indices[-1] + 1 - len(indices)


@settings(max_examples=150, deadline=None)
@given(DAMAGE, CUT, st.booleans(), st.integers(0, COUNT))
def test_messages_that_are_read_were_published_and_the_rest_is_counted(
    damage: list[tuple[float, bytes]], cut: float, sealed: bool, start: int
) -> None:
    """As with records; after damage the next message is found again, and its number is its own."""
    with TemporaryDirectory() as folder:
        path = write_messages(Path(folder), "one", "t", 1, BODIES, room=200, sealed=sealed)
        damaged(path, HEADER_BYTES, damage, cut)
        found = Found()
        with MessageFile(path) as messages:
            end, _ = messages.end()
            read = list(messages.read(start, -1, found))
            assert [BODIES[message.number] for message in read] == [message.body for message in read]
            assert [message.number for message in read] == sorted({message.number for message in read})
            if sealed:
                assert end == COUNT and len(read) + found.skipped == COUNT - start
            again = Found()
            assert list(messages.read(start, end, again)) == read
            assert len(read) + again.skipped == max(0, end - start)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=5000), st.sampled_from([".actions", ".messages", ".parquet"]))
def test_any_bytes_at_all_are_at_most_a_file_that_cannot_be_read(data: bytes, suffix: str) -> None:
    """Whoever has put another file there must not stop a report."""
    with TemporaryDirectory() as folder:
        path = Path(folder, f"00000001{suffix}")
        path.write_bytes(data)
        found = Found()
        if suffix == ".messages":
            try:
                with MessageFile(path) as messages:
                    list(messages.read(0, -1, found))
            except BadSegment as error:
                found.unreadable[str(path)] = str(error)
        else:
            assert list(read_all([Piece(str(path))], ["start"], found)) == []
        assert list(found.unreadable) == [str(path)]


def test_a_message_of_many_blocks_is_read_whole(tmp_path: Path) -> None:
    """It is longer than what is read at a time; and a place in the file saves the way to it."""
    bodies = [b"a" * 10, b"b" * (3 << 20), b"c"]
    with MessageFile(write_messages(tmp_path, "one", "t", 1, bodies, room=9 << 20)) as messages:
        read = list(messages.read(0, -1, Found()))
        assert [message.body for message in read] == bodies
        found = Found()
        assert [message.body for message in messages.read(2, -1, found, read[1].next)] == [b"c"] and not found.skipped
        assert messages.end(1, read[0].next) == (3, read[2].next)


def test_a_message_within_a_damaged_one_is_not_taken_for_one(tmp_path: Path) -> None:
    """Somebody may publish what was recorded: what has a lower number, or lies askew, is no message of this segment."""
    inner = pack_message(1, EPOCH_NS, b"inner")
    bodies = [b"first", b"second", inner + b"askew" * 3 + pack_message(9, EPOCH_NS, b"inner"), b"last"]
    path = write_messages(tmp_path, "one", "t", 1, bodies, sealed=True)
    data = bytearray(path.read_bytes())
    data[data.index(inner) - MESSAGE.size] ^= 1
    path.write_bytes(data)
    found = Found()
    with MessageFile(path) as messages:
        read = [(message.number, message.body) for message in messages.read(0, -1, found)]
    assert read == [(0, b"first"), (1, b"second"), (3, b"last")] and found.damaged == {str(path): 1}


def test_what_is_being_written_is_never_called_damaged(tmp_path: Path) -> None:
    """A reader beside a writer sees records that are half there; all that it reads is whole, and it misses none."""
    count = 300
    data = words_of(count, traffic(count)).tobytes()
    path = write_actions(tmp_path, "one", 1, words_of(0, traffic(0)), names_of(), room=count)
    found, read = Found(), 0
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        for half in range(2 * count):
            at = half * RECORD_BYTES // 2
            memory[NAMES_END + at : NAMES_END + at + RECORD_BYTES // 2] = data[at : at + RECORD_BYTES // 2]
            with SegmentFile(path) as segment:
                end = segment.end() if half % 3 else segment.end_after(read)
                assert end == (half + 1) // 2 and segment.is_torn(end) == (half % 2 == 0)
                for batch in segment.read(read, end, ["index"], found):
                    assert batch["index"].tolist() == list(range(read, end))
                    read = end
        memory[SEAL_OFFSET : SEAL_OFFSET + 8] = count.to_bytes(8, "little")
    assert read == count and not found.skipped
