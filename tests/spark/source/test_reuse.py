"""A DataFrame that is used again: Spark keeps the reader of a DataFrame, so what one query leaves in it reaches the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import pytest

from tests.spark.made import names_of, traffic, words_of, write_actions, write_messages

pytest.importorskip("pyspark")

from appbackplane.spark.datasource import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
COUNT = 200


class Recorded(NamedTuple):
    """How records are loaded, two conditions, and how many records fulfil each: counted without Spark and the source."""

    options: dict[str, str]
    works: str
    works_count: int
    fails: str
    fails_count: int


@pytest.fixture
def source(spark: SparkSession) -> Iterator[SparkSession]:
    """A session that knows the format."""
    register(spark)
    yield spark
    spark.conf.unset(PUSHDOWN)


def record_actions(run_dir: Path, count: int = COUNT) -> Recorded:
    """Actions of two backplanes, `count` of each; a part of them failed."""
    fails_count = 0
    for backplane, seed in (("index", 1), ("query", 2)):
        outcome = np.where(np.arange(count) % 4 == seed, 13, 0)
        fails_count += sum(value != 0 for value in outcome.tolist())
        columns = traffic(count, seed=seed) | {"outcome": outcome}
        write_actions(run_dir, backplane, 1, words_of(count, columns), names_of(), room=COUNT)
    return Recorded({}, "outcome = 0", 2 * count - fails_count, "outcome <> 0", fails_count)


def record_messages(run_dir: Path, count: int = COUNT) -> Recorded:
    """Messages of two backplanes, `count` of each."""
    for backplane in ("index", "query"):
        bodies = [msgspec.msgpack.encode({"load": number}) for number in range(count)]
        write_messages(run_dir, backplane, "host.sample", 1, bodies, room=COUNT * 100)
    return Recorded({"topic": "host.sample"}, "index < 150", 2 * 150, "index >= 150", 2 * (count - 150))


def load(source: SparkSession, run_dir: Path, recorded: Recorded) -> DataFrame:
    """As a user reads."""
    return source.read.format("backplane").options(**recorded.options).load(str(run_dir))


#: With the setting that other sources may need, and as Spark comes.
@pytest.mark.parametrize(
    ("record", "pushdown"), [(record_actions, "true"), (record_actions, "false"), (record_messages, "true")]
)
def test_no_query_changes_the_answer_to_another(
    source: SparkSession, tmp_path: Path, record: Callable[[Path], Recorded], pushdown: str
) -> None:
    """Otherwise whoever counts the errors first is told later that everything has failed."""
    source.conf.set(PUSHDOWN, pushdown)
    recorded = record(tmp_path)
    frame = load(source, tmp_path, recorded)
    works, fails = frame.where(recorded.works), frame.where(recorded.fails)
    assert 0 < recorded.fails_count < recorded.works_count

    assert frame.count() == 2 * COUNT
    assert works.count() == recorded.works_count
    assert frame.count() == 2 * COUNT, "after a filter"

    both = works.selectExpr("'works' as branch").union(fails.selectExpr("'fails' as branch"))
    told = {row["branch"]: row["count"] for row in both.groupBy("branch").count().collect()}
    assert told == {"works": recorded.works_count, "fails": recorded.fails_count}, "a union"

    assert works.join(frame, ["backplane", "index"]).count() == recorded.works_count, "a self-join"

    cached = works.cache()
    try:
        assert [cached.count(), fails.count(), cached.count(), frame.count()] == [
            recorded.works_count, recorded.fails_count, recorded.works_count, 2 * COUNT,
        ], "a cache"  # fmt: skip
    finally:
        cached.unpersist()

    frame.createOrReplaceTempView("recorded")
    try:
        share = f"(select count(*) from recorded where {recorded.fails}) / (select count(*) from recorded)"
        shares = [source.sql(f"select {share} as share").collect()[0]["share"] for _ in range(2)]
    finally:
        source.catalog.dropTempView("recorded")
    assert shares == [recorded.fails_count / (2 * COUNT)] * 2, "a view"


@pytest.mark.parametrize("record", [record_actions, record_messages])
def test_a_frame_keeps_its_records_while_the_system_goes_on(
    source: SparkSession, tmp_path: Path, record: Callable[[Path, int], Recorded]
) -> None:
    """Spark keeps the list of files. If the last one grew, numerator and denominator of a share were of different records."""
    frame = load(source, tmp_path, record(tmp_path, COUNT))
    assert frame.count() == 2 * COUNT
    recorded = record(tmp_path, COUNT + 20)
    assert frame.count() == 2 * COUNT
    assert load(source, tmp_path, recorded).count() == 2 * COUNT + 40, "a new frame has the new records"
