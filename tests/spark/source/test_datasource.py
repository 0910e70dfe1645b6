"""The data source in Spark: what was recorded is what Spark sees, in batch and as a stream."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from appbackplane.runtime.observation.segments import NAMES_END, NO_DEADLINE, RECORD_BYTES
from tests.spark.made import EPOCH_NS, names_of, traffic, words_of, write_actions, write_messages

pytest.importorskip("pyspark")


from appbackplane.spark.datasource import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNT = 3_000
#: A query over some thousand rows takes a second, on a machine that is busy ten.
LIMIT_S = 300


@pytest.fixture(scope="module")
def source(spark: SparkSession) -> SparkSession:
    """A session that knows the format."""
    register(spark)
    return spark


def created_ns(number: int) -> int:
    """When a segment was: as it grows, that stays."""
    return EPOCH_NS + (number - 1) * 3600 * 10**9


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """Two backplanes, the first with two segments of which one is sealed."""
    for backplane, number, sealed in (("index", 1, True), ("index", 2, False), ("query", 1, True)):
        words = words_of(COUNT, traffic(COUNT, seed=number + len(backplane) * 10))
        write_actions(tmp_path, backplane, number, words, names_of(), sealed=sealed, room=500, generation=number,
                      created_ns=created_ns(number))  # fmt: skip
    return tmp_path


def truth_of(backplane: str, number: int, count: int = COUNT) -> dict[str, Any]:
    """What was written there."""
    return traffic(count, seed=number + len(backplane) * 10)


def grown(backplane: str, number: int, more: int) -> np.ndarray:
    """The words of a segment that holds so many more records now."""
    old, new = truth_of(backplane, number), traffic(more)
    columns = {name: np.append(old[name], new[name]) for name in old if not np.isscalar(old[name])}
    return words_of(COUNT + more, columns)


def batch(source: SparkSession, where: Path, schema: str | None = None, **options: str) -> DataFrame:
    """As a user reads."""
    reader = source.read.format("backplane").options(**options)
    return (reader.schema(schema) if schema else reader).load(str(where))


def test_every_column_of_every_row_is_what_was_recorded(source: SparkSession, run_dir: Path) -> None:
    """All that is asked of Spark rests on this."""
    table = batch(source, run_dir).toArrow()
    assert table.num_rows == 3 * COUNT
    names = names_of()
    for backplane, number in (("index", 1), ("index", 2), ("query", 1)):
        truth = truth_of(backplane, number)
        import pyarrow.compute as pc

        part = table.filter(pc.and_(pc.equal(table["backplane"], backplane), pc.equal(table["segment"], number)))
        part = part.sort_by("index")
        for column, field in (("start_ns", "start"), ("wait_ns", "wait"), ("run_ns", "run"), ("cpu_ns", "cpu"),
                              ("took_ns", "took"), ("span", "span"), ("trace_low", "trace_low"), ("priority", "priority"),
                              ("effective", "effective"), ("outcome", "outcome")):  # fmt: skip
            assert np.array_equal(part[column].to_numpy(), truth[field]), column
        assert part["operation"].to_pylist() == [names[n][1] for n in truth["operation"]]
        assert part["object"].to_pylist() == [names[n][1] for n in truth["object"]]
        assert part["component"].to_pylist() == [names[n][0] for n in truth["object"]]
        assert part["margin_ns"].to_pylist() == [None if m == NO_DEADLINE else m for m in truth["margin"].tolist()]
        assert part["index"].to_pylist() == list(range(COUNT))
        assert set(part["generation"].to_pylist()) == {number} and set(part["node"].to_pylist()) == {"here"}
        assert set(part["boosted"].to_pylist()) == {False}


def test_a_schema_with_fewer_columns_is_all_that_is_made(source: SparkSession, run_dir: Path) -> None:
    """Pruning, as far as the interface has it; a column that there is not, or of another type, is said by name."""
    few = batch(source, run_dir, "run_ns bigint, operation string")
    assert few.columns == ["run_ns", "operation"] and few.count() == 3 * COUNT
    for schema, line in (
        ("nothing int", "there is no column 'nothing'"),
        ("run_ns int", "column run_ns is bigint, not int"),
    ):
        with pytest.raises(Exception, match=line):
            batch(source, run_dir, schema).count()


def test_what_cannot_be_done_is_one_line(source: SparkSession, run_dir: Path, tmp_path: Path) -> None:
    """Whoever mistypes a folder or an option reads what to do, not a stack of Java."""
    (tmp_path / "empty").mkdir()
    for options, where, line in (
        ({}, tmp_path / "empty", "nothing is recorded here"),
        ({}, tmp_path / "nowhere", "there is no such folder"),
        (
            {"topics": "x"},
            run_dir,
            "no option 'topics' here: there are backplane, path, since_ns, skipped, topic, until_ns",
        ),
        ({"since_ns": "yesterday"}, run_dir, "option since_ns is Unix time in ns, a whole number, not 'yesterday'"),
        ({"until_ns": str(1 << 63)}, run_dir, "option until_ns is Unix time in ns"),
        ({"backplane": "web,"}, run_dir, "option backplane is a name, or several with commas between"),
        ({"topic": "host.sample"}, run_dir, "'host.sample' is not recorded; .* record = true"),
    ):
        with pytest.raises(Exception, match=line):
            batch(source, where, **options).count()


def test_a_topic_without_a_message_yet_has_no_rows(source: SparkSession, run_dir: Path) -> None:
    """Its folder is there as soon as it is recorded (execution/records/segment_files.py): no alert yet is no mistake."""
    (run_dir / "records" / "index" / "alerts.new").mkdir()
    assert batch(source, run_dir, topic="alerts.new").collect() == []
    assert batch(source, run_dir, topic="alerts.*", skipped="true").collect() == []


def test_good_data_around_bad_is_read_and_what_was_skipped_is_counted(source: SparkSession, run_dir: Path) -> None:
    """Three damaged records, a file of another version and one that is cut off must not cost a report."""
    folder = run_dir / "records" / "index"
    damaged = folder / "00000001.actions"
    data = bytearray(damaged.read_bytes())
    for index in (5, 6, COUNT - 1_000):
        data[NAMES_END + index * RECORD_BYTES] ^= 1
    damaged.write_bytes(data)
    (folder / "00000003.actions").write_bytes(data[:8] + b"\x09" + data[9:])
    cut = run_dir / "records" / "query" / "00000001.actions"
    cut.write_bytes(cut.read_bytes()[: -RECORD_BYTES * 10 - 500 * RECORD_BYTES])
    assert batch(source, run_dir, "index bigint").count() == 3 * COUNT - 3 - 10
    told = {tuple(row) for row in batch(source, run_dir, skipped="true").collect()}
    assert told == {
        (str(damaged), 3, "damaged"),
        (str(cut), 10, "damaged"),
        (str(folder / "00000003.actions"), None, "has schema version 9: this program reads 1"),
    }


class Query:
    """A stream that is read batch by batch, each row kept with the number of its batch."""

    def __init__(self, source: SparkSession, where: Path, checkpoint: Path, **options: str) -> None:
        self.source, self.where, self.checkpoint, self.options = source, where, checkpoint, options
        self.schema: str | None = "backplane string, segment bigint, index bigint, start_ns bigint"
        self.batches: dict[int, list[tuple[Any, ...]]] = {}

    def run(self) -> list[tuple[Any, ...]]:
        """All that is there now; what of it was not read before."""
        reader = self.source.readStream.format("backplane").options(**self.options)
        frame = (reader.schema(self.schema) if self.schema else reader).load(str(self.where))
        read: list[tuple[Any, ...]] = []

        def keep(rows: DataFrame, number: int) -> None:
            self.batches[number] = [tuple(row) for row in rows.collect()]
            read.extend(self.batches[number])

        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(self.checkpoint))
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(LIMIT_S), "the stream has not ended"
        finally:
            query.stop()
        return read


def test_a_stream_reads_each_record_once_over_rotation_and_generations(
    source: SparkSession, run_dir: Path, tmp_path: Path
) -> None:
    """A record that is read twice or never makes every count a guess."""
    stream = Query(source, run_dir, tmp_path / "checkpoint", maxRecordsPerTrigger=str(COUNT - 500))
    first = stream.run()
    expected = {(name, number, index) for name, number in (("index", 1), ("index", 2), ("query", 1))
                for index in range(COUNT)}  # fmt: skip
    assert {row[:3] for row in first} == expected and len(first) == len(expected)
    assert max(map(len, stream.batches.values())) <= COUNT - 500
    assert stream.run() == []
    # The live segment grows, is left behind by a new generation, and a backplane appears.
    write_actions(run_dir, "index", 2, grown("index", 2, 400), names_of(), room=100, created_ns=created_ns(2))
    write_actions(run_dir, "index", 3, words_of(100, traffic(100)), names_of(), room=100, generation=3)
    write_actions(run_dir, "new", 1, words_of(50, traffic(50)), names_of(), room=100)
    added = [("index", 2, COUNT + n) for n in range(400)] + [("index", 3, n) for n in range(100)]
    added += [("new", 1, n) for n in range(50)]
    assert sorted(row[:3] for row in stream.run()) == sorted(added)


def test_a_batch_that_is_repeated_is_the_same(source: SparkSession, run_dir: Path, tmp_path: Path) -> None:
    """Exactly once stands on this: after kill -9 Spark asks for the last range again, while the segment has grown."""
    stream = Query(source, run_dir, tmp_path / "checkpoint")
    stream.run()
    (last,) = stream.batches
    before = sorted(stream.batches[last])
    shutil.rmtree(tmp_path / "checkpoint" / "commits")
    write_actions(run_dir, "index", 2, grown("index", 2, 9), names_of(), created_ns=created_ns(2))
    stream.run()
    assert sorted(stream.batches[last]) == before
    assert [row[1:3] for row in stream.batches[last + 1]] == [(2, COUNT + n) for n in range(9)]


def test_what_retention_took_is_never_passed_over_in_silence(
    source: SparkSession, run_dir: Path, tmp_path: Path
) -> None:
    """A stream that was away too long must say so; who can live with it says that."""
    options = {"startingOffsets": json.dumps({"index": [1, COUNT - 10], "query": "latest"})}
    assert len(Query(source, run_dir, tmp_path / "whole", **options).run()) == 10 + COUNT
    (run_dir / "records" / "index" / "00000001.actions").unlink()
    with pytest.raises(
        Exception, match=r"index: segment 1 was removed before it was read; option failOnDataLoss=false"
    ):
        Query(source, run_dir, tmp_path / "strict", **options).run()
    assert len(Query(source, run_dir, tmp_path / "lenient", **options, failOnDataLoss="false").run()) == COUNT


def test_a_stream_of_one_backplane_leaves_the_others_for_later(
    source: SparkSession, run_dir: Path, tmp_path: Path
) -> None:
    """A query that is narrowed, and widened again with its checkpoint, must lose nothing and read nothing twice."""
    few = "backplane string, index bigint"
    narrow = Query(source, run_dir, tmp_path / "checkpoint", backplane="query")
    wide = Query(source, run_dir, tmp_path / "checkpoint")
    narrow.schema = wide.schema = few
    assert sorted(narrow.run()) == [("query", index) for index in range(COUNT)]
    assert sorted(wide.run()) == sorted(("index", index) for index in [*range(COUNT)] * 2)


def test_recorded_topics_are_rows_in_batch_and_as_a_stream(source: SparkSession, tmp_path: Path) -> None:
    """Messages in their order, with their bodies as they were published."""
    import msgspec

    bodies = [msgspec.msgpack.encode({"load": n / 8, "blob": b"x"}) for n in range(2000)]
    run_dir = tmp_path / "run"
    write_messages(run_dir, "one", "host.sample", 1, bodies[:1000], sealed=True)
    write_messages(run_dir, "one", "host.sample", 2, bodies[1000:1500], room=5000)
    write_messages(run_dir, "two", "host.other", 1, [b"\xc1 no MessagePack"], room=5000)
    rows = batch(source, run_dir, topic="host.sample").orderBy("segment", "index").collect()
    assert [row.body for row in rows] == bodies[:1500]
    assert json.loads(rows[9].json) == {"load": 9 / 8, "blob": "eA=="}
    assert rows[1001].asDict() | {"body": b"", "json": ""} == {
        "topic": "host.sample", "backplane": "one", "segment": 2, "index": 1, "time_ns": EPOCH_NS + 10**6,
        "body": b"", "json": "",
    }  # fmt: skip
    assert batch(source, run_dir, topic="host.*", skipped="true").collect() == []
    (other,) = batch(source, run_dir, topic="host.other").collect()
    assert other.json is None
    stream = Query(source, run_dir, tmp_path / "checkpoint", topic="host.*", maxRecordsPerTrigger="700")
    stream.schema = "topic string, segment bigint, index bigint"
    assert len(stream.run()) == 1501
    assert max(map(len, stream.batches.values())) <= 700
    write_messages(run_dir, "one", "host.sample", 2, bodies[1000:1503], room=5000)
    assert sorted(stream.run()) == [("host.sample", 2, 500 + n) for n in range(3)]
