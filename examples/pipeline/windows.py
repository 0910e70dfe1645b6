"""Windows: how fast searches were, how busy the host was, and when both were bad. DataFrame in, DataFrame out.

Nothing here knows whether it is given a stream or all that was recorded: watch.py and bulk.py use the same functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Rows that come later than this after a newer one are not waited for. A backplane writes an action down when it ends, and
#: searches end within milliseconds.
LATENESS = "1 second"
#: Of an action's twenty columns, those that are used here: the others are not even read.
ACTION = "start_ns long, wait_ns long, took_ns long, operation string"
#: Of a recorded message's.
SAMPLE = "time_ns long, json string"
SEARCH = "operation = 'query.search'"
#: From when a search arrived to its answer.
TOOK_MS = "(wait_ns + took_ns) / 1e6 AS took_ms"


def searches(actions: DataFrame, window: str) -> DataFrame:
    """By window of time: `searches`, how many there were, and `p99_ms`, from when they arrived to their answer."""
    return (
        actions.where(SEARCH)
        .select(_time("start_ns"), F.expr(TOOK_MS))
        .withWatermark("time", LATENESS)
        .groupBy(F.window("time", window))
        .agg(F.count("*").alias("searches"), F.round(F.percentile_approx("took_ms", 0.99), 3).alias("p99_ms"))
    )


def cpu(samples: DataFrame, window: str) -> DataFrame:
    """By window of time: `cpu_percent`, the mean of the recorded `host.sample`."""
    return (
        samples.select(_time("time_ns"), F.get_json_object("json", "$.cpu_percent").cast("double").alias("percent"))
        .withWatermark("time", LATENESS)
        .groupBy(F.window("time", window))
        .agg(F.round(F.avg("percent"), 1).alias("cpu_percent"))
    )


def done(files: DataFrame, window: str) -> DataFrame:
    """By window of time: how many `files` bulk.py has read, and `bytes` of them."""
    done = files.select(_time("done_ns"), "bytes").groupBy(F.window("time", window))
    return done.agg(F.count("*").alias("files"), F.sum("bytes").alias("bytes"))


def both(searches: DataFrame, cpu: DataFrame) -> DataFrame:
    """The windows in which there was both."""
    return searches.join(cpu, "window")


def alerts(windows: DataFrame, p99_ms: float, cpu_percent: float) -> DataFrame:
    """Those in which both were as high as this or higher: the arguments of `alerts.show`."""
    return windows.where((F.col("p99_ms") >= p99_ms) & (F.col("cpu_percent") >= cpu_percent)).select(
        (F.unix_micros("window.start") * 1000).alias("since_ns"), "searches", "p99_ms", "cpu_percent"
    )


def phases(actions: DataFrame, phases: DataFrame) -> DataFrame:
    """How long searches took in each phase (`phase`, `since_ns`, `until_ns`): not by window, but exactly, over all of it."""
    took = actions.where(SEARCH).selectExpr("start_ns", TOOK_MS)
    within = (F.col("start_ns") >= F.col("since_ns")) & (F.col("start_ns") < F.col("until_ns"))
    figures = [F.round(F.percentile("took_ms", each / 100), 3).alias(f"p{each}_ms") for each in (50, 90, 99)]
    return took.join(F.broadcast(phases), within).groupBy("phase").agg(F.count("*").alias("searches"), *figures)


def _time(ns: str) -> Column:
    return F.timestamp_micros((F.col(ns) / 1000).cast("long")).alias("time")
