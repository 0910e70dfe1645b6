"""Authentication: the user of a request, by its token: that of a user, or of a guest link. With Basic it is the password.

Those who guess tokens are slowed down by their address (failed_attempts.py).
"""

from __future__ import annotations

import hashlib
import math
from base64 import b64decode
from collections.abc import Callable, Collection, Mapping
from typing import Final

from aiohttp import hdrs, web

from ...permissions.permission_file import GuestLink
from .failed_attempts import FailedAttempts

#: Hosts that are this one.
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


class AttemptLimit:
    """The limit on failed attempts, for requests of HTTP."""

    def __init__(self, unix_s: Callable[[], float], *, is_proxied: bool = False) -> None:
        """`is_proxied`: another server before the gateway says in `X-Forwarded-For` where a request comes from."""
        self._attempts = FailedAttempts()
        self._unix_s = unix_s
        self._is_proxied = is_proxied

    def check(self, request: web.Request, digest: str = "") -> None:
        """Raise HTTPTooManyRequests if the address has failed too often, unless the secret of this digest was right before."""
        wait_s = self._attempts.wait_s(self._address(request), self._unix_s(), digest)
        if wait_s:
            raise web.HTTPTooManyRequests(
                text="too many failed attempts from your address: try again later",
                headers={hdrs.RETRY_AFTER: str(math.ceil(wait_s))},
            )

    def failed(self, request: web.Request) -> None:
        self._attempts.failed(self._address(request), self._unix_s())

    def was_right(self, digest: str) -> None:
        self._attempts.was_right(digest)

    def _address(self, request: web.Request) -> str:
        remote = str(request.remote)
        if self._is_proxied and remote in _LOCAL:
            # The proxy has added the last one; those before it are the client's own words.
            return request.headers.get("X-Forwarded-For", remote).rpartition(",")[2].strip()
        return remote


class Authentication:
    """The users of a gateway."""

    def __init__(
        self,
        tokens: Mapping[str, str],
        *,
        anonymous: bool,
        link_of: Callable[[str], GuestLink | None] = lambda digest: None,
        origins: Collection[str] = (),
        limit: AttemptLimit | None = None,
        is_basic: bool = False,
    ) -> None:
        """`tokens`: users by the SHA-256 of their tokens, in hexadecimal digits. `anonymous`: whether others are served.
        `link_of`: the guest link whose token has such a digest. `origins`: other sites whose pages are served without a token.
        `limit`: on failed attempts; without one an address has a few in all. `is_basic`: tokens come as passwords, too.
        """
        self._tokens = tokens
        self.is_anonymous = anonymous
        self._link_of = link_of
        self._origins = origins
        self._is_basic = is_basic
        #: How users sign in, by the terms of Thing Descriptions.
        self.scheme = "nosec" if anonymous else "basic" if is_basic else "bearer"
        self.limit = AttemptLimit(lambda: 0.0) if limit is None else limit

    def principal_of(self, request: web.Request) -> str:
        """The user. Raises HTTPUnauthorized, HTTPForbidden or HTTPTooManyRequests."""
        scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        name, is_password = "", self._is_basic and scheme.lower() == "basic"
        if is_password:
            # Browsers send a password that they know with the requests of every site's pages.
            expect_same_site(request, self._origins)
            name, token = name_and_password(token.strip())
        if is_password or scheme.lower() == "bearer":
            digest = digest_of(token.strip())
            self.limit.check(request, digest)
            user = self._user_of(digest)
            if user is not None and name in ("", user):
                self.limit.was_right(digest)
                return user
            self.limit.failed(request)
        elif not scheme and self.is_anonymous:
            expect_local(request, self._origins)
            return "anonymous"
        if self._is_basic:
            raise web.HTTPUnauthorized(
                text="a known user and their token are needed, as the name and the password of Basic",
                headers={hdrs.WWW_AUTHENTICATE: 'Basic realm="things", charset="UTF-8"'},
            )
        raise unauthorized()

    def is_known(self, token: str) -> bool:
        """Whether a token of the settings is this one."""
        return digest_of(token) in self._tokens

    def _user_of(self, digest: str) -> str | None:
        user = self._tokens.get(digest)
        if user is None and (link := self._link_of(digest)) is not None:
            return link.principal
        return user


def name_and_password(credentials: str) -> tuple[str, str]:
    """Those of Basic (RFC 7617); empty if the text has none."""
    try:
        name, _, password = b64decode(credentials, validate=True).decode().partition(":")
    except ValueError:
        return "", ""
    return name, password


def unauthorized() -> web.HTTPUnauthorized:
    """The answer to all who are not known, whatever the reason."""
    return web.HTTPUnauthorized(
        text="a known bearer token is needed: Authorization: Bearer TOKEN",
        headers={hdrs.WWW_AUTHENTICATE: "Bearer"},
    )


def digest_of(secret: str) -> str:
    """The SHA-256 of a token or of a session's id, in hexadecimal digits."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def expect_local(request: web.Request, origins: Collection[str] = ()) -> None:
    """Reject requests across sites in anonymous mode: DNS rebinding by the host, forged requests by their origin."""
    host = request.host
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if name not in _LOCAL:
        raise web.HTTPForbidden(text=f"without a token the gateway is reached as {' or '.join(_LOCAL)} alone")
    expect_same_site(request, origins)


def expect_same_site(request: web.Request, origins: Collection[str] = ()) -> None:
    """Reject what the page of another site has a browser send."""
    origin, site = request.headers.get(hdrs.ORIGIN), request.headers.get("Sec-Fetch-Site", "none")
    if origin in origins:
        return
    if (origin is not None and origin != f"{request.scheme}://{request.host}") or site not in ("none", "same-origin"):
        raise web.HTTPForbidden(text="a page of another site may send nothing here without a token")
