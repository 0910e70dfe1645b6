"""What the systems of the traces' tests run. Copied beside each system's TOML, as a user's module would lie there."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

from appbackplane.runtime import AppObject, Component, operation, pause


class Leaf(Component):
    """Answers by itself."""

    @operation()
    def double(self, number: int) -> int:
        """Twice as much; raises ValueError for 13."""
        if number == 13:
            raise ValueError("thirteen")
        return 2 * number


class Middle(Component):
    """Asks the leaf, in several ways."""

    def setup(self) -> None:
        """An object for plain calls."""
        self.add(Plain())

    @operation()
    async def both(self, number: int) -> int:
        """After a pause, two calls together."""
        await pause(0.001)
        return sum(await self.gather(self.call("leaf.double", number=number), self.call("leaf.double", number=number)))


class Plain(AppObject):
    """Blocks for its calls."""

    @operation()
    def blocking(self, number: int) -> int:
        """One call that blocks."""
        result: int = self.call_blocking("leaf.double", number=number)
        return result


class Top(Component):
    """Where calls from outside begin."""

    @operation(priority=2)
    async def all(self, number: int) -> int:
        """Through all three."""
        logging.getLogger("top").warning("asked")
        result: int = await self.call("middle.both", number=number)
        return result

    @operation()
    async def plain(self, number: int) -> int:
        """Through all three, the one in the middle blocking."""
        result: int = await self.call("middle.blocking", number=number)
        return result

    @operation()
    async def upto(self, count: int) -> AsyncIterator[int]:
        """Numbers."""
        for number in range(count):
            yield number
