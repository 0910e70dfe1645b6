"""spark_read: recorded actions read by the data source "backplane", every record checked, all 23 columns made.

Ours hands all columns to Spark's sink that does nothing ("noop"), with a session that is up and warm; beside it three
columns by the user's schema, a count and mean by component, operation and priority, and the same range as a stream
(AvailableNow, noop). The reference is Spark's own reader over the same records as Parquet, which checks nothing and turns
pages into rows inside the JVM. What it costs is said in docs/concepts/records.md; a surprise would be figures as of a reader
that hands out tuples, a tenth of these.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .harness.case import Case, Figures, Requirement, Sides, ours
from .harness.recorded import as_parquet_too

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS, QUICK_RECORDS = 8_000_000, 3_000_000
THREE = "operation string, priority int, run_ns bigint"
GROUPED = "component string, operation string, priority int, run_ns bigint"
STREAM_LIMIT_S = 300


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    count = QUICK_RECORDS if is_quick else RECORDS
    with as_parquet_too("spark_read", count) as (spark, folder):
        from appbackplane.spark.datasource import register

        register(spark)
        checkpoints = iter(range(1 << 30))

        def read(schema: str | None = None) -> DataFrame:
            reader = spark.read.format("backplane")
            return (reader.schema(schema) if schema else reader).load(str(folder / "run"))

        def measure() -> Figures:
            stream = folder / "checkpoints" / str(next(checkpoints))
            return {
                "per_s": count / timed(lambda: drain(read())),
                "three_columns_per_s": count / timed(lambda: drain(read(THREE))),
                "grouped_per_s": count / timed(lambda: grouped(read(GROUPED))),
                "streamed_per_s": count / timed(lambda: streamed(spark, folder / "run", stream)),
            }

        def reference() -> Figures:
            return {"per_s": count / timed(lambda: drain(spark.read.parquet(str(folder / "parquet"))))}

        yield Sides(measure, reference)


def drain(frame: DataFrame) -> None:
    """Make all rows, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def grouped(frame: DataFrame) -> None:
    from pyspark.sql import functions

    found = frame.groupBy("component", "operation", "priority").agg(functions.count("*"), functions.avg("run_ns"))
    assert found.collect(), "no answer"


def streamed(spark: SparkSession, where: Path, checkpoint: Path) -> None:
    frame = spark.readStream.format("backplane").load(str(where))
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(STREAM_LIMIT_S), "the stream has not ended"


def timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


CASE = Case(
    name="spark_read",
    what="recorded actions by the data source, all columns; reference: Spark's own reader, the same as Parquet",
    requirements=(Requirement("rows", ours("per_s"), at_least=2e6, unit="/s"),),
    open=both,
    rounds=5,
    quick_rounds=2,
)
