"""Sharing: a process has one session of Spark's, and may have several kernels that use it.

Whoever comes first starts it, the last one ends it; one that somebody else has started (a notebook, another component) is used
and left alone.
"""

from __future__ import annotations

import subprocess
import threading
from typing import TYPE_CHECKING, Any, Final

from ..session import end, running, session_with
from .settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: For a master to let us in. Nobody sits and waits for it, and a machine on which much else starts takes a minute.
START_LIMIT_S: Final = 120.0
#: Held while a session starts: whoever comes meanwhile has to wait for it anyway.
_lock = threading.Lock()
#: Of those that were started here: by how many each is used.
_users: dict[SparkSession, int] = {}


def acquire(settings: SparkSettings, name: str) -> SparkSession:
    """A session to be released again. Raises what `session_with` does."""
    with _lock:
        was = running()
        spark = session_with(settings.session, settings.master, name, limit_s=START_LIMIT_S)
        if spark is not was:
            _users[spark] = 1
        elif spark in _users:
            _users[spark] += 1
        return spark


def release(spark: SparkSession) -> None:
    """The caller uses it no more."""
    with _lock:
        if spark not in _users:
            return
        _users[spark] -= 1
        if _users[spark] == 0:
            del _users[spark]
            end(spark)


def is_alive(spark: SparkSession) -> bool:
    """Whether it can still do anything."""
    context: Any = spark.sparkContext
    process: subprocess.Popen[bytes] | None = getattr(context._gateway, "proc", None)
    if process is not None and process.poll() is not None:
        return False  # to ask py4j would be answered by pages in the log
    try:
        return context._jsc is not None and not bool(context._jsc.sc().isStopped())
    except Exception:  # whatever py4j says where there is no JVM
        return False
