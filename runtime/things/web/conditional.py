"""Conditional requests: entity tags and the preconditions of a request (RFC 9110, section 13)."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Final

from aiohttp import hdrs, web

#: Marks the tag of an answer that is compressed: its bytes differ, and a strong tag stands for bytes (RFC 9110, 8.8.3).
GZIP_MARK: Final = "-gzip"
#: Representations whose tags are kept, and the bytes of the largest: at most 2 MiB.
KNOWN_MAX: Final = 4_096
KNOWN_BYTES_MAX: Final = 256


def etag_of(data: bytes) -> str:
    """The strong entity tag of a representation."""
    return f'"{blake2b(data, digest_size=9).hexdigest()}"'


#: The same, of values that are read again and again.
known_etag_of = lru_cache(KNOWN_MAX)(etag_of)


def etag_of_gzip(etag: str) -> str:
    """The tag of the same representation when it is compressed."""
    return f'{etag[:-1]}{GZIP_MARK}"'


def tagged(
    request: web.Request, body: bytes, content_type: str, cache_control: str, etag: str | None = None
) -> web.Response:
    """The answer with this body and its tag; 304 without a body if the client has it already."""
    if etag is None:
        etag = etag_of(body) if len(body) > KNOWN_BYTES_MAX else known_etag_of(body)
    headers = {hdrs.ETAG: etag, hdrs.CACHE_CONTROL: cache_control}
    if_none_match = request.headers.get(hdrs.IF_NONE_MATCH)
    if if_none_match is not None and is_unchanged(if_none_match, etag):
        return web.Response(status=304, headers=headers)
    headers[hdrs.CONTENT_TYPE] = content_type
    return web.Response(body=body, headers=headers)


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
