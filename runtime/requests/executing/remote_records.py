"""Remote records: each request that is executed on another machine is recorded as an action, KERNEL.RUNNABLE.

The worker measures run time and CPU time by its own clock. The start time is by the clock of this process: so many ns before
the answer arrived (executor.Port). The clocks of two machines differ by more than a request takes. Requests lost with their
worker are not recorded: nobody knows whether they ran.
"""

from __future__ import annotations

from collections.abc import Sequence

from appbackplane.transport.errors import InternalError

from ...execution.actions.external_work import ExternalWorkRecorder
from ...objects.action import Action
from ...objects.app_object import AppObject
from ...objects.component import Component
from ..ledger.element import Done
from ..policy import KernelPolicy
from .action_records import RequestNames
from .priority_mapping import backplane_priority


class RemoteWorker(AppObject):
    """Stands for a remote worker in the records. Nobody can call it."""

    def __init__(self, kernel: Component, name: str) -> None:
        self._component = kernel
        self._name = f"{kernel.name}.{name}"


class RemoteRecords:
    """Records the remote requests of one kernel."""

    def __init__(self, kernel: Component, beside: ExternalWorkRecorder, priorities: int) -> None:
        self._kernel, self._beside, self._priorities = kernel, beside, priorities
        self._names = RequestNames(kernel.component_name)
        self._workers: dict[str, RemoteWorker] = {}

    def has_threads(self, count: int) -> None:
        """Set how many requests can be executed at a time."""
        self._beside.has_threads(count)

    def ended(self, worker: str, done: Sequence[Done], policy: KernelPolicy) -> None:
        """Record executed requests. One that failed before it was sent has no start time, and is left out."""
        for each in done:
            if each.began_ns:
                self._record(worker, each, policy)

    def _record(self, worker: str, done: Done, policy: KernelPolicy) -> None:
        object = self._workers.get(worker)
        if object is None:
            object = self._workers[worker] = RemoteWorker(self._kernel, worker)
        element, account = done.element, self._names.of(done.element.runnable)
        action = Action(object, account.name, backplane_priority(element.priority, policy, self._priorities))
        action.started_ns, action.lane = done.began_ns, element.lane
        action.wait_ns = max(0, done.began_ns - element.ready_ns)
        action.run_ns, action.cpu_ns = done.run_ns, min(done.cpu_ns, done.run_ns)
        if done.failure is not None:
            action.error = InternalError(done.failure.error)
        self._beside.record(action, account, done.began_ns + done.run_ns)
