"""Gateway: the component that serves the things of its system over HTTP."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...objects.component import Component
from ...objects.operation import operation
from ...permissions.audit import AuditLog
from .openid_settings import openid_settings

try:
    from .access import Access
    from .authentication import AttemptLimit, Authentication
    from .server import Server, ServerThread
except ModuleNotFoundError as error:
    if error.name != "aiohttp":
        raise
    raise ModuleNotFoundError("the gateway needs aiohttp: pip install 'appbackplane[web]'", name="aiohttp") from error

if TYPE_CHECKING:
    from .openid import OpenIdSignIn

#: Seconds that requests under way have when the gateway stops, and that the end of its thread is waited for.
CLOSE_S, STOP_S = 1.0, 3.0


class Gateway(Component):
    """Give it a backplane of its own: `[backplane.web] components = ["appbackplane.runtime.things.web:Gateway"]`.

    listen: HOST:PORT; port 0: a free one (`gateway.address` tells which). The gateway has no TLS, so the host is a loopback
    address. base: the address under which clients reach it, such as that of a server with TLS before it.
    tokens: name of each user to the SHA-256 of their bearer token, in hexadecimal digits. anonymous: serve requests without a
    token, with the principal "anonymous". A request with an unknown token gets 401, and so does one without a token otherwise.
    openid: the provider that signs users in (openid_settings.py).
    """

    def __init__(
        self,
        listen: str = "127.0.0.1:8080",
        tokens: Mapping[str, str] | None = None,
        anonymous: bool = False,
        base: str = "",
        openid: Mapping[str, Any] | None = None,
    ) -> None:
        if base and not (base.startswith(("http://", "https://")) and base.endswith("/")):
            raise ValueError(f"base = {base!r}: expected an address with a slash at its end: https://things.example/")
        self._base = base
        self._listen = listen
        self._host_name, self._port = _loopback(listen)
        self._tokens = _by_digest(tokens or {})
        self._anonymous = anonymous
        self._openid = None if openid is None else openid_settings(openid, os.environ)
        self._socket: socket.socket | None = None
        self._thread: ServerThread | None = None

    def on_primary(self) -> None:
        """Listen. Raises OSError if the address is in use."""
        family = socket.AF_INET6 if ":" in self._host_name else socket.AF_INET
        try:
            listening = socket.create_server((self._host_name, self._port), family=family)
        except OSError as error:
            raise OSError(
                error.errno, f"listen = {self._listen!r}: {error.strerror}: give the gateway another port"
            ) from None
        self._socket = listening
        platform = self._platform
        access = Access(platform.permissions, lambda: platform.unix_ns() / 1e9)
        limit = AttemptLimit(lambda: platform.unix_ns() / 1e9, is_proxied=bool(self._base))
        authentication = Authentication(self._tokens, anonymous=self._anonymous, link_of=access.link_of, limit=limit)
        sign_in = self._sign_in(authentication, access)
        server = Server(platform.run_dir, authentication, access, base=self._base, sign_in=sign_in)
        self._thread = ServerThread(server, listening, f"{self.name}.http", CLOSE_S)
        self._thread.start()

    def _sign_in(self, authentication: Authentication, access: Access) -> OpenIdSignIn | None:
        if self._openid is None:
            return None
        try:
            from .openid import OpenIdSignIn  # 50 ms, only where users sign in
        except ModuleNotFoundError as error:
            if error.name != "jwt":
                raise
            raise ModuleNotFoundError("openid needs PyJWT: pip install 'appbackplane[web]'", name="jwt") from error
        platform, (settings, secret) = self._platform, self._openid
        audit = None if platform.permissions is None else AuditLog(platform.permissions.audit)
        return OpenIdSignIn(
            settings, secret, authentication, access, lambda: platform.unix_ns() / 1e9, base=self._base, name=self.name,
            audit=audit,
        )  # fmt: skip

    def on_secondary(self) -> None:
        """Stop listening: another replica serves."""
        self._stop(STOP_S)

    def on_down(self) -> None:
        """Stop listening, and end the requests under way."""
        self._stop(STOP_S)

    def _ends(self, limit_s: float) -> None:
        self._stop(limit_s)

    def _stop(self, limit_s: float) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop(limit_s)
        listening, self._socket = self._socket, None
        if listening is not None:
            listening.close()

    @operation(priority=2, idempotent=True)
    def address(self) -> str:
        """The base URL on this host, "http://127.0.0.1:8080/"; empty while it is not listening."""
        if self._socket is None:
            return ""
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _loopback(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"listen = {listen!r}: expected HOST:PORT, such as 127.0.0.1:8080")
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if not is_loopback:
        raise ValueError(
            f"listen = {listen!r}: without TLS the gateway listens on a loopback address alone: use 127.0.0.1:{port}, and put a"
            " server with a certificate before it"
        )
    return ("127.0.0.1" if host == "localhost" else host), int(port)


def _by_digest(tokens: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for user, digest in tokens.items():
        if not isinstance(digest, str) or len(digest) != 64 or set(digest.lower()) - set("0123456789abcdef"):
            raise ValueError(
                f"tokens.{user}: expected the SHA-256 of the token, 64 hexadecimal digits: printf %s TOKEN | sha256sum"
            )
        if digest.lower() in found:
            raise ValueError(f"tokens.{user}: {found[digest.lower()]} has the same token")
        found[digest.lower()] = user
    return found
