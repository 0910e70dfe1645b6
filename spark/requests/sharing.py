"""Sharing: several kernels of a process share its only Spark session.

The first kernel starts the session, and the last one ends it. A session of other code (a notebook, a component) is left alone.
"""

from __future__ import annotations

import subprocess
import threading
from typing import TYPE_CHECKING, Any, Final

from ..session import end, running, session_with
from .settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Limit for a master to accept the session. No person waits for it, and a machine that starts much else takes a minute.
START_LIMIT_S: Final = 120.0
#: Held while a session starts: other callers have to wait for it anyway.
_lock = threading.Lock()
#: Number of users of each session that was started here.
_users: dict[SparkSession, int] = {}


def acquire(settings: SparkSettings, name: str) -> SparkSession:
    """Return the shared session, started if need be; pair with `release`. Raises the errors of `session_with`."""
    with _lock:
        was = running()
        spark = session_with(settings.session, settings.master, name, limit_s=START_LIMIT_S)
        if spark is not was:
            _users[spark] = 1
        elif spark in _users:
            _users[spark] += 1
        return spark


def release(spark: SparkSession) -> None:
    """End the caller's use; ends the session if it was started here and has no other user."""
    with _lock:
        if spark not in _users:
            return
        _users[spark] -= 1
        if _users[spark] == 0:
            del _users[spark]
            end(spark)


def is_alive(spark: SparkSession) -> bool:
    """Whether the session can still run jobs."""
    context: Any = spark.sparkContext
    process: subprocess.Popen[bytes] | None = getattr(context._gateway, "proc", None)
    if process is not None and process.poll() is not None:
        return False  # a question to py4j would fill the log with pages
    try:
        return context._jsc is not None and not bool(context._jsc.sc().isStopped())
    except Exception:  # any error of py4j without a JVM
        return False
