"""The writer: rows of Spark's arrive at a topic or a route of a running system, each once."""

from __future__ import annotations

import datetime
import decimal
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest

from appbackplane.transport import connect
from appbackplane.transport.errors import InvalidArgument
from tests.waiting import LIMIT_S

from . import made
from .systems import messages, running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "shop.sold"
SYSTEM = f"""
[topic."{TOPIC}"]
record = true
[backplane.shop]
components = ["shop:Shop"]
[backplane.yard]
components = ["shop:Yard"]
"""
SHOP = """
from appbackplane.runtime import AppObject, Component, operation

class Counter(AppObject):
    def __init__(self):
        self.sold = []

    @operation()
    def sell(self, id: int) -> None:
        self.sold.append(id)

    @operation()
    def all_sold(self) -> list[int]:
        return self.sold

class Shop(Component):
    def setup(self) -> None:
        for key in ("0", "1"):
            self.add(Counter(), key=key)

class Yard(Component): ...
"""


@pytest.fixture(scope="module")
def run_dir() -> Iterator[Path]:
    """Of a system that all tests here use."""
    with tempfile.TemporaryDirectory(prefix="ab-") as folder, running(Path(folder), SYSTEM, shop=SHOP) as run_dir:
        yield run_dir


@pytest.fixture
def writing(spark: SparkSession) -> SparkSession:
    """With our format."""
    from appbackplane.spark.datasource import register

    register(spark)
    return spark


def sold(run_dir: Path) -> list[Any]:
    return [row["id"] for row in messages(run_dir, TOPIC)]


def test_rows_go_to_a_topic_and_a_batch_that_has_a_name_once(writing: SparkSession, run_dir: Path) -> None:
    """A nightly job that is started again must not tell everything twice; one that has no name tells it each time."""
    rows = writing.range(0, 1_000, numPartitions=3).write.format("backplane").mode("append").option("topic", TOPIC)
    for _ in range(2):
        rows.option("group", "nightly").option("batch", "20260101").save(str(run_dir))
    assert sold(run_dir) == list(range(1_000))
    writing.range(7, 8).write.format("backplane").mode("append").option("topic", TOPIC).save(str(run_dir))
    assert sold(run_dir)[1_000:] == [7]


def test_each_row_calls_a_route_of_the_object_that_its_key_names(writing: SparkSession, run_dir: Path) -> None:
    """Results flow back into the system they came from."""
    rows = writing.range(100).selectExpr("id", "cast(id % 2 as string) as shelf")
    for _ in range(2):
        writer = rows.write.format("backplane").mode("append").option("route", "shop.sell").option("key", "shelf")
        writer.option("group", "back").save(str(run_dir))
    with connect(run_dir) as client:
        for key in (0, 1):
            assert sorted(client.call("shop.all_sold", key=str(key))) == list(range(key, 100, 2))


@pytest.mark.parametrize("how", ["session", "register"])
def test_a_thread_of_its_own_writes(writing: SparkSession, run_dir: Path, how: str) -> None:
    """Spark looks for the format of a writer in the active session, which each thread has for itself."""
    from appbackplane.spark.datasource import register
    from appbackplane.spark.session import session

    def write() -> None:
        if how == "session":
            assert session("local[2]") is writing
        else:
            register(writing)
        writing.range(3).write.format("backplane").mode("append").option("topic", TOPIC).save(str(run_dir))

    before = len(sold(run_dir))
    with ThreadPoolExecutor(1) as threads:
        threads.submit(write).result(LIMIT_S)
    assert sold(run_dir)[before:] == [0, 1, 2]


def test_a_micro_batch_that_spark_repeats_is_applied_once(writing: SparkSession, run_dir: Path, tmp_path: Path) -> None:
    """Spark commits a batch after its sink has it: between the two a driver may be killed, and then it is sent again."""
    words = made.words_of(500, made.traffic(500) | {"span": range(10_000, 10_500)})
    made.write_actions(tmp_path, "main", 1, words, made.names_of())
    checkpoint = tmp_path / "checkpoint"
    before = len(sold(run_dir))

    def once() -> None:
        actions: DataFrame = (
            writing.readStream.format("backplane").option("maxRecordsPerTrigger", "200").load(str(tmp_path))
        )
        writer = actions.selectExpr("span as id").writeStream.format("backplane")
        options = {"topic": TOPIC, "group": "sold-again", "checkpointLocation": str(checkpoint)}
        writer.options(**options).trigger(availableNow=True).start(str(run_dir)).awaitTermination()

    once()
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for path in (commits / str(last), commits / f".{last}.crc"):
        path.unlink(missing_ok=True)
    once()
    assert (commits / str(last)).exists(), "it was not repeated"
    assert sold(run_dir)[before:] == list(range(10_000, 10_500))


