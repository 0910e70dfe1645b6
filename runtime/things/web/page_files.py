"""Page files: those of the web page, which shows the things of the system to people (page/index.html).

They hold nothing of the system, so they are served to everybody. The page asks the gateway as every client does.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import Final, NamedTuple

from aiohttp import hdrs, web

_TYPES: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
#: Path of the files, but for the page itself, which is at "/".
FOLDER: Final = "/page/"
#: The page loads its own files and asks its own gateway, and nothing else: no script can come in by a name or a value.
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    hdrs.CACHE_CONTROL: "no-cache",
}


class PageFile(NamedTuple):
    """One file. `version`: its ETag."""

    body: bytes
    content_type: str
    version: str


class Page:
    """The files, read once."""

    def __init__(self) -> None:
        self._files: dict[str, PageFile] = {}
        for each in resources.files(__package__).joinpath("page").iterdir():
            kind = _TYPES.get(each.name.rpartition(".")[2])
            if kind is not None:
                body = each.read_bytes()
                self._files[each.name] = PageFile(body, kind, hashlib.sha256(body).hexdigest()[:16])

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/", self.answer), web.get(FOLDER + "{file}", self.answer)]

    async def answer(self, request: web.Request) -> web.Response:
        found = self._files.get(request.match_info.get("file", "index.html"))
        if found is None:
            raise web.HTTPNotFound
        headers = HEADERS | {hdrs.ETAG: f'"{found.version}"'}
        if any(each.value == found.version for each in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        return web.Response(body=found.body, content_type=found.content_type, charset="utf-8", headers=headers)


def is_public(path: str) -> bool:
    """Whether a path is one of the page, which is served without a token."""
    return path == "/" or path.startswith(FOLDER)
