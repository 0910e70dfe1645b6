"""Session: Spark as this project wants it, on any master: quiet, small, Arrow everywhere, this interpreter in its workers."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What a local master may take of the machine beside the system it looks at.
LOCAL = "local[*]"
_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
#: Arrow checks each access to each value, which for rows of 23 columns takes as long as all the rest. What it is given here
#: was checked when it was made. (`default`: whoever gives extra options has these, too.)
_ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
#: Settings with their reasons. The two marked * made a micro-batch of our own source 66 instead of 148 ms.
SETTINGS = {
    "spark.ui.enabled": "false",  # a web server that nobody asked for; 0.3 s of the start
    "spark.ui.showConsoleProgress": "false",  # its bar and ours would overwrite each other
    "spark.sql.catalogImplementation": "in-memory",  # no Derby database in the current folder
    "spark.sql.shuffle.partitions": "2",  # what is shuffled here are sums, not rows
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",  # without it a source that defines pushFilters is an error
    "spark.driver.defaultJavaOptions": _ARROW,
    "spark.executor.defaultJavaOptions": _ARROW,
    "spark.python.unix.domain.socket.enabled": "true",  # *
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,  # *
}


def session(master: str = LOCAL, name: str = "appbackplane", **settings: str) -> SparkSession:
    """The session of this process, started if need be; `settings` with _ for the dots go before `SETTINGS`."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in (SETTINGS | {key.replace("_", "."): value for key, value in settings.items()}).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
