"""Thing streams: all properties, or all events, of one thing as one stream of server-sent events.

The permission is checked for each message. Ids of messages are times, not numbers: a gap in numbers would tell a user how much
happens at affordances that are hidden from them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from aiohttp import hdrs, web

from appbackplane.transport.errors import NotFound

from ..catalogue import CatalogueEntry
from .history import event_id
from .live_feed import ThingFeed
from .mirror import Mirror, pause
from .streams import COMMENT_S, REVOKE_S, WRITE_BYTES_MAX, lost_event, send


@dataclass(slots=True, eq=False)
class ThingStream:
    """A connection. `names`: the affordances that its user may observe. `version`: that of the permissions by then."""

    principal: str
    entry: CatalogueEntry
    kind: str
    feed: ThingFeed
    names: frozenset[str] = frozenset()
    version: int = -1


class ThingStreams:
    """The subscribers of whole things."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._open: set[ThingStream] = set()

    async def open(self, request: web.Request) -> web.StreamResponse:
        """Raises `NotFound` if the user may observe nothing of this kind."""
        principal, kind = request["principal"], request.match_info["kind"]
        entry = await self._mirror.thing(request.match_info["id"], principal, "observe")
        stream = ThingStream(principal, entry, kind, self._mirror.thing_feed(entry.id, kind))
        self._look(stream)
        if not stream.names:
            self._mirror.access.refused(principal, entry.id, "observe", "")
            raise NotFound(f"{entry.id} has no {kind} to observe")
        feed, opening = stream.feed, b": open\n\n"
        place = feed.begin()
        last_id = request.headers.get("Last-Event-ID")
        if last_id is not None:
            floor = self._mirror.access.floor_of(principal, feed.history)
            place, is_lost = feed.resume(last_id, feed.epoch, floor)
            if is_lost:
                opening += lost_event(None)
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/event-stream", hdrs.CACHE_CONTROL: "no-store"})
        self._open.add(stream)
        try:
            await response.prepare(request)
            if request.method != hdrs.METH_HEAD:
                await send(request, response, opening)
                await self._send_messages(request, response, stream, place)
        finally:
            self._open.discard(stream)
        return response

    async def end_revoked(self, stopping: asyncio.Event) -> None:
        """Have the streams look again when the permissions change, until the task is cancelled."""
        while True:
            for each in [*self._open]:
                if self._is_to_look(each):
                    each.feed.wake()
            await pause(stopping, REVOKE_S)

    async def _send_messages(
        self, request: web.Request, response: web.StreamResponse, stream: ThingStream, place: int
    ) -> None:
        """Until the user may observe nothing, or the thing is gone."""
        feed = stream.feed
        while True:
            part = bytearray()
            if self._is_to_look(stream) and self._look(stream):
                floor = self._mirror.access.floor_of(stream.principal, feed.history)
                if place < floor:  # a slow reader, who may observe by now what they have not read
                    place = floor
                    part += lost_event(None)
            while len(part) < WRITE_BYTES_MAX:
                found, is_gap = feed.after(place)
                if found is None:
                    break
                place = found.number
                if is_gap:
                    part += lost_event(None)
                if found.data is not None and found.about.name in stream.names:
                    id = event_id(feed.epoch, found.about.stamp_us)
                    part += b"event: %s\nid: %s\ndata: %s\n\n" % (found.about.name.encode(), id.encode(), found.data)
            if not stream.names:
                return
            if part:
                await send(request, response, bytes(part))
            elif feed.is_closed:
                return
            else:
                try:
                    async with asyncio.timeout(COMMENT_S):
                        await feed.wait()
                except TimeoutError:
                    await send(request, response, b":\n\n")

    def _is_to_look(self, stream: ThingStream) -> bool:
        """Whether the permissions have changed, or one that the user had has expired."""
        access = self._mirror.access
        if not access.is_limited:
            return False
        return access.version != stream.version or not all(
            access.permits(stream.principal, stream.entry, "observe", name) for name in stream.names
        )

    def _look(self, stream: ThingStream) -> bool:
        """Look at what the user may observe; whether there is more than before."""
        access, before = self._mirror.access, stream.names
        stream.version = access.version
        stream.names = frozenset(
            name
            for name, said in stream.entry.model.get(stream.kind, {}).items()
            if (stream.kind == "events" or said.get("observable"))
            and access.permits(stream.principal, stream.entry, "observe", name)
        )
        return not stream.names <= before
