"""Server: the HTTP side of a gateway, on an event loop in a thread of its own, as a client of the system.

Paths are those that the Thing Descriptions say (forms.py). Every error is a problem (RFC 9457). A request that its client gives
up cancels its call.
"""

from __future__ import annotations

import asyncio
import binascii
import datetime
import hashlib
import logging
import os
import socket
import threading
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import hdrs, web

from appbackplane.transport import call_checks
from appbackplane.transport.async_client import connect_async
from appbackplane.transport.errors import BackplaneError, InvalidArgument, NotFound

from ..thing import NOTIFICATIONS
from .cache import PropertyCache
from .catalogue import Catalogue, CatalogueEntry
from .forms import JSON, description_of, path_of
from .history import History, event_id, number_of
from .invocations import Invocations
from .problems import problem, problem_of

#: Largest body of a request, bytes: that of a property or of an action's input.
BODY_BYTES_MAX: Final = 1 << 20
#: Seconds after which the things are listed again, if somebody asks for one that is not known, or for all.
LIST_AGAIN_S: Final = 1.0
#: Seconds without a message after which a stream sends a comment, so that a connection that is cut is noticed.
COMMENT_S: Final = 30.0
#: Seconds until a message must have left for a subscriber; one that reads nothing is cut then.
WRITE_S: Final = 30.0
#: Places of long-polling subscribers that are kept. The one that polled longest ago begins anew.
SUBSCRIBERS_MAX: Final = 100_000
#: Things in one answer, unless the client asks for fewer.
PAGE_MAX: Final = 1_000

#: Values of the header Host that are remembered: a few names, with any port.
LOCAL_HOSTS_MAX: Final = 100
#: Hosts that are this one.
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
_PROBLEM: Final = "application/problem+json"
_TD: Final = "application/td+json"
_encode = msgspec.json.encode
log = logging.getLogger(__name__)


