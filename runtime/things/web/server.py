"""Server: the HTTP side of a gateway, on an event loop in a thread of its own, as a client of the system.

Paths are those that the Thing Descriptions name (forms.py). Every error is a problem (RFC 9457). To close a connection cancels
its call; long actions go on until they are deleted.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import logging
import os
import re
import socket
import threading
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec
from aiohttp import hdrs, web

from appbackplane.transport import call_checks
from appbackplane.transport.async_client import connect_async
from appbackplane.transport.directory import Directory
from appbackplane.transport.errors import BackplaneError, InvalidArgument, NotFound, Unavailable

from ..thing import NOTIFICATIONS
from .cache import PropertyCache
from .catalogue import Catalogue, CatalogueEntry
from .forms import JSON, description_of, path_of
from .history import History, HistoryEntry, event_id, number_of
from .invocations import Invocations
from .parsing import NOTHING, expect_local, from_json, json_of, natural_of, priority_of, timeout_s_of, wait_s_of
from .problems import problem, problem_of

#: Largest body of a request, bytes: that of a property or of an action's input.
BODY_BYTES_MAX: Final = 1 << 20
#: Least seconds between two full listings; requests for an unknown id or for all things cause one.
LIST_AGAIN_S: Final = 1.0
#: Seconds between two looks whether a backplane has started.
WATCH_S: Final = 0.25
#: Connections that the kernel keeps until they are accepted: with aiohttp's 128, ten thousand took 36 s.
BACKLOG: Final = 4_096
#: Seconds without a message after which a stream sends a comment, so that a connection that is cut is noticed.
COMMENT_S: Final = 30.0
#: Seconds that a write to a subscriber may block before its connection is ended, and bytes of one write, but for one message.
WRITE_S: Final = 30.0
WRITE_BYTES_MAX: Final = 64 << 10
#: Most places of long-polling subscribers. The least recently used is forgotten, and begins at the newest message.
SUBSCRIBERS_MAX: Final = 100_000
#: Most characters of the id of a queue.
QUEUE_MAX: Final = 64
#: Things in one answer, unless the client asks for fewer.
PAGE_MAX: Final = 1_000

_HOST: Final = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_HINTS: Final = {404: "no such path: GET /things lists the things, and their forms the paths"}
_PROBLEM: Final = "application/problem+json"
_TD: Final = "application/td+json"
_encode = msgspec.json.encode
log = logging.getLogger(__name__)


class Polled(NamedTuple):
    """A message that a poll has found. `lost`: messages missing before it; None: nobody knows how many."""

    entry: HistoryEntry
    lost: int | None


class Server:
    """The request handlers and their shared state. All run in one event loop."""

    def __init__(self, system: str, tokens: Mapping[str, str], *, anonymous: bool, base: str = "") -> None:
        """`system`: its run directory. `tokens`: users by the digests of their tokens. `base`: the address under which clients
        reach the gateway, with a slash at its end; "": that of their request.
        """
        self._system = system
        self._base = base
        self._tokens = tokens
        self._anonymous = anonymous
        #: Random prefix of ids of messages, so that ids from before a restart are recognised.
        self._epoch = os.urandom(4).hex()
        self._cache = PropertyCache()
        self._histories: dict[tuple[str, str, str], History] = {}
        #: By user, queue and path: the number of the last message that was answered.
        self._places: OrderedDict[tuple[str, str, str], int] = OrderedDict()
        self._invocations = Invocations(self._epoch)
        self._listed_s = -LIST_AGAIN_S
        self._version = -1
        #: The listing under way, and whether it is thorough.
        self._listing: tuple[asyncio.Task[None], bool] | None = None

    async def serve(self, listening: socket.socket, stopping: asyncio.Event, limit_s: float) -> None:
        """Serve until `stopping` is set; requests under way then have `limit_s` seconds."""
        async with await connect_async(self._system, timeout=30.0) as client:
            self._client = client
            self._catalogue = Catalogue(self._list)
            # Malformed requests are the client's concern, and a log line with a traceback for each would be a flood.
            logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
            tasks = [asyncio.create_task(self._hear(stopping)), asyncio.create_task(self._watch(stopping))]
            runner = web.AppRunner(
                self._application(), access_log=None, handler_cancellation=True, shutdown_timeout=limit_s,
                auto_decompress=False,
            )  # fmt: skip
            await runner.setup()
            try:
                # asyncio accepts as many connections in one go as its backlog says, also where no descriptor is left.
                await web.SockSite(runner, listening, backlog=128).start()
                listening.listen(BACKLOG)
                await stopping.wait()
            finally:
                for task in tasks:
                    task.cancel()
                self._invocations.cancel_all()
                for history in self._histories.values():
                    history.close()
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
            if not _HOST.fullmatch(request.host):
                raise web.HTTPBadRequest(text="the header Host names no host")
            request["principal"] = self._principal(request)
            response: web.StreamResponse = await handler(request)
            return response
        except BackplaneError as error:
            status, body, headers = problem_of(error)
            return _problem(status, body, headers)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            told = (hdrs.ALLOW, hdrs.WWW_AUTHENTICATE)
            is_said = error.text and not error.text.startswith(f"{error.status}: ")
            detail = error.text if is_said else _HINTS.get(error.status, error.reason)
            headers = {str(name): error.headers[name] for name in told if name in error.headers}
            return _problem(error.status, problem(error.status, detail or ""), headers)
        except ConnectionError:
            raise
        except Exception:  # the edge: an internal error must not end other requests or reveal internals
            log.exception("%s %s failed", request.method, request.path)
            return _problem(500, problem(500, "internal error in the gateway: see its log (appbackplane logs)"))

    def _principal(self, request: web.Request) -> str:
        scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        if scheme.lower() == "bearer":
            digest = hashlib.sha256(token.strip().encode("utf-8", "surrogateescape")).hexdigest()
            user = self._tokens.get(digest)
            if user is not None:
                return user
        elif not scheme and self._anonymous:
            expect_local(request)
            return "anonymous"
        raise web.HTTPUnauthorized(
            text="a known bearer token is needed: Authorization: Bearer TOKEN",
            headers={hdrs.WWW_AUTHENTICATE: "Bearer"},
        )

    # -- things -------------------------------------------------------------------------------------------------------

    async def _list(self, route: str) -> Any:
        return await self._client.call(route, timeout=5.0)

    async def _refresh(self, *, is_thorough: bool) -> None:
        """List the things of backplanes that have started; `is_thorough`: of all, at most once in `LIST_AGAIN_S`.

        One listing at a time serves all requests, and goes on when its first request is given up.
        """
        is_thorough = is_thorough and asyncio.get_running_loop().time() - self._listed_s >= LIST_AGAIN_S
        directory = await self._client.directory()
        if not is_thorough and directory.version == self._version:
            return
        if self._listing is None or (is_thorough and not self._listing[1]):
            task = asyncio.create_task(self._relist(directory, is_thorough=is_thorough))
            self._listing = task, is_thorough
        await asyncio.shield(self._listing[0])

    async def _relist(self, directory: Directory, *, is_thorough: bool) -> None:
        this = self._listing
        try:
            if await self._catalogue.refresh(directory, is_thorough=is_thorough):
                self._version = directory.version
            if is_thorough:
                self._listed_s = asyncio.get_running_loop().time()
        finally:
            if self._listing is this:
                self._listing = None
        for entry in self._catalogue.things.values():
            await self._ask_for_values(entry)
        for (id, kind, name), history in [*self._histories.items()]:
            if id not in self._catalogue.things:
                history.close()
                del self._histories[id, kind, name]

    async def _ask_for_values(self, entry: CatalogueEntry) -> None:
        """Have a new thing publish its observable properties, so that later reads need not wait for its actions."""
        is_observed = any(said.get("observable") for said in entry.model.get("properties", {}).values())
        if is_observed and not entry.is_replicated and self._cache.is_to_ask(entry.id, entry.process):
            try:
                await self._client.cast(f"{entry.component}.notify_all", key=entry.key)
            except BackplaneError:  # it is asked again with the next read
                self._cache.ask_again(entry.id, entry.process)

    async def _watch(self, stopping: asyncio.Event) -> None:
        """List the things of each backplane that starts, without waiting for a request."""
        while True:
            try:
                await self._refresh(is_thorough=False)
            except BackplaneError as error:
                log.debug("the things are not listed: %s", error)
            except (
                Exception
            ):  # the edge: the answer of a backplane may be of any kind, and the next one is asked all the same
                log.exception("the things are not listed")
            await _pause(stopping)

    async def _thing(self, request: web.Request) -> CatalogueEntry:
        """The thing of a path, in the process in which it lives now. Raises `NotFound`, or `Unavailable` while it starts."""
        id = request.match_info["id"]
        found = self._catalogue.things.get(id)
        directory = self._client._session.directory  # the newest that has come; None: the system is gone
        if found is not None and directory is not None and self._catalogue.is_current(found, directory):
            return found
        await self._refresh(is_thorough=False)
        if id not in self._catalogue.things:
            await self._refresh(is_thorough=True)
        found = self._catalogue.things.get(id)
        if found is None:
            raise NotFound(f"no thing {id!r}: GET /things lists all")
        if not self._catalogue.is_current(found, await self._client.directory()):
            raise Unavailable(f"backplane {found.backplane} of this thing is starting again", retry_after=WATCH_S)
        return found

    async def _list_all(self, request: web.Request) -> web.Response:
        await self._refresh(is_thorough=True)
        things = sorted(self._catalogue.things.values(), key=lambda each: each.id)
        offset, limit = natural_of(request, "offset", 0), min(PAGE_MAX, natural_of(request, "limit", PAGE_MAX))
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
        base = self._base or f"{request.scheme}://{request.host}/"
        queue = f"{self._epoch}.{os.urandom(8).hex()}"
        return description_of(entry.id, entry.model, base, queue, is_secured=not self._anonymous)

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
            await self._ask_for_values(entry)
        return _encode(await self._call(request, entry, name, {}))

    async def _write(self, request: web.Request) -> web.Response:
        entry = await self._thing(request)
        name = _known(request, entry, "properties")
        setter = entry.setters.get(name)
        if setter is None:
            raise web.HTTPMethodNotAllowed("PUT", ["GET"], text=f"property {name!r} is read only")
        value = await json_of(request)
        if value is NOTHING:
            raise InvalidArgument("expected the value as JSON in the body")
        await self._call(request, entry, setter, {"value": value}, {"value": entry.model["properties"][name]})
        return web.Response(status=204)

    # -- actions ------------------------------------------------------------------------------------------------------

    async def _invoke(self, request: web.Request) -> web.Response:
        entry = await self._thing(request)
        name = _known(request, entry, "actions")
        said = entry.model["actions"][name]
        arguments = await json_of(request)
        if arguments is NOTHING:
            arguments = {}
        if type(arguments) is not dict:
            raise InvalidArgument("expected the input of the action as a JSON object in the body")
        schemas = said.get("input", {}).get("properties", {})
        if said["synchronous"]:
            result = await self._call(request, entry, name, arguments, schemas)
            if "output" not in said:
                return web.Response(status=204)
            return web.Response(body=_encode(result), content_type=JSON)
        for parameter in arguments:
            if parameter not in schemas:
                raise InvalidArgument(f"action {name!r} has no parameter {parameter!r}")
        for parameter in said.get("input", {}).get("required", ()):
            if parameter not in arguments:
                raise InvalidArgument(f"action {name!r} needs the parameter {parameter!r}")
        path = f"/{path_of(entry.id)}/actions/{quote(name, safe='')}"
        call = self._call(request, entry, name, arguments, schemas, timeout_s=call_checks.TIMEOUT_MAX_S)
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
        href = f"/{path_of(match['id'])}/actions/{quote(match['name'], safe='')}/{match['number']}"
        found = self._invocations.find(href, request["principal"])
        if found is None:
            raise NotFound(
                f"no invocation {match['number']!r} of yours: unknown, expired, or lost when the gateway ended"
            )
        return found

    async def _call(
        self,
        request: web.Request,
        entry: CatalogueEntry,
        operation: str,
        arguments: dict[str, Any],
        schemas: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        for name, schema in (schemas or {}).items():
            if name in arguments:
                arguments[name] = from_json(arguments[name], schema, name)
        timeout_s = timeout_s_of(request) if timeout_s is None else timeout_s
        spec = call_checks.asked(
            f"{entry.component}.{operation}", entry.key, priority_of(request), timeout_s, arguments, {}, None, False
        )
        spec.principal = request["principal"]
        return await self._client._call(spec)

    # -- messages -----------------------------------------------------------------------------------------------------

    async def _hear(self, stopping: asyncio.Event) -> None:
        """Take the notifications of all things, for as long as the gateway serves."""
        while True:
            try:
                async with await self._client.subscribe(NOTIFICATIONS) as subscription:
                    async for message in subscription:
                        if message.lost:
                            self._lost(message.lost)
                        self._take(message.body)
            except BackplaneError as error:
                log.warning("notifications of things are not heard: %s", error)
            self._lost(0)
            await _pause(stopping)

    def _lost(self, count: int) -> None:
        """Notifications are lost: values may be old, and subscribers learn it."""
        if count:
            log.warning("%d notifications of things were lost: values are read anew", count)
        self._cache.clear()
        for history in self._histories.values():
            history.add(None)

    def _take(self, body: Mapping[str, Any]) -> None:
        try:
            id, kind, name, process = body["thing"], body["kind"], body["name"], body["process"]
            is_known, data = body["is_known"], _encode(body["data"])
        except Exception:  # the edge: anybody may publish on the topic, and values may be of any kind
            log.warning("a notification that no thing has sent is dropped: %.100s", body)
            return
        if kind == "property":
            if not is_known:
                self._cache.drop(id, name)
                return
            self._cache.put(id, name, process, data)
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

    async def _poll(self, request: web.Request, history: History, queue: str) -> web.Response:
        """Long polling: one message an answer, at most once. A HEAD, or the first poll, opens the queue."""
        if len(queue) > QUEUE_MAX or not queue.isascii():
            raise InvalidArgument(f"sub: expected at most {QUEUE_MAX} ASCII characters")
        place = request["principal"], queue, request.path
        lost: int | None = 0
        if place not in self._places:
            if queue.partition(".")[0] != self._epoch:
                lost = None  # a queue of a gateway that has ended, or of somebody's own making
            self._places[place] = history.last
        self._places.move_to_end(place)
        if len(self._places) > SUBSCRIBERS_MAX:
            self._places.popitem(last=False)
        if request.method == hdrs.METH_HEAD:
            return web.Response(content_type=JSON)
        found = await self._next(request, history, place)
        headers = {"Cache-Control": "no-store"}
        if found is not None:
            headers["ETag"] = f'"{event_id(self._epoch, found.entry.number)}"'
            lost = None if lost is None or found.lost is None else lost + found.lost
        if lost != 0:
            headers["Lost"] = "unknown" if lost is None else str(lost)
        if found is None:
            return web.Response(status=204, headers=headers)
        return web.Response(body=found.entry.data, content_type=JSON, headers=headers)

    async def _next(self, request: web.Request, history: History, place: tuple[str, str, str]) -> Polled | None:
        """The next message of a queue; None: there was none in the time that the client waits."""
        lost: int | None = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s_of(request)):
                while True:
                    found, missed = history.after(self._places.get(place, history.last))
                    if found is None:
                        if history.is_closed:
                            raise NotFound("the thing is gone")
                        await history.wait()
                        continue
                    self._places[place] = found.number
                    lost = None if lost is None or found.data is None else lost + missed
                    if found.data is not None:
                        return Polled(found, lost)
        return None

    async def _send_events(self, request: web.Request, history: History) -> web.StreamResponse:
        """Server-sent events. An event `lost` carries the number of missed messages, or null where nobody knows it."""
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/event-stream", hdrs.CACHE_CONTROL: "no-store"})
        number, opening = history.last, b": open\n\n"
        last_id = request.headers.get("Last-Event-ID")
        if last_id is not None:
            known = number_of(last_id, self._epoch)
            if known is None:
                opening += _lost_event(None)
            else:
                number = min(known, history.last)
        await response.prepare(request)
        if request.method == hdrs.METH_HEAD:
            return response
        await _send(request, response, opening)
        while True:
            part = bytearray()
            while len(part) < WRITE_BYTES_MAX:
                found, lost = history.after(number)
                if found is None:
                    break
                if lost:
                    part += _lost_event(lost)
                if found.data is None:
                    part += _lost_event(None)
                else:
                    part += b"id: %s\ndata: %s\n\n" % (event_id(self._epoch, found.number).encode(), found.data)
                number = found.number
            if part:
                await _send(request, response, bytes(part))
            elif history.is_closed:
                return response
            else:
                try:
                    async with asyncio.timeout(COMMENT_S):
                        await history.wait()
                except TimeoutError:
                    await _send(request, response, b":\n\n")


class ServerThread:
    """The thread of a server's event loop."""

    def __init__(self, server: Server, listening: socket.socket, name: str, limit_s: float) -> None:
        """`limit_s`: seconds for requests under way when it stops."""
        self._server = server
        self._listening = listening
        self._limit_s = limit_s
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()

    def start(self) -> None:
        self._thread.start()

    def stop(self, limit_s: float) -> None:
        """Stop, and wait until the thread has ended, at most `limit_s` seconds."""
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(limit_s)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except Exception:  # the edge of the thread: nobody else would tell
            log.exception("the HTTP server has ended")
        finally:
            self._listening.close()  # clients are refused, and do not hang

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve(self._listening, self._stopping, self._limit_s)


async def _pause(stopping: asyncio.Event) -> None:
    """Return after `WATCH_S`, or at once if the server stops."""
    with suppress(TimeoutError):
        async with asyncio.timeout(WATCH_S):
            await stopping.wait()


def _lost_event(count: int | None) -> bytes:
    return b"event: lost\ndata: %s\n\n" % (b"null" if count is None else b"%d" % count)


def _problem(status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(status=status, body=_encode(body), content_type=_PROBLEM, headers=headers)


def _known(request: web.Request, entry: CatalogueEntry, kind: str) -> str:
    """The name in a path. Raises `NotFound` if the thing has no such affordance."""
    name = request.match_info["name"]
    if name not in entry.model.get(kind, {}):
        raise NotFound(f"{entry.id} has no {name!r} in its {kind}")
    return name


async def _send(request: web.Request, response: web.StreamResponse, data: bytes) -> None:
    """Write to a subscriber. Raises ConnectionError if it reads nothing, and ends its connection."""
    try:
        async with asyncio.timeout(WRITE_S):
            await response.write(data)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()  # to close would wait until all is read
        raise ConnectionResetError("the subscriber reads nothing") from None
