"""What the systems of the streamed arguments' tests run. Copied beside each system's TOML, like a user's module."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator

from appbackplane.runtime import AppObject, Component, operation
from appbackplane.transport import stream


class Store(Component):
    """Objects that load rows, each on its own, and how their operations have ended."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def setup(self) -> None:
        """One object a key, since an operation that waits for rows keeps its object."""
        for number in range(4):
            self.add(Table(self), key=f"table-{number}")

    @operation(priority=0)
    def ended_by(self) -> list[str]:
        """How each operation that has ended did so, in order."""
        return self.ended

    @operation(priority=0)
    def forget(self) -> None:
        """How they ended."""
        self.ended.clear()

    @operation(priority=0)
    def pid(self) -> int:
        """The process that loads."""
        return os.getpid()


class Table(AppObject):
    """Sums of numbers."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @operation()
    async def load(self, rows: AsyncIterator[int], upto: int = -1, die_after: int = -1) -> tuple[int, int]:
        """How many rows came, and their sum. `upto`: reads so many. `die_after`: this process kills itself after so many."""
        count = total = 0
        try:
            if die_after == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            if upto != 0:
                async for row in rows:
                    count, total = count + 1, total + row
                    if count == die_after:
                        os.kill(os.getpid(), signal.SIGKILL)
                    if count == upto:
                        break
            self._store.ended.append("end")
        except BaseException as error:
            self._store.ended.append(type(error).__name__)
            raise
        return count, total

    @operation()
    def load_plainly(self, rows: Iterator[int], die_after: int = -1) -> tuple[int, int]:
        """The same in a plain operation."""
        count = total = 0
        try:
            for row in rows:
                count, total = count + 1, total + row
                if count == die_after:
                    os.kill(os.getpid(), signal.SIGKILL)
            self._store.ended.append("end")
        except BaseException as error:
            self._store.ended.append(type(error).__name__)
            raise
        return count, total


class Relay(Component):
    """Calls the other backplane with rows of its own."""

    @operation(priority=0)
    def pid(self) -> int:
        """The process that sends."""
        return os.getpid()

    def setup(self) -> None:
        """One object a key."""
        for number in range(4):
            self.add(Sender(), key=f"sender-{number}")


class Sender(AppObject):
    """Sends numbers from 0."""

    @operation()
    async def send(self, count: int, route: str = "store.load", window: int = 16, die_after: int = -1) -> list[int]:
        """So many. `die_after`: this process kills itself before it sends the next one."""
        rows = stream(_numbers(count, die_after), window=window)
        return list(await self.call(route, rows=rows))

    @operation()
    async def pass_on(self, rows: AsyncIterator[int], window: int = 16) -> list[int]:
        """The rows of its caller, each times ten."""

        async def tens() -> AsyncIterator[int]:
            async for row in rows:
                yield 10 * row

        return list(await self.call("store.load", rows=stream(tens(), window=window)))

    @operation()
    def send_and_block(self, count: int) -> list[int]:
        """In a plain operation."""
        return list(self.call_blocking("store.load", rows=stream(_numbers(count))))


def _numbers(count: int, die_after: int = -1) -> Iterator[int]:
    for number in range(count):
        if number == die_after:
            os.kill(os.getpid(), signal.SIGKILL)
        yield number
