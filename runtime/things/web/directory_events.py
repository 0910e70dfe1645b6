"""Directory events: `thing_created`, `thing_updated` and `thing_deleted`, as server-sent events (Discovery, section 7.2.3).

One history serves all subscribers, as those of properties do. An event keeps the description before and after it, so that
each subscriber is told what he sees, at the time at which he is told.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from aiohttp import hdrs, web

from appbackplane.transport.errors import InvalidArgument, NotFound

from ..catalogue import CatalogueEntry
from ..description import Description
from ..directory.changes import KINDS, event_of
from ..directory.registered_things import RegisteredThing
from .access import Access
from .history import History, event_id, number_of
from .streams import COMMENT_S, WRITE_BYTES_MAX, lost_event, send


@dataclass(frozen=True, slots=True)
class OwnThing:
    """A thing of this system. Times are Unix ns: when it was first listed, and when its description last changed."""

    entry: CatalogueEntry
    created_ns: int
    modified_ns: int


#: What a description is made of.
Record = OwnThing | RegisteredThing


class RecordedChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change as the history keeps it. Of each pair at most one is given."""

    own_before: OwnThing | None = None
    own_after: OwnThing | None = None
    registered_before: RegisteredThing | None = None
    registered_after: RegisteredThing | None = None


class DirectoryEvents:
    """The subscribers of the directory."""

    def __init__(
        self, epoch: str, description: Callable[[web.Request, Record, str], Description | None], access: Access
    ) -> None:
        """`description`: what the user of a request sees of a record, with a queue for long polling; None: nothing. `epoch`
        names this gateway's process. `access`: the permissions.
        """
        self._access = access
        self._epoch, self._description = epoch, description
        self._history = History()
        self._subscribers = 0
        #: The last message that was decoded, since all subscribers get the same ones.
        self._decoded = 0, RecordedChange()

    @property
    def has_subscribers(self) -> bool:
        """Whether somebody listens."""
        return self._subscribers > 0

    @property
    def last(self) -> int:
        """The number of the last event."""
        return self._history.last

    def look_at_permissions(self) -> None:
        """If they have changed: the events until now are old for all but operators."""
        self._access.floor_of("", self._history)

    def close(self) -> None:
        """End all streams."""
        self._history.close()

    def add(self, before: Record | None, after: Record | None) -> None:
        """Tell of a change."""
        told: dict[str, Record] = {}
        for name, record in (("before", before), ("after", after)):
            if record is not None:
                told[f"{'own' if isinstance(record, OwnThing) else 'registered'}_{name}"] = record
        self._history.add(msgspec.json.encode(told))

    async def open(self, request: web.Request) -> web.StreamResponse:
        """A stream of all events, or of one kind. An event `lost` tells that some are missing, and nobody knows how many."""
        kind = request.match_info.get("kind")
        if kind is not None and kind not in KINDS:
            raise NotFound(f"no event {kind!r}: expected one of {', '.join(KINDS)}")
        diff = request.query.get("diff", "false")
        if diff not in ("true", "false"):
            raise InvalidArgument(f"diff={diff!r}: expected true or false")
        number, opening = self._history.last, b""
        last_id = request.headers.get("Last-Event-ID")
        if last_id is not None:
            known = number_of(last_id, self._epoch)
            if known is None:
                opening = lost_event(None)  # of a gateway that has ended
            else:
                number = min(known, number)
            floor = self._access.floor_of(request["principal"], self._history)
            if number < floor:
                number, opening = floor, lost_event(None)
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/event-stream", hdrs.CACHE_CONTROL: "no-store"})
        await response.prepare(request)
        if request.method != hdrs.METH_HEAD:
            self._subscribers += 1
            try:
                if opening:
                    await send(request, response, opening)
                await self._send_from(request, response, number, kind, is_diff=diff == "true")
            finally:
                self._subscribers -= 1
        return response

    async def _send_from(
        self, request: web.Request, response: web.StreamResponse, number: int, kind: str | None, *, is_diff: bool
    ) -> None:
        """Send what comes after an event, until the server stops."""
        while True:
            part = bytearray()
            while len(part) < WRITE_BYTES_MAX:
                found, lost = self._history.after(number)
                if found is None:
                    break
                if lost:
                    part += lost_event(None)
                number = found.number
                part += self._message(request, number, found.data or b"{}", kind, is_diff=is_diff)
            if part:
                await send(request, response, bytes(part))
            elif self._history.is_closed:
                return
            else:
                try:
                    async with asyncio.timeout(COMMENT_S):
                        await self._history.wait()
                except TimeoutError:
                    await send(request, response, b":\n\n")

    def _message(self, request: web.Request, number: int, data: bytes, kind: str | None, *, is_diff: bool) -> bytes:
        """The event as its subscriber gets it; empty: it is not for him."""
        if self._decoded[0] != number:
            self._decoded = number, msgspec.json.decode(data, type=RecordedChange)
        change = self._decoded[1]
        before, after = change.own_before or change.registered_before, change.own_after or change.registered_after
        queue = f"{self._epoch}.{os.urandom(8).hex()}"  # the same in both, so that it is no change
        told = event_of(
            None if before is None else self._description(request, before, queue),
            None if after is None else self._description(request, after, queue),
            is_diff=is_diff,
        )
        if told is None or kind not in (None, told[0]):
            return b""
        return b"id: %s\nevent: %s\ndata: %s\n\n" % (
            event_id(self._epoch, number).encode(), told[0].encode(), msgspec.json.encode(told[1]),
        )  # fmt: skip
