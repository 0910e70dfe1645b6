"""Server: the HTTP side of a gateway, on an event loop in a thread of its own, as a client of the system.

Paths are those that the Thing Descriptions name (forms.py). Every error is a problem (RFC 9457). To close a connection cancels
its call; long actions go on until they are deleted.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import ssl
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from aiohttp import hdrs, web

from appbackplane.transport.async_client import AsyncClient, connect_async
from appbackplane.transport.errors import BackplaneError

from ..catalogue import CatalogueEntry
from ..description import Description
from ..directory.registration_file import RegistrationFile
from .access import Access
from .authentication import Authentication
from .compression import compress
from .cross_origin import headers_for, is_preflight
from .directory_api import DirectoryApi, everything
from .directory_description import PROBLEM
from .forms import JSON, description_of
from .interactions import Interactions
from .listener import HttpListener
from .live import Live
from .mirror import Mirror
from .node_watch import NodeWatch
from .page_files import Page, is_public
from .problems import problem, problem_of
from .sharing_api import SharingApi
from .streams import Streams
from .thing_streams import ThingStreams

if TYPE_CHECKING:
    from .openid import OpenIdSignIn

#: Largest body of a request, bytes: that of a property or of an action's input.
BODY_BYTES_MAX: Final = 1 << 20

_HOST: Final = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_HINTS: Final = {404: "no such path: GET /things lists the things, and their forms the paths"}
_encode = msgspec.json.encode
#: Makes the routes that a subclass of the gateway serves besides those of things.
RoutesMaker = Callable[[AsyncClient], Iterable[web.AbstractRouteDef]]
log = logging.getLogger(__name__)


class Announcing(Protocol):
    """What makes the server known to others."""

    async def run(self, stopping: asyncio.Event) -> None: ...


class Server:
    """The request handlers and their shared state. All run in one event loop."""

    def __init__(
        self,
        system: str,
        authentication: Authentication,
        access: Access,
        registrations: RegistrationFile,
        unix_ns: Callable[[], int],
        *,
        base: str = "",
        tls: ssl.SSLContext | None = None,
        origins: Collection[str] = (),
        routes: RoutesMaker = lambda client: (),
        announcement: Announcing | None = None,
        sign_in: OpenIdSignIn | None = None,
    ) -> None:
        """`system`: its run directory. `base`: the address under which clients reach the gateway, with a slash at its end; "":
        that of their request. `registrations` is closed when the server ends. `unix_ns`: the clock. `tls`: with the gateway's
        certificate. `origins`: sites whose pages may read the answers. `routes`: further ones. `announcement` runs beside the
        server. `sign_in`: by OpenID.
        """
        self._announcement = announcement
        self._registrations = registrations
        self._unix_ns = unix_ns
        self._routes = routes
        self._sign_in = sign_in
        self._system = system
        self._base = base
        self._authentication = authentication
        self._access = access
        self._tls = tls
        self._origins = origins
        #: Random prefix of ids of messages, so that ids from before a restart are recognised.
        self._epoch = os.urandom(4).hex()

    async def serve(self, listening: socket.socket, stopping: asyncio.Event, limit_s: float) -> None:
        """Serve until `stopping` is set; requests under way then have `limit_s` seconds."""
        sign_in = nullcontext() if self._sign_in is None else self._sign_in.running(stopping)
        async with await connect_async(self._system, timeout=30.0) as client, sign_in:
            self._mirror = mirror = Mirror(client, self._access)
            self._interactions = Interactions(mirror)
            self._streams = Streams(mirror, self._epoch)
            self._thing_streams = ThingStreams(mirror)
            self._sharing = SharingApi(mirror, self._access)
            self._live = Live(mirror, self._epoch)
            self._directory = directory = DirectoryApi(
                mirror, self._registrations, self._epoch, unix_ns=self._unix_ns, base_of=self._base_of,
                describe=self._description, security=self._authentication.scheme,
                visible=self._visible if self._access.is_limited else everything, may_register=self._access.is_operator,
                access=self._access,
            )  # fmt: skip
            # Malformed requests are the client's concern, and a log line with a traceback for each would be a flood.
            logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
            node_watch = NodeWatch(client, self._access.nodes, mirror)
            running = (mirror, directory, self._live, node_watch)
            tasks = [asyncio.create_task(each.run(stopping)) for each in running]
            if self._access.is_limited:
                tasks += [
                    asyncio.create_task(each.end_revoked(stopping)) for each in (self._streams, self._thing_streams)
                ]
            application = self._application()
            application.add_routes(self._routes(client))
            self._listener = HttpListener(listening, tls=self._tls)
            runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=limit_s)
            await runner.setup()
            assert runner.server is not None
            try:
                self._listener.start(runner.server)
                if self._announcement is not None:
                    await self._announcement.run(stopping)
                await stopping.wait()
            finally:
                self._listener.stop()
                for task in tasks:
                    task.cancel()
                self._interactions.close()
                self._access.close()
                mirror.close()
                directory.close()
                await runner.cleanup()

    def close(self) -> None:
        """Close what it has been given."""
        self._registrations.close()

    def _application(self) -> web.Application:
        application = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[self._guard])
        thing, interactions = "/things/{id}", self._interactions
        application.add_routes(
            [  # in the order in which they are matched: each that does not fit costs every request behind it 2 us
                web.get(f"{thing}/properties/{{name}}", interactions.read),
                web.put(f"{thing}/properties/{{name}}", interactions.write),
                web.post(f"{thing}/actions/{{name}}", interactions.invoke),
                web.get(f"{thing}/properties", interactions.read_all),
                web.get(f"{thing}/actions", interactions.action_statuses),
                web.put(f"{thing}/properties", interactions.write_many),
                web.get(f"{thing}/actions/{{name}}/{{number}}", interactions.action_status),
                web.delete(f"{thing}/actions/{{name}}/{{number}}", interactions.cancel_action),
                web.get(f"{thing}/{{kind:properties|events}}/{{name}}/stream", self._streams.open),
                web.get(f"{thing}/stream/{{kind:properties|events}}", self._thing_streams.open),
                *self._sharing.routes(),
                web.get("/live", self._live.open),
                *Page().routes(),
                web.get("/whoami", self._who_am_i),
                *(() if self._sign_in is None else self._sign_in.routes()),
            ]
        )
        self._directory.add_routes(application)
        application.on_response_prepare.append(self._add_headers)
        return application

    async def _add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        """The headers of every answer, streams and errors included."""
        response.headers["X-Content-Type-Options"] = "nosniff"
        if not self._origins:
            return
        is_asked = is_preflight(request.method, request.headers)
        for name, value in headers_for(request.headers.get(hdrs.ORIGIN), self._origins, preflight=is_asked).items():
            response.headers.add(name, value)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self._listener.has_request(request.protocol)
        try:
            response = await self._answer(request, handler)
            await compress(request, response)
            return response
        finally:
            self._listener.has_answered(request.protocol)

    async def _answer(self, request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            if not _HOST.fullmatch(request.host):
                raise web.HTTPBadRequest(text="the header Host names no host")
            if self._origins and is_preflight(request.method, request.headers):
                return web.Response(status=204)
            if isinstance(request.match_info.http_exception, web.HTTPNotFound):
                raise request.match_info.http_exception  # the paths are no secret
            if is_public(request.path):
                public: web.StreamResponse = await handler(request)
                return public
            if self._sign_in is not None:
                return await self._sign_in.answer(request, handler)
            request["principal"] = self._authentication.principal_of(request)
            response: web.StreamResponse = await handler(request)
            return response
        except BackplaneError as error:
            status, body, headers = problem_of(error)
            return _problem(status, body, headers)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            told = (hdrs.ALLOW, hdrs.RETRY_AFTER, hdrs.WWW_AUTHENTICATE)
            is_said = error.text and not error.text.startswith(f"{error.status}: ")
            detail = error.text if is_said else _HINTS.get(error.status, error.reason)
            headers = {str(name): error.headers[name] for name in told if name in error.headers}
            return _problem(error.status, problem(error.status, detail or ""), headers)
        except ConnectionError:
            raise
        except Exception:  # the edge: an internal error must not end other requests or reveal internals
            log.exception("%s %s failed", request.method, request.path)
            return _problem(500, problem(500, "internal error in the gateway: see its log (appbackplane logs)"))

    async def _who_am_i(self, request: web.Request) -> web.Response:
        principal = request["principal"]
        groups = sorted({*self._access.groups_of(principal), *request.get("groups", ())})
        body = _encode({"principal": principal, "groups": groups})
        return web.Response(body=body, content_type=JSON, headers={hdrs.CACHE_CONTROL: "private, no-store"})

    def _base_of(self, request: web.Request) -> str:
        return self._base or f"{request.scheme}://{request.host}/"

    def _visible(self, principal: str, description: Description) -> Description | None:
        """What a user sees of a registered description: all, if any permission names its id or type."""
        types = description.get("@type", [])
        types = (types,) if isinstance(types, str) else tuple(types)
        return description if self._access.permits_id(principal, description["id"], types) else None

    def _description(self, request: web.Request, entry: CatalogueEntry, queue: str) -> Description | None:
        access, principal = self._access, request["principal"]
        if not access.permits(principal, entry):
            return None
        return description_of(
            entry.id, entry.model, self._base_of(request), queue, security=self._authentication.scheme,
            place=entry.place, permits=lambda kind, name: access.permits(principal, entry, kind, name),
        )  # fmt: skip


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
            self._server.close()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve(self._listening, self._stopping, self._limit_s)


def _problem(status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(status=status, body=_encode(body), content_type=PROBLEM, headers=headers)
