"""Relay: what a user writes to have a call pass two more processes on one host: the hops of two nodes, counted without them.

An object does one thing at a time, and waits until it is answered: there are as many as calls outstanding.
"""

from __future__ import annotations

from appbackplane.runtime import AppObject, Component, operation

from .echo import COMPONENT

#: Name to the lines of its table.
BACKPLANES = {
    "worker": COMPONENT,
    "second": f'components = ["{__name__}:Second"]',
    "first": f'components = ["{__name__}:First"]',
}
ROUTE = "first.pass_on"
#: All that a client has outstanding passes at a time.
OUTSTANDING_MAX = 1_000


class First(Component):
    """In the place of the caller's node."""

    to = "second.pass_on"

    def setup(self) -> None:
        for _ in range(OUTSTANDING_MAX):
            self.add(Hop(self.to))


class Second(First):
    """In the place of the other's node."""

    to = "echo.echo"


class Hop(AppObject):
    """Passes one call on at a time."""

    def __init__(self, to: str) -> None:
        self._to = to

    @operation(priority=1)
    async def pass_on(self, text: str) -> str:
        return str(await self.call(self._to, text=text))
