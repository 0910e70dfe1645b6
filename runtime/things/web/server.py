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
import threading
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import hdrs, web

from appbackplane.transport.async_client import connect_async
from appbackplane.transport.errors import BackplaneError

from ..catalogue import CatalogueEntry
from .access import Access
from .authentication import Authentication
from .forms import JSON, description_of
from .interactions import Interactions
from .mirror import Mirror
from .parsing import natural_of
from .problems import problem, problem_of
from .streams import Streams

if TYPE_CHECKING:
    from .openid import OpenIdSignIn

#: Largest body of a request, bytes: that of a property or of an action's input.
BODY_BYTES_MAX: Final = 1 << 20
#: Connections that the kernel keeps until they are accepted: with aiohttp's 128, ten thousand took 36 s.
BACKLOG: Final = 4_096
#: Things in one answer, unless the client asks for fewer.
PAGE_MAX: Final = 1_000

_HOST: Final = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_HINTS: Final = {404: "no such path: GET /things lists the things, and their forms the paths"}
_PROBLEM: Final = "application/problem+json"
_TD: Final = "application/td+json"
_encode = msgspec.json.encode
log = logging.getLogger(__name__)


class Server:
    """The request handlers and their shared state. All run in one event loop."""

    def __init__(
        self, system: str, authentication: Authentication, access: Access, *, base: str = "",
        sign_in: OpenIdSignIn | None = None,
    ) -> None:  # fmt: skip
        """`system`: its run directory. `base`: the address under which clients reach the gateway, with a slash at its end; "":
        that of their request. `sign_in`: by OpenID.
        """
        self._sign_in = sign_in
        self._system = system
        self._base = base
        self._authentication = authentication
        self._access = access
        #: Random prefix of ids of messages, so that ids from before a restart are recognised.
        self._epoch = os.urandom(4).hex()

    async def serve(self, listening: socket.socket, stopping: asyncio.Event, limit_s: float) -> None:
        """Serve until `stopping` is set; requests under way then have `limit_s` seconds."""
        sign_in = nullcontext() if self._sign_in is None else self._sign_in.running(stopping)
        async with await connect_async(self._system, timeout=30.0) as client, sign_in:
            self._mirror = mirror = Mirror(client, self._access)
            self._interactions = Interactions(mirror, self._epoch)
            self._streams = Streams(mirror, self._epoch)
            # Malformed requests are the client's concern, and a log line with a traceback for each would be a flood.
            logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
            tasks = [asyncio.create_task(mirror.run(stopping))]
            if self._access.is_limited:
                tasks.append(asyncio.create_task(self._streams.end_revoked(stopping)))
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
                self._interactions.close()
                mirror.close()
                await runner.cleanup()

    def _application(self) -> web.Application:
        application = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[self._guard])
        thing, interactions = "/things/{id}", self._interactions
        application.add_routes(
            [  # in the order in which they are matched: each that does not fit costs every request behind it 2 us
                web.get(f"{thing}/properties/{{name}}", interactions.read),
                web.put(f"{thing}/properties/{{name}}", interactions.write),
                web.post(f"{thing}/actions/{{name}}", interactions.invoke),
                web.get("/things", self._list_all),
                web.get(thing, self._describe),
                web.get(f"{thing}/properties", interactions.read_all),
                web.get(f"{thing}/actions/{{name}}/{{number}}", interactions.action_status),
                web.delete(f"{thing}/actions/{{name}}/{{number}}", interactions.cancel_action),
                web.get(f"{thing}/{{kind:properties|events}}/{{name}}/stream", self._streams.open),
                web.get("/whoami", self._who_am_i),
                *(() if self._sign_in is None else self._sign_in.routes()),
            ]
        )
        return application

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            if not _HOST.fullmatch(request.host):
                raise web.HTTPBadRequest(text="the header Host names no host")
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

    async def _list_all(self, request: web.Request) -> web.Response:
        await self._mirror.refresh(is_thorough=True)
        things = self._mirror.things(request["principal"])
        offset, limit = natural_of(request, "offset", 0), min(PAGE_MAX, natural_of(request, "limit", PAGE_MAX))
        page = things[offset : offset + limit]
        headers = {}
        if offset + limit < len(things) and limit:
            headers["Link"] = f'</things?offset={offset + limit}&limit={limit}>; rel="next"'
        return web.Response(
            body=_encode([self._description(request, each) for each in page]), content_type=JSON, headers=headers
        )

    async def _describe(self, request: web.Request) -> web.Response:
        body = _encode(
            self._description(request, await self._mirror.thing(request.match_info["id"], request["principal"]))
        )
        # Each retrieval has a queue of its own for messages, so it must not be shared.
        return web.Response(body=body, content_type=_TD, headers={hdrs.CACHE_CONTROL: "private, no-store"})

    def _description(self, request: web.Request, entry: CatalogueEntry) -> dict[str, Any]:
        base = self._base or f"{request.scheme}://{request.host}/"
        queue = f"{self._epoch}.{os.urandom(8).hex()}"
        access, principal = self._access, request["principal"]
        return description_of(
            entry.id, entry.model, base, queue, is_secured=not self._authentication.is_anonymous,
            permits=lambda kind, name: access.permits(principal, entry, kind, name),
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

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve(self._listening, self._stopping, self._limit_s)


def _problem(status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(status=status, body=_encode(body), content_type=_PROBLEM, headers=headers)
