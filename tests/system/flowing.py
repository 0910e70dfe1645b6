"""What the systems of the dataflow tests run. Copied beside each system's TOML, as a user's module would lie there."""

from __future__ import annotations

import os
from pathlib import Path

from appbackplane.runtime import AppObject, Component, operation, pause


class Source(Component):
    """Gives numbers, some of them only once a file is there."""

    def setup(self) -> None:
        """An object that waits, so that the others answer meanwhile."""
        for number in range(4):
            self.add(Gate(), key=f"gate-{number}")

    @operation()
    def number(self, n: int) -> int:
        """At once."""
        return n

    @operation()
    def fail(self, n: int) -> int:
        """Never."""
        raise ValueError(f"no {n} today")

    @operation(priority=0)
    def pid(self) -> int:
        """Its process."""
        return os.getpid()


class Gate(AppObject):
    """Waits for a file."""

    @operation()
    async def when(self, path: str, n: int) -> int:
        """The number, once there is a file of this path."""
        while not Path(path).exists():
            await pause(0.005)
        return n


class Sink(Component):
    """Takes numbers, and counts how often it was called."""

    def __init__(self) -> None:
        self.added: list[int] = []

    @operation()
    def add(self, left: int, right: int = 1) -> int:
        """Their sum."""
        self.added.append(left + right)
        return left + right

    @operation(idempotent=True)
    def again(self, left: int) -> int:
        """May be repeated."""
        return left + 1

    @operation(priority=0)
    def pid(self) -> int:
        """Its process."""
        return os.getpid()

    @operation(priority=0)
    def sums(self) -> list[int]:
        """All that `add` has returned in this process."""
        return self.added
