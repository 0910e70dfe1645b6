"""HTTP client: requests to things elsewhere, and their streams.

Nothing is followed: no redirect, no proxy of the environment, no cookie. Addresses of this host and its link are refused where
the connection is made, after the name was resolved, so that a name cannot be pointed there later. Every body is bounded.
"""

from __future__ import annotations

import base64
import os
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult

from appbackplane.transport.errors import DeadlineExceeded, FailedPrecondition, Unavailable

from .consumed_description import Form, Security, is_near
from .consumer_thread import MISSED
from .http_errors import RETRY_AFTER_S, told_error
from .stream_parser import StreamParser

#: Bytes of an answer: as much as a gateway takes (web/server.py), and of a description four times as much.
BODY_BYTES_MAX: Final = 1 << 20
DESCRIPTION_BYTES_MAX: Final = 4 << 20
#: Seconds for a connection.
CONNECT_S: Final = 5.0
#: Seconds that a description may take.
DESCRIPTION_S: Final = 4.0
#: Seconds of silence after which a stream is opened anew: gateways of this project send a comment every 30.
SILENT_S: Final = 120.0


class Remote(msgspec.Struct, frozen=True):
    """How one thing is reached. `token_file`: with its secret. `is_local`: it may be on this host or its link."""

    security: Security
    token_file: str = ""
    is_local: bool = False


class HttpClient:
    """Two sessions, one that reaches addresses of this host and one that does not. Used by one event loop."""

    def __init__(self) -> None:
        self._sessions: dict[bool, ClientSession] = {}
        self._secrets: dict[str, tuple[tuple[int, int], str]] = {}

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()

    async def describe(self, url: str, remote: Remote) -> bytes:
        """The document at a URL. Raises `BackplaneError`."""
        headers = {"Accept": "application/td+json, application/json"}
        return await self.ask("GET", url, remote, None, DESCRIPTION_S, headers, DESCRIPTION_BYTES_MAX)

    async def ask(
        self, method: str, url: str, remote: Remote, body: bytes | None, limit_s: float,
        headers: dict[str, str], bytes_max: int = BODY_BYTES_MAX,
    ) -> bytes:  # fmt: skip
        """The body of the answer to a request. `limit_s`: seconds for all of it. Raises `BackplaneError`."""
        what, data = f"{method} {url}", bytearray()
        try:
            async with self.session(url, remote).request(
                method, url, data=body, headers=self.headers(remote) | headers, allow_redirects=False,
                timeout=ClientTimeout(total=limit_s, sock_connect=CONNECT_S),
            ) as answer:  # fmt: skip
                async for chunk in answer.content.iter_any():
                    data += chunk
                    if len(data) > bytes_max:
                        raise FailedPrecondition(f"{what} answers with more than {bytes_max:,} bytes")
                if not 200 <= answer.status < 300:
                    raise told_error(what, answer.status, bytes(data), answer.headers.get("Retry-After", ""))
                return bytes(data)
        except TimeoutError:
            raise DeadlineExceeded(f"{what} has not answered in {limit_s:.3g} s") from None
        except (ClientError, OSError) as error:
            raise Unavailable(f"{what} cannot be reached: {error}", retry_after=RETRY_AFTER_S) from None

    def session(self, url: str, remote: Remote) -> ClientSession:
        """The session for a URL. Raises `FailedPrecondition` for a literal address that is not allowed: it is not resolved."""
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

    def headers(self, remote: Remote) -> dict[str, str]:
        """Those that authenticate a request. Raises `Unavailable` if the secret cannot be read."""
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
            raise Unavailable(f"its token_file cannot be read: {error}", retry_after=RETRY_AFTER_S) from None
        return known[1]


class HttpBinding:
    """Passes the requests of one thing on, as JSON."""

    def __init__(self, client: HttpClient, remote: Remote) -> None:
        self._client, self._remote = client, remote
        #: By URL of a stream: the next connection to it goes on behind the last id.
        self._parsers: dict[str, StreamParser] = {}

    async def request(self, form: Form, body: Any, limit_s: float) -> Any:
        """As of `ProtocolBinding`. An action without arguments has no body."""
        data, headers = None, {}
        if form.op == "writeproperty" or body is not None:
            data, headers = msgspec.json.encode(body), {"Content-Type": "application/json"}
        found = await self._client.ask(form.method, form.url, self._remote, data, limit_s, headers)
        return _value(found, form) if found else None

    async def messages(self, form: Form) -> AsyncIterator[Any]:
        """As of `ProtocolBinding`: by server-sent events, or by long polling."""
        if form.subprotocol != "sse":
            while True:
                data = await self._client.ask("GET", form.url, self._remote, None, SILENT_S, {})
                if data:  # 204: nothing has happened
                    yield _value(data, form)
        parser = self._parsers.setdefault(form.url, StreamParser())
        parser.restart()
        headers = self._client.headers(self._remote) | {"Accept": "text/event-stream"}
        if parser.last_id:
            headers["Last-Event-ID"] = parser.last_id
        timeout = ClientTimeout(sock_connect=CONNECT_S, sock_read=SILENT_S)
        async with self._client.session(form.url, self._remote).get(
            form.url, headers=headers, timeout=timeout, allow_redirects=False
        ) as answer:
            if answer.status != 200:
                raise told_error(f"GET {form.url}", answer.status, b"", answer.headers.get("Retry-After", ""))
            async for chunk in answer.content.iter_any():
                for event in parser.feed(chunk):
                    yield MISSED if event.kind == "lost" else _value(event.data.encode(), form)


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


def _value(data: bytes, form: Form) -> Any:
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):
        raise Unavailable(f"{form.url} answers with what is no JSON", retry_after=RETRY_AFTER_S) from None
