"""HTTP consumer: sends the requests to things elsewhere, and reads their streams, in a thread with an event loop of its own.

Nothing is followed: no redirect, no proxy of the environment, no cookie. Addresses of this host and its link are refused where
the connection is made, after the name was resolved, so that a name cannot be pointed there later. Every body is bounded.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import random
import socket
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult

from appbackplane.transport.errors import (
    BackplaneError,
    DeadlineExceeded,
    FailedPrecondition,
    Unavailable,
)

from .consumed_description import Form, Security, is_near
from .http_errors import told_error
from .stream_parser import StreamOverflow, StreamParser

#: Bytes of an answer: as much as a gateway takes (web/server.py), and of a description four times as much.
BODY_BYTES_MAX: Final = 1 << 20
DESCRIPTION_BYTES_MAX: Final = 4 << 20
#: Seconds for a connection.
CONNECT_S: Final = 5.0
#: Seconds that a description may take.
DESCRIPTION_S: Final = 4.0
#: Seconds of silence after which a stream is opened anew: gateways of this project send a comment every 30.
SILENT_S: Final = 120.0
#: Seconds before a stream is opened again: at first, and at most. Half of it at random, so that a thing that comes back is not
#: asked by all at once.
AGAIN_S: Final = 0.5
AGAIN_S_MAX: Final = 30.0
#: Seconds that the end of the thread is waited for.
STOP_S: Final = 3.0
log = logging.getLogger("appbackplane.proxies")


class Remote(msgspec.Struct, frozen=True):
    """How one thing is reached. `token_file`: with its secret. `is_local`: it may be on this host or its link."""

    security: Security
    token_file: str = ""
    is_local: bool = False


class StreamListener(Protocol):
    """Takes what a stream says. Called in the consumer's thread."""

    def heard(self, name: str, data: Any) -> None: ...
    def missed(self, name: str) -> None:
        """Messages may have been missed."""


