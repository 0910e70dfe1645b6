"""Session: start Spark with this project's settings, on any master.

Quiet, small, Arrow everywhere, and this interpreter in its workers unless the user names another one (PYSPARK_PYTHON). A
missing part (the extra, a Java, the master) is found before Spark is started, and reported in one line; waits on which Spark
itself sets no limit have one here. Cost: a JVM of 1 GB beside this process, 3 s to start; it always ends with this process.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import psutil

from appbackplane.transport.errors import FailedPrecondition, Unavailable

from . import java
from .master import LOCAL, Master, check_answers, no_master, parsed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
#: Without these, Arrow checks each access to each value, which doubles the time for rows of 23 columns. Our data were checked
#: when they were made. (`default`: applies in addition to the user's extra options.)
_ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
#: Settings with their reasons. The two marked * made a micro-batch of our own source 66 instead of 148 ms.
SETTINGS = {
    "spark.ui.enabled": "false",  # a web server without a user; 0.3 s of the start
    "spark.ui.showConsoleProgress": "false",  # its bar and ours would overwrite each other
    "spark.sql.catalogImplementation": "in-memory",  # no Derby database in the current folder
    "spark.sql.shuffle.partitions": "2",  # only sums are shuffled here, not rows
    "spark.sql.adaptive.enabled": "false",  # replanning after each stage takes 20 ms, and shuffles are small
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.defaultJavaOptions": _ARROW,
    "spark.executor.defaultJavaOptions": _ARROW,
    "spark.python.unix.domain.socket.enabled": "true",  # *
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,  # *
}
#: Python of the workers, like the variable PYSPARK_PYTHON, over which it takes precedence.
WORKERS_PYTHON = "spark.pyspark.python"
#: For a session of about a minute: with minimal compilation the JVM starts in 2.4 instead of 3.1 s, and ends its first job in
#: 1.2 instead of 1.5. Longer sessions, and computations in Spark itself, are slower with it.
SHORT_LIVED = {"spark_driver_extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
#: Logs errors only; `-Dappbackplane.log=warn` in the Java options adds warnings.
_LOG = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
#: Packages of the extra that all computations need.
_NEEDED = ("pyspark", "py4j", "pyarrow", "numpy", "pandas")
#: Limit for a peer that accepts connections but is no master; a real one answers in a second. Spark's own limit is 60 s.
START_LIMIT_S = 25.0
#: Limit for cluster managers, which prepare machines first.
MANAGED_LIMIT_S = 180.0
#: Limit for the first executor: a worker with a free core starts it in 2 s.
EXECUTOR_LIMIT_S = 30.0
#: If no further executor has registered for so long, all have. Frames are split for the number of cores at their creation, and
#: executors on equally fast machines register within tenths of a second.
SETTLE_S = 1.0

#: Limit for the JVM to end: 0.1 s after its session was stopped; seconds if stopped in the middle of a job.
END_LIMIT_S = 10.0


class NotInstalled(FailedPrecondition):
    """The extra, or a package of it, is missing."""


class NoSpark(Unavailable):
    """Spark did not start; the line gives its first message."""


def session(
    master: str = LOCAL, name: str = "appbackplane", *, stderr: IO[bytes] | None = None, **settings: str
) -> SparkSession:
    """Return the session of this process, started if need be; `settings` (_ for dots) override `SETTINGS`.

    An existing session keeps its master and settings. `stderr`: target for messages of the JVM and its workers, by default
    that of this process. Redirect it in a program that exits without waiting for them, because they print errors then.

    Raises `NotInstalled`, `NoJava`, `NoMaster`, `NoSpark`, and `InvalidArgument` for an invalid name of a master.
    """
    return session_with({key.replace("_", "."): value for key, value in settings.items()}, master, name, stderr=stderr)


def session_with(
    settings: Mapping[str, str],
    master: str,
    name: str,
    *,
    stderr: IO[bytes] | None = None,
    limit_s: float | None = None,
) -> SparkSession:
    """`session`, with settings by their own names. `limit_s`: for the master; None: `START_LIMIT_S` or `MANAGED_LIMIT_S`."""
    check_installed()
    whose = parsed(master)
    check_answers(whose)
    if (found := running()) is not None:
        make_active(found)
        return found
    wanted = SETTINGS | dict(settings)
    wanted[_JAVA_OPTIONS] = f"{_LOG} {wanted.get(_JAVA_OPTIONS, '')}".strip()
    _set_environment(whose, wanted)
    spark = _started(whose, name, wanted, stderr, limit_s)
    make_active(spark)  # the thread that started it may be another one
    if whose.kind == "spark":
        _await_executors(spark, whose)
    return spark


def end(spark: SparkSession) -> None:
    """Stop the session and its JVM, which `spark.stop()` would leave until this process ends. The JVM may be dead already.

    A second session may be started then; other users of this one fail.
    """
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    context: Any = spark.sparkContext
    server = context._accumulatorServer
    with suppress(Py4JError, OSError):  # raised if the JVM is gone; then the rest is done here
        spark.stop()
    if context._accumulatorServer is not None:
        server.shutdown()
    if server is not None:
        server.server_close()
    context._jsc = context._accumulatorServer = None
    _forget()
    if gateway is None:
        return
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    process: subprocess.Popen[bytes] | None = gateway.proc
    if process is not None and process.stdin is not None:
        process.stdin.close()  # the JVM ends at this
        try:
            process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def make_active(spark: SparkSession) -> None:
    """Make `spark` the active session of this thread: only there does Spark look up formats for `df.write` and `writeStream`.

    A session of Spark Connect has no local JVM and is left as it is.
    """
    from pyspark.sql import SparkSession

    of: Any = spark
    kind: Any = SparkSession
    java_session = getattr(of, "_jsparkSession", None)
    if java_session is None:
        return
    kind._activeSession = spark
    kind._get_j_spark_session_class(of._jvm).setActiveSession(java_session)


def _forget() -> None:
    """Clear PySpark's references to a JVM, which it would go on using even after the JVM has ended."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    kind: Any = SparkSession
    kind._instantiatedSession = kind._activeSession = None
    SparkContext._active_spark_context = None
    SparkContext._gateway = SparkContext._jvm = None


