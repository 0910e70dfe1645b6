"""Archive: the classes of Spark as one JVM has loaded and verified them, for all other JVMs of the tests to map.

    python -m tests.archive

Most of what a JVM does in a test is to begin: it loads 10,000 classes and verifies each. With an archive (class data sharing of
Java 17) a session and its first job take 6 instead of 12 s of CPU. Making one takes as long as two sessions, so it is kept in
the environment, and made anew when Java or Spark is another. A JVM that finds it made by others than itself does without.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import MutableMapping
from importlib import metadata
from pathlib import Path

#: In the environment whose Spark it is of.
ARCHIVE = Path(sys.prefix) / "spark.jsa"
#: What it was made by.
MADE_BY = ARCHIVE.with_suffix(".json")
#: A JVM that lives for a minute (spark/session.py), and says nothing of an archive that it cannot use.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_QUIET = "-Xlog:disable"


def set_environment(environment: MutableMapping[str, str]) -> None:
    """Make all JVMs that Spark starts from now on begin quickly: its launcher, and the driver that the launcher names."""
    environment["SPARK_LAUNCHER_OPTS"] = environment["SPARK_SUBMIT_OPTS"] = SHORT_LIVED
    if ARCHIVE.exists():
        environment["SPARK_SUBMIT_OPTS"] += f" -XX:SharedArchiveFile={ARCHIVE} {_QUIET}"


def make() -> None:
    """Make it, if it is not there or made by another Java or Spark."""
    from appbackplane.spark.java import choose, found_here

    java = choose(found_here())
    made_by = {"java": [str(java.path), java.version], "spark": [sys.prefix, metadata.version("pyspark")]}
    if ARCHIVE.exists() and MADE_BY.exists() and json.loads(MADE_BY.read_text()) == made_by:
        return
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as folder:
        made = Path(folder, "made.jsa")
        options = {
            "SPARK_LAUNCHER_OPTS": SHORT_LIVED,
            "SPARK_SUBMIT_OPTS": f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={made} {_QUIET}",
        }
        subprocess.run(
            [sys.executable, "-m", "tests.archive", "use", folder],
            env=os.environ | options, cwd=Path(__file__).parents[1], check=True,
        )  # fmt: skip
        made.replace(ARCHIVE)
    MADE_BY.write_text(json.dumps(made_by))


def use(folder: Path) -> None:
    """What most tests use of Spark, so that its classes are in the archive; ends when the JVM has written it."""
    from pyspark import SparkContext

    from appbackplane.spark.datasource import register
    from appbackplane.spark.frames import pieces_frame
    from appbackplane.spark.jobs.operation_statistics import operation_statistics
    from appbackplane.spark.session import session
    from tests.spark.made import names_of, traffic, words_of, write_actions

    run_dir = folder / "run"
    write_actions(run_dir, "front", 1, words_of(100, traffic(100)), names_of(), sealed=True)
    spark = session("local[2]", "archive", spark_driver_extraJavaOptions=SHORT_LIVED)
    gateway = SparkContext._gateway
    assert gateway is not None
    register(spark)
    assert operation_statistics(pieces_frame(spark, run_dir)).toArrow().num_rows > 0
    rows = spark.read.format("backplane").load(str(run_dir))
    assert len(rows.orderBy("index").where("run_ns > 0 and not boosted").collect()) == 100
    reader = spark.readStream.format("backplane").schema("backplane string, index bigint").load(str(run_dir))
    told = reader.writeStream.foreachBatch(lambda frame, _: frame.toArrow())
    query = told.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    spark.sparkContext.parallelize([1, 2]).map(str).collect()
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    if sys.argv[1:2] == ["use"]:
        use(Path(sys.argv[2]))
    else:
        make()
