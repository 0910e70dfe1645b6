"""Pieces: what was written is read, whatever is beside it, and what is not read is counted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from appbackplane.runtime.observation.segments import (
    FIELDS,
    NAMES_END,
    NO_DEADLINE,
    RECORD_BYTES,
    SEAL_OFFSET,
    BadSegment,
)
from appbackplane.spark.records.batch import NAMELESS
from appbackplane.spark.records.found import Found
from appbackplane.spark.records.pieces import NothingRecorded, Piece, pieces, read, read_all
from tests.spark.made import EPOCH_NS, names_of, traffic, words_of, write_actions

ALL = (*FIELDS, "index")


def columns_in(several: Sequence[Piece], found: Found | None = None) -> dict[str, np.ndarray]:
    """All that is read, column by column."""
    batches = list(read_all(several, ALL, Found() if found is None else found))
    return {name: np.concatenate([batch[name] for batch in batches] or [np.array([])]) for name in ALL}


def segment(where: Path, count: int = 100_000, number: int = 1, **more: object) -> tuple[Path, np.ndarray]:
    """A segment, and its words."""
    words = words_of(count, traffic(count, seed=number))
    return write_actions(where, "one", number, words, names_of(), **more), words  # type: ignore[arg-type]


@pytest.mark.parametrize("sealed", [True, False])
def test_every_field_of_every_record_is_what_was_written(tmp_path: Path, sealed: bool) -> None:
    """All answers rest on this."""
    truth = traffic(100_000, seed=1)
    truth |= {"boosted": np.arange(100_000) % 2, "parent": -np.arange(100_000), "lane": np.arange(100_000) % 256}
    write_actions(tmp_path, "one", 1, words_of(100_000, truth), names_of(), room=70_000, sealed=sealed)
    found = Found()
    read = columns_in(pieces(tmp_path), found)
    for name in FIELDS:
        assert np.array_equal(read[name], truth.get(name, np.zeros(100_000))), name
    assert np.array_equal(read["index"], np.arange(100_000))
    assert (found.records, found.skipped) == (100_000, 0)


def test_a_batch_knows_whose_it_is_and_its_names(tmp_path: Path) -> None:
    """Numbers without names are no answer; a component is the object's."""
    segment(tmp_path, 1000, limits={"threads": 3})
    (batch,) = [actions for piece in pieces(tmp_path) for actions in read(piece, ["operation", "object", "start"])]
    assert batch.header is not None and (batch.header.backplane, batch.header.limits) == ("one", {"threads": 3})
    assert batch.names == [*names_of(), NAMELESS]
    components = [batch.component_names()[number] for number in batch.components()]
    assert components == [batch.names[number][0] for number in batch["object"]]


def test_what_is_damaged_is_left_out_and_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    """One bad sector must cost its records, not the file; and nobody would believe a number that hides it."""
    for sealed in (True, False):
        where = tmp_path / str(sealed)
        path, words = segment(where, sealed=sealed, room=1000)
        data = bytearray(path.read_bytes())
        for index in (0, 1, 50_000, 99_998):
            data[NAMES_END + index * RECORD_BYTES + 17] ^= 0x40
        path.write_bytes(data)
        found = Found()
        read = columns_in(pieces(where), found)
        good = np.setdiff1d(np.arange(100_000), [0, 1, 50_000, 99_998])
        assert np.array_equal(read["index"], good)
        assert np.array_equal(read["start"], words[good, 0])
        assert found.damaged == {str(path): 4} and not found.torn
        assert "4 records damaged" in "".join(found.lines())


def test_a_torn_last_record_is_the_end_and_never_data(tmp_path: Path) -> None:
    """kill -9 in the middle of a record: half a record would be an invented action."""
    path, words = segment(tmp_path, 1000, room=500)
    data = bytearray(path.read_bytes())
    torn = words[0].tobytes()[:40]
    at = NAMES_END + 1000 * RECORD_BYTES
    data[at : at + len(torn)] = torn
    path.write_bytes(data)
    found = Found()
    assert len(columns_in(pieces(tmp_path), found)["start"]) == 1000
    assert found.torn == {str(path): 1} and not found.damaged


def test_what_a_sealed_segment_lacks_is_counted(tmp_path: Path) -> None:
    """A file that was cut off looks complete to who does not know how long it was."""
    path, _ = segment(tmp_path, 1000, sealed=True)
    with path.open("r+b") as file:
        file.truncate(NAMES_END + 400 * RECORD_BYTES + 30)
    found = Found()
    assert len(columns_in(pieces(tmp_path), found)["start"]) == 400
    assert found.damaged == {str(path): 600}


