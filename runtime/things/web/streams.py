"""Streams: the messages of properties and events, by long polling and as server-sent events."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from aiohttp import hdrs, web

from appbackplane.transport.errors import InvalidArgument, NotFound

from ..catalogue import CatalogueEntry
from .forms import JSON
from .history import History, HistoryEntry, event_id, number_of
from .mirror import Mirror, asked, expect_permitted, pause
from .parsing import wait_s_of

#: Seconds without a message after which a stream sends a comment, so that a connection that is cut is noticed.
COMMENT_S: Final = 30.0
#: Seconds that a write to a subscriber may block before its connection is ended, and bytes of one write, but for one message.
WRITE_S: Final = 30.0
WRITE_BYTES_MAX: Final = 64 << 10
#: Seconds between two looks whether the users of open streams may still observe: half of the second within which a
#: revocation holds. A look costs 0.3 us a stream.
REVOKE_S: Final = 0.5
#: Most places of long-polling subscribers. The least recently used is forgotten, and begins at the newest message.
SUBSCRIBERS_MAX: Final = 100_000
#: Most characters of the id of a queue.
QUEUE_MAX: Final = 64


class Polled(NamedTuple):
    """A message that a poll has found. `lost`: messages missing before it; None: nobody knows how many."""

    entry: HistoryEntry
    lost: int | None


@dataclass(slots=True, eq=False)
class OpenStream:
    """A connection that gets server-sent events, or a poll that waits."""

    principal: str
    entry: CatalogueEntry
    name: str
    history: History
    is_revoked: bool = False


class Streams:
    """The subscribers of all properties and events."""

    def __init__(self, mirror: Mirror, epoch: str) -> None:
        """`epoch` names the gateway's process in ids of messages, so that ids from before a restart are recognised."""
        self._mirror = mirror
        self._epoch = epoch
        #: By user, queue and path: the number of the last message that was answered.
        self._places: OrderedDict[tuple[str, str, str], int] = OrderedDict()
        self._open: set[OpenStream] = set()

    async def open(self, request: web.Request) -> web.StreamResponse:
        kind = request.match_info["kind"]
        entry, name = await asked(self._mirror, request, kind, "observe")
        if kind == "properties" and not entry.model[kind][name].get("observable"):
            raise NotFound(f"property {name!r} is not observable")
        history = self._mirror.history(entry.id, kind, name)
        subscription = OpenStream(request["principal"], entry, name, history)
        subscriber = request.query.get("sub")
        self._open.add(subscription)
        try:
            if subscriber is not None:
                answer = await self._poll(request, subscription, subscriber)
                # The permission may have ended while it waited, or a moment ago.
                expect_permitted(self._mirror.access, subscription.principal, entry, kind, "observe", name)
                return answer
            return await self._send_events(request, subscription)
        finally:
            self._open.discard(subscription)

    async def end_revoked(self, stopping: asyncio.Event) -> None:
        """End the streams whose users may not observe any more, until the task is cancelled."""
        while True:
            self._mirror.look_at_permissions()
            for each in [*self._open]:
                if not each.is_revoked and not self._mirror.access.permits(
                    each.principal, each.entry, "observe", each.name
                ):
                    each.is_revoked = True
                    each.history.wake()
            await pause(stopping, REVOKE_S)

    async def _poll(self, request: web.Request, stream: OpenStream, queue: str) -> web.Response:
        """Long polling: one message an answer, at most once. A HEAD, or the first poll, opens the queue."""
        history = stream.history
        if len(queue) > QUEUE_MAX or not queue.isascii():
            raise InvalidArgument(f"sub: expected at most {QUEUE_MAX} ASCII characters")
        place = request["principal"], queue, request.path
        lost: int | None = 0
        if place not in self._places:
            if queue.partition(".")[0] != self._epoch:
                lost = None  # a queue of a gateway that has ended, or of somebody's own making
            self._places[place] = history.last
        floor = self._mirror.access.floor_of(stream.principal, history)
        if self._places[place] < floor:  # nor does the count of messages from before a permission concern the user
            self._places[place], lost = floor, None
        self._places.move_to_end(place)
        if len(self._places) > SUBSCRIBERS_MAX:
            self._places.popitem(last=False)
        if request.method == hdrs.METH_HEAD:
            return web.Response(content_type=JSON)
        found = await self._next(request, stream, place)
        headers = {"Cache-Control": "no-store"}
        if found is not None:
            headers["ETag"] = f'"{event_id(self._epoch, found.entry.number)}"'
            lost = None if lost is None or found.lost is None else lost + found.lost
        if lost != 0:
            headers["Lost"] = "unknown" if lost is None else str(lost)
        if found is None:
            return web.Response(status=204, headers=headers)
        return web.Response(body=found.entry.data, content_type=JSON, headers=headers)

    async def _next(self, request: web.Request, stream: OpenStream, place: tuple[str, str, str]) -> Polled | None:
        """The next message of a queue; None: there was none in the time that the client waits, or it is revoked."""
        history = stream.history
        lost: int | None = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s_of(request)):
                while not stream.is_revoked:
                    found, missed = history.after(self._places.get(place, history.last))
                    if found is None:
                        if history.is_closed:
                            raise NotFound("the thing is gone")
                        await history.wait()
                        continue
                    self._places[place] = found.number
                    lost = None if lost is None or found.data is None else lost + missed
                    if found.data is not None:
                        return Polled(found, lost)
        return None

    async def _send_events(self, request: web.Request, stream: OpenStream) -> web.StreamResponse:
        """Server-sent events by the name of the affordance. An event `lost`, without an id, carries the number of missed
        messages, or null where nobody knows it.
        """
        history, name = stream.history, stream.name.encode()
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/event-stream", hdrs.CACHE_CONTROL: "no-store"})
        number, opening = history.last, b": open\n\n"
        last_id = request.headers.get("Last-Event-ID")
        if last_id is not None:
            known = number_of(last_id, self._epoch)
            if known is None:
                opening += lost_event(None)
            else:
                number = min(known, history.last)
            floor = self._mirror.access.floor_of(stream.principal, history)
            if number < floor:
                number = floor
                opening += lost_event(None)
        await response.prepare(request)
        if request.method == hdrs.METH_HEAD:
            return response
        await send(request, response, opening)
        while True:
            part = bytearray()
            while len(part) < WRITE_BYTES_MAX and not stream.is_revoked:
                found, lost = history.after(number)
                if found is None:
                    break
                if lost:
                    part += lost_event(lost)
                if found.data is None:
                    part += lost_event(None)
                else:
                    id = event_id(self._epoch, found.number).encode()
                    part += b"event: %s\nid: %s\ndata: %s\n\n" % (name, id, found.data)
                number = found.number
            if part:
                await send(request, response, bytes(part))
            elif history.is_closed or stream.is_revoked:
                return response
            else:
                try:
                    async with asyncio.timeout(COMMENT_S):
                        await history.wait()
                except TimeoutError:
                    await send(request, response, b":\n\n")


def lost_event(count: int | None) -> bytes:
    return b"event: lost\ndata: %s\n\n" % (b"null" if count is None else b"%d" % count)


async def send(request: web.Request, response: web.StreamResponse, data: bytes) -> None:
    """Write to a subscriber. Raises ConnectionError if it reads nothing, and ends its connection."""
    try:
        async with asyncio.timeout(WRITE_S):
            await response.write(data)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()  # to close would wait until all is read
        raise ConnectionResetError("the subscriber reads nothing") from None
