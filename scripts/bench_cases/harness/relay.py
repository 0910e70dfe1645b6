"""Relay: what a user writes to have a call pass two more processes on one host: the hops of two nodes, counted without them."""

from __future__ import annotations

from appbackplane.runtime import Component, operation

from .echo import COMPONENT

#: Name to the lines of its table.
BACKPLANES = {
    "worker": COMPONENT,
    "second": f'components = ["{__name__}:Second"]',
    "first": f'components = ["{__name__}:First"]',
}
ROUTE = "first.pass_on"
#: All that a client may have outstanding passes at a time.
OUTSTANDING_MAX = 4_096


class First(Component):
    """In the place of the caller's node."""

    max_requests = OUTSTANDING_MAX

    @operation(priority=1, reentrant=True)
    async def pass_on(self, text: str) -> str:
        """To the other's."""
        return str(await self.call("second.pass_on", text=text))


class Second(Component):
    """In the place of the other's node."""

    max_requests = OUTSTANDING_MAX

    @operation(priority=1, reentrant=True)
    async def pass_on(self, text: str) -> str:
        """To who does it."""
        return str(await self.call("echo.echo", text=text))