def running() -> SparkSession | None:
    """The live session of this process, if any, even if started by other code."""
    from pyspark.sql import SparkSession

    found: Any = getattr(SparkSession, "_instantiatedSession", None)
    return None if found is None or found.sparkContext._jsc is None else found


def check_installed() -> None:
    """Raises `NotInstalled` if a needed package is missing. Imports nothing."""
    if lacks := missing():
        raise NotInstalled(f"{lacks[0]} is not installed, which Spark needs: pip install 'appbackplane[spark]'")


def missing() -> list[str]:
    """Needed packages that are not installed."""
    return [name for name in _NEEDED if importlib.util.find_spec(name) is None]


def _set_environment(master: Master, settings: Mapping[str, str]) -> None:
    """Set variables that Spark reads. PYSPARK_PYTHON may name another Python for workers that lack this interpreter's path."""
    if WORKERS_PYTHON in settings:
        os.environ["PYSPARK_PYTHON"] = settings[WORKERS_PYTHON]
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable  # programs beside the driver use this environment
    os.environ["JAVA_HOME"] = str(java.java_home())
    if master.is_here:
        # Otherwise Spark resolves the machine's name, which may have no address, or one that others can reach.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _started(
    master: Master, name: str, settings: dict[str, str], stderr: IO[bytes] | None, limit_s: float | None
) -> SparkSession:
    """Start the session; in a thread if starting may block for ever, because then only the end of the JVM ends it."""
    from pyspark import SparkConf, SparkContext, java_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf().setMaster(master.text).setAppName(name).setAll(list(settings.items()))
    launch_gateway: Any = java_gateway.launch_gateway
    made: list[SparkSession] = []
    raised: list[BaseException] = []
    others = set(psutil.Process().children())

    def make() -> None:
        try:
            if SparkContext._gateway is None:
                options = {} if stderr is None else {"stderr": stderr}
                SparkContext._ensure_initialized(gateway=launch_gateway(conf, options), conf=conf)
            made.append(SparkSession.builder.config(conf=conf).getOrCreate())
        except BaseException as error:
            if SparkContext._gateway is None:
                # A JVM that starts while this is interrupted cannot report its address, and would stay for ever.
                _kill(set(psutil.Process().children()) - others)
            raised.append(error)

    if master.kind == "local":
        make()
    else:
        maker = threading.Thread(target=make, name="start-spark", daemon=True)
        maker.start()
        limit_s = limit_s or (START_LIMIT_S if master.kind == "spark" else MANAGED_LIMIT_S)
        maker.join(limit_s)
        if maker.is_alive():
            _kill(set(psutil.Process().children()) - others)
            maker.join(END_LIMIT_S)
            _forget()  # or the next attempt would use that JVM
            raise no_master(master, [f"it did not accept Spark within {limit_s:g} s"])
    if raised:
        if isinstance(raised[0], Exception):
            raise NoSpark(f"Spark did not start: {_last_said(stderr) or in_a_line(raised[0])}") from raised[0]
        raise raised[0]
    _let_end_in_silence(made[0])
    return made[0]


def _let_end_in_silence(spark: SparkSession) -> None:
    """Suppress the traceback that PySpark's accumulator server prints when the JVM ends and so closes its connection."""
    server: Any = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is None:
        return
    tell = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exc_info()[1], (EOFError, ConnectionError)):
            tell(request, address)

    server.handle_error = handle_error


def _last_said(stderr: IO[bytes] | None) -> str:
    """First line printed by a JVM that did not start."""
    if stderr is None or not stderr.seekable():
        return ""
    stderr.seek(0)
    lines = [line.strip() for line in stderr.read(1 << 16).decode(errors="replace").splitlines()]
    return next((line for line in lines if line), "")


def _await_executors(spark: SparkSession, master: Master) -> None:
    """Wait until all executors have registered. Without one, the first job would wait for ever, in silence."""
    context: Any = spark.sparkContext._jsc.sc()
    begun_s = changed_s = time.monotonic()
    known = 1  # the driver is counted, too
    while known < 2 or time.monotonic() - changed_s < SETTLE_S:
        count = context.getExecutorMemoryStatus().size()
        if count != known:
            known, changed_s = count, time.monotonic()
        if known < 2 and time.monotonic() - begun_s > EXECUTOR_LIMIT_S:
            spark.stop()
            raise no_master(master, [f"no worker there had a free core within {EXECUTOR_LIMIT_S:g} s"])
        time.sleep(0.05)


def _kill(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(list(processes), timeout=5)


def in_a_line(error: BaseException) -> str:
    """The cause of a Spark error in one line, without the stack traces of two languages."""
    java_error = getattr(error, "java_exception", None)
    text = str(error) if java_error is None else str(java_error.toString())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if own := [line for line in lines if line.startswith("appbackplane.") and ": " in line]:
        return own[-1].partition(": ")[2][
            :400
        ]  # such as a `DataLoss`: the last line of the traceback in Java's message
    # Our own error, raised in a task, is at the end of its traceback.
    ours = [line for line in lines if "Error: " in line and not line.startswith(("at ", "File "))]
    return (ours[-1] if ours and java_error is not None else lines[0] if lines else type(error).__name__)[:400]
