"""Processes: requests executed by backplanes of their own, so that computing uses every core.

The workers are the replicas of a backplane with a `RequestWorker` (request_worker.py); the kernel has a connection to each
(worker_connection.py). The supervisor starts the processes; this module sees which of them are up, and gives work to as many as
the policy wants. The connections together learn the run time of each runnable, so that short requests can travel together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appbackplane.transport.addressing import AT

from ...execution.actions.method_action import MethodAction
from .executor import KernelPort
from .kernel_service import KernelService
from .priority_mapping import backplane_priority
from .wire import EXECUTE, service_key
from .worker_connection import WorkerConnection

if TYPE_CHECKING:
    from ..kernel_base import KernelBase


class ProcessExecutor:
    """Implements `executor.Executor`. Connections are by the names of the workers' backplanes."""

    def __init__(self) -> None:
        self._connections: dict[str, WorkerConnection] = {}
        #: Workers that get requests: the first of those that are up.
        self._wanted: tuple[str, ...] = ()
        self._count = 0
        self._is_stopped = False
        self.kernel: Any = None
        self.ledger: Any = None
        self.route = ""
        #: Run time of each runnable, ns: a recent average.
        self.costs: dict[str, int] = {}

    def start(self, kernel: KernelBase, ledger: KernelPort) -> None:
        """Implements `Executor.start`, and follows the routing table."""
        self.kernel, self.ledger = kernel, ledger
        self.ledger.recall = self.recall
        self.route = f"{ledger.policy.pool}.{EXECUTE}"
        self._count = ledger.policy.workers
        kernel._platform.directory_hearers.append(self._look)
        self._look()

    def kick(self, worker: str) -> None:
        """Drive the connection to this worker: there is a request for it."""
        connection = self._connections.get(worker)
        if connection is not None:
            self._serve(connection)

    def recall(self, worker: str) -> None:
        """Recall the worker's unbegun requests: a more urgent one is ready. Any thread."""
        connection = self._connections.get(worker)
        if connection is not None:
            self.kernel._platform.with_lead(connection.recaller.hurry)

    def resize(self, workers: int) -> None:
        """Give work to so many processes; starting them is up to the supervisor."""
        self._count = workers
        self.kernel._platform.with_lead(self._look)  # as with each new routing table: the lead keeps callers apart

    def workers(self) -> list[dict[str, Any]]:
        """The backplanes that serve the pool: "up"; "spare", which are up and get no requests; or "down"."""
        up = self.kernel._platform.places_up(self.route)
        return [
            {"name": name, "state": "up" if name in self._wanted else "spare" if name in up else "down"}
            for name in self.kernel._platform.places(self.route)
        ]

    def stop(self) -> None:
        """Requests that the workers execute may end there; their outcome is lost."""
        self._count = 0
        self._wanted = ()
        self._is_stopped = True
        # Otherwise this start of the kernel would stay in memory.
        self.kernel._platform.directory_hearers.remove(self._look)

    def is_wanted(self, worker: str) -> bool:
        """Whether this worker is to get more requests."""
        return worker in self._wanted

    def learn(self, runnable: str, run_ns: int) -> None:
        """Count the run time of one request into its average."""
        known = self.costs.get(runnable)
        self.costs[runnable] = max(1, run_ns if known is None else known + (run_ns - known) // 8)

    def _look(self) -> None:
        """Match the connections to a new routing table, or to another number of workers. With the lead."""
        if self._is_stopped:
            return
        self._wanted = wanted = tuple(self.kernel._platform.places_up(self.route))[: self._count]
        for name in [*self._connections]:
            if name not in wanted:
                self.ledger.dismiss(name)
        for name in wanted:
            if name not in self._connections:
                connection = self.kernel._object(
                    f"connection{AT}{name}", lambda name=name: WorkerConnection(self, name)
                )
                self._connections[name] = connection
                self.kernel._object(f"recaller{AT}{name}", lambda connection=connection: connection.recaller)
                self.kernel._object(service_key(name), lambda: KernelService(self.kernel))
            if self.ledger.register(name):
                self._serve(self._connections[name])

    def _serve(self, connection: WorkerConnection) -> None:
        kernel, ledger = self.kernel, self.ledger
        priority = backplane_priority(ledger.best_priority(), ledger.policy, kernel._priorities)
        name = f"{kernel.component_name}.requests"
        action = MethodAction(connection, name, priority, WorkerConnection.drive, (self,))
        action.on_end = connection.stopped
        kernel._serve(action)
