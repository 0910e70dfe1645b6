"""Session: Spark as this project wants it, on any master: quiet, small, Arrow everywhere, this interpreter in its workers
unless the user names another one (PYSPARK_PYTHON).

What is missing (the extra, a Java, the master) is found before Spark is started, and said in a line; what Spark itself does
not say is bounded by a time. A session is a JVM of 1 GB beside this process, and 3 s of work; it ends with this process,
however that ends.
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
#: Arrow checks each access to each value, which for rows of 23 columns takes as long as all the rest. What it is given here
#: was checked when it was made. (`default`: whoever gives extra options has these, too.)
_ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
#: Settings with their reasons. The two marked * made a micro-batch of our own source 66 instead of 148 ms.
SETTINGS = {
    "spark.ui.enabled": "false",  # a web server that nobody asked for; 0.3 s of the start
    "spark.ui.showConsoleProgress": "false",  # its bar and ours would overwrite each other
    "spark.sql.catalogImplementation": "in-memory",  # no Derby database in the current folder
    "spark.sql.shuffle.partitions": "2",  # what is shuffled here are sums, not rows
    "spark.sql.adaptive.enabled": "false",  # to think again after each stage takes 20 ms, and what is shuffled is small
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.defaultJavaOptions": _ARROW,
    "spark.executor.defaultJavaOptions": _ARROW,
    "spark.python.unix.domain.socket.enabled": "true",  # *
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,  # *
}
#: Names the Python of the workers, as the variable PYSPARK_PYTHON does, and goes before it.
WORKERS_PYTHON = "spark.pyspark.python"
#: For a session that lives for a minute: a JVM that compiles as little as may be is up in 2.4 instead of 3.1 s, and its first
#: job done in 1.2 instead of 1.5. What lives longer, or has Spark itself compute, is slower with it.
SHORT_LIVED = {"spark_driver_extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
#: Its log says nothing below errors; `-Dappbackplane.log=warn` in the Java options says more.
_LOG = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
#: What the extra brings, and what all that is computed here needs.
_NEEDED = ("pyspark", "py4j", "pyarrow", "numpy", "pandas")
#: A master that takes connections and is none is waited for so long; one that is takes a second. Spark's own limit is 60 s.
START_LIMIT_S = 25.0
#: Cluster managers make machines ready first.
MANAGED_LIMIT_S = 180.0
#: A worker that has cores to spare starts its first executor in 2 s.
EXECUTOR_LIMIT_S = 30.0
#: No further executor has come for so long: then all have. Frames are cut for the cores that there are when they are made, and
#: executors of machines that are equally fast register within tenths of a second.
SETTLE_S = 1.0

#: A JVM whose session is stopped takes 0.1 s to end; one that is stopped in the middle of a job, seconds.
END_LIMIT_S = 10.0


class NotInstalled(FailedPrecondition):
    """The extra is missing, or a part of it."""


class NoSpark(Unavailable):
    """It did not start."""


def session(
    master: str = LOCAL, name: str = "appbackplane", *, stderr: IO[bytes] | None = None, **settings: str
) -> SparkSession:
    """The session of this process, started if need be; `settings` with _ for the dots go before `SETTINGS`. A session that
    somebody else has started keeps its master and all its settings.

    `stderr`: where what its JVM and its workers say goes, if not where this process does: at the end of a process that does
    not wait for them, they complain of that.

    Raises `NotInstalled`, `NoJava`, `NoMaster`, `NoSpark`, and `InvalidArgument` for what is no name of a master.
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
    """`session`, with settings by their own names. `limit_s`: for a master to let it in, if not as long as a person waits."""
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
    make_active(spark)  # it may have been started in another thread
    if whose.kind == "spark":
        _await_executors(spark, whose)
    return spark


def end(spark: SparkSession) -> None:
    """Stop it, and its JVM; `spark.stop()` leaves that to the end of this process. Also one whose JVM is gone already.

    A second session may be started then; whatever else used this one fails.
    """
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    context: Any = spark.sparkContext
    server = context._accumulatorServer
    with suppress(Py4JError, OSError):  # of a JVM that is gone; then the rest is left to us
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
        process.stdin.close()  # at which it ends
        try:
            process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def make_active(spark: SparkSession) -> None:
    """Make it the active session of this thread. Spark looks there, and nowhere else, for the format of `df.write` and
    `writeStream`; each thread has its own. A session of Spark Connect has no JVM beside it, and is left as it is.
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
    """What PySpark keeps of a JVM for all that comes after, which it does even when that is gone."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    kind: Any = SparkSession
    kind._instantiatedSession = kind._activeSession = None
    SparkContext._active_spark_context = None
    SparkContext._gateway = SparkContext._jvm = None


