"""The stream of a page: who gets which messages, how it continues, and when it ends. In one process, without a system."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer

from appbackplane.runtime.permissions.permission_file import Permissions, change
from appbackplane.runtime.permissions.table import Permission
from appbackplane.runtime.process_config import PermissionPolicy
from appbackplane.runtime.things.catalogue import CatalogueEntry
from appbackplane.runtime.things.web.access import Access
from appbackplane.runtime.things.web.live import Live
from appbackplane.runtime.things.web.mirror import Mirror
from appbackplane.transport.errors import PermissionDenied
from tests.waiting import LIMIT_S

MODEL = {"properties": {"level": {"observable": True}}, "actions": {"flash": {}}, "events": {"burnt_out": {}}}


class ListedMirror(Mirror):
    """A mirror of things that a test has listed."""

    def __init__(self, access: Access, *ids: str) -> None:
        super().__init__(None, access)  # type: ignore[arg-type]  # no system is asked
        self.list(*ids)

    def list(self, *ids: str, process: str = "p1") -> None:
        """Let these be the things."""
        self.catalogue.things = {id: CatalogueEntry(id, "house", id, "things", 1, process, (), MODEL, {}) for id in ids}

    async def refresh(self, *, is_thorough: bool) -> None:
        """All is known."""

    def tell(self, thing: str, name: str, data: Any) -> None:
        """A notification of a thing."""
        kind = "event" if name == "burnt_out" else "property"
        self.take({"thing": thing, "kind": kind, "name": name, "process": "p1", "is_known": True, "data": data})


class Rig:
    """The handler behind a server, whose users are what they say they are."""

    def __init__(self, mirror: ListedMirror, live: Live, client: TestClient[web.Request, web.Application]) -> None:
        self.mirror, self.live, self._client = mirror, live, client
        self.path = mirror.access.file

    @asynccontextmanager
    async def listening(
        self, user: str, **headers: str
    ) -> AsyncIterator[Callable[[], Awaitable[dict[str, str] | None]]]:
        """A function that takes the next event of a user's stream; None: the stream has ended."""
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        async with asyncio.timeout(LIMIT_S), self._client.get("/live", headers={"User": user} | named) as response:
            assert (response.status, response.content_type) == (200, "text/event-stream")
            assert await response.content.readline() == b": open\n"
            yield lambda: self._next(response)

    async def _next(self, response: ClientResponse) -> dict[str, str] | None:
        fields: dict[str, str] = {}
        async for line in response.content:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if value and name:
                fields[name] = value
            elif fields:
                return fields
        return None

    async def status(self, user: str) -> int:
        """The status of the answer."""
        async with self._client.get("/live", headers={"User": user}) as response:
            return response.status

    def permit(self, *permissions: Permission) -> None:
        """Let these be all permissions."""
        assert self.path is not None
        change(self.path, lambda _: (Permissions(permissions=permissions), None))
        self.mirror.access.look_again()


@asynccontextmanager
async def rig(folder: Path | None, *ids: str) -> AsyncIterator[Rig]:
    """`folder`: of the permissions; None: everybody may use all."""
    policy = None
    if folder is not None:
        policy = PermissionPolicy(file=str(folder / "p.json"), operators=("ada",), audit=str(folder / "p.audit"))
    mirror = ListedMirror(Access(policy, lambda: 1_000.0), *ids)
    live = Live(mirror, "epoch")

    async def answer(request: web.Request) -> web.StreamResponse:
        request["principal"] = request.headers["User"]
        try:
            return await live.open(request)
        except PermissionDenied as error:
            raise web.HTTPForbidden(text=error.message) from None

    application = web.Application()
    application.add_routes([web.get("/live", answer)])
    stopping = asyncio.Event()
    async with TestClient(TestServer(application)) as client:
        watching = asyncio.create_task(live.run(stopping))
        try:
            yield Rig(mirror, live, client)
        finally:
            stopping.set()
            watching.cancel()
            mirror.close()


def bens(*access: str, things: tuple[str, ...] = ("urn:a",), id: str = "1") -> Permission:
    """A permission of Ben's."""
    return Permission(id=id, who="ben", access=access, things=things)


def data(event: dict[str, str] | None) -> Any:
    """The message of an event."""
    assert event is not None and event.get("event", "message") == "message", event
    return json.loads(event["data"])


def test_one_stream_has_the_messages_of_all_things() -> None:
    """A browser has six connections to a host, and a system thousands of properties."""

    async def main() -> None:
        async with rig(None, "urn:a", "urn:b") as here, here.listening("ada") as following:
            here.mirror.tell("urn:a", "level", 7)
            here.mirror.tell("urn:b", "burnt_out", {"hours": 1})
            first, second = await following(), await following()
            assert data(first) == {"thing": "urn:a", "kind": "property", "name": "level", "data": 7}
            assert data(second) == {"thing": "urn:b", "kind": "event", "name": "burnt_out", "data": {"hours": 1}}
            assert first is not None and first["id"].startswith("epoch-")

    asyncio.run(main())


