"""Seat: where a worker process executes what the kernel sends it. The component of a backplane that is a kernel's worker.

    [backplane.worker]
    components = ["appbackplane.runtime.requests:RequestWorker"]
    replicas = 2
    [backplane.worker.settings.RequestWorker]
    kernel = "codesearch.indexing:Indexing"

It has the kernel's runnables and resources, of its own, and nothing else of it. Requests that came together are executed one
after the other; should one come to wait for its sub-requests, those behind it go back first: they may be what it waits for.
"""

from __future__ import annotations

import importlib
from collections import deque
from typing import Any

from appbackplane.transport.resolver import AT

from ..execution.clock import RealClock
from ..objects.app_object import AppObject
from ..objects.component import Component
from ..objects.module_state import ModuleState
from ..objects.operation import DeclarationError, operation
from .element import Element, Failure
from .failures import failure_of
from .kernel import RequestKernel
from .remote import RemoteContext
from .resources import ResourceTable
from .runnable import RunnableSpec
from .thread_resources import ThreadResources
from .wire import BATCH_BYTES_MAX, ITEM_BYTES_MAX


class Seat(AppObject):
    """Executes one request at a time (law 1)."""

    def __init__(self, worker: RequestWorker) -> None:
        self._worker = worker
        #: Of the requests that came together: what has not begun.
        self.waiting: deque[list[Any]] = deque()

    @operation(priority=7, is_long=True)
    async def execute(self, kernel: str, items: list[list[Any]]) -> list[list[Any]]:
        """Execute requests, [number, runnable, packed, lane] each: [number, packed result, error, traceback, ns] of each.

        What is not among the answers has not begun.
        """
        worker = self._worker
        waiting = self.waiting = deque(items)
        answers: list[list[Any]] = []
        size = 0
        while waiting and size < BATCH_BYTES_MAX:
            id, name, packed, lane = waiting.popleft()
            started_ns = RealClock.now_ns()
            result: bytes | None = None
            failure: Failure | None = None
            try:
                spec = worker.specs[name]
                element = Element(id, spec.unpack(packed), name, None, 0, lane)
                context = worker.context(self, kernel, element)
                if spec.is_async:
                    returned = await spec.execute(element.request, context)
                else:
                    returned = spec.execute(element.request, context)
                result = spec.pack_result(returned)
                if len(result) > ITEM_BYTES_MAX:
                    said = f"{name} returned {len(result):,} bytes: at most {ITEM_BYTES_MAX:,} can travel"
                    result, failure = None, Failure(said)
            except BaseException as raised:  # the edge: sys.exit() in a request ends the request, not the worker
                result, failure = None, failure_of(raised)
            worker.resources.request_ended()
            size += len(result or b"")
            run_ns = RealClock.now_ns() - started_ns
            answers.append([id, result, *(failure or (None, None)), run_ns])
        return answers

    def give_back(self) -> list[int]:
        """What has not begun goes back: their numbers."""
        ids = [item[0] for item in self.waiting]
        self.waiting.clear()
        return ids


class RequestWorker(Component):
    """One worker of a kernel, in a process of its own. Settings: `kernel`, "module:Class" of the RequestKernel."""

    declares = (Seat,)

    def __init__(self, kernel: str) -> None:
        cls = kernel_class(kernel)
        self.specs: dict[str, RunnableSpec] = cls.specs()
        for spec in self.specs.values():
            spec.make()
        self.resources = ThreadResources(ResourceTable(cls.resources))
        self._seat: Seat | None = None

    def context(self, seat: Seat, kernel: str, element: Element) -> RemoteContext:
        """For one request."""
        return RemoteContext(kernel, self.specs, element, self.resources, seat)

    def _enters(self, state: ModuleState) -> None:
        if state is ModuleState.INITIALIZING and self._seat is None:
            self._seat = Seat(self)
            self.add(self._seat, key=f"{AT}{self._host.backplane}")


def kernel_class(named: str) -> Any:
    """The class that "module:Class" names. Raises `DeclarationError`."""
    module, _, name = named.partition(":")
    try:
        cls = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise DeclarationError(f"kernel = {named!r}: {error}") from error
    if not (isinstance(cls, type) and issubclass(cls, RequestKernel)):
        raise DeclarationError(f'kernel = {named!r}: expected "module:Class" of a RequestKernel')
    return cls
