"""What the nodes of these tests run. Copied beside their TOMLs, as a user's module would lie there."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from appbackplane.runtime import Adaptive, AppObject, BackplaneError, Busy, Component, operation, pause, subscribe
from appbackplane.transport import errors, stream


class Sum(AppObject):
    """A light object."""

    def __init__(self) -> None:
        self.total = 0

    @operation(export=True)
    def add_up(self, x: int) -> int:
        """Return the sum so far."""
        self.total += x
        return self.total


class Totals(Component):
    """Others spawn them."""

    declares = (Sum,)
    spawnable = (Sum,)


class Calc(Component):
    """What one node has and the others have not."""

    @operation(priority=3, export=True)
    def add(self, x: int, y: int) -> int:
        """For everybody."""
        return x + y

    @operation()
    def secret(self) -> int:
        """For this system alone."""
        return 1

    @operation(export=True)
    def fail(self, kind: str) -> None:
        """Raise an error of a kind."""
        if kind == "Busy":
            raise Busy("all hands are full", retry_after=1.5)
        error = getattr(errors, kind, RuntimeError)
        assert issubclass(error, BackplaneError | RuntimeError)
        raise error(f"on purpose: {kind}")


class Booth(Component):
    """Serves a call in 2 ms, and none that has queued for 20."""

    @operation(priority=4, export=True, admit=Adaptive(aim_ms=20))
    def serve(self) -> None:
        """By waiting: who presses has the CPU to itself."""
        threading.Event().wait(0.002)


class Worker(Component):
    """Remembers what became of all that began."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def setup(self) -> None:
        """Places, so that the component itself can always be asked."""
        for number in range(4):
            self.add(Place(self.log), key=f"place-{number}")

    @operation(priority=0)
    def ended(self) -> list[str]:
        """What has begun, and how it ended."""
        return self.log

    @operation(priority=0)
    def forget(self) -> None:
        """What has begun."""
        self.log.clear()


class Place(AppObject):
    """Where one thing at a time is done."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    @operation(export=True)
    async def work(self, name: str, seconds: float = 60.0) -> str:
        """For so long, or until it is told that nobody wants it any more."""
        self.log.append(f"{name} began")
        try:
            await pause(seconds)
        except BackplaneError as error:
            self.log.append(f"{name} {type(error).__name__}")
            raise
        self.log.append(f"{name} done")
        return name


class Ledger(Component):
    """Each execution is a line of a file, which outlives whoever wrote it."""

    @operation(export=True)
    def book(self, number: int) -> int:
        """Return what came."""
        with Path(__file__).with_name("booked").open("ab", buffering=0) as book:
            book.write(b"%d\n" % number)
        return number

    @operation(export=True)
    def echo(self, said: str) -> str:
        """However much it is."""
        return said


class Narrow(Component):
    """Takes two at a time."""

    max_requests = 2

    @operation(export=True)
    async def hold(self, seconds: float = 60.0) -> None:
        """Keeps its place for so long."""
        await pause(seconds)

    @operation(export=True, priority=0)
    def pid(self) -> int:
        """Who serves."""
        return os.getpid()


class Prices(Component):
    """Publishes, and hears what is published: what other nodes publish by one of two ears."""

    exported_topics = ("prices.*",)

    def __init__(self) -> None:
        self.heard: dict[str, list[list[object]]] = {"open": [], "deaf": []}

    @operation(export=True)
    def tell(self, topic: str, who: str, numbers: list[int]) -> None:
        """A message for each number."""
        for number in numbers:
            self.publish(topic, who=who, number=number)

    @subscribe("prices.*", export=True)
    def hear(self, who: str, number: int) -> None:
        """Of everybody."""
        self.heard["open"].append([who, number])

    @subscribe("prices.*")
    def hear_ours(self, who: str, number: int) -> None:
        """Of this system alone."""
        self.heard["deaf"].append([who, number])

    @operation(priority=0, export=True)
    def told(self) -> dict[str, list[list[object]]]:
        """All that was heard."""
        return self.heard


class Store(Component):
    """Large things, there and back."""

    @operation(priority=7, export=True)
    def keep(self, data: bytes) -> int:
        """How many bytes came."""
        return len(data)

    @operation(priority=7, export=True)
    def give(self, size: int) -> bytes:
        """So many."""
        return bytes(size)


class Rows(Component):
    """Streams to other nodes, and remembers how each generator ended."""

    def __init__(self) -> None:
        self.ends: list[str] = []

    def setup(self) -> None:
        """Two, so that one can be read while another waits for its reader."""
        for number in range(2):
            self.add(Table(self.ends), key=f"table-{number}")

    @operation(priority=0)
    def ended(self) -> list[str]:
        """How each generator that has ended did so."""
        return self.ends


class Table(AppObject):
    """Rows of numbers."""

    def __init__(self, ends: list[str]) -> None:
        self.ends = ends

    @operation(export=True)
    def upto(self, count: int, text: str = "") -> Iterator[list[object]]:
        """Numbers from 0."""
        try:
            for number in range(count):
                yield [number, text]
            self.ends.append("end")
        except BaseException as error:
            self.ends.append(type(error).__name__)
            raise


class Loads(Component):
    """Reads the rows of callers of other nodes, and remembers how each operation ended."""

    def __init__(self) -> None:
        self.ends: list[str] = []

    @operation(priority=0)
    def ended(self) -> list[str]:
        """How each operation that has ended did so."""
        return self.ends

    def setup(self) -> None:
        """One that loads, beside this one, which it keeps waiting."""
        self.add(Loader(self.ends), key="loader")


class Loader(AppObject):
    """Sums of rows."""

    def __init__(self, ends: list[str]) -> None:
        self.ends = ends

    @operation(export=True)
    async def rows(self, rows: AsyncIterator[list[object]], upto: int = -1) -> list[int]:
        """How many, and the sum of their numbers."""
        count = total = 0
        try:
            async for number, _ in rows:
                assert isinstance(number, int)
                count, total = count + 1, total + number
                if count == upto:
                    break
            self.ends.append("end")
        except BaseException as error:
            self.ends.append(type(error).__name__)
            raise
        return [count, total]


class Home(Component):
    """Asks others, from inside of an operation."""

    @operation()
    async def far(self, route: str, x: int, y: int) -> int:
        """As they answer."""
        return int(await self.call(route, x=x, y=y))

    @operation()
    async def kind(self, route: str, kind: str) -> list[object]:
        """The error, as it is seen in here."""
        try:
            await self.call(route, kind=kind)
        except BackplaneError as error:
            return [type(error).__name__, error.message, error.retry_after]
        return []

    @operation()
    async def sum_far(self, route: str, count: int) -> int:
        """Of a stream of another node."""
        return sum([number async for number, _ in self.stream(route, count=count, window=16)])

    @operation()
    async def load_far(self, route: str, count: int) -> list[int]:
        """Rows of this operation at another node."""
        return list(await self.call(route, rows=stream(([n, ""] for n in range(count)), window=16)))

    @operation()
    async def have_done(self, name: str, key: str) -> str:
        """Somebody else works."""
        return str(await self.call("b/worker.work", key=key, name=name))
