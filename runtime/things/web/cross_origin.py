"""Cross-origin requests: which pages of other sites a browser lets read the answers (CORS, Fetch standard). No I/O.

Credentials are tokens in a header, which a page must have itself. So `Access-Control-Allow-Credentials` is never sent.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

#: Seconds for which a browser keeps the answer to a preflight. Chromium allows 7,200; an origin that is removed loses access
#: by then at the latest.
PREFLIGHT_S: Final = 600
METHODS: Final = "GET, HEAD, PUT, POST, PATCH, DELETE"
REQUEST_HEADERS: Final = "Authorization, Content-Type, If-Match, If-None-Match, Last-Event-ID, Prefer, Priority"
ANSWER_HEADERS: Final = "ETag, Link, Location, Lost, Retry-After, WWW-Authenticate"
_ORIGIN: Final = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?")


def checked_origins(origins: Iterable[str]) -> frozenset[str]:
    """The origins of a setting. Raises `ValueError` for one that no browser sends."""
    found = frozenset(origins)
    for each in found:
        if not isinstance(each, str) or not _ORIGIN.fullmatch(each):
            raise ValueError(
                f"origins: {each!r} is no origin: expected SCHEME://HOST:PORT in lower case, without a path, such as"
                " https://app.example; * is not possible"
            )
    return found


def is_preflight(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a browser asks what a page may send."""
    return method == "OPTIONS" and "Origin" in headers and "Access-Control-Request-Method" in headers


def headers_for(origin: str | None, origins: Collection[str], *, preflight: bool) -> dict[str, str]:
    """The headers of an answer to a request of this origin. Without any `origins`: none."""
    if not origins:
        return {}
    headers = {"Vary": "Origin"}  # always, or a cache would give the answer for one origin to another
    if origin not in origins or origin is None:
        return headers
    headers["Access-Control-Allow-Origin"] = origin
    if preflight:
        headers["Access-Control-Allow-Methods"] = METHODS
        headers["Access-Control-Allow-Headers"] = REQUEST_HEADERS
        headers["Access-Control-Max-Age"] = str(PREFLIGHT_S)
    else:
        headers["Access-Control-Expose-Headers"] = ANSWER_HEADERS
    return headers
