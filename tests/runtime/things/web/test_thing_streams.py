"""Streams of all properties, or all events, of one thing: who gets what, and where one that comes back goes on.

In one process: the handlers behind a server, and a thing that a test has listed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from appbackplane.runtime.permissions.permission_file import Permissions, change
from appbackplane.runtime.permissions.table import Permission
from appbackplane.runtime.process_config import PermissionPolicy
from appbackplane.runtime.things.catalogue import CatalogueEntry
from appbackplane.runtime.things.web.access import Access
from appbackplane.runtime.things.web.mirror import Mirror
from appbackplane.runtime.things.web.thing_streams import ThingStreams
from tests.waiting import LIMIT_S

from .test_revocation import BEN, IdleSystem, as_user, event_of

MODEL = {
    "properties": {"level": {"observable": True}, "colour": {"observable": True}, "serial": {}},
    "events": {"burnt_out": {}},
}
PROPERTIES, EVENTS = "/things/urn:a/stream/properties", "/things/urn:a/stream/events"
KIND_OF_NAME = {"level": "property", "colour": "property", "burnt_out": "event"}


class HallMirror(Mirror):
    """A mirror of one thing."""

    def __init__(self, access: Access) -> None:
        super().__init__(IdleSystem(), access)  # type: ignore[arg-type]
        self.catalogue.things = {"urn:a": CatalogueEntry("urn:a", "house", "urn:a", "things", 1, "p1", (), MODEL, {})}

    async def refresh(self, *, is_thorough: bool) -> None:
        """All is known."""


class Hall:
    """The streams behind a server, whose users are what they say they are. Ada is an operator."""

    def __init__(self, folder: Path) -> None:
        policy = PermissionPolicy(file=str(folder / "p.json"), operators=("ada",), audit=str(folder / "p.audit"))
        self.access, self._file = Access(policy, lambda: 1_000.0), folder / "p.json"
        self.mirror = HallMirror(self.access)
        self.streams = ThingStreams(self.mirror)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[TestClient[web.Request, web.Application]]:
        """A client of the server."""
        application, stopping = web.Application(middlewares=[as_user]), asyncio.Event()
        application.add_routes([web.get("/things/{id}/stream/{kind:properties|events}", self.streams.open)])
        async with asyncio.timeout(LIMIT_S), TestClient(TestServer(application)) as client:
            watching = asyncio.create_task(self.streams.end_revoked(stopping))
            try:
                yield client
            finally:
                watching.cancel()
                self.mirror.close()
                self.access.close()

    def let_ben_observe(self, *names: str) -> None:
        """And nothing else."""
        access = tuple(f"observe:{name}" for name in names)
        all = (Permission(id="1", who="ben", access=access, things=("urn:a",)),) if names else ()
        change(self._file, lambda _: (Permissions(permissions=all), None))
        self.access.look_again()

    def tell(self, name: str, data: Any) -> None:
        """A message of the thing."""
        said = {"thing": "urn:a", "kind": KIND_OF_NAME[name], "name": name, "process": "p1", "is_known": True}
        self.mirror.take(said | {"data": data})


def test_each_user_gets_the_messages_that_they_may_observe(tmp_path: Path) -> None:
    """In their order, by the names of the affordances."""

    async def main() -> None:
        hall = Hall(tmp_path)
        hall.let_ben_observe("colour")
        async with hall.served() as client, client.get(PROPERTIES) as adas, client.get(PROPERTIES, headers=BEN) as bens:
            hall.tell("burnt_out", 1)
            for name, data in (("level", 1), ("colour", 2), ("level", 3), ("colour", 4)):
                hall.tell(name, data)
            told = [await event_of(adas) for _ in range(4)]
            assert [(each["event"], each["data"]) for each in told] == [
                ("level", "1"), ("colour", "2"), ("level", "3"), ("colour", "4")
            ]  # fmt: skip
            assert len({each["id"] for each in told}) == 4
            assert [await event_of(bens) for _ in range(2)] == [told[1], told[3]]
            async with client.get(PROPERTIES, headers={"Last-Event-ID": told[1]["id"]}) as again:
                assert [await event_of(again) for _ in range(2)] == told[2:]
            async with client.get(PROPERTIES, headers={"Last-Event-ID": "0badc0de-3"}) as again:
                assert await event_of(again) == {"event": "lost", "data": "null"}

    asyncio.run(main())


def test_a_stream_of_a_thing_ends_with_the_last_permission(tmp_path: Path) -> None:
    """And for whom there is nothing to observe there is none."""

    async def main() -> None:
        hall = Hall(tmp_path)
        async with hall.served() as client:
            hall.let_ben_observe("level", "colour")
            assert (await client.get(EVENTS, headers=BEN)).status == 404
            async with client.get(PROPERTIES, headers=BEN) as stream:
                hall.let_ben_observe("colour")
                hall.tell("level", 1)
                hall.tell("colour", 2)
                assert (await event_of(stream))["data"] == "2"
                hall.let_ben_observe()
                assert await stream.content.read() == b"", "it ends, and nobody has told anything"

    asyncio.run(main())


def test_a_new_permission_opens_no_past_of_a_thing(tmp_path: Path) -> None:
    """An id from before it continues with what comes then."""

    async def main() -> None:
        hall = Hall(tmp_path)
        hall.let_ben_observe("colour")
        async with hall.served() as client:
            async with client.get(PROPERTIES, headers=BEN) as stream:
                hall.tell("colour", 1)
                last = (await event_of(stream))["id"]
            hall.tell("level", "hidden")
            hall.let_ben_observe("level")
            async with client.get(PROPERTIES, headers=BEN | {"Last-Event-ID": last}) as stream:
                assert await event_of(stream) == {"event": "lost", "data": "null"}
                hall.tell("level", "shown")
                assert (await event_of(stream))["data"] == '"shown"'

    asyncio.run(main())
