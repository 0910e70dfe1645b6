"""Processes: requests executed by backplanes of their own, so that computing uses every core.

The workers are the replicas of a backplane with a `RequestWorker` (seat.py); each has a line (line.py). The supervisor starts
the processes; this module sees which of them are up, and gives work to as many as the policy wants. All lines together learn
the run time of each runnable, so that short requests can travel together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appbackplane.transport.resolver import AT

from ..execution.method_action import MethodAction
from .executor import KernelPort
from .line import WorkerConnection, drive
from .priority_mapping import backplane_priority
from .window import KernelWindow
from .wire import EXECUTE, window_key

if TYPE_CHECKING:
    from .kernel import RequestKernel


class ProcessExecutor:
    """Implements `executor.Executor`. Lines are by the names of the workers' backplanes."""

    def __init__(self) -> None:
        self._lines: dict[str, WorkerConnection] = {}
        #: Workers that get requests: the first of those that are up.
        self._wanted: tuple[str, ...] = ()
        self._count = 0
        self._is_stopped = False
        self.kernel: Any = None
        self.desk: Any = None
        self.route = ""
        #: Run time of each runnable, ns: a recent average.
        self.costs: dict[str, int] = {}

    def start(self, kernel: RequestKernel, desk: KernelPort) -> None:
        """Implements `Executor.start`, and follows the routing table."""
        self.kernel, self.desk = kernel, desk
        self.desk.recall = self.recall
        self.route = f"{desk.policy.pool}.{EXECUTE}"
        self._count = desk.policy.workers
        kernel._host.hear_directory(self._look)
        self._look()

    def kick(self, worker: str) -> None:
        """Drive the line of this worker: there is a request for it."""
        line = self._lines.get(worker)
        if line is not None:
            self._serve(line)

    def recall(self, worker: str) -> None:
        """Recall the worker's unbegun requests: a more urgent one is ready. Any thread."""
        line = self._lines.get(worker)
        if line is not None:
            self.kernel._host.with_lead(line.recaller.hurry)

    def resize(self, workers: int) -> None:
        """Give work to so many processes; starting them is up to the supervisor."""
        self._count = workers
        self.kernel._host.with_lead(self._look)  # as with each new routing table: the lead keeps callers apart

    def workers(self) -> list[dict[str, Any]]:
        """The backplanes that serve the pool: "up"; "spare", which are up and get no requests; or "down"."""
        up = self.kernel._host.places_up(self.route)
        return [
            {"name": name, "state": "up" if name in self._wanted else "spare" if name in up else "down"}
            for name in self.kernel._host.places(self.route)
        ]

    def stop(self) -> None:
        """Requests that the workers execute may end there; their outcome is lost."""
        self._count = 0
        self._wanted = ()
        self._is_stopped = True
        self.kernel._host.hear_directory_no_more(self._look)  # otherwise this start of the kernel would stay in memory

    def is_wanted(self, worker: str) -> bool:
        """Whether this worker is to get more requests."""
        return worker in self._wanted

    def learn(self, runnable: str, run_ns: int) -> None:
        """Count the run time of one request into its average."""
        known = self.costs.get(runnable)
        self.costs[runnable] = max(1, run_ns if known is None else known + (run_ns - known) // 8)

    def _look(self) -> None:
        """Match the lines to a new routing table, or to another number of workers. With the lead."""
        if self._is_stopped:
            return
        self._wanted = wanted = tuple(self.kernel._host.places_up(self.route))[: self._count]
        for name in [*self._lines]:
            if name not in wanted:
                self.desk.dismiss(name)
        for name in wanted:
            if name not in self._lines:
                line = self.kernel._object(f"line{AT}{name}", lambda name=name: WorkerConnection(self, name))
                self._lines[name] = line
                self.kernel._object(f"recaller{AT}{name}", lambda line=line: line.recaller)
                self.kernel._object(window_key(name), lambda: KernelWindow(self.kernel))
            if self.desk.begins(name):
                self._serve(self._lines[name])

    def _serve(self, line: WorkerConnection) -> None:
        kernel, desk = self.kernel, self.desk
        priority = backplane_priority(desk.best_priority(), desk.policy, kernel._priorities)
        action = MethodAction(line, f"{kernel.component_name}.requests", priority, drive, (self,))
        action.on_end = line.stopped
        kernel._serve(action)
