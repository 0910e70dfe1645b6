"""Authentication: the user of a request, by its bearer token: that of a user, or of a guest link."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from typing import Final

from aiohttp import hdrs, web

from ...permissions.permission_file import GuestLink

#: Hosts that are this one.
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


class Authentication:
    """The users of a gateway."""

    def __init__(
        self,
        tokens: Mapping[str, str],
        *,
        anonymous: bool,
        link_of: Callable[[str], GuestLink | None] = lambda digest: None,
        origins: Collection[str] = (),
    ) -> None:
        """`tokens`: users by the SHA-256 of their tokens, in hexadecimal digits. `anonymous`: whether others are served.
        `link_of`: the guest link whose token has such a digest. `origins`: other sites whose pages are served without a token.
        """
        self._tokens = tokens
        self.is_anonymous = anonymous
        self._link_of = link_of
        self._origins = origins

    def principal_of(self, request: web.Request) -> str:
        """The user. Raises HTTPUnauthorized or HTTPForbidden."""
        scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        if scheme.lower() == "bearer":
            digest = hashlib.sha256(token.strip().encode("utf-8", "surrogateescape")).hexdigest()
            user = self._tokens.get(digest)
            if user is not None:
                return user
            link = self._link_of(digest)
            if link is not None:
                return link.principal
        elif not scheme and self.is_anonymous:
            expect_local(request, self._origins)
            return "anonymous"
        raise web.HTTPUnauthorized(
            text="a known bearer token is needed: Authorization: Bearer TOKEN",
            headers={hdrs.WWW_AUTHENTICATE: "Bearer"},
        )


def expect_local(request: web.Request, origins: Collection[str] = ()) -> None:
    """Reject requests across sites in anonymous mode: DNS rebinding by the host, forged requests by their origin."""
    host = request.host
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if name not in _LOCAL:
        raise web.HTTPForbidden(text=f"without a token the gateway is reached as {' or '.join(_LOCAL)} alone")
    origin, site = request.headers.get(hdrs.ORIGIN), request.headers.get("Sec-Fetch-Site", "none")
    if origin in origins:
        return
    if (origin is not None and origin != f"{request.scheme}://{host}") or site not in ("none", "same-origin"):
        raise web.HTTPForbidden(text="a page of another site may send nothing here without a token")
