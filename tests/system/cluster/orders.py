"""What the nodes of these tests run. Copied beside their TOMLs, as a user's module would lie there."""

from __future__ import annotations

import os
import time
from pathlib import Path

from appbackplane.runtime import Component, every, operation

TRACE = Path(__file__).with_name("trace")


class Orders(Component):
    """There is one, or there should be. It writes down all that it does."""

    def __init__(self, node: str) -> None:
        self.node = node

    def on_initializing(self) -> None:
        """The first that is not done on a secondary."""
        self.write("initializing")

    def on_primary(self) -> None:
        """From now on it serves."""
        self.write("primary")

    def on_down(self) -> None:
        """It lets go."""
        self.write("down")

    @operation(export=True)
    def place(self, number: int) -> list[object]:
        """Who has done it."""
        self.write(f"order-{number}")
        return [self.node, self.cluster_epoch]

    @operation(export=True)
    def toil(self) -> None:
        """What would go on for ever, and asks nobody."""
        while True:
            self.write("toil")
            time.sleep(0.01)

    @every(0.01)
    def work(self) -> None:
        """What nobody asked for."""
        self.write("work")

    def write(self, what: str) -> None:
        """A line of the trace."""
        line = f"{time.clock_gettime_ns(time.CLOCK_BOOTTIME)} {self.node} {self.cluster_epoch} {os.getpid()} {what}\n"
        fd = os.open(TRACE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, line.encode())
        finally:
            os.close(fd)


class Front(Component):
    """There on every node."""

    @operation()
    async def order(self, number: int) -> object:
        """By whoever is primary."""
        return await self.call("orders.place", number=number)
