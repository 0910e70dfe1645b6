"""Gateway: the component that serves the things of its system over HTTP."""

from __future__ import annotations

import importlib.util
import ipaddress
import logging
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from appbackplane.transport.errors import FailedPrecondition

from ...objects.component import Component
from ...objects.operation import operation
from ...permissions.audit import AuditLog
from ...permissions.table import is_reserved
from ..directory.registration_file import RegistrationFile, registration_path
from ..nodes.consumed_node import ConsumedNode
from .openid_settings import openid_settings

if TYPE_CHECKING:
    from aiohttp.web import AbstractRouteDef

    from appbackplane.transport.async_client import AsyncClient

try:
    from .access import Access
    from .authentication import AttemptLimit, Authentication
    from .cross_origin import checked_origins
    from .server import Server, ServerThread
    from .tls import loaded, self_signed
except ModuleNotFoundError as error:
    if error.name not in ("aiohttp", "jsonpath"):
        raise
    raise ModuleNotFoundError(
        f"the gateway needs {error.name}: pip install 'appbackplane[web]'", name=error.name
    ) from error

if TYPE_CHECKING:
    from .openid import OpenIdSignIn

#: Seconds that requests under way have when the gateway stops, and that the end of its thread is waited for.
CLOSE_S, STOP_S = 1.0, 3.0
log = logging.getLogger(__name__)


class Gateway(Component):
    """Give it a backplane of its own: `[backplane.web] components = ["appbackplane.runtime.things.web:Gateway"]`.

    listen: HOST:PORT; port 0: a free one (`gateway.address` tells which). The host is a loopback address, unless there is TLS.
    certificate, key: files in PEM for TLS; without `key` the first holds both. tls: "self-signed" makes one, and keeps it
    with its key in the file `certificate`, by default beside the system's log folder. insecure: serve other hosts without
    TLS. base: the address under which clients reach the gateway, such as that of a proxy. announce: tell the local network of
    the directory at `base`, by DNS-SD. origins: sites whose pages may use the gateway, such as "https://app.example".
    tokens: name of each user to the SHA-256 of their bearer token, in hexadecimal digits. anonymous: serve requests without a
    token, with the principal "anonymous". A request with an unknown token gets 401, and so does one without a token otherwise.
    openid: the provider that signs users in (openid_settings.py). basic: tokens are accepted as passwords, too.
    nodes: the other nodes whose things are served, too.
    """

    def __init__(
        self,
        listen: str = "127.0.0.1:8080",
        tokens: Mapping[str, str] | None = None,
        anonymous: bool = False,
        base: str = "",
        announce: bool = False,
        certificate: str = "",
        key: str = "",
        tls: str = "",
        insecure: bool = False,
        origins: Sequence[str] = (),
        openid: Mapping[str, Any] | None = None,
        basic: bool = False,
        nodes: Sequence[str] = (),
    ) -> None:
        if base and not (base.startswith(("http://", "https://")) and base.endswith("/")):
            raise ValueError(f"base = {base!r}: expected an address with a slash at its end: https://things.example/")
        self._base = base
        self._announce = announce
        if announce:
            _expect_announceable(base)
        self._listen = listen
        self._host_name, self._port = _split(listen)
        if tls not in ("", "self-signed"):
            raise ValueError(f'tls = {tls!r}: expected "self-signed", or a `certificate` and its `key` instead')
        if key and (tls or not certificate):
            raise ValueError(f"key = {key!r}: it belongs to a given `certificate`, and stands beside it")
        self._is_self_signed, self._certificate = bool(tls), certificate
        self._tls = loaded(certificate, key or certificate) if certificate and not tls else None
        _check_reach(
            listen,
            self._host_name,
            self._port,
            has_tls=bool(tls or certificate),
            is_insecure=insecure,
            is_anonymous=anonymous,
        )
        if basic and anonymous:
            raise ValueError("basic = true: with anonymous = true no user signs in: leave one of them out")
        self._is_basic = basic
        self._origins = checked_origins(origins)
        self._tokens = _by_digest(tokens or {})
        self._anonymous = anonymous
        self._nodes = _names(nodes)
        self._openid = None if openid is None else openid_settings(openid, os.environ)
        self._socket: socket.socket | None = None
        self._thread: ServerThread | None = None

    def routes(self, client: AsyncClient) -> Iterable[AbstractRouteDef]:
        """Override it to serve further paths, whose handlers call operations by `client`.

        Users are authenticated before, and a `BackplaneError` of a handler becomes a problem, as on the paths of things.
        Handlers decide themselves which users they serve: permissions are about things.
        """
        return ()

    def on_primary(self) -> None:
        """Listen. Raises OSError if the address is in use, `FailedPrecondition` if registrations cannot be kept, and ValueError
        if there can be no self-signed certificate.
        """
        platform = self._platform
        if self._is_self_signed:
            log_folder = (Path(platform.run_dir) / "log").resolve()
            file = Path(self._certificate or log_folder.with_name(f"{log_folder.name}.gateway.pem"))
            self._tls = self_signed(file)
            log.info("self-signed certificate: %s", file)
        family = socket.AF_INET6 if ":" in self._host_name else socket.AF_INET
        try:
            listening = socket.create_server((self._host_name, self._port), family=family)
        except OSError as error:
            raise OSError(
                error.errno, f"listen = {self._listen!r}: {error.strerror}: give the gateway another port"
            ) from None
        self._socket = listening
        try:
            registrations = RegistrationFile(registration_path(platform.run_dir, self.component_name))
        except FailedPrecondition:
            self._stop(STOP_S)
            raise
        announcement = None
        if self._announce:
            from .announcement import Announcement, instance_of  # zeroconf takes 0.1 s to import, and few need it

            announcement = Announcement(self._base, instance_of(Path(platform.run_dir).name, socket.gethostname()))
        if self._tls is not None:
            log.info("%s: the certificate's SHA-256 fingerprint is %s", self.address(), self._tls.fingerprint)
        access = Access(
            platform.permissions, lambda: platform.unix_ns() / 1e9, {name: ConsumedNode(name) for name in self._nodes}
        )
        limit = AttemptLimit(lambda: platform.unix_ns() / 1e9, is_proxied=bool(self._base))
        own = urlsplit(self._base)
        authentication = Authentication(
            self._tokens, anonymous=self._anonymous, link_of=access.link_of, limit=limit, is_basic=self._is_basic,
            origins=(*self._origins, f"{own.scheme}://{own.netloc}") if self._base else self._origins,
        )  # fmt: skip
        server = Server(
            platform.run_dir, authentication, access, registrations, platform.unix_ns, base=self._base,
            tls=None if self._tls is None else self._tls.context, origins=self._origins, routes=self.routes,
            announcement=announcement, sign_in=self._sign_in(authentication, access),
        )  # fmt: skip
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
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://[{host}]:{port}/" if ":" in host else f"{scheme}://{host}:{port}/"

    @operation(priority=2, idempotent=True)
    def fingerprint(self) -> str:
        """The SHA-256 fingerprint of the certificate, "AB:CD:…"; empty without TLS."""
        return "" if self._tls is None else self._tls.fingerprint


