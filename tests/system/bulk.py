"""A request kernel and its runnables, for tests/system/test_requests_*.py. Copied beside a system's TOML, as a user's own."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from appbackplane.runtime import AppObject, operation
from appbackplane.runtime.requests import Context, Rejoin, RequestKernel, Resource, Runnable
from appbackplane.transport.errors import BackplaneError

#: Beyond what one request or result may have.
TOO_LARGE = 16 << 20
#: Most of what those are to take together that travel together (5 ms).
PID_S = 0.004


@dataclass
class Numbers:
    """A request of a user's own type."""

    values: list[int]


class Total(Runnable):
    def execute(self, request: Numbers, kernel: Context) -> int:
        assert type(request) is Numbers
        return sum(request.values)


class Pid(Runnable):
    """Whoever executes it; too long for many to travel together."""

    def execute(self, request: int, kernel: Context) -> int:
        threading.Event().wait(PID_S)
        return os.getpid()


class Odd(Runnable):
    """Says how it is told to end."""

    def execute(self, request: str, kernel: Context) -> Any:
        match request:
            case "raise":
                raise ValueError("not today\nnor tomorrow")
            case "sys.exit":
                sys.exit(3)
            case "interrupt":
                raise KeyboardInterrupt
            case "os._exit":
                os._exit(3)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "object":
                return object()
            case "set":
                return {1, 2}
            case "large":
                return bytes(TOO_LARGE)
            case "many":
                return bytes(1_500_000)
            case _:
                return request


class Wrong(Runnable):
    """Returns what it does not promise."""

    def execute(self, request: int, kernel: Context) -> int:
        return "no number" if request % 2 else request  # type: ignore[return-value]


class AsyncOdd(Runnable):
    async def execute(self, request: str, kernel: Context) -> Any:
        return Odd().execute(request, kernel)


class Hold(Runnable):
    """Executes until somebody writes into the pipe that it is told."""

    def execute(self, request: str, kernel: Context) -> int:
        with Path(request).open("rb") as pipe:
            pipe.read(1)
        return os.getpid()


class Tree(Runnable):
    """Three levels below it: how many leaves there are."""

    def execute(self, request: list[int], kernel: Context) -> int:
        level, width = request
        if level == 3:
            return 1
        kernel.post_all([[level + 1, width]] * width, Tree, lane=level + 1, priority=100 - level)
        return sum(done.result for done in kernel.joined())


class HoldTree(Runnable):
    """Both, one after the other."""

    def execute(self, request: str, kernel: Context) -> int:
        Hold().execute(request, kernel)
        return Tree().execute([1, 6], kernel)


class AsyncTree(Runnable):
    async def execute(self, request: list[int], kernel: Context) -> int:
        level, width = request
        if level == 3:
            return 1
        await kernel.apost_all([[level + 1, width]] * width, AsyncTree, lane=level + 1, priority=100 - level)
        return sum([done.result async for done in kernel.ajoined()])


class Mapping(Runnable):
    """Many sub-requests through a small pool, in whatever order they end."""

    def execute(self, request: int, kernel: Context) -> list[int]:
        return sorted(done.result for done in kernel.map_unordered(range(request), Wrong) if not done.is_failed)


class GivesUp(Runnable):
    """Leaves before its sub-requests have ended, in one of several ways."""

    def execute(self, request: str, kernel: Context) -> int:
        if request == "map":
            for done in kernel.map_unordered(range(0, 60, 2), Wrong):
                return int(done.result)
        kernel.post_all(range(0, 60, 2), Wrong)
        if request == "raise":
            raise ValueError("it gives up")
        return 0


class Slow(Runnable):
    """All but the first take far longer than to be posted."""

    def execute(self, request: int, kernel: Context) -> int:
        time.sleep(0.02 if request else 0.0)
        return request


class BreaksOff(Runnable):
    """Takes the first of more sub-requests than there is room for, so many times."""

    def execute(self, request: int, kernel: Context) -> int:
        return sum(self._first(kernel) for _ in range(request))

    def _first(self, kernel: Context) -> int:
        for done in kernel.map_unordered(range(100), Slow, priority=99):
            return done.request is not None
        return 0


class Poster(Runnable):
    """Posts for an owner that is known by name, and one of its own."""

    def execute(self, request: str, kernel: Context) -> list[Any]:
        kernel.post_all(range(0, 20, 2), Wrong, owner=request)
        found = [kernel.rejoin(owner="nobody", wait=True)[0].value, kernel.rejoin()[0].value]
        one = kernel.rejoin(owner=request, wait=True)[1]
        assert one is not None
        return [*found, one.request, one.result]


