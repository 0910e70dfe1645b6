"""Crew: the workers of one session, each a thread that runs one Spark job at a time.

Running a job blocks its thread; Spark runs the jobs of several threads concurrently, the earlier ones first. A worker takes
requests when its last job has ended, so an urgent request waits at most for the running jobs. If Spark is gone before a job is
submitted, its requests have certainly not begun, and are given back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from appbackplane.runtime.requests.executing.executor import KernelPort
from appbackplane.runtime.requests.ledger.element import Element

from .arriving import Arriving
from .job import Batches
from .settings import SparkSettings
from .sharing import is_alive
from .sizing import Sizing
from .task import ImportPlace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("appbackplane.spark")

#: Time between two checks whether an idle session is alive: a dead one stays unnoticed for so long.
LOOK_S: Final = 5.0
#: Time for cancelled jobs to end: Spark kills a task that ignores the cancellation after 2 s.
END_LIMIT_S: Final = 15.0
_CANCEL_S: Final = 0.2


class CrewWorker:
    """A worker thread and its present state."""

    def __init__(self, number: int, batches: Batches) -> None:
        self.number, self.batches = number, batches
        self.name = name_of(number)
        self.state = "idle"
        #: `is_kicked`: take requests. `wake`: check for a reason to act, this or another.
        self.is_kicked = threading.Event()
        self.wake = threading.Event()
        self.thread: threading.Thread | None = None


class Crew:
    """All workers of one session, from its start to its end."""

    def __init__(
        self,
        spark: SparkSession,
        ledger: KernelPort,
        settings: SparkSettings,
        place: ImportPlace,
        workers: int,
        group: str,
    ) -> None:
        """`group`: job group of all jobs of this crew, to cancel these and no others."""
        self._spark, self._ledger, self._place, self._group = spark, ledger, place, group
        self._context = spark.sparkContext
        self._arriving = Arriving()
        self._gathered = self._context.accumulator([], self._arriving)
        self._sizing = Sizing(settings, self._cores)
        self._wanted = workers
        self._workers: dict[str, CrewWorker] = {}
        #: `_over`: the crew ends, for any reason. `_changed`: `serve` has to check its workers.
        self._over = threading.Event()
        self._changed = threading.Event()

    def serve(self) -> None:
        """Execute requests until `end` is called or the session ends. No worker executes any more after the return."""
        try:
            while not self.is_over():
                self._changed.clear()
                self._man()
                self._changed.wait(LOOK_S)
        finally:
            self._over.set()
            self._see_them_off()

    def kick(self, worker: str) -> None:
        """Wake a worker to take requests."""
        known = self._workers.get(worker)
        if known is not None:
            known.is_kicked.set()
            known.wake.set()

    def resize(self, workers: int) -> None:
        """Set the number of workers; a surplus worker finishes its job first."""
        self._wanted = workers
        for worker in list(self._workers.values()):
            worker.wake.set()
        self._changed.set()

    def end(self) -> None:
        """Make `serve` return. Does not wait for it."""
        self._over.set()
        self._changed.set()

    def is_over(self) -> bool:
        """Whether `end` was called, or Spark is gone. Checks the session, and ends the crew if it is dead."""
        if not self._over.is_set() and not is_alive(self._spark):
            log.error("Spark has died; it is restarted")
            self.end()
        return self._over.is_set()

    def told(self) -> list[dict[str, Any]]:
        """Name, state and open requests of each worker, for the status."""
        return [
            {"name": each.name, "state": each.state, "requests": each.batches.open_count}
            for each in sorted(self._workers.values(), key=lambda each: each.number)
        ]

    def _cores(self) -> int:
        """Number of cores in the cluster now; reported to the ledger, which puts it into the records."""
        cores = int(self._context.defaultParallelism)
        self._ledger.has_threads(cores)
        return cores

    def _man(self) -> None:
        """Start the missing workers."""
        from pyspark import InheritableThread  # a plain Thread leaves a thread behind in the JVM

        for number in range(1, self._wanted + 1):
            known = self._workers.get(name_of(number))
            if known is None or known.thread is None or not known.thread.is_alive():
                batches = Batches(
                    self._context, self._arriving, self._gathered, self._ledger, name_of(number), self._sizing,
                    self._place, self.is_over,
                )  # fmt: skip
                worker = CrewWorker(number, batches)
                worker.thread = InheritableThread(target=self._work, args=(worker,), name=worker.name, daemon=True)
                self._workers[worker.name] = worker
                worker.thread.start()

    def _work(self, worker: CrewWorker) -> None:
        """Main function of a worker thread."""
        try:
            self._context.setJobGroup(self._group, f"requests of {worker.name}")
            is_to_take = True
            while worker.number <= self._wanted and not self._over.is_set():
                worker.wake.clear()
                if not (is_to_take or worker.is_kicked.is_set()):
                    worker.wake.wait()
                    continue
                worker.is_kicked.clear()
                taken = self._ledger.take(worker.name, self._sizing.take_count(self._wanted))
                is_to_take = bool(taken)
                if taken:
                    worker.state = "executing"
                    self._execute(worker, taken)
                    worker.state = "idle"
        except Exception:
            if not self.is_over():
                log.exception("worker %s has failed; Spark and all workers are restarted", worker.name)
                self.end()
        finally:
            self._ledger.dismiss(worker.name)
            self._ledger.give_back(worker.name, ())  # if it was kicked just now, the ledger kicks another worker
            self._workers.pop(worker.name, None)  # last: until then its name stays in use at the ledger
            self._changed.set()  # the worker may be wanted again

    def _execute(self, worker: CrewWorker, taken: Sequence[Element]) -> None:
        if self.is_over():
            self._ledger.give_back(worker.name, taken)
            return
        try:
            worker.batches.run(taken, self._wanted)
        except Exception as error:
            self._ledger.lost(worker.name, taken, f"{type(error).__name__}: {error}")  # except those that have ended
            raise

    def _see_them_off(self) -> None:
        """Cancel the running jobs, and wait for the workers to end."""
        left = [worker.thread for worker in list(self._workers.values()) if worker.thread is not None]
        for _ in range(int(END_LIMIT_S / _CANCEL_S)):
            for worker in list(self._workers.values()):
                worker.wake.set()
            if is_alive(self._spark):  # repeatedly: a worker may have begun a job just now
                self._context.cancelJobGroup(self._group)
            for thread in left:
                thread.join(_CANCEL_S / len(left))
            left = [thread for thread in left if thread.is_alive()]
            if not left:
                return
        log.error("%d Spark jobs do not end", len(left))


def name_of(number: int) -> str:
    """Name of a worker, counted from 1."""
    return f"spark-{number}"
