"""SparkExecutor: the runnables of a request kernel, executed by a Spark cluster, for a fan-out that one machine cannot hold.

Keeps the port of `runtime/requests/executor.py`; the kernel finds it by its entry point, and runtime never imports it. A worker
has one job of Spark's at a time, so `policy.workers` is how many jobs there are at once: 2 to 4 keep any cluster busy, whose
cores are the jobs' affair (requests/sizing.py). A session takes seconds to start, so that is done beside: what is posted
meanwhile waits in the ready pool. One that cannot be had, or dies, is started again: what it was executing is lost, what was
not taken is not. It costs a JVM of 1 GB beside this process and 10 ms a task: what takes below 0.1 ms is work for threads.
"""

from __future__ import annotations

import itertools
import logging
import threading
from typing import TYPE_CHECKING, Any, Final

import msgspec

from appbackplane.runtime.requests.executor import Port

from . import java
from .master import check_answers, parsed
from .requests.code import folders_of, send
from .requests.settings import SparkSettings, settings_of
from .requests.task import Place
from .session import check_installed, in_a_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from appbackplane.runtime.requests.kernel import RequestKernel

    from .requests.crew import Crew

log = logging.getLogger("appbackplane.spark")

#: Between two tries to start Spark: a master that is being restarted is back in seconds, one that is not is asked each minute.
AGAIN_S: Final = (1.0, 5.0, 15.0, 60.0)
#: A session that is just being started has to be waited for: 3 to 7 s, on a machine that does much else four times that.
STOP_LIMIT_S: Final = 45.0
_numbers = itertools.count(1)


class SparkExecutor:
    """Implements `Executor`."""

    def __init__(self) -> None:
        self._settings = SparkSettings()
        self._place = Place({}, "", ())
        self._name = ""
        self._wanted = 0
        self._crew: Crew | None = None
        #: Why there is no Spark now; "": there is, or it is about to be.
        self._problem = ""
        self._is_stopping = threading.Event()
        self._driver: threading.Thread | None = None

    def start(self, kernel: RequestKernel, desk: Port) -> None:
        """Begin. Raises what is known at once: `InvalidArgument` for settings, `NotInstalled`, `NoJava`, `NoMaster`,
        `FailedPrecondition` for runnables that nobody else can import.
        """
        self._settings = settings_of(desk.policy.spark)
        runnables = {name: spec.where for name, spec in desk.specs.items()}
        cls = type(kernel)
        whole = f"{cls.__module__}:{cls.__qualname__}" if cls.resources else ""
        self._place = Place(runnables, whole, folders_of([*runnables.values(), *([whole] if whole else [])]))
        check_installed()
        java.java_home()
        check_answers(parsed(self._settings.master))
        self._name = f"appbackplane {type(kernel).__name__}"
        self._wanted = desk.policy.workers
        self._driver = threading.Thread(target=self._drive, args=(desk,), name="spark-requests", daemon=True)
        self._driver.start()

    def kick(self, worker: str) -> None:
        """There is something for this one."""
        if (crew := self._crew) is not None:
            crew.kick(worker)

    def resize(self, workers: int) -> None:
        """So many jobs at a time."""
        self._wanted = workers
        if (crew := self._crew) is not None:
            crew.resize(workers)

    def workers(self) -> list[dict[str, Any]]:
        """Each with `name`, `state`, and `requests`: those of its job that have not ended. `problem`: why there is no Spark."""
        if (crew := self._crew) is not None:
            return crew.told()
        from .requests.crew import name_of

        state = {"state": "no Spark", "problem": self._problem} if self._problem else {"state": "starting"}
        return [{"name": name_of(number + 1), "requests": 0} | state for number in range(self._wanted)]

    def stop(self) -> None:
        """Cancel what Spark executes: it is lost. Returns when Spark has ended, where it was started for this."""
        self._is_stopping.set()
        if (crew := self._crew) is not None:
            crew.end()
        if self._driver is not None:
            self._driver.join(STOP_LIMIT_S)
            if self._driver.is_alive():
                log.error("Spark has not ended in %g s; it ends with this process", STOP_LIMIT_S)

    def _drive(self, desk: Port) -> None:
        """The thread that has the session."""
        from .requests.sharing import acquire, release

        tries = 0
        while not self._is_stopping.is_set():
            try:
                spark = acquire(self._settings, self._name)
                try:
                    self._serve(spark, desk)
                    tries = 0
                finally:
                    release(spark)
            except Exception as error:
                self._problem = in_a_line(error)
                log.error("requests wait for Spark: %s", self._problem, exc_info=log.isEnabledFor(logging.DEBUG))
                self._is_stopping.wait(AGAIN_S[min(tries, len(AGAIN_S) - 1)])
                tries += 1

    def _serve(self, spark: SparkSession, desk: Port) -> None:
        from .requests.crew import Crew

        context = spark.sparkContext
        place = self._place
        is_here = parsed(str(context.master)).kind == "local"
        group = f"appbackplane-requests-{next(_numbers)}"
        if not is_here:
            if self._settings.code == "sent":
                send(place.folders, context, group)
            place = msgspec.structs.replace(place, folders=())
        crew = Crew(spark, desk, self._settings, place, self._wanted, group)
        log.info("requests are executed by Spark: %s, %d cores", context.master, context.defaultParallelism)
        self._crew = crew
        try:
            crew.resize(self._wanted)  # it may have changed meanwhile
            self._problem = ""
            if not self._is_stopping.is_set():  # and so may that; from here on `stop` sees the crew
                crew.serve()
        finally:
            self._crew = None
