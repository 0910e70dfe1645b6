"""A gateway that also answers a constant, on the way of all answers: what a read costs beyond that is the thing's."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from appbackplane.runtime.things.web import Gateway
from appbackplane.transport.async_client import AsyncClient

from ..things import CONSTANT_PATH


class ConstantGateway(Gateway):
    """With one more path."""

    component_name = "gateway"

    def routes(self, client: AsyncClient) -> Iterable[web.AbstractRouteDef]:
        return (web.get(CONSTANT_PATH, answer),)


async def answer(_request: web.Request) -> web.Response:
    """As long as a property of one digit."""
    return web.Response(body=b"7", content_type="application/json")
