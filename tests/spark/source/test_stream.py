"""The reader of a stream, beside the driver: where it begins, where there is nothing, and where all begins anew."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra is not installed: pip install 'appbackplane[spark]'")

from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructType

from appbackplane.spark.records.pieces import NothingRecorded
from appbackplane.spark.source.stream import DataLoss, StreamOptions, StreamReader
from tests.spark.made import EPOCH_NS, names_of, traffic, words_of, write_actions, write_messages


def reader(where: Path, **options: Any) -> StreamReader:
    return StreamReader(where, StructType().add("index", LongType()), StreamOptions(**options))


def record(where: Path, created_ns: int, *counts: int, topic: str | None = None) -> None:
    """Segments 1 and so on, of so many records."""
    for number, count in enumerate(counts, 1):
        created = {"created_ns": created_ns + number, "sealed": number < len(counts)}
        if topic is None:
            write_actions(where, "a", number, words_of(count, traffic(count)), names_of(), **created)
        else:
            write_messages(where, "a", topic, number, [b"\x01"] * count, **created)


def reached(stream: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return stream.latestOffset(start, ReadAllAvailable())


def planned(stream: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[int, int, int]]:
    """(segment, start, stop) of what tasks would read."""
    parts = stream.partitions(start, end)
    pieces = [piece for part in parts for piece in (part.pieces if hasattr(part, "pieces") else [part])]
    return sorted((int(Path(piece.path).stem), piece.start, piece.stop) for piece in pieces)


def test_where_nothing_is_recorded_a_stream_says_so(tmp_path: Path) -> None:
    """A query over a system without [record] waits for ever and says nothing; one that is about to record is waited for."""
    for where in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NothingRecorded):
            reader(where).initialOffset()
    (tmp_path / "records").mkdir()
    assert reader(tmp_path).initialOffset() == reader(tmp_path / "records").initialOffset() == {}


@pytest.mark.parametrize("topic", [None, "host.sample"])
@pytest.mark.parametrize("is_begun_again", [False, True])
@pytest.mark.parametrize("counts", [(300, 300), (300, 300, 50), (40,)], ids=["as far", "further", "shorter"])
def test_what_is_recorded_anew_is_not_gone_on_with(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, counts: tuple[int, ...], is_begun_again: bool, topic: str | None
) -> None:
    """A run directory that was emptied counts its segments from 1: what lies before the old position would never be read."""
    record(tmp_path, EPOCH_NS, 200, 100, topic=topic)
    stream = reader(tmp_path, is_loss_fatal=False, topic=topic)
    at = reached(stream, stream.initialOffset())
    name = "a" if topic is None else f"a/{topic}"
    assert at == {name: [2, 100, EPOCH_NS + 2]}
    shutil.rmtree(tmp_path / "records")
    record(tmp_path, EPOCH_NS + 10**12, *counts, topic=topic)
    if is_begun_again:
        stream = reader(tmp_path, is_loss_fatal=False, topic=topic)
    with pytest.raises(DataLoss, match=rf"{name}: segment 2 (belongs to a new recording|was read, but)") as told:
        reached(reader(tmp_path, topic=topic), at)
    assert "\n" not in str(told.value)
    end = reached(stream, at)
    assert end == {name: [len(counts), counts[-1], EPOCH_NS + 10**12 + len(counts)]}
    assert planned(stream, at, end) == [(number, 0, count) for number, count in enumerate(counts, 1)]
    assert [record.getMessage()[-8:] for record in caplog.records] == ["(loss 1)"], "said once"
    with pytest.raises(DataLoss):
        reader(tmp_path, topic=topic).partitions(at, end)
    assert planned(reader(tmp_path, topic=topic), {name: [1, 0]}, end) == planned(stream, at, end)


def test_a_batch_that_was_planned_of_another_recording_is_not_read_from_this_one(tmp_path: Path) -> None:
    """After a crash Spark repeats a batch by its offsets: others' records under its number would be told as its own."""
    record(tmp_path, EPOCH_NS, 200, 100)
    start = {"a": [1, 20, EPOCH_NS + 1]}
    end = reached(reader(tmp_path), start)
    record(tmp_path, EPOCH_NS + 10**12, 200, 100)
    with pytest.raises(DataLoss, match="segment 1 belongs to a new recording; the one read up to"):
        reader(tmp_path).partitions(start, end)
    with pytest.raises(DataLoss, match="segment 2 belongs to a new recording"):
        reader(tmp_path).partitions({"a": [1, 20]}, end)
    assert planned(reader(tmp_path, is_loss_fatal=False), start, end) == []


def test_offsets_without_the_time_are_those_of_what_is_there(tmp_path: Path) -> None:
    """A person names segment and record; and a checkpoint of an older version goes on where it was."""
    record(tmp_path, EPOCH_NS, 200, 100)
    assert reader(tmp_path, starting='{"a": [2, 30]}').initialOffset() == {"a": [2, 30, EPOCH_NS + 2]}
    assert reader(tmp_path, starting="latest").initialOffset() == {"a": [2, 100, EPOCH_NS + 2]}
    stream = reader(tmp_path)
    assert reached(stream, {"a": [2, 100]}) == {"a": [2, 100]}, "there is nothing new, so the text stays as it was"
    end = reached(stream, {"a": [2, 30]})
    assert end == {"a": [2, 100, EPOCH_NS + 2]}
    assert planned(stream, {"a": [2, 30]}, end) == [(2, 30, 100)]
