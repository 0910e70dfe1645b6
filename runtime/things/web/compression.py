"""Compression: answers with a whole body, with gzip, where the client accepts it. Streams are sent as they come.

A large body is compressed in a thread, so that other requests do not wait for it.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import Final

from aiohttp import hdrs, web

from .conditional import etag_of_gzip

#: Bytes above which an answer is compressed: a smaller one fits into one packet either way.
COMPRESS_BYTES_MIN: Final = 1 << 10
#: Bytes above which a thread does it: 64 KiB take 1 ms, in which no other request is served.
THREAD_BYTES_MIN: Final = 64 << 10
#: zlib's fastest level: 3.6 MB of descriptions took 50 ms and became 168 KB; the default took 117 ms for 141 KB.
LEVEL: Final = 1
#: For zlib: the format of gzip, with its largest window.
_GZIP: Final = 31


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether a client accepts gzip (RFC 9110, section 12.5.3)."""
    accepted = False
    for member in accept_encoding.lower().split(","):
        coding, *parameters = (part.strip() for part in member.split(";"))
        if coding in ("gzip", "x-gzip", "*"):
            is_refused = any(each.replace(" ", "").rstrip("0") in ("q=", "q=0.") for each in parameters)
            if coding != "*":
                return not is_refused
            accepted = not is_refused
    return accepted


async def compress(request: web.Request, response: web.StreamResponse) -> None:
    """Compress the body of an answer that is large enough."""
    body = response.body if isinstance(response, web.Response) else None
    if not isinstance(body, bytes) or len(body) <= COMPRESS_BYTES_MIN or hdrs.CONTENT_ENCODING in response.headers:
        return
    response.headers.add(hdrs.VARY, hdrs.ACCEPT_ENCODING)
    if not accepts_gzip(request.headers.get(hdrs.ACCEPT_ENCODING, "")):
        return
    assert isinstance(response, web.Response)
    response.body = await asyncio.to_thread(_gzip, body) if len(body) > THREAD_BYTES_MIN else _gzip(body)
    response.headers[hdrs.CONTENT_ENCODING] = "gzip"
    etag = response.headers.get(hdrs.ETAG)
    if etag is not None:
        response.headers[hdrs.ETAG] = etag_of_gzip(etag)


def _gzip(body: bytes) -> bytes:
    return zlib.compress(body, LEVEL, _GZIP)
