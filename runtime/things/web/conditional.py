"""Conditional requests: entity tags and the preconditions of a request (RFC 9110, section 13)."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from aiohttp import hdrs, web

#: Marks the tag of an answer that is compressed: its bytes differ, and a strong tag stands for bytes (RFC 9110, 8.8.3).
GZIP_MARK: Final = "-gzip"


def etag_of(data: bytes) -> str:
    """The strong entity tag of a representation."""
    return f'"{blake2b(data, digest_size=9).hexdigest()}"'


def etag_of_gzip(etag: str) -> str:
    """The tag of the same representation when it is compressed."""
    return f'{etag[:-1]}{GZIP_MARK}"'


def tagged(
    request: web.Request, body: bytes, content_type: str, cache_control: str, etag: str | None = None
) -> web.Response:
    """The answer with this body and its tag; 304 without a body if the client has it already."""
    etag = etag_of(body) if etag is None else etag
    headers = {hdrs.ETAG: etag, hdrs.CACHE_CONTROL: cache_control}
    if is_unchanged(request.headers.get(hdrs.IF_NONE_MATCH), etag):
        return web.Response(status=304, headers=headers)
    return web.Response(body=body, content_type=content_type, headers=headers)


def is_unchanged(if_none_match: str | None, etag: str) -> bool:
    """Whether the client has this representation already, so that the answer is 304."""
    return if_none_match is not None and _names(if_none_match, etag, is_weak=True)


def is_met(if_match: str | None, etag: str) -> bool:
    """Whether a write may go on; else the answer is 412."""
    return if_match is None or _names(if_match, etag, is_weak=False)


def _names(header: str, etag: str, *, is_weak: bool) -> bool:
    if header.strip() == "*":
        return True
    known = (etag, etag_of_gzip(etag))
    for each in header.split(","):
        tag = each.strip()
        if tag.startswith("W/") and is_weak:
            tag = tag[2:]
        if tag in known:
            return True
    return False
