"""Live: one stream of server-sent events with the messages of all things that its user may observe, for a page.

The permission is checked for each message. Slow readers have a place in a shared feed, and no queue. `event: things` says that
the user should list the things anew, `event: lost` that values may have changed unseen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiohttp import hdrs, web

from appbackplane.transport.errors import PermissionDenied

from ..catalogue import CatalogueEntry
from .access import KINDS_OF
from .history import HistoryEntry, event_id
from .live_feed import LiveFeed
from .mirror import Mirror, pause
from .streams import COMMENT_S, REVOKE_S, WRITE_BYTES_MAX, lost_event, send

_THINGS: Final = b"event: things\ndata: null\n\n"


@dataclass(slots=True, eq=False)
class LiveStream:
    """A connection. `known`: a thing that the user knows of; None: there is none. `view`: a digest of all that they may use."""

    principal: str
    known: CatalogueEntry | None = None
    view: int = 0
    is_to_look: bool = False
    is_revoked: bool = False


class Live:
    """The connections of all pages."""

    def __init__(self, mirror: Mirror, epoch: str) -> None:
        """`epoch` names the gateway's process in ids of messages."""
        self._mirror = mirror
        self._feed: LiveFeed = mirror.feed
        self._epoch = epoch
        self._open: set[LiveStream] = set()

    async def open(self, request: web.Request) -> web.StreamResponse:
        """Raises `PermissionDenied` if the user may use nothing."""
        await self._mirror.refresh(is_thorough=False)
        stream = LiveStream(request["principal"])
        self._look(stream)
        if stream.is_revoked:
            raise PermissionDenied(f"nothing is shared with {stream.principal}")
        place, opening = self._feed.begin(), b": open\n\n"
        last_id = request.headers.get("Last-Event-ID")
        if last_id is not None:
            floor = self._mirror.access.floor_of(stream.principal, self._feed.history)
            place, is_lost = self._feed.resume(last_id, self._epoch, floor)
            if is_lost:
                opening += lost_event(None)
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/event-stream", hdrs.CACHE_CONTROL: "no-store"})
        self._open.add(stream)  # since the look at what the user may use nothing was awaited, so no change is missed
        try:
            await response.prepare(request)
            if request.method != hdrs.METH_HEAD:
                await send(request, response, opening)
                await self._send_messages(request, response, stream, place)
        finally:
            self._open.discard(stream)
        return response

    async def run(self, stopping: asyncio.Event) -> None:
        """Have the streams look again when the things or the permissions change, until the task is cancelled."""
        seen: tuple[object, int] = (None, 0)
        while True:
            if self._open:
                access, things = self._mirror.access, self._mirror.catalogue.things
                now = (_places(things), access.version)
                for each in self._open:
                    if now != seen or (each.known is not None and not access.permits(each.principal, each.known)):
                        each.is_to_look = True
                if any(each.is_to_look for each in self._open):
                    self._feed.wake()
                seen = now
            await pause(stopping, REVOKE_S)

    async def _send_messages(
        self, request: web.Request, response: web.StreamResponse, stream: LiveStream, place: int
    ) -> None:
        """Until the user may use nothing, or the gateway ends."""
        while True:
            part = bytearray()
            if stream.is_to_look and self._look(stream):
                part += _THINGS
                floor = self._mirror.access.floor_of(stream.principal, self._feed.history)
                if place < floor:  # a slow reader, who may observe by now what they have not read
                    place = floor
                    part += lost_event(None)
            while len(part) < WRITE_BYTES_MAX and not stream.is_revoked:
                found, is_gap = self._feed.after(place)
                if found is None:
                    break
                place = found.number
                if is_gap:
                    part += lost_event(None)
                if found.data is not None and self._may_observe(stream.principal, found):
                    part += b"id: %s\ndata: %s\n\n" % (
                        event_id(self._epoch, found.about.stamp_us).encode(),
                        found.data,
                    )
            if stream.is_revoked:
                return
            if part:
                await send(request, response, bytes(part))
            elif self._feed.is_closed:
                return
            else:
                try:
                    async with asyncio.timeout(COMMENT_S):
                        await self._feed.wait()
                except TimeoutError:
                    await send(request, response, b":\n\n")

    def _may_observe(self, principal: str, message: HistoryEntry) -> bool:
        _, thing, group, name = message.about
        entry = self._mirror.catalogue.things.get(thing)
        if entry is None or name not in entry.model.get(group, {}):
            return False
        return self._mirror.access.permits(principal, entry, "observe", name)

    def _look(self, stream: LiveStream) -> bool:
        """Look at what the user of a stream may use; whether that has changed."""
        stream.is_to_look = False
        access, principal = self._mirror.access, stream.principal
        known = [each for each in self._mirror.catalogue.things.values() if access.permits(principal, each)]
        stream.known = known[0] if known else None
        stream.is_revoked = access.is_limited and not known and not access.is_operator(principal)
        before = stream.view
        stream.view = hash(tuple((each.id, each.process, self._uses(principal, each)) for each in known))
        return stream.view != before

    def _uses(self, principal: str, entry: CatalogueEntry) -> tuple[tuple[str, str], ...]:
        """What a user may do with a thing."""
        access = self._mirror.access
        if not access.is_limited:
            return ()
        return tuple(
            (kind, name)
            for group, kinds in KINDS_OF.items()
            for name in entry.model.get(group, {})
            for kind in kinds
            if access.permits(principal, entry, kind, name)
        )


def _places(things: Mapping[str, CatalogueEntry]) -> list[tuple[str, str]]:
    return [(each.id, each.process) for each in things.values()]
