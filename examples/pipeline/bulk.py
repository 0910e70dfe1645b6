"""Bulk work of your own beside a running system: what is in a source tree, and whether anybody noticed that it was counted.

    python bulk.py [ROOT...] [--out FOLDER]

Reads all files below ROOT (default: this Python's libraries) in Spark's tasks, at the lowest priority there is, and joins what
came of it with what the system has recorded meanwhile. In FOLDER: `files`, a row a file, and `seconds`, a row a second: what
was read in it, how long searches took, and how busy the CPU was; Parquet.
"""

from __future__ import annotations

import argparse
import os
import sysconfig
import time
from pathlib import Path

import files
import windows
from pyspark.sql import functions as F

from appbackplane.spark.datasource import register
from appbackplane.spark.session import session

RUN = Path(__file__).with_name("run")
S = 1_000_000_000
LIBRARIES = sorted({sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")})


def main() -> None:
    """Read, join, write, and show."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("roots", nargs="*", default=LIBRARIES, metavar="ROOT", help="(default: this Python's libraries)")
    asked.add_argument("--out", type=Path, default=Path("bulk"), help="(default: %(default)s)")
    asked.add_argument("--run", default=str(RUN), help="the run directory of the system (default: %(default)s)")
    given = asked.parse_args()

    before_ns = time.time_ns()
    os.nice(19)  # what we start has it from us: the JVM, and the processes of its tasks
    spark = session(name="bulk")
    register(spark)
    spark.sparkContext.addPyFile(files.__file__)  # the tasks work with it, wherever they run
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", files.FILES_MAX)

    paths = sorted({path for root in given.roots for path in files.paths(Path(root))})
    todo = spark.createDataFrame([(path,) for path in paths], "path string").repartition(32)
    began_ns = time.time_ns()
    todo.mapInArrow(files.measured, files.SCHEMA).write.mode("overwrite").parquet(str(given.out / "files"))
    ended_ns = time.time_ns()

    read = spark.read.parquet(str(given.out / "files"))
    lasted_ns = ended_ns - began_ns
    # Of hours of records, only these minutes are read: whole seconds, as the windows below.
    times = {"since_ns": (before_ns - lasted_ns) // S * S, "until_ns": -(-ended_ns // S) * S}
    actions = spark.read.format("backplane").options(**times).schema(windows.ACTION).load(given.run)
    sampled = spark.read.format("backplane").options(**times, topic="host.sample")
    samples = sampled.schema(windows.SAMPLE).load(given.run)
    both = windows.both(windows.searches(actions, "1 second"), windows.cpu(samples, "1 second"))
    seconds = windows.done(read, "1 second").join(both, "window").orderBy("window")
    seconds.select("window.start", *seconds.columns[1:]).write.mode("overwrite").parquet(str(given.out / "seconds"))

    count = read.count()
    print(
        f"{count:,} files in {lasted_ns / 1e9:.0f} s; {len(paths) - count} were not read: too large, or not to be read"
    )
    sums = [F.sum(name).alias(name) for name in ("bytes", "lines", "words")]
    read.groupBy("language").agg(F.count("*").alias("files"), *sums).orderBy(F.desc("bytes")).show(5)
    spark.read.parquet(str(given.out / "seconds")).show(5)
    phases = [("before", before_ns - lasted_ns, before_ns), ("meanwhile", began_ns, ended_ns)]
    windows.phases(actions, spark.createDataFrame(phases, "phase string, since_ns long, until_ns long")).show()
    spark.stop()


if __name__ == "__main__":
    main()