def running() -> SparkSession | None:
    """That of this process, whoever has started it."""
    from pyspark.sql import SparkSession

    found: Any = getattr(SparkSession, "_instantiatedSession", None)
    return None if found is None or found.sparkContext._jsc is None else found


def check_installed() -> None:
    """Raises `NotInstalled`. Imports nothing."""
    if lacks := missing():
        raise NotInstalled(f"{lacks[0]} is not installed, which Spark needs: pip install 'appbackplane[spark]'")


def missing() -> list[str]:
    """What of the extra is not installed."""
    return [name for name in _NEEDED if importlib.util.find_spec(name) is None]


def _set_environment(master: Master, settings: Mapping[str, str]) -> None:
    """Where workers have no Python at this path, the user names theirs: Spark itself asks the variable alone."""
    if WORKERS_PYTHON in settings:
        os.environ["PYSPARK_PYTHON"] = settings[WORKERS_PYTHON]
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable  # what runs beside the driver is of this environment
    os.environ["JAVA_HOME"] = str(java.java_home())
    if master.is_here:
        # Else Spark looks for an address by the machine's name, which may have none, or one that others can reach.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _started(
    master: Master, name: str, settings: dict[str, str], stderr: IO[bytes] | None, limit_s: float | None
) -> SparkSession:
    """In a thread of its own where starting may take for ever: only the end of the JVM ends it then."""
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
                # Interrupted while it starts, its JVM would not find where to tell its address, and stay for ever.
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
            _forget()  # that JVM, or the next try would ask for it
            raise no_master(master, [f"it has not let Spark in for {limit_s:g} s"])
    if raised:
        if isinstance(raised[0], Exception):
            raise NoSpark(f"Spark did not start: {_last_said(stderr) or in_a_line(raised[0])}") from raised[0]
        raise raised[0]
    _let_end_in_silence(made[0])
    return made[0]


def _let_end_in_silence(spark: SparkSession) -> None:
    """A JVM that ends is the end of a connection, for which PySpark's server of accumulators would print a traceback."""
    server: Any = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is None:
        return
    tell = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exc_info()[1], (EOFError, ConnectionError)):
            tell(request, address)

    server.handle_error = handle_error


def _last_said(stderr: IO[bytes] | None) -> str:
    """By a JVM that did not come up."""
    if stderr is None or not stderr.seekable():
        return ""
    stderr.seek(0)
    lines = [line.strip() for line in stderr.read(1 << 16).decode(errors="replace").splitlines()]
    return next((line for line in lines if line), "")


def _await_executors(spark: SparkSession, master: Master) -> None:
    """Until all have come that are about to. Without one the first job would wait for ever, and say nothing."""
    context: Any = spark.sparkContext._jsc.sc()
    begun_s = changed_s = time.monotonic()
    known = 1  # the driver is one
    while known < 2 or time.monotonic() - changed_s < SETTLE_S:
        count = context.getExecutorMemoryStatus().size()
        if count != known:
            known, changed_s = count, time.monotonic()
        if known < 2 and time.monotonic() - begun_s > EXECUTOR_LIMIT_S:
            spark.stop()
            raise no_master(master, [f"no worker there has had a core to spare for {EXECUTOR_LIMIT_S:g} s"])
        time.sleep(0.05)


def _kill(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(list(processes), timeout=5)


def in_a_line(error: BaseException) -> str:
    """What went wrong in Spark, without the stack traces of two languages."""
    java_error = getattr(error, "java_exception", None)
    text = str(error) if java_error is None else str(java_error.toString())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if own := [line for line in lines if line.startswith("appbackplane.") and ": " in line]:
        return own[-1].partition(": ")[2][:400]  # such as a `DataLoss`: the last line of a traceback in Java's message
    # An error of ours that was raised in a task comes at the end of its traceback.
    ours = [line for line in lines if "Error: " in line and not line.startswith(("at ", "File "))]
    return (ours[-1] if ours and java_error is not None else lines[0] if lines else type(error).__name__)[:400]