class HttpConsumer:
    """The thread and its two sessions: one that reaches addresses of this host, and one that does not."""

    def __init__(self, name: str) -> None:
        """`name`: of the thread."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._loop = asyncio.new_event_loop()
        self._sessions: dict[bool, ClientSession] = {}
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._secrets: dict[str, tuple[tuple[int, int], str]] = {}

    def start(self) -> None:
        self._thread.start()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """That of the thread."""
        return self._loop

    def stop(self, limit_s: float) -> None:
        """End all requests, and wait at most `limit_s` seconds for the thread."""
        with suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(limit_s)

    def begin(self, work: Coroutine[Any, Any, None]) -> Callable[[], None]:
        """Run something in the thread. From any thread. Returns what cancels it."""
        begun: list[asyncio.Task[None]] = []

        def run() -> None:
            task = self._loop.create_task(work)
            begun.append(task)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        def cancel() -> None:
            for task in begun:
                task.cancel()

        try:
            self._loop.call_soon_threadsafe(run)
        except RuntimeError:  # it has ended
            work.close()
            raise Unavailable("the things elsewhere are not asked any more: this process goes down") from None
        return lambda: self._call_soon(cancel)

    def _call_soon(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    # -- in the thread ------------------------------------------------------------------------------------------------

    async def pause(self, seconds: float) -> None:
        """Return after some time, or when the thread is to end, which cancels all tasks."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def describe(self, url: str, remote: Remote) -> bytes:
        """The document at a URL. Raises `BackplaneError`."""
        headers = {"Accept": "application/td+json, application/json"}
        return await self._ask("GET", url, remote, None, DESCRIPTION_S, headers, DESCRIPTION_BYTES_MAX)

    async def request(self, form: Form, remote: Remote, body: bytes | None, limit_s: float) -> bytes:
        """The body of the answer to a request. `limit_s`: seconds for all of it. Raises `BackplaneError`."""
        headers = {} if body is None else {"Content-Type": "application/json"}
        return await self._ask(form.method, form.url, remote, body, limit_s, headers, BODY_BYTES_MAX)

    async def follow(self, name: str, form: Form, remote: Remote, listener: StreamListener) -> None:
        """Read the messages of a stream until the task is cancelled, and begin anew when it ends."""
        again_s, is_reported, parser = AGAIN_S, False, StreamParser()
        while True:
            begun_s = self._loop.time()
            try:
                if form.subprotocol == "sse":
                    await self._read_events(name, form, remote, listener, parser)
                else:
                    await self._poll(name, form, remote, listener)
                problem = "it has ended"
            except (BackplaneError, StreamOverflow, ClientError, OSError, TimeoutError) as error:
                problem = str(error) or type(error).__name__
            if self._loop.time() - begun_s > AGAIN_S_MAX:
                again_s, is_reported = AGAIN_S, False
            if not is_reported:
                is_reported = True
                log.warning("the stream of %s is read again in a moment: %s", form.url, problem)
            await self.pause(again_s * random.uniform(0.5, 1.0))
            again_s = min(2 * again_s, AGAIN_S_MAX)

    async def _read_events(
        self, name: str, form: Form, remote: Remote, listener: StreamListener, parser: StreamParser
    ) -> None:
        headers = self._headers(remote) | {"Accept": "text/event-stream"}
        if parser.last_id:
            headers["Last-Event-ID"] = parser.last_id
        timeout = ClientTimeout(sock_connect=CONNECT_S, sock_read=SILENT_S)
        async with self._session(form.url, remote).get(
            form.url, headers=headers, timeout=timeout, allow_redirects=False
        ) as answer:
            if answer.status != 200:
                raise told_error(f"GET {form.url}", answer.status, b"", answer.headers.get("Retry-After", ""))
            parser.restart()
            async for chunk in answer.content.iter_any():
                for event in parser.feed(chunk):
                    if event.kind == "lost":
                        listener.missed(name)
                    else:
                        listener.heard(name, _value(event.data.encode(), form.url))

    async def _poll(self, name: str, form: Form, remote: Remote, listener: StreamListener) -> None:
        while True:
            data = await self._ask("GET", form.url, remote, None, SILENT_S, {}, BODY_BYTES_MAX)
            if data:  # 204: nothing has happened
                listener.heard(name, _value(data, form.url))

    async def _ask(
        self, method: str, url: str, remote: Remote, body: bytes | None, limit_s: float, headers: dict[str, str], most: int
    ) -> bytes:  # fmt: skip
        what, data = f"{method} {url}", bytearray()
        headers = self._headers(remote) | headers
        try:
            async with self._session(url, remote).request(
                method, url, data=body, headers=headers, allow_redirects=False,
                timeout=ClientTimeout(total=limit_s, sock_connect=CONNECT_S),
            ) as answer:  # fmt: skip
                async for chunk in answer.content.iter_any():
                    data += chunk
                    if len(data) > most:
                        raise FailedPrecondition(f"{what} answers with more than {most:,} bytes")
                if not 200 <= answer.status < 300:
                    raise told_error(what, answer.status, bytes(data), answer.headers.get("Retry-After", ""))
                return bytes(data)
        except TimeoutError:
            raise DeadlineExceeded(f"{what} has not answered in {limit_s:.3g} s") from None
        except (ClientError, OSError) as error:
            raise Unavailable(f"{what} cannot be reached: {error}", retry_after=1.0) from None

    def _session(self, url: str, remote: Remote) -> ClientSession:
        """The session for a URL. Raises `FailedPrecondition` for an address that is not allowed: these are not resolved."""
        host = urlsplit(url).hostname or ""
        with suppress(ValueError):
            if is_near(host) and not remote.is_local:
                raise FailedPrecondition(_near(host, host))
        session = self._sessions.get(remote.is_local)
        if session is None:
            connector = TCPConnector(resolver=_Resolver(is_local=remote.is_local), limit=0)
            session = self._sessions[remote.is_local] = ClientSession(
                connector=connector, cookie_jar=DummyCookieJar(), auto_decompress=False, trust_env=False,
                headers={"Accept-Encoding": "identity", "User-Agent": "appbackplane"},
            )  # fmt: skip
        return session

    def _headers(self, remote: Remote) -> dict[str, str]:
        scheme = remote.security.scheme
        if scheme == "nosec":
            return {}
        secret = self._secret(remote.token_file)
        if scheme == "bearer":
            return {"Authorization": f"Bearer {secret}"}
        if scheme == "basic":
            return {"Authorization": f"Basic {base64.b64encode(secret.encode()).decode()}"}
        return {remote.security.name: secret}

    def _secret(self, path: str) -> str:
        """The secret in a file; read again when it changes, so that a renewed one counts at once."""
        try:
            found = os.stat(path)
            seen = found.st_mtime_ns, found.st_ino
            known = self._secrets.get(path)
            if known is None or known[0] != seen:
                secret = Path(path).read_text(encoding="ascii").strip()
                known = self._secrets[path] = seen, secret
        except (OSError, ValueError) as error:
            raise Unavailable(f"its token_file cannot be read: {error}", retry_after=10.0) from None
        return known[1]

    def _run(self) -> None:
        try:
            asyncio.set_event_loop(self._loop)
            self._loop.run_until_complete(self._main())
        finally:
            self._loop.close()

    async def _main(self) -> None:
        await self._stopping.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for session in self._sessions.values():
            await session.close()


class _Resolver(AbstractResolver):
    """Resolves names, without those addresses that are not allowed."""

    def __init__(self, *, is_local: bool) -> None:
        self._resolver, self._is_local = ThreadedResolver(), is_local

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        allowed = [each for each in found if self._is_local or not is_near(each["host"].partition("%")[0])]
        if found and not allowed:
            raise OSError(_near(host, found[0]["host"]))
        return allowed

    async def close(self) -> None:
        await self._resolver.close()


def _near(host: str, address: str) -> str:
    return f"{host} is at {address}, an address of this host or its link: set local = true if that is meant"


def _value(data: bytes, url: str) -> Any:
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):
        raise Unavailable(f"{url} sends what is no JSON") from None