@pytest.mark.parametrize("seal", [3, 1 << 60, -7])
def test_a_damaged_seal_hides_nothing(tmp_path: Path, seal: int) -> None:
    """The seal has no check of its own; what is behind it has."""
    path, _ = segment(tmp_path, 1000, sealed=True)
    data = bytearray(path.read_bytes())
    data[SEAL_OFFSET : SEAL_OFFSET + 8] = seal.to_bytes(8, "little", signed=True)
    path.write_bytes(data)
    assert len(columns_in(pieces(tmp_path))["start"]) == 1000


def test_a_file_that_is_no_segment_is_named_with_the_reason(tmp_path: Path) -> None:
    """Good data around bad is still read."""
    good, _ = segment(tmp_path, 1000)
    for name, data, why in (
        ("00000002.actions", b"", "is empty"),
        ("00000003.actions", b"hello" * 100_000, "is no segment"),
        ("00000004.actions", good.read_bytes()[:5000], "is cut off"),
        ("00000005.actions", good.read_bytes()[:8] + b"\7" + good.read_bytes()[9:], "has schema version 7"),
        ("00000006.parquet", b"PAR1", "is not a readable Parquet file"),
    ):
        bad = good.parent / name
        bad.write_bytes(data)
        found = Found()
        assert len(columns_in(pieces(tmp_path), found)["start"]) == 1000
        assert list(found.unreadable) == [str(bad)] and why in found.unreadable[str(bad)]
        with pytest.raises(BadSegment, match=why):
            list(read(Piece(str(bad)), ["start"]))
        bad.unlink()


def test_an_empty_or_foreign_folder_is_one_clear_line(tmp_path: Path) -> None:
    """Whoever mistypes a folder is told so, not shown zero actions."""
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "a.txt").write_text("x")
    for where in (tmp_path, tmp_path / "foreign", tmp_path / "nowhere", tmp_path / "foreign" / "a.txt"):
        with pytest.raises(NothingRecorded, match=str(where)) as told:
            pieces(where)
        assert "\n" not in str(told.value)


def test_pieces_are_ruled_out_by_backplane_and_time(tmp_path: Path) -> None:
    """A report of the last hour of a day must not read the day."""
    for number in (1, 2, 3):
        segment(tmp_path, 10, number, created_ns=EPOCH_NS + (number - 1) * 10**9, sealed=True)
    write_actions(tmp_path, "two", 1, words_of(10, traffic(10)), names_of())
    assert {Path(piece.path).parent.name for piece in pieces(tmp_path, backplanes=["two"])} == {"two"}
    since = [Path(piece.path).stem for piece in pieces(tmp_path, since_ns=EPOCH_NS + 10**9, backplanes=["one"])]
    assert since == ["00000002", "00000003"]
    assert len(pieces(tmp_path / "records")) == len(pieces(tmp_path)) == 4


@pytest.mark.parametrize("back_ns", [3600 * 10**9, 5 * 10**9])
def test_a_clock_that_was_set_back_hides_no_segment(tmp_path: Path, back_ns: int) -> None:
    """Until it was, its records had later times than the segment that follows."""
    first, words = segment(tmp_path, 10_000, 1, created_ns=EPOCH_NS, sealed=True)
    end_ns = int(words[-1, 0])
    segment(tmp_path, 10, 2, created_ns=end_ns - back_ns, sealed=True)
    found = pieces(tmp_path, since_ns=end_ns - 10**9)
    assert found[0].path == str(first) and len(found) == 2


def test_a_piece_of_a_sealed_segment_is_the_same_records_for_ever(tmp_path: Path) -> None:
    """Cut or not, the records are the same."""
    path, words = segment(tmp_path, sealed=True)
    cut = [Piece(str(path), start, min(start + 33_333, 100_000)) for start in range(0, 100_000, 33_333)]
    assert np.array_equal(columns_in(cut)["start"], words[:, 0])


def test_only_what_is_kept_is_handed_out(tmp_path: Path) -> None:
    """What a filter leaves out costs no column."""
    segment(tmp_path, 1000)
    (batch,) = read(pieces(tmp_path)[0], ["start", "margin"], None, (["priority"], lambda c: c["priority"] == 3))
    assert set(batch.columns) == {"start", "margin"}
    truth = traffic(1000)
    assert np.array_equal(batch["margin"], truth["margin"][truth["priority"] == 3])
    assert (batch["margin"] == NO_DEADLINE).any()
