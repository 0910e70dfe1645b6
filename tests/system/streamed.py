"""What the systems of the streams' tests run. Copied beside each system's TOML, as a user's module would lie there."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator

from appbackplane.runtime import AppObject, Component, operation


class Rows(Component):
    """Objects that stream, each on its own, and what has become of their generators."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def setup(self) -> None:
        """One object a key, since a stream keeps its object."""
        for number in range(4):
            self.add(Table(self), key=f"table-{number}")

    @operation(priority=0)
    def ended_by(self) -> list[str]:
        """How each generator that has ended did so, in order."""
        return self.ended

    @operation(priority=0)
    def forget(self) -> None:
        """How they ended."""
        self.ended.clear()

    @operation(priority=0)
    def pid(self) -> int:
        """The process that streams."""
        return os.getpid()


class Table(AppObject):
    """Rows of numbers."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    @operation()
    def count(self, upto: int, die_after: int = -1, text: str = "") -> Iterator[tuple[int, str]]:
        """Numbers from 0. `die_after`: this process kills itself once so many items are yielded."""
        try:
            for number in range(upto):
                if number == die_after:
                    os.kill(os.getpid(), signal.SIGKILL)
                yield number, text
            self._rows.ended.append("end")
        except BaseException as error:
            self._rows.ended.append(type(error).__name__)
            raise


class Relay(Component):
    """Reads a stream of the other backplane, and passes it on."""

    def setup(self) -> None:
        """One object a key."""
        for number in range(4):
            self.add(Passer(), key=f"passer-{number}")


class Passer(AppObject):
    """Reads and streams."""

    @operation()
    async def tens(self, upto: int, die_after: int = -1, window: int = 16) -> AsyncIterator[int]:
        """Ten times each number."""
        async for number, _ in self.stream("rows.count", upto=upto, die_after=die_after, window=window):
            yield 10 * number

    @operation()
    async def total(self, upto: int) -> int:
        """Their sum."""
        return sum([number async for number, _ in self.stream("rows.count", upto=upto)])
