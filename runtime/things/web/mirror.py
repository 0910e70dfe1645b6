"""Mirror: the gateway's knowledge of its system: the things, their last published values, and their last messages.

It lists the things of each backplane that starts, and hears the notifications of all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
from aiohttp import web

from appbackplane.transport.async_client import AsyncClient
from appbackplane.transport.directory import Directory
from appbackplane.transport.errors import BackplaneError, NotFound, Unavailable

from ...permissions.thing_ids import NOTIFICATIONS
from ..catalogue import Catalogue, CatalogueEntry
from ..nodes.consumed_node import ConsumedNode
from ..property_cache import PropertyCache
from .access import Access
from .history import History
from .live_feed import LiveFeed, ThingFeed

#: Least seconds between two full listings; requests for an unknown id or for all things cause one.
LIST_AGAIN_S: Final = 1.0
#: Seconds between two looks whether a backplane has started.
WATCH_S: Final = 0.25

_encode = msgspec.json.encode
log = logging.getLogger(__name__)


class Mirror:
    """The things of the system by id. Used by one event loop."""

    def __init__(self, client: AsyncClient, access: Access) -> None:
        self.client = client
        self.access = access
        self.catalogue = Catalogue(self._list)
        self._cache = PropertyCache()
        self._histories: dict[tuple[str, str, str], History] = {}
        self.feed = LiveFeed()
        self._thing_feeds: dict[tuple[str, str], ThingFeed] = {}
        self._listed_s = -LIST_AGAIN_S
        self._version = -1
        self._permissions_version = -1
        #: The listing under way, and whether it is thorough.
        self._listing: tuple[asyncio.Task[None], bool] | None = None

    async def run(self, stopping: asyncio.Event) -> None:
        """Keep up with the system until the task is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._hear(stopping))
            group.create_task(self._watch(stopping))

    def close(self) -> None:
        """End the streams of all subscribers."""
        for history in self._histories.values():
            history.close()
        for feed in (self.feed, *self._thing_feeds.values()):
            feed.close()

    # -- things -------------------------------------------------------------------------------------------------------

    async def _list(self, route: str) -> Any:
        return await self.client.call(route, timeout=5.0)

    async def refresh(self, *, is_thorough: bool) -> None:
        """List the things of backplanes that have started; `is_thorough`: of all, at most once in `LIST_AGAIN_S`.

        One listing at a time serves all requests, and goes on when its first request is given up.
        """
        is_thorough = is_thorough and asyncio.get_running_loop().time() - self._listed_s >= LIST_AGAIN_S
        directory = await self.client.directory()
        if not is_thorough and directory.version == self._version:
            return
        if self._listing is None or (is_thorough and not self._listing[1]):
            task = asyncio.create_task(self._relist(directory, is_thorough=is_thorough))
            self._listing = task, is_thorough
        await asyncio.shield(self._listing[0])

    async def thing(self, id: str, principal: str, kind: str = "describe", name: str = "") -> CatalogueEntry:
        """The thing, in the process in which it lives now. Raises `Unavailable` while it starts, and `NotFound`, in the same
        time and with the same words, if there is none or `principal` may not know of it. `kind`, `name`: the access, for the
        audit log.
        """
        found = self._visible(id, principal)
        if found is not None and self._is_here(found):
            return found
        await self.refresh(is_thorough=False)
        if self._visible(id, principal) is None:
            await self.refresh(is_thorough=True)
        found = self._visible(id, principal)
        if found is None:
            self.access.refused(principal, id, kind, name)
            raise unknown_thing(id)
        problem = self.access.nodes[found.node].problem if found.node else ""
        if problem:
            raise unreachable(found.node, problem)
        if not self.catalogue.is_current(found, await self.client.directory()):
            raise Unavailable(f"backplane {found.backplane} of this thing is starting again", retry_after=WATCH_S)
        return found

    def usable(self, id: str, principal: str, group: str, kind: str, name: str) -> CatalogueEntry | None:
        """The thing, if nothing has to be looked up, and nothing refused: what most requests find, in a few calls."""
        found = self.catalogue.things.get(id)
        if found is None or name not in found.model.get(group, ()) or not self._is_here(found):
            return None
        return found if self.access.permits(principal, found, kind, name) else None

    def things(self, principal: str) -> list[CatalogueEntry]:
        """The things that `principal` may know of, by id."""
        permitted = [each for each in self.catalogue.things.values() if self.access.permits(principal, each)]
        return sorted(permitted, key=lambda each: each.id)

    def _is_here(self, entry: CatalogueEntry) -> bool:
        """Whether a thing lives on this node, and in the process in which it was listed."""
        directory = self.client.known_directory
        return not entry.node and directory is not None and self.catalogue.is_current(entry, directory)

    def _visible(self, id: str, principal: str) -> CatalogueEntry | None:
        found = self.catalogue.things.get(id)
        return found if found is not None and self.access.permits(principal, found) else None

    async def _relist(self, directory: Directory, *, is_thorough: bool) -> None:
        this = self._listing
        try:
            if await self.catalogue.refresh(directory, is_thorough=is_thorough):
                self._version = directory.version
            if is_thorough:
                self._listed_s = asyncio.get_running_loop().time()
        finally:
            if self._listing is this:
                self._listing = None
        for entry in self.catalogue.things.values():
            await self.ask_for_values(entry)
        self._forget_others()

    def take_things_of(self, node: ConsumedNode) -> None:
        """Another node has other things than before."""
        self.catalogue.take_elsewhere(node.name, node.things)
        self._forget_others()

    def _forget_others(self) -> None:
        """End the streams of things that are gone."""
        for (id, kind, name), history in [*self._histories.items()]:
            if id not in self.catalogue.things:
                history.close()
                del self._histories[id, kind, name]
        for (id, kind), feed in [*self._thing_feeds.items()]:
            if id not in self.catalogue.things:
                feed.close()
                del self._thing_feeds[id, kind]

    async def _watch(self, stopping: asyncio.Event) -> None:
        """List the things of each backplane that starts, without waiting for a request."""
        while True:
            try:
                await self.refresh(is_thorough=False)
            except BackplaneError as error:
                log.debug("the things are not listed: %s", error)
            except (
                Exception
            ):  # the edge: the answer of a backplane may be of any kind, and the next one is asked all the same
                log.exception("the things are not listed")
            await pause(stopping, WATCH_S)

    # -- values and messages ------------------------------------------------------------------------------------------

    def cached(self, entry: CatalogueEntry, name: str) -> bytes | None:
        """The value of a property, as JSON, where the last published one answers a read; None: the thing has to be asked.

        For things of other nodes the node decides: the death of a process there is not seen at once here.
        """
        return self.published(entry, name) if entry.is_cached and not entry.node else None

    def published(self, entry: CatalogueEntry, name: str) -> bytes | None:
        """The last published value of an observable property, as JSON. A thing that lives elsewhere may have another by now."""
        is_observable = entry.model.get("properties", {}).get(name, {}).get("observable")
        return self._cache.get(entry.id, name, entry.process) if is_observable else None

    def history(self, id: str, kind: str, name: str) -> History:
        """The last messages of a property or event. `kind`: "properties" or "events"."""
        found = self._histories.get((id, kind, name))
        if found is None:
            found = self._histories[id, kind, name] = History()
            self.access.floor_of("", found)
        return found

    def thing_feed(self, id: str, kind: str) -> ThingFeed:
        """The last messages of all properties or all events of a thing, kept from now on. `kind`: as above."""
        found = self._thing_feeds.get((id, kind))
        if found is None:
            found = self._thing_feeds[id, kind] = ThingFeed()
            self.access.floor_of("", found.history)
        return found

    def look_at_permissions(self) -> None:
        """If they have changed: what is in the histories now is old for all but operators."""
        if self._permissions_version != self.access.version:
            self._permissions_version = self.access.version
            feeds = (each.history for each in (self.feed, *self._thing_feeds.values()))
            for history in (*self._histories.values(), *feeds):
                self.access.floor_of("", history)

    async def ask_for_values(self, entry: CatalogueEntry) -> None:
        """Have a new thing publish its observable properties, so that later reads need not wait for its actions."""
        is_asked = entry.is_observable and entry.is_cached and not entry.node
        if is_asked and self._cache.is_to_ask(entry.id, entry.process):
            try:
                await self.client.cast(f"{entry.component}.notify_all", key=entry.key)
            except BackplaneError:  # it is asked again with the next read
                self._cache.ask_again(entry.id, entry.process)

    async def _hear(self, stopping: asyncio.Event) -> None:
        """Take the notifications of all things, for as long as the gateway serves."""
        while True:
            try:
                async with await self.client.subscribe(NOTIFICATIONS) as subscription:
                    async for message in subscription:
                        if message.lost:
                            self._lost(message.lost)
                        self.take(message.body)
            except BackplaneError as error:
                log.warning("notifications of things are not heard: %s", error)
            self._lost(0)
            await pause(stopping, WATCH_S)

    def _lost(self, count: int) -> None:
        """Notifications are lost: values may be old, and subscribers learn it."""
        if count:
            log.warning("%d notifications of things were lost: values are read anew", count)
        self._cache.clear()
        for history in self._histories.values():
            history.add(None)
        for feed in (self.feed, *self._thing_feeds.values()):
            feed.lost(_now_us())

    def lose_messages_of(self, node: ConsumedNode) -> None:
        """Messages of a node's things may be missing: their values are not known, and subscribers learn it."""
        things = {id: entry for id, entry in self.catalogue.things.items() if entry.node == node.name}
        for id, entry in things.items():
            for name in entry.model.get("properties", {}):
                self._cache.drop(id, name)
        for (id, _, _), history in self._histories.items():
            if id in things:
                history.add(None)
        for feed in (self.feed, *(each for (id, _), each in self._thing_feeds.items() if id in things)):
            feed.lost(_now_us())

    def keep_of(self, node: ConsumedNode, body: Mapping[str, Any]) -> None:
        """Keep a value that a thing of a node has published before."""
        entry = self.catalogue.things.get(body["thing"])
        if entry is not None and entry.node == node.name:
            self._cache.put(entry.id, body["name"], body["process"], _encode(body["data"]))

    def take_of(self, node: ConsumedNode, body: Mapping[str, Any]) -> None:
        """Take a notification that a node tells: of its own things alone, as they are served here."""
        entry = self.catalogue.things.get(body["thing"])
        if entry is not None and entry.node == node.name:
            self.take(body)

    def take(self, body: Mapping[str, Any]) -> None:
        """Take a notification of a thing."""
        try:
            id, kind, name, process = body["thing"], body["kind"], body["name"], body["process"]
            is_known, data = body["is_known"], _encode(body["data"])
        except Exception:  # the edge: anybody may publish on the topic, and values may be of any kind
            log.warning("a notification that no thing has sent is dropped: %.100s", body)
            return
        if kind == "property":
            if not is_known:
                self._cache.drop(id, name)
                return
            self._cache.put(id, name, process, data)
        group = "properties" if kind == "property" else "events"
        history = self._histories.get((id, group, name))
        if history is not None:
            history.add(data)
        thing_feed = self._thing_feeds.get((id, group))
        if thing_feed is not None:
            thing_feed.add(_now_us(), id, group, name, data)
        self.feed.add(_now_us(), id, group, name, data)