class Misuse(Runnable):
    """Each thing that is refused, and how."""

    def execute(self, request: int, kernel: Context) -> list[str]:
        said = []
        for post in (
            lambda: kernel.post(1, "Nobody"),
            lambda: kernel.post("x", Pid),
            lambda: kernel.post(1, Pid, lane=4),
            lambda: kernel.post(1, Pid, lane=0),
            lambda: kernel.post(1, Pid, priority="high"),  # type: ignore[arg-type]
            lambda: kernel.post(1, Pid, owner=[]),  # type: ignore[arg-type]
            lambda: kernel.post(1, Pid, owner=object()),
            lambda: kernel.post([object()], Tree),
            lambda: kernel.post("x" * TOO_LARGE, Odd),
        ):
            try:
                post()
            except BackplaneError as error:
                said.append(f"{type(error).__name__}: {error}")
            else:
                said.append("posted")
        assert kernel.rejoin()[0] is Rejoin.NONE_EXIST
        return said


class Told(Runnable):
    """What it is told of a sub-request that fails in another process."""

    def execute(self, request: str, kernel: Context) -> Any:
        (done,) = kernel.map_unordered([request], Odd)
        return done.error_type


class Carry(Runnable):
    """Large requests and results, many at a time."""

    def execute(self, request: list[int], kernel: Context) -> int:
        count, size = request
        kernel.post_all(["x" * size] * count, Odd)
        return sum(len(done.result) for done in kernel.joined())


class Row(Runnable):
    """Writes into a database that each worker opens for itself."""

    def execute(self, request: int, kernel: Context) -> int:
        database: sqlite3.Connection = kernel.resources["db"]
        with database:
            database.execute("insert into rows values (?, ?)", (request, os.getpid()))
        return id(database)


def open_database() -> sqlite3.Connection:
    """One handle, for one worker."""
    database = sqlite3.connect(Path(__file__).parent / "rows.db", timeout=30.0)
    database.execute("create table if not exists rows (number, pid)")
    return database


class Desk(AppObject):
    """Posts what it is told, and tells what rejoined; one thing at a time, so there are several."""

    def __init__(self, kernel: Bulk) -> None:
        self.kernel = kernel

    @operation(priority=3, is_long=True)
    async def run(self, runnable: str, requests: list[Any], lane: int = 3) -> list[list[Any]]:
        """Of each: request, result, error, traceback, state, worker, class of the error."""
        owner, kernel = object(), self.kernel.kernel
        for each in requests:
            await kernel.apost(Numbers(**each) if isinstance(each, dict) else each, runnable, owner=owner, lane=lane)
        return [
            [
                done.request if done.runnable != "Total" else None, done.result, done.error, done.trace, done.state.value,
                done.worker, done.error_type,
            ]
            async for done in kernel.ajoined(owner)
        ]  # fmt: skip

    @operation(priority=3, is_long=True)
    def run_plain(self, count: int) -> int:
        """Through `map_unordered`, in a thread that waits."""
        found = self.kernel.kernel.map_unordered(range(0, 2 * count, 2), Wrong)
        return len({done.id for done in found if not done.is_failed})

    @operation(priority=3, is_long=True)
    async def rejoin_all(self, owner: str) -> list[Any]:
        """Of an owner that others may have posted for."""
        return [done.result async for done in self.kernel.kernel.ajoined(owner)]


class Bulk(RequestKernel):
    """The kernel."""

    runnables = (
        Total, Pid, Odd, Wrong, AsyncOdd, Hold, HoldTree, Tree, AsyncTree, Mapping, GivesUp, BreaksOff,
        Slow, Poster, Misuse, Told, Carry, Row,
    )  # fmt: skip
    resources = {"db": Resource(open=open_database, close=sqlite3.Connection.close)}

    def setup(self) -> None:
        """Its desks."""
        for number in range(4):
            self.add(Desk(self), key=f"desk-{number}")

    @operation(priority=2)
    def told(self) -> dict[str, Any]:
        """Its figures."""
        told: dict[str, Any] = msgspec.to_builtins(self.figures())
        return told

    @operation(priority=2)
    def use(self, workers: int) -> int:
        """So many of its processes from now on."""
        return self.change(workers=workers).workers