class Server:
    """The request handlers and their shared state. All run in one event loop."""

    def __init__(self, system: str, tokens: Mapping[str, str], *, anonymous: bool) -> None:
        """`system`: its run directory. `tokens`: users by the digests of their tokens."""
        self._system = system
        self._tokens = tokens
        self._anonymous = anonymous
        #: Of the ids of messages: numbers of another process of this gateway mean nothing here.
        self._epoch = os.urandom(4).hex()
        self._cache = PropertyCache()
        self._histories: dict[tuple[str, str, str], History] = {}
        self._places: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._invocations = Invocations()
        #: Values of the header Host that name this host; to parse one takes 10 us.
        self._local_hosts: set[str] = set()
        self._listed_s = -LIST_AGAIN_S
        self._version = -1
        self._listing = asyncio.Lock()

    async def serve(self, listening: socket.socket, stopping: asyncio.Event, limit_s: float) -> None:
        """Serve until `stopping` is set; requests under way then have `limit_s` seconds."""
        async with await connect_async(self._system, timeout=30.0) as client:
            self._client = client
            self._catalogue = Catalogue(self._list)
            subscription = await client.subscribe(NOTIFICATIONS)
            hearing = asyncio.create_task(self._hear(subscription))
            runner = web.AppRunner(
                self._application(), access_log=None, handler_cancellation=True, shutdown_timeout=limit_s
            )
            await runner.setup()
            try:
                await web.SockSite(runner, listening).start()
                await stopping.wait()
            finally:
                hearing.cancel()
                self._invocations.cancel_all()
                await runner.cleanup()

    def _application(self) -> web.Application:
        application = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[self._guard])
        thing = "/things/{id}"
        application.add_routes(
            [  # in the order in which they are matched: each that does not fit costs every request behind it 2 us
                web.get(f"{thing}/properties/{{name}}", self._read),
                web.put(f"{thing}/properties/{{name}}", self._write),
                web.post(f"{thing}/actions/{{name}}", self._invoke),
                web.get("/things", self._list_all),
                web.get(thing, self._describe),
                web.get(f"{thing}/properties", self._read_all),
                web.get(f"{thing}/actions/{{name}}/{{number}}", self._action_status),
                web.delete(f"{thing}/actions/{{name}}/{{number}}", self._cancel_action),
                web.get(f"{thing}/{{kind:properties|events}}/{{name}}/stream", self._stream),
            ]
        )
        return application

    # -- authentication and errors --------------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            request["principal"] = self._principal(request)
            response: web.StreamResponse = await handler(request)
            return response
        except BackplaneError as error:
            status, body, headers = problem_of(error)
            return _problem(status, body, headers)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            headers = {
                name: error.headers[name] for name in (hdrs.ALLOW, hdrs.WWW_AUTHENTICATE) if name in error.headers
            }
            return _problem(error.status, problem(error.status, error.text or error.reason), headers)
        except ConnectionError:
            raise
        except (
            Exception
        ):  # the edge: a bug of ours must not end other requests, nor tell a stranger how it looks inside
            log.exception("%s %s failed", request.method, request.path)
            return _problem(500, problem(500, "the gateway failed: its log says how"))

    def _principal(self, request: web.Request) -> str:
        scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        if scheme.lower() == "bearer":
            user = self._tokens.get(hashlib.sha256(token.strip().encode()).hexdigest())
            if user is not None:
                return user
        elif not scheme and self._anonymous:
            self._expect_local(request)
            return "anonymous"
        raise web.HTTPUnauthorized(
            text="a known bearer token is needed: Authorization: Bearer TOKEN",
            headers={hdrs.WWW_AUTHENTICATE: "Bearer"},
        )

    def _expect_local(self, request: web.Request) -> None:
        """Refuse requests that a page of another site makes a browser send: without tokens they look like the user's own.

        The check of the host stops DNS rebinding, and that of the origin stops requests across sites.
        """
        host = request.host
        if host not in self._local_hosts:
            if request.url.host not in _LOCAL:
                raise web.HTTPForbidden(text=f"without a token the gateway is reached as {' or '.join(_LOCAL)} alone")
            if len(self._local_hosts) < LOCAL_HOSTS_MAX:
                self._local_hosts.add(host)
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is not None and origin != f"{request.scheme}://{host}":
            raise web.HTTPForbidden(text=f"a page of {origin} may send nothing here without a token")

    # -- things -------------------------------------------------------------------------------------------------------

    async def _list(self, route: str) -> Any:
        return await self._client.call(route, timeout=5.0)

    async def _refresh(self, *, is_thorough: bool) -> None:
        async with self._listing:
            directory, now_s = await self._client.directory(), asyncio.get_running_loop().time()
            is_thorough = is_thorough and now_s - self._listed_s >= LIST_AGAIN_S
            if not is_thorough and directory.version == self._version:
                return
            self._version = directory.version
            if is_thorough:
                self._listed_s = now_s
            await self._catalogue.refresh(directory, is_thorough=is_thorough)

    async def _thing(self, request: web.Request) -> CatalogueEntry:
        """The thing of a path, in the process in which it lives now. Raises `NotFound`."""
        id = request.match_info["id"]
        found = self._catalogue.things.get(id)
        directory = self._client._session.directory  # the newest that has come; None: the system is gone
        if found is None or directory is None or not self._catalogue.is_current(found, directory):
            await self._refresh(is_thorough=False)
            if id not in self._catalogue.things:
                await self._refresh(is_thorough=True)
            found = self._catalogue.things.get(id)
        if found is None:
            raise NotFound(f"no thing {id!r}: GET /things lists all")
        return found

    async def _list_all(self, request: web.Request) -> web.Response:
        await self._refresh(is_thorough=True)
        things = sorted(self._catalogue.things.values(), key=lambda each: each.id)
        offset, limit = _natural(request, "offset", 0), min(PAGE_MAX, _natural(request, "limit", PAGE_MAX))
        page = things[offset : offset + limit]
        headers = {}
        if offset + limit < len(things) and limit:
            headers["Link"] = f'</things?offset={offset + limit}&limit={limit}>; rel="next"'
        return web.Response(
            body=_encode([self._description(request, each) for each in page]), content_type=JSON, headers=headers
        )

    async def _describe(self, request: web.Request) -> web.Response:
        body = _encode(self._description(request, await self._thing(request)))
        # Each retrieval has a queue of its own for messages, so it must not be shared.
        return web.Response(body=body, content_type=_TD, headers={hdrs.CACHE_CONTROL: "private, no-store"})

    def _description(self, request: web.Request, entry: CatalogueEntry) -> dict[str, Any]:
        base = f"{request.scheme}://{request.host}/"
        return description_of(entry.id, entry.model, base, os.urandom(8).hex(), is_secured=not self._anonymous)

    # -- properties ---------------------------------------------------------------------------------------------------

    async def _read(self, request: web.Request) -> web.Response:
        entry = await self._thing(request)
        return web.Response(
            body=await self._value(request, entry, _known(request, entry, "properties")), content_type=JSON
        )

    async def _read_all(self, request: web.Request) -> web.Response:
        entry = await self._thing(request)
        names = list(entry.model.get("properties", {}))
        values = await asyncio.gather(*(self._value(request, entry, name) for name in names))
        return web.Response(
            body=_encode({name: msgspec.Raw(value) for name, value in zip(names, values, strict=True)}),
            content_type=JSON,
        )

    async def _value(self, request: web.Request, entry: CatalogueEntry, name: str) -> bytes:
        if entry.model["properties"][name].get("observable") and not entry.is_replicated:
            cached = self._cache.get(entry.id, name, entry.process)
            if cached is not None:
                return cached
            if self._cache.is_to_ask(entry.id, entry.process):
                await self._client.cast(f"{entry.component}.notify_all", key=entry.key)
        return _encode(await self._call(request, entry, name, {}))

    async def _write(self, request: web.Request) -> web.Response:
        entry = await self._thing(request)
        name = _known(request, entry, "properties")
        setter = entry.setters.get(name)
        if setter is None:
            raise web.HTTPMethodNotAllowed("PUT", ["GET"], text=f"property {name!r} is read only")
        value = await _json(request)
        if value is _NOTHING:
            raise InvalidArgument("expected the value as JSON in the body")
        await self._call(request, entry, setter, {"value": value}, {"value": entry.model["properties"][name]})
        return web.Response(status=204)

    # -- actions ------------------------------------------------------------------------------------------------------

    async def _invoke(self, request: web.Request) -> web.Response:
        entry = await self._thing(request)
        name = _known(request, entry, "actions")
        said = entry.model["actions"][name]
        arguments = await _json(request)
        if arguments is _NOTHING:
            arguments = {}
        if type(arguments) is not dict:
            raise InvalidArgument("expected the input of the action as a JSON object in the body")
        call = self._call(request, entry, name, arguments, said.get("input", {}).get("properties", {}))
        if said["synchronous"]:
            result = await call
            if "output" not in said:
                return web.Response(status=204)
            return web.Response(body=_encode(result), content_type=JSON)
        path = f"/{path_of(entry.id)}/actions/{name}"
        requested = datetime.datetime.now(datetime.UTC).isoformat()
        begun = self._invocations.begin(path, request["principal"], requested, call)
        return web.Response(
            status=201, body=_encode(begun.status()), content_type=JSON, headers={hdrs.LOCATION: begun.href}
        )

    async def _action_status(self, request: web.Request) -> web.Response:
        return web.Response(body=_encode(self._begun(request).status()), content_type=JSON)

    async def _cancel_action(self, request: web.Request) -> web.Response:
        self._begun(request).task.cancel()
        return web.Response(status=204)

    def _begun(self, request: web.Request) -> Any:
        match = request.match_info
        href = f"/{path_of(match['id'])}/actions/{match['name']}/{match['number']}"
        found = self._invocations.find(href, request["principal"])
        if found is None:
            raise NotFound(
                f"no invocation {match['number']!r} of this action that you have begun, or it ended long ago"
            )
        return found

    async def _call(
        self,
        request: web.Request,
        entry: CatalogueEntry,
        operation: str,
        arguments: dict[str, Any],
        schemas: Mapping[str, Any] | None = None,
    ) -> Any:
        for name, schema in (schemas or {}).items():
            if schema.get("contentEncoding") == "base64" and isinstance(arguments.get(name), str):
                arguments[name] = _bytes(name, arguments[name])
        spec = call_checks.asked(
            f"{entry.component}.{operation}",
            entry.key,
            _priority(request),
            _timeout_s(request),
            arguments,
            {},
            None,
            False,
        )
        spec.principal = request["principal"]
        return await self._client._call(spec)

    # -- messages -----------------------------------------------------------------------------------------------------

    async def _hear(self, subscription: Any) -> None:
        async for message in subscription:
            if message.lost:
                log.warning("%d notifications of things were lost: values are read anew", message.lost)
                self._cache.clear()
            body = message.body
            id, kind, name, data = body["thing"], body["kind"], body["name"], _encode(body["data"])
            if kind == "property":
                self._cache.put(id, name, body["process"], data)
            history = self._histories.get((id, "properties" if kind == "property" else "events", name))
            if history is not None:
                history.add(data)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        entry = await self._thing(request)
        kind = request.match_info["kind"]
        name = _known(request, entry, kind)
        if kind == "properties" and not entry.model[kind][name].get("observable"):
            raise NotFound(f"property {name!r} is not observable")
        history = self._histories.setdefault((entry.id, kind, name), History())
        subscriber = request.query.get("sub")
        if subscriber is not None:
            return await self._poll(request, history, subscriber)
        return await self._send_events(request, history)

    async def _poll(self, request: web.Request, history: History, subscriber: str) -> web.Response:
        """Long polling: one message an answer. A HEAD, or the first poll, is the beginning."""
        place = subscriber, request.path
        number = self._places.setdefault(place, history.last)
        self._places.move_to_end(place)
        if len(self._places) > SUBSCRIBERS_MAX:
            self._places.popitem(last=False)
        if request.method == hdrs.METH_HEAD:
            return web.Response(content_type=JSON)
        while True:
            found, lost = history.after(number)
            if found is not None:
                break
            await history.wait()
        self._places[place] = found.number
        headers: dict[str, str] = {
            hdrs.ETAG: f'"{event_id(self._epoch, found.number)}"',
            hdrs.CACHE_CONTROL: "no-store",
        }
        if lost:
            headers["Lost"] = str(lost)
        return web.Response(body=found.data, content_type=JSON, headers=headers)

    async def _send_events(self, request: web.Request, history: History) -> web.StreamResponse:
        """Server-sent events. An event `lost` says how many are missing, or that nobody knows: the gateway is another one."""
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/event-stream", hdrs.CACHE_CONTROL: "no-store"})
        number, opening = history.last, b": open\n\n"
        last_id = request.headers.get("Last-Event-ID")
        if last_id is not None:
            known = number_of(last_id, self._epoch)
            if known is None:
                opening += b"event: lost\ndata: null\n\n"
            else:
                number = min(known, history.last)
        await response.prepare(request)
        if request.method == hdrs.METH_HEAD:
            return response
        await _send(response, opening)
        while True:
            parts = []
            while True:
                found, lost = history.after(number)
                if found is None:
                    break
                if lost:
                    parts.append(b"event: lost\ndata: %d\n\n" % lost)
                parts.append(b"id: %s\ndata: %s\n\n" % (event_id(self._epoch, found.number).encode(), found.data))
                number = found.number
            if parts:
                await _send(response, b"".join(parts))
                continue
            try:
                async with asyncio.timeout(COMMENT_S):
                    await history.wait()
            except TimeoutError:
                await _send(response, b":\n\n")