def test_values_travel_as_what_they_are() -> None:
    """Times are numbers of ns as everywhere in this system; what msgpack does not know is text."""
    from appbackplane.spark.writer import staged

    day = datetime.datetime(2026, 1, 1, 0, 0, 1, 5, tzinfo=datetime.UTC)
    row = {
        "at": day, "day": day.date(), "price": decimal.Decimal("1.50"), "inner": {"at": [day]}, "none": None,
        "bytes": b"\x00", "real": 1.5, "is_so": True,
    }  # fmt: skip
    table = pa.table(
        {name: [value] for name, value in row.items()}
        | {
            name: pa.array([entries], pa.map_("string", "int64"))
            for name, entries in (("map", [("a", 1)]), ("nobody", []))
        }
    )
    ns = 1_767_225_601_000_005_000
    assert msgspec.msgpack.decode(staged(table.to_batches()).packed) == [
        {
            "at": ns, "day": "2026-01-01", "price": "1.50", "inner": {"at": [ns]}, "none": None, "bytes": b"\x00",
            "real": 1.5, "is_so": True, "map": {"a": 1}, "nobody": {},
        }
    ]  # fmt: skip


def test_a_map_is_a_map_wherever_it_is_and_whatever_it_holds() -> None:
    """Whoever is called with a list where there are no entries, and with a map where there are, fails on quiet days."""
    from appbackplane.spark.writer import staged

    day, amounts = datetime.date(2026, 1, 1), pa.map_("string", "int64")
    kinds = {
        "inner": pa.struct([("amounts", amounts), ("days", pa.list_(pa.date32()))]),
        "several": pa.list_(amounts),
        "nested": pa.map_("string", pa.map_("string", pa.list_(amounts))),
        "numbered": pa.map_("int64", pa.date32()),
    }
    rows = [
        {"inner": {"amounts": [], "days": [day]}, "several": [[], [("a", 1)]], "nested": [("x", [])], "numbered": [(1, day)]},
        {"inner": {"amounts": None, "days": []}, "several": [], "nested": [("x", [("y", [[]])])], "numbered": []},
        {"inner": None, "several": [None], "nested": None, "numbered": None},
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows, pa.schema(list(kinds.items())))
    told = "2026-01-01"
    assert msgspec.msgpack.decode(staged(table.to_batches()).packed) == [
        {"inner": {"amounts": {}, "days": [told]}, "several": [{}, {"a": 1}], "nested": {"x": {}}, "numbered": {"1": told}},
        {"inner": {"amounts": None, "days": []}, "several": [], "nested": {"x": {"y": [{}]}}, "numbered": {}},
        {"inner": None, "several": [None], "nested": None, "numbered": None},
    ]  # fmt: skip


def test_what_a_task_stages_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lies in the memory of the driver, with that of all other tasks."""
    from appbackplane.spark import writer

    monkeypatch.setattr(writer, "STAGED_BYTES_MAX", 1_000)
    with pytest.raises(InvalidArgument, match="bound the micro-batch"):
        writer.staged(pa.table({"n": range(1_000)}).to_batches(100))


def test_what_all_tasks_stage_together_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand tasks of 32 MiB each would be unpacked in one process. Nothing is delivered, to nobody."""
    from appbackplane.spark import writer

    monkeypatch.setattr(writer, "BATCH_BYTES_MAX", 2 << 20)
    target = writer.WriteTarget("no-such-system", "g", "a.b", None, None, None, 0.0)
    part = writer.Staged(msgspec.msgpack.encode([{"body": "x" * (1 << 20)}]))
    with pytest.raises(
        InvalidArgument, match="a batch has 3 MiB of rows to deliver at once, more than 2 MiB: bound the"
    ):
        target.deliver(1, [part, None, part, part])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "no target given"),
        ({"path": "s"}, "expected one of them"),
        ({"path": "s", "topic": "a.b", "route": "a.b"}, "expected one of them"),
        ({"path": "s", "topic": "a b"}, "a topic is words"),
        ({"path": "s", "topic": "a.b", "key": "id"}, "with option route"),
        ({"path": "s", "route": "a.b", "key": "other"}, "names a column"),
        ({"path": "s", "topic": "a.b", "group": "g" * 300}, "1 to 213 characters"),
        ({"path": "s", "topic": "a.b", "timeout": "soon"}, "option group or timeout"),
        ({"path": "s", "topic": "a.b", "timeout": "nan"}, "seconds, 0 or more, got 'nan'"),
        ({"path": "s", "topic": "a.b", "timeout": "-1"}, "seconds, 0 or more, got '-1'"),
    ],
)
def test_bad_options_are_one_line(options: dict[str, str], why: str) -> None:
    """Said where `save` or `start` is called, before a task runs."""
    from pyspark.sql.types import LongType, StructField, StructType

    from appbackplane.spark.writer import target_of

    with pytest.raises(InvalidArgument, match=why):
        target_of(options, StructType([StructField("id", LongType())]), "g")
