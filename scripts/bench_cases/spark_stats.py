"""spark_stats: 20 million recorded actions asked for the statistics of each operation, by a Spark job and by DuckDB.

Count, mean, p50 and p99 of wait and run by component, operation and priority. Ours answers that, and more (p90, max, errors,
CPU time), from histograms whose error is below 0.8 %, the whole job counted, from finding the files to the rows, with a
session that is up. The reference is DuckDB over the same Parquet files with as many threads as there are cores, in the
exact form that is fastest there: one quantile_cont with a list for each column. Beside it: DuckDB with a histogram of the same
buckets, which is what it would do if it knew them, and our job over the segments that the Parquet was made of. A surprise
would be a ratio below 1: then something decodes, copies or waits that need not.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .harness.case import Case, Figures, Requirement, Sides, ratio
from .harness.recorded import as_parquet_too

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Fewer would be done before a job of Spark has been planned: 0.1 s of each.
RECORDS, QUICK_RECORDS = 20_000_000, 12_000_000
_EXACT = """
select component, operation, priority, count(*),
       avg(wait_ns), quantile_cont(wait_ns, [0.5, 0.99]), avg(run_ns), quantile_cont(run_ns, [0.5, 0.99])
from read_parquet('{files}') group by all
"""
#: 64 buckets to a doubling, by arithmetic: DuckDB cannot look at the bits of a number. One statement a column is its fastest
#: form: both in one (grouping sets, or the aggregate `histogram`) took twice as long.
_HISTOGRAM = """
select component, operation, priority, floor(log2({name} + 1) * 64)::smallint as bucket, count(*), sum({name})
from read_parquet('{files}') group by all
"""


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    if importlib.util.find_spec("duckdb") is None:
        raise RuntimeError("duckdb is not installed: pip install '.[bench]'")
    import duckdb

    count = QUICK_RECORDS if is_quick else RECORDS
    threads = {"threads": len(os.sched_getaffinity(0))}
    with as_parquet_too("spark_stats", count) as (spark, folder), closing(duckdb.connect(config=threads)) as database:
        last: Figures = {}
        files = f"{folder}/parquet/*/*/*.parquet"

        def ours() -> Figures:
            last["per_s"] = count / _timed(lambda: _job(spark, folder / "parquet"))
            return last | {"of_segments_per_s": count / _timed(lambda: _job(spark, folder / "run"))}

        def reference() -> Figures:
            exact = _timed(lambda: database.execute(_EXACT.format(files=files)).fetchall())
            of_each = [_HISTOGRAM.format(files=files, name=name) for name in ("wait_ns", "run_ns")]
            histograms = count / _timed(lambda: [database.execute(each).fetchall() for each in of_each])
            beside = {"histograms_per_s": histograms, "ours_to_histograms": last["per_s"] / histograms}
            return {"per_s": count / exact} | beside

        yield Sides(ours, reference)


def _job(spark: SparkSession, where: Path) -> Any:
    from appbackplane.spark.frames import pieces_frame
    from appbackplane.spark.jobs.operation_statistics import operation_statistics

    return operation_statistics(pieces_frame(spark, where)).toArrow()


def _timed(work: Any) -> float:
    began = time.perf_counter()
    found = work()
    took = time.perf_counter() - began
    assert len(found), "no answer"
    return took


CASE = Case(
    name="spark_stats",
    what="statistics of 20 M recorded actions by operation; reference: DuckDB, exact, same files",
    requirements=(Requirement("ratio", ratio("per_s"), at_least=1.0),),
    open=both,
    rounds=7,
    quick_rounds=2,
)
