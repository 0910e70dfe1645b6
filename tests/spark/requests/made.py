"""Runnables, and a ledger with an executor at it: what the tests of this folder have executed by Spark."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from appbackplane.runtime.requests.kernel import RequestKernel, specs_of
from appbackplane.runtime.requests.ledger.element import Element
from appbackplane.runtime.requests.ledger.owners import Rejoin
from appbackplane.runtime.requests.ledger.synchronized_ledger import SynchronizedLedger
from appbackplane.runtime.requests.policy import KernelPolicy
from appbackplane.runtime.requests.resource import Resource
from appbackplane.runtime.requests.runnable import Runnable
from appbackplane.spark.request_executor import SparkExecutor
from tests.waiting import EVERY_S, Limit

#: For a job on a machine that does much else.
LIMIT_S = 120.0
OWNER = "test"


class Numbers(msgspec.Struct):
    """A request."""

    values: list[int]


class Sum(msgspec.Struct):
    """A result."""

    total: int
    process: int


class Add(Runnable):
    """What it is told to add."""

    def execute(self, request: Numbers, kernel: Any) -> Sum:
        """Raises ValueError for nothing."""
        if not request.values:
            raise ValueError("nothing to add")
        return Sum(sum(request.values), os.getpid())


class Later(Runnable):
    """A coroutine."""

    async def execute(self, request: int, kernel: Any) -> int:
        """One more."""
        return request + 1


class Opaque(Runnable):
    """Returns what cannot be sent to another process."""

    def execute(self, request: int, kernel: Any) -> Any:
        """A lock."""
        return threading.Lock()


class Large(Runnable):
    """Returns much."""

    def execute(self, request: int, kernel: Any) -> bytes:
        """So many bytes."""
        return bytes(request)


class Poster(Runnable):
    """Asks the kernel for what there is not."""

    def execute(self, request: int, kernel: Any) -> None:
        """Posts another."""
        kernel.post(request, Poster)


class Deadly(Runnable):
    """Some requests end the process that executes them."""

    def execute(self, request: int, kernel: Any) -> int:
        """A negative number is the end."""
        if request < 0:
            os._exit(3)
        return request


class Marking(Runnable):
    """Says that it has begun, and waits."""

    def execute(self, request: str, kernel: Any) -> None:
        """A minute, or until its process is killed."""
        Path(request, str(os.getpid())).touch()
        threading.Event().wait(60)


class Counting(Runnable):
    """Leaves a line for each execution."""

    def execute(self, request: tuple[str, int], kernel: Any) -> int:
        """A line in this process's own file."""
        with Path(request[0], str(os.getpid())).open("a") as file:
            file.write(f"{request[1]}\n")
        return request[1]


class Query(Runnable):
    """Asks a database that its worker holds."""

    def execute(self, request: str, kernel: Any) -> tuple[int, int]:
        """How often this process has been asked."""
        db = kernel.resources["db"]
        db.execute("insert into asked values (?)", (request,))
        return os.getpid(), db.execute("select count(*) from asked").fetchone()[0]


def _open() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:")
    db.execute("create table asked (what text)")
    return db


class Kernel(RequestKernel):
    """All of them."""

    runnables: ClassVar = (Add, Later, Opaque, Large, Poster, Deadly, Marking, Counting, Query)
    resources: ClassVar = {"db": Resource(open=_open, close=sqlite3.Connection.close)}


class Office:
    """A ledger, an executor at it, and somebody who posts and rejoins."""

    def __init__(self, ledger: SynchronizedLedger, executor: SparkExecutor) -> None:
        self.ledger, self.executor = ledger, executor

    def post(self, requests: Iterable[Any], runnable: type[Runnable]) -> list[Element]:
        """All of them ready, before the first of them is heard of."""
        elements = [Element(0, request, runnable.__name__, OWNER, 0, 3) for request in requests]
        for element in elements:
            assert self.ledger.post(element, None)
        return elements

    def joined(self) -> list[Element]:
        """All, in the order in which they ended."""
        found: list[Element] = []
        while True:
            how, element = self.ledger.rejoin(OWNER, None, None)
            if how is Rejoin.NONE_READY:
                until(lambda: any(self.ledger.figures().rejoinable), f"{len(found)} ended: {self.executor.workers()}")
                continue
            if element is None:
                return found
            if element.result is not None:  # as contexts do it
                element.result = self.ledger.specs[element.runnable].unpack_result(element.result.data)
            found.append(element)

    def done(self, requests: Iterable[Any], runnable: type[Runnable]) -> list[Element]:
        """Both, in the order of the requests."""
        self.post(requests, runnable)
        return sorted(self.joined(), key=lambda element: element.id)


@contextmanager
def office(policy: KernelPolicy | None = None, cls: type[RequestKernel] = Kernel, **settings: Any) -> Iterator[Office]:
    """Open until the end of the block."""
    policy = policy or KernelPolicy(kernel="spark", workers=2, ready=20_000, rejoin=20_000, spark=settings)
    specs = specs_of(cls.runnables)
    ledger = SynchronizedLedger("test", policy, specs, time.monotonic_ns)
    executor = SparkExecutor()
    ledger.executor = executor
    executor.start(cls(), ledger)
    try:
        yield Office(ledger, executor)
    finally:
        executor.stop()


def until(holds: Any, what: str) -> None:
    """Waits for it."""
    limit = Limit()
    while not holds():
        limit.check(what, pause_s=EVERY_S)


def end_process(pid: int) -> None:
    """At once."""
    os.kill(pid, signal.SIGKILL)