def test_each_message_is_checked(tmp_path: Path) -> None:
    """Neither another thing's, nor another affordance's, nor one that no thing has declared."""

    async def main() -> None:
        async with rig(tmp_path, "urn:a", "urn:b") as here:
            here.permit(bens("observe:level", "read"))
            async with here.listening("ben") as following:
                here.mirror.tell("urn:b", "level", 1)
                here.mirror.tell("urn:a", "burnt_out", 2)
                here.mirror.tell("urn:a", "undeclared", 3)
                here.mirror.tell("urn:c", "level", 4)
                here.mirror.tell("urn:a", "level", 5)
                assert data(await following())["data"] == 5
            async with here.listening("ada") as following:
                here.mirror.tell("urn:b", "undeclared", 5)
                here.mirror.tell("urn:b", "level", 6)
                assert data(await following())["data"] == 6

    asyncio.run(main())


def test_a_stream_continues_behind_the_last_id() -> None:
    """A phone that was in a tunnel misses nothing, or learns that it did."""

    async def main() -> None:
        async with rig(None, "urn:a") as here:
            async with here.listening("ada") as following:
                here.mirror.tell("urn:a", "level", 1)
                here.mirror.tell("urn:a", "level", 2)
                first = await following()
                assert first is not None
            here.mirror.tell("urn:a", "level", 3)
            async with here.listening("ada", Last_Event_ID=first["id"]) as following:
                assert [data(await following())["data"], data(await following())["data"]] == [2, 3]
            for unknown in ("other-1", "nonsense", ""):
                async with here.listening("ada", Last_Event_ID=unknown) as following:
                    assert await following() == {"event": "lost", "data": "null"}
                    here.mirror.tell("urn:a", "level", 4)
                    assert data(await following())["data"] == 4
            async with here.listening("ada") as following:
                here.mirror._lost(3)
                assert await following() == {"event": "lost", "data": "null"}

    asyncio.run(main())


def test_a_revocation_ends_the_stream_and_leaves_those_of_others(tmp_path: Path) -> None:
    """Within a second, though no message comes."""

    async def main() -> None:
        async with rig(tmp_path, "urn:a", "urn:b") as here:
            here.permit(bens("observe"), Permission(id="2", who="cid", access=("observe",), things=("urn:b",)))
            async with here.listening("ben") as bens_next, here.listening("cid") as cids_next:
                here.permit(Permission(id="2", who="cid", access=("observe",), things=("urn:b",)))
                here.mirror.tell("urn:a", "level", 1)
                assert await bens_next() is None
                here.mirror.tell("urn:b", "level", 2)
                assert data(await cids_next())["data"] == 2
            assert await here.status("ben") == 403

    asyncio.run(main())


def test_a_user_is_told_when_there_are_other_things(tmp_path: Path) -> None:
    """For them: a thing that is hidden from them comes and goes without a word."""

    async def main() -> None:
        async with rig(tmp_path, "urn:a") as here:
            here.permit(bens("observe", things=("urn:a", "urn:c")))
            async with here.listening("ben") as bens_next, here.listening("ada") as adas_next:
                here.mirror.list("urn:a", "urn:b")
                assert await adas_next() == {"event": "things", "data": "null"}
                here.mirror.tell("urn:a", "level", 1)
                assert data(await bens_next())["data"] == 1
                here.mirror.list("urn:a", "urn:b", "urn:c")
                assert await bens_next() == {"event": "things", "data": "null"}
                here.permit(bens("observe", "invoke:flash", things=("urn:a", "urn:c")))
                assert await bens_next() == {"event": "things", "data": "null"}
                here.mirror.list("urn:a", "urn:b", "urn:c", process="p2")
                assert await bens_next() == {"event": "things", "data": "null"}

    asyncio.run(main())


def test_who_may_only_act_hears_when_that_ends(tmp_path: Path) -> None:
    """Their page has buttons without values, and is to go dark all the same."""

    async def main() -> None:
        async with rig(tmp_path, "urn:a") as here:
            assert await here.status("ben") == 403
            here.permit(bens("invoke"))
            async with here.listening("ben") as following:
                here.mirror.tell("urn:a", "level", 1)
                here.permit()
                assert await following() is None

    asyncio.run(main())


def test_the_end_of_the_gateway_is_that_of_its_streams() -> None:
    """A page connects again, to the next one."""

    async def main() -> None:
        async with rig(None, "urn:a") as here, here.listening("ada") as following:
            here.mirror.close()
            assert await following() is None

    asyncio.run(main())


def test_a_reader_that_falls_behind_is_told_and_goes_on() -> None:
    """What it has not read lies in the shared feed, which is bounded."""

    async def main() -> None:
        async with rig(None, "urn:a") as here, here.listening("ada") as following:
            for number in range(30_000):  # in one go: the stream has no turn meanwhile
                here.mirror.tell("urn:a", "level", number)
            assert await following() == {"event": "lost", "data": "null"}
            assert data(await following())["data"] == 20_000

    asyncio.run(main())


def test_a_new_permission_opens_no_past(tmp_path: Path) -> None:
    """Whoever continues an old stream learns that messages are missing, and no more."""

    async def main() -> None:
        async with rig(tmp_path, "urn:a") as here:
            here.permit(bens("read"))
            async with here.listening("ben"):
                here.mirror.tell("urn:a", "level", 1)
            here.permit(bens("observe"))
            async with here.listening("ben", Last_Event_ID="epoch-0") as following:
                assert await following() == {"event": "lost", "data": "null"}
                here.mirror.tell("urn:a", "level", 2)
                assert data(await following())["data"] == 2

    asyncio.run(main())
