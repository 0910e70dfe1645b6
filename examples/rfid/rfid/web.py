"""Web: the gateway of things, which also serves the capture and query interfaces of EPCIS 2.0 (REST binding, JSON-LD).

Users, tokens and problem details are the gateway's. The types of problems are those of EPCIS.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import msgspec
from aiohttp import hdrs, web

from appbackplane.runtime import FailedPrecondition, InvalidArgument, NotFound
from appbackplane.runtime.things.web import Gateway
from appbackplane.runtime.things.web.parsing import json_of, natural_of
from appbackplane.runtime.things.web.problems import problem
from appbackplane.transport import AsyncClient

from .epcis import events_of, filter_of, query_document
from .repository import PAGE_MAX, now_us

#: Events in one answer, unless the client asks for another number: as the standard has it.
PER_PAGE_DEFAULT: Final = 30
_HEADERS: Final = {"GS1-EPCIS-Version": "2.0.0", "GS1-CBV-Version": "2.0.0"}
_NOT_OF_FILTER: Final = ("perPage", "nextPageToken")

Handler = Callable[[web.Request], Awaitable[web.Response]]


class EpcisGateway(Gateway):
    """Settings as those of `Gateway`."""

    component_name = "gateway"

    def routes(self, client: AsyncClient) -> Iterable[web.AbstractRouteDef]:
        epcis = EpcisHandlers(client)
        return (
            web.post("/epcis/capture", _problems_of_epcis("Validation", epcis.capture)),
            web.get("/epcis/capture/{id}", _problems_of_epcis("Validation", epcis.job)),
            web.get("/epcis/events", _problems_of_epcis("QueryParameter", epcis.events)),
        )


class EpcisHandlers:
    """The requests, as calls of the repository."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def capture(self, request: web.Request) -> web.Response:
        """202; the events are stored already, and `Location` is that of the job."""
        events = events_of(await json_of(request))
        job = await self._ask("capture", events=events)
        return web.Response(status=202, headers=_HEADERS | {hdrs.LOCATION: f"/epcis/capture/{job}"})

    async def job(self, request: web.Request) -> web.Response:
        """How a capture job has ended."""
        return _json(await self._ask("job", id=request.match_info["id"]))

    async def events(self, request: web.Request) -> web.Response:
        """One page of the events that match. The header `Link` leads to the next one."""
        twice = [name for name in request.query if len(request.query.getall(name)) > 1]
        if twice:
            raise InvalidArgument(f"query parameter {twice[0]!r} is there twice: separate its values by |")
        limit = natural_of(request, "perPage", PER_PAGE_DEFAULT)
        if not 0 < limit <= PAGE_MAX:
            raise InvalidArgument(f"perPage={limit}: expected 1 to {PAGE_MAX}")
        filter = filter_of({name: value for name, value in request.query.items() if name not in _NOT_OF_FILTER})
        found = await self._ask("query", filter=filter, after=natural_of(request, "nextPageToken", 0), limit=limit)
        answer = _json(query_document(found["events"], now_us()))
        if found["next"] is not None:
            answer.headers[hdrs.LINK] = f'<{request.rel_url.update_query(nextPageToken=found["next"])}>; rel="next"'
        return answer

    async def _ask(self, operation: str, **arguments: Any) -> Any:
        return await self._client.call(f"repository.{operation}", arguments=arguments)


def _problems_of_epcis(invalid: str, handler: Handler) -> Handler:
    """Name the problems of a handler as EPCIS does. `invalid`: its name of a bad argument. Others are the gateway's."""
    types = {
        InvalidArgument: (400, invalid), NotFound: (404, "NoSuchResource"),
        FailedPrecondition: (413, "CaptureLimitExceeded"),
    }  # fmt: skip

    async def handle(request: web.Request) -> web.Response:
        try:
            return await handler(request)
        except tuple(types) as error:
            status, name = next(found for kind, found in types.items() if isinstance(error, kind))
            body = problem(status, error.message, type=f"epcisException:{name}Exception", title=name)
            return _json(body, status=status, content_type="application/problem+json")

    return handle


def _json(body: Any, **how: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), headers=_HEADERS, **{"content_type": "application/json"} | how)
