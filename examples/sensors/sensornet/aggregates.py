"""Aggregates of the recorded reports, by Spark: DataFrame in, DataFrame out.

Time is the virtual time of a field. Each start of a field is a `run`, which is never mixed with another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from .model import DAY_NS, S
from .nodes import TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPORT = (
    "run long, node string, zone string, room string, sequence long, time_ns long, temperature double, humidity double,"
    " light double, battery double"
)
QUANTITIES = ("temperature", "humidity", "light")


def reports(spark: SparkSession, run_dir: str) -> DataFrame:
    """The recorded reports of a system, a row each. The session knows the format `backplane`."""
    recorded = spark.read.format("backplane").option("topic", TOPIC).schema("json string").load(run_dir)
    return recorded.select(F.from_json("json", REPORT).alias("report")).select("report.*")


def by_zone_and_minute(reports: DataFrame) -> DataFrame:
    """`run`, `zone`, `minute`: mean, least and greatest of each quantity, and how many reports they are made of."""
    figures = [
        how(each).alias(f"{each}_{name}")
        for each in QUANTITIES
        for name, how in (("mean", F.avg), ("min", F.min), ("max", F.max))
    ]
    minute = F.floor(F.col("time_ns") / (60 * S)).alias("minute")
    return reports.groupBy("run", "zone", minute).agg(F.count("*").alias("reports"), *figures)


def losses(reports: DataFrame) -> DataFrame:
    """`run`, `node`: its messages `sent` and `lost`, up to the last received one, and the `share` that is lost.

    A lost message shows as a missing number in the sequence of its node, as soon as a later one has been received.
    """
    counted = reports.groupBy("run", "node").agg(F.max("sequence").alias("sent"), F.count("*").alias("received"))
    lost = F.col("sent") - F.col("received")
    return counted.select("run", "node", "sent", lost.alias("lost"), (lost / F.col("sent")).alias("share"))


def batteries(reports: DataFrame) -> DataFrame:
    """`run`, `node`: its `battery` in percent, and the `days_left` at the rate of its reports so far; NULL after one report."""
    ends = reports.groupBy("run", "node").agg(
        F.min("time_ns").alias("since_ns"),
        F.max("time_ns").alias("until_ns"),
        F.min_by("battery", "time_ns").alias("before"),
        F.max_by("battery", "time_ns").alias("battery"),
    )
    used = F.col("before") - F.col("battery")
    days = (F.col("until_ns") - F.col("since_ns")) / DAY_NS
    return ends.select("run", "node", "battery", F.when(used > 0, F.col("battery") / used * days).alias("days_left"))
