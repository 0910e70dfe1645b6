"""RequestWorker: the component of a backplane that executes a kernel's requests, as one of its workers.

    [backplane.worker]
    components = ["appbackplane.runtime.requests:RequestWorker"]
    replicas = 2
    [backplane.worker.settings.RequestWorker]
    kernel = "codesearch.indexing:Indexing"

It has its own objects of the kernel's runnables and resources, and no other part of the kernel. Requests that came together are
executed one after the other. A request's call to the kernel also reports those that ended before it, and gives back those
behind it: it may be about to wait for one of them.
"""

from __future__ import annotations

import importlib
from collections import deque
from contextlib import suppress
from typing import Any

from appbackplane.transport.errors import FailedPrecondition, InternalError

from ...execution.workers.clock import RealClock
from ...execution.workers.current import current
from ...objects.app_object import AppObject
from ...objects.component import Component
from ...objects.module_state import ModuleState
from ...objects.operation import DeclarationError, operation
from ..contexts.remote import RemoteContext
from ..kernel import RequestKernel
from ..ledger.element import REQUEST_PRIORITY, Element, Failure
from ..runnable import RunnableSpec
from .action_records import RequestNames, records_of
from .failures import failure_of
from .thread_resources import ThreadResources
from .wire import BATCH_BYTES_MAX, recall_key, runner_key


class BatchRunner(AppObject):
    """Executes the requests of one batch, one at a time (law 1)."""

    def __init__(self, worker: RequestWorker) -> None:
        self._worker = worker
        # Requests that came together, and answers to report. Two threads take from either end, by one deque operation each.
        self._waiting: deque[list[Any]] = deque()
        self._answers: deque[list[Any]] = deque()
        self._start = 0

    @operation(priority=0, is_long=True)
    async def execute(self, kernel: str, start: int, items: list[list[Any]]) -> list[list[Any]]:
        """(Internal) Execute requests, each [number, runnable, packed, lane]; returns a `wire.RequestAnswer` for each.

        Requests neither here nor reported before have not begun. `start`: identifies the start of the kernel, which counts
        its requests anew each time.
        """
        worker = self._worker
        self._start = start
        self._answers.clear()
        waiting = self._waiting = deque(items)
        action = current.action
        assert action is not None
        records = records_of(action, worker._platform, worker.names(kernel))
        size = 0
        while waiting and size < BATCH_BYTES_MAX:
            try:
                id, name, packed, lane = waiting.popleft()
            except IndexError:  # the last one has just been recalled
                break
            started_ns = RealClock.now_ns()
            element = Element(id, None, name, None, REQUEST_PRIORITY, lane)
            result: bytes | None = None
            failure: Failure | None = None
            try:
                spec = worker.spec(name, kernel)
                element.request = spec.unpack(packed)
                context = RemoteContext(kernel, start, worker.specs, element, worker.resources, self)
                returned = spec.execute(element.request, context)
                if spec.is_async:
                    returned = await returned
                result = spec.pack_result(returned)
                if said := spec.too_large(result):
                    result, failure = None, Failure(said)
                    if records is not None:
                        records.failed(InternalError(said))
            except GeneratorExit:  # this backplane goes down, and the request with it
                raise
            except BaseException as raised:  # the edge: sys.exit() in a request ends the request, not the worker
                result, failure = None, failure_of(raised)
                if records is not None:
                    records.failed(raised)
            worker.resources.request_ended()
            size += len(result or b"") + (0 if failure is None else len(failure.trace or ""))
            run_ns = RealClock.now_ns() - started_ns
            if records is not None and name in worker.specs:
                records.executed(element, started_ns, run_ns)
            if failure is None:
                self._answers.append([id, result, None, None, run_ns])
            else:
                self._answers.append([id, None, failure.error, failure.trace, run_ns, failure.error_type])
        return self.take_answers()

    def take_answers(self) -> list[list[Any]]:
        """Remove and return the answers that nobody has received."""
        taken: list[list[Any]] = []
        with suppress(IndexError):
            while True:
                taken.append(self._answers.popleft())
        return taken

    @property
    def has_waiting(self) -> bool:
        """Whether requests that came with the executed one have not begun."""
        return bool(self._waiting)

    def put_back(self, answers: list[list[Any]]) -> None:
        """Restore answers that nobody has received after all."""
        self._answers.extendleft(reversed(answers))

    def is_for(self, start: int) -> bool:
        """Whether its requests are of this start of the kernel."""
        return self._start == start

    def give_back(self) -> list[int]:
        """Remove the requests that have not begun; returns their ids."""
        ids: list[int] = []
        with suppress(IndexError):
            while True:
                ids.append(self._waiting.pop()[0])
        return ids


class RecallHandler(AppObject):
    """Answers recalls while the runner executes a request."""

    def __init__(self, runner: BatchRunner) -> None:
        self._runner = runner

    @operation(priority=1)
    def recall(self, start: int) -> list[Any]:
        """(Internal) While a request executes: [answers as of `execute`, numbers of requests not begun, given back]."""
        if not self._runner.is_for(start):
            return [[], []]
        return [self._runner.take_answers(), self._runner.give_back()]


class RequestWorker(Component):
    """One worker of a kernel, in a process of its own. Settings: `kernel`, "module:Class" of the RequestKernel."""

    declares = (BatchRunner, RecallHandler)

    def __init__(self, kernel: str) -> None:
        cls = kernel_class(kernel)
        self._kernel = kernel
        self.specs: dict[str, RunnableSpec] = cls.specs()
        for spec in self.specs.values():
            spec.make()
        self.resources = ThreadResources(cls.resources)
        self._runner: BatchRunner | None = None
        self._names = RequestNames("")

    def names(self, kernel: str) -> RequestNames:
        """Names under which the requests of this kernel are recorded. Kept for the last kernel: nearly always the only one."""
        if self._names.kernel != kernel:
            self._names = RequestNames(kernel)
        return self._names

    def spec(self, name: str, kernel: str) -> RunnableSpec:
        """The spec of a runnable. Raises `FailedPrecondition` if this worker is another kernel's."""
        spec = self.specs.get(name)
        if spec is None:
            raise FailedPrecondition(
                f"this worker executes the requests of {self._kernel} (its setting `kernel`), which has no runnable {name}: "
                f"set it to the class of {kernel}, or let the `pool` of {kernel} name workers of its own"
            )
        return spec

    def _enters(self, state: ModuleState) -> None:
        if state is ModuleState.INITIALIZING and self._runner is None:
            self._runner = BatchRunner(self)
            self.add(self._runner, key=runner_key(self._host.backplane))
            self.add(RecallHandler(self._runner), key=recall_key(self._host.backplane))


def kernel_class(named: str) -> Any:
    """The class that "module:Class" names. Raises `DeclarationError`."""
    module, _, name = named.partition(":")
    if not (module and name):
        raise DeclarationError(f'kernel = {named!r}: expected "module:Class" of a RequestKernel')
    try:
        found = vars(importlib.import_module(module))
    except ImportError as error:
        raise DeclarationError(f"kernel = {named!r}: {error}") from error
    if not _is_kernel(cls := found.get(name)):
        kernels = [each for each, value in found.items() if _is_kernel(value) and value is not RequestKernel]
        hint = f"; {module} has {', '.join(kernels[:5])}" if kernels else ""
        raise DeclarationError(f'kernel = {named!r}: expected "module:Class" of a RequestKernel{hint}')
    return cls


def _is_kernel(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, RequestKernel)