class ServerThread:
    """The thread of a server's event loop."""

    def __init__(self, server: Server, listening: socket.socket, name: str) -> None:
        self._server = server
        self._listening = listening
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._limit_s = 0.0

    def start(self) -> None:
        self._thread.start()

    def stop(self, limit_s: float) -> None:
        """Stop, and wait until the thread has ended, at most `limit_s` seconds."""
        self._limit_s = limit_s
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(limit_s)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except Exception:  # the edge of the thread: nobody else would tell
            log.exception("the HTTP server has ended")

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve(self._listening, self._stopping, limit_s=1.0)


_NOTHING: Final = object()


def _problem(status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(status=status, body=_encode(body), content_type=_PROBLEM, headers=headers)


def _known(request: web.Request, entry: CatalogueEntry, kind: str) -> str:
    """The name in a path. Raises `NotFound` if the thing has no such affordance."""
    name = request.match_info["name"]
    if name not in entry.model.get(kind, {}):
        raise NotFound(f"{entry.id} has no {name!r} in its {kind}")
    return name


async def _json(request: web.Request) -> Any:
    """The body; `_NOTHING` if it is empty."""
    body = await request.read()
    if not body:
        return _NOTHING
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidArgument(f"the body is no JSON: {error}") from None


def _bytes(name: str, text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error as error:
        raise InvalidArgument(f"argument {name!r}: expected base64: {error}") from None


def _priority(request: web.Request) -> int | None:
    """RFC 9218: `Priority: u=0` is the most urgent of eight, as of priorities here."""
    for member in request.headers.get("Priority", "").split(","):
        key, _, value = member.strip().partition("=")
        if key == "u" and value in ("0", "1", "2", "3", "4", "5", "6", "7"):
            return int(value)
    return None


def _timeout_s(request: web.Request) -> float:
    """RFC 7240: `Prefer: wait=10` seconds."""
    for member in request.headers.get("Prefer", "").split(","):
        key, _, value = member.strip().partition("=")
        if key == "wait" and value.isascii() and value.isdecimal() and 0 < int(value) <= 3_600:
            return float(value)
    return call_checks.TIMEOUT_DEFAULT_S


def _natural(request: web.Request, name: str, default: int) -> int:
    value = request.query.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise InvalidArgument(f"{name}={value!r}: expected a number from 0 on")
    return int(value)


async def _send(response: web.StreamResponse, data: bytes) -> None:
    """Write to a subscriber. Raises ConnectionError if it reads nothing."""
    try:
        async with asyncio.timeout(WRITE_S):
            await response.write(data)
    except TimeoutError:
        raise ConnectionResetError("the subscriber reads nothing") from None