def _expect_announceable(base: str) -> None:
    if not urlsplit(base).hostname:
        raise ValueError('announce = true needs the address that other hosts reach: base = "https://things.example/"')
    if importlib.util.find_spec("zeroconf") is None:
        raise ValueError("announce = true needs zeroconf: pip install 'appbackplane[web]'")


def _split(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"listen = {listen!r}: expected HOST:PORT, such as 127.0.0.1:8080")
    return ("127.0.0.1" if host == "localhost" else host), int(port)


def _check_reach(listen: str, host: str, port: int, *, has_tls: bool, is_insecure: bool, is_anonymous: bool) -> None:
    """Raises `ValueError` if the gateway would be reached from further away than is safe."""
    try:
        is_loopback, is_address = ipaddress.ip_address(host).is_loopback, True
    except ValueError:
        is_loopback = is_address = False
    if not is_loopback and not has_tls and not is_insecure:
        raise ValueError(
            f"listen = {listen!r}: without TLS the gateway listens on a loopback address alone: use 127.0.0.1:{port}, or"
            ' give it a `certificate` and its `key`, or tls = "self-signed"'
        )
    if not is_address:
        raise ValueError(f"listen = {listen!r}: expected an IP address: 0.0.0.0 or [::] for all of this host")
    if is_anonymous and not is_loopback:
        raise ValueError(
            f"listen = {listen!r}: anonymous = true would serve whoever reaches this host: give each user a token"
        )


def _names(nodes: Sequence[str]) -> tuple[str, ...]:
    if isinstance(nodes, str) or not all(isinstance(each, str) and each for each in nodes):
        raise ValueError(f'nodes = {nodes!r}: expected a list of the names of nodes: ["berlin"]')
    return tuple(dict.fromkeys(nodes))


def _by_digest(tokens: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for user, digest in tokens.items():
        if not user or not user.isprintable() or is_reserved(user):
            raise ValueError(f"tokens: {user!r} is no name of a user: groups, links and others have such names")
        if not isinstance(digest, str) or len(digest) != 64 or set(digest.lower()) - set("0123456789abcdef"):
            raise ValueError(
                f"tokens.{user}: expected the SHA-256 of the token, 64 hexadecimal digits: printf %s TOKEN | sha256sum"
            )
        if digest.lower() in found:
            raise ValueError(f"tokens.{user}: {found[digest.lower()]} has the same token")
        found[digest.lower()] = user
    return found