def _now_us() -> int:
    return int(asyncio.get_running_loop().time() * 1e6)


async def pause(stopping: asyncio.Event, seconds: float) -> None:
    """Return after some time, or at once if the server stops."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopping.wait()


async def asked(mirror: Mirror, request: web.Request, group: str, kind: str) -> tuple[CatalogueEntry, str]:
    """The thing and the affordance that a path names, if the user may use it. Raises `NotFound` and `PermissionDenied`."""
    principal, match = request["principal"], request.match_info
    id, name = match["id"], match["name"]
    entry = mirror.usable(id, principal, group, kind, name)
    if entry is None:
        entry = await mirror.thing(id, principal, kind, name)
        expect_permitted(mirror.access, principal, entry, group, kind, name)
    return entry, name


def expect_permitted(access: Access, principal: str, entry: CatalogueEntry, group: str, kind: str, name: str) -> None:
    """Raise what `asked` raises, unless the user may still use an affordance."""
    if not access.permits(principal, entry):
        access.refused(principal, entry.id, kind, name)
        raise unknown_thing(entry.id)
    refusal = access.refusal(principal, entry, group, kind, name)
    if refusal is not None:
        raise refusal


def unknown_thing(id: str) -> NotFound:
    """The error for an id that is unknown, or hidden from the user."""
    return NotFound(f"no thing {id!r}: GET /things lists all")


def unreachable(node: str, problem: str) -> Unavailable:
    """The error for a thing of a node that cannot be reached."""
    return Unavailable(f"node {node!r} of this thing cannot be reached: {problem}", retry_after=1.0)
