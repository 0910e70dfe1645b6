"""SparkExecutor: execute the runnables of a request kernel on a Spark cluster, for a fan-out too large for one machine.

Implements the port of `requests/executing/executor.py`; the kernel finds it by its entry point, and runtime never imports it.
Each worker runs one Spark job at a time, so `policy.workers` is the number of concurrent jobs. 2 to 4 keep any cluster busy,
because each job spreads over its cores (requests/sizing.py). A session takes seconds to start, so it starts in a thread;
requests wait in the ready pool meanwhile. If it fails or dies, it is started again: the requests that it was executing are
lost, no others. Cost: a JVM of 1 GB beside this process and 10 ms a task; runnables below 0.1 ms belong in threads.
"""

from __future__ import annotations

import itertools
import logging
import threading
from typing import TYPE_CHECKING, Any, Final

import msgspec

from appbackplane.runtime.requests.executing.executor import KernelPort

from . import java
from .master import check_answers, parsed
from .requests.code import folders_of, send
from .requests.settings import SparkSettings, settings_of
from .requests.task import ImportPlace
from .session import check_installed, in_a_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from appbackplane.runtime.requests.kernel import RequestKernel

    from .requests.crew import Crew

log = logging.getLogger("appbackplane.spark")

#: Pauses between attempts to start Spark: a restarting master is back in seconds; one that stays down is retried each minute.
AGAIN_S: Final = (1.0, 5.0, 15.0, 60.0)
#: Limit for `stop`: a session that is just starting has to be awaited: 3 to 7 s, four times that on a busy machine.
STOP_LIMIT_S: Final = 45.0
_numbers = itertools.count(1)


class SparkExecutor:
    """Implements the port `Executor` with Spark jobs."""

    def __init__(self) -> None:
        self._settings = SparkSettings()
        self._place = ImportPlace({}, "", ())
        self._name = ""
        self._wanted = 0
        self._crew: Crew | None = None
        #: Why there is no Spark session; "": there is one, or it is starting.
        self._problem = ""
        self._is_stopping = threading.Event()
        self._driver: threading.Thread | None = None

    def start(self, kernel: RequestKernel, ledger: KernelPort) -> None:
        """Start Spark in a thread, after these checks.

        Raises `InvalidArgument` for settings, `NotInstalled`, `NoJava`, `NoMaster`, and `FailedPrecondition` for runnables
        that workers cannot import.
        """
        self._settings = settings_of(ledger.policy.spark)
        runnables = {name: spec.where for name, spec in ledger.specs.items()}
        cls = type(kernel)
        whole = f"{cls.__module__}:{cls.__qualname__}" if cls.resources else ""
        self._place = ImportPlace(runnables, whole, folders_of([*runnables.values(), *([whole] if whole else [])]))
        check_installed()
        java.java_home()
        check_answers(parsed(self._settings.master))
        self._name = f"appbackplane {type(kernel).__name__}"
        self._wanted = ledger.policy.workers
        self._driver = threading.Thread(target=self._drive, args=(ledger,), name="spark-requests", daemon=True)
        self._driver.start()

    def kick(self, worker: str) -> None:
        """Wake a worker: there are requests for it."""
        if (crew := self._crew) is not None:
            crew.kick(worker)

    def resize(self, workers: int) -> None:
        """Set the number of concurrent jobs."""
        self._wanted = workers
        if (crew := self._crew) is not None:
            crew.resize(workers)

    def workers(self) -> list[dict[str, Any]]:
        """For each worker `name`, `state`, and `requests`: unfinished ones of its job. `problem`: why there is no Spark."""
        if (crew := self._crew) is not None:
            return crew.told()
        from .requests.crew import name_of

        state = {"state": "no Spark", "problem": self._problem} if self._problem else {"state": "starting"}
        return [{"name": name_of(number + 1), "requests": 0} | state for number in range(self._wanted)]

    def stop(self) -> None:
        """Cancel all jobs, whose requests are lost. Waits up to `STOP_LIMIT_S` for the end of Spark if it was started here."""
        self._is_stopping.set()
        if (crew := self._crew) is not None:
            crew.end()
        if self._driver is not None:
            self._driver.join(STOP_LIMIT_S)
            if self._driver.is_alive():
                log.error("Spark has not ended in %g s; it ends with this process", STOP_LIMIT_S)

    def _drive(self, ledger: KernelPort) -> None:
        """Main function of the thread that owns the session."""
        from .requests.sharing import acquire, release

        tries = 0
        while not self._is_stopping.is_set():
            try:
                spark = acquire(self._settings, self._name)
                try:
                    self._serve(spark, ledger)
                    tries = 0
                finally:
                    release(spark)
            except Exception as error:
                self._problem = in_a_line(error)
                log.error("requests wait for Spark: %s", self._problem, exc_info=log.isEnabledFor(logging.DEBUG))
                self._is_stopping.wait(AGAIN_S[min(tries, len(AGAIN_S) - 1)])
                tries += 1

    def _serve(self, spark: SparkSession, ledger: KernelPort) -> None:
        from .requests.crew import Crew

        context = spark.sparkContext
        place = self._place
        is_here = parsed(str(context.master)).kind == "local"
        group = f"appbackplane-requests-{next(_numbers)}"
        if not is_here:
            if self._settings.code == "sent":
                send(place.folders, context, group)
            place = msgspec.structs.replace(place, folders=())
        crew = Crew(spark, ledger, self._settings, place, self._wanted, group)
        log.info("requests are executed by Spark: %s, %d cores", context.master, context.defaultParallelism)
        self._crew = crew
        try:
            crew.resize(self._wanted)  # it may have changed while Spark started
            self._problem = ""
            if not self._is_stopping.is_set():  # `stop` may have been called, too; from here on it sees the crew
                crew.serve()
        finally:
            self._crew = None
