"""What ends with a permission, and what a new one does not open: polls, continued streams, and results of long actions.

In one process: the handlers behind a server, and things that a test has listed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer

from appbackplane.runtime.permissions.permission_file import Permissions, change
from appbackplane.runtime.permissions.table import Permission
from appbackplane.runtime.process_config import PermissionPolicy
from appbackplane.runtime.things.catalogue import CatalogueEntry
from appbackplane.runtime.things.web.access import Access
from appbackplane.runtime.things.web.history import event_id
from appbackplane.runtime.things.web.interactions import Interactions
from appbackplane.runtime.things.web.mirror import Mirror
from appbackplane.runtime.things.web.problems import problem_of
from appbackplane.runtime.things.web.streams import Streams
from appbackplane.transport.directory import Directory, Place
from appbackplane.transport.errors import BackplaneError
from tests.waiting import LIMIT_S

MODEL = {
    "properties": {"level": {"type": "integer", "observable": True}},
    "actions": {"fade": {"synchronous": False}},
    "events": {"burnt_out": {}},
}
POLL = "/things/urn:a/events/burnt_out/stream?sub=epoch.1"
STREAM = "/things/urn:a/events/burnt_out/stream"
BEN = {"User": "ben"}


class IdleSystem:
    """In the place of a client of the system: its calls end when a test says so."""

    def __init__(self) -> None:
        self.known_directory = Directory("s", 1, {"things": Place(1, "x", True)}, {}, {})
        self.end = asyncio.Event()

    async def directory(self) -> Directory:
        return self.known_directory

    async def cast(self, route: str, key: str | None) -> None:
        pass

    async def request(self, spec: Any) -> Any:
        await self.end.wait()
        return "the result"


class KnownMirror(Mirror):
    """A mirror of one thing."""

    def __init__(self, client: Any, access: Access) -> None:
        super().__init__(client, access)
        entry = CatalogueEntry("urn:a", "house", "urn:a", "things", 1, "p1", (), MODEL, {"level": "set_level"})
        self.catalogue.things = {"urn:a": entry}

    async def refresh(self, *, is_thorough: bool) -> None:
        """All is known."""

    def tell(self, data: Any) -> None:
        """An event of the thing."""
        said = {"thing": "urn:a", "kind": "event", "name": "burnt_out", "process": "p1", "is_known": True}
        self.take(said | {"data": data})


class Desk:
    """The handlers behind a server, whose users are what they say they are. Ada is an operator."""

    def __init__(self, folder: Path) -> None:
        policy = PermissionPolicy(file=str(folder / "p.json"), operators=("ada",), audit=str(folder / "p.audit"))
        self.access = Access(policy, lambda: 1_000.0)
        self.system = IdleSystem()
        self.mirror = KnownMirror(self.system, self.access)
        self.streams = Streams(self.mirror, "epoch")
        self.interactions = Interactions(self.mirror)
        self._file, self._audit = folder / "p.json", folder / "p.audit"

    @asynccontextmanager
    async def served(self) -> AsyncIterator[TestClient[web.Request, web.Application]]:
        """A client of the server."""
        application, thing, stopping = web.Application(middlewares=[as_user]), "/things/{id}", asyncio.Event()
        application.add_routes(
            [
                web.get(f"{thing}/properties", self.interactions.read_all),
                web.put(f"{thing}/properties", self.interactions.write_many),
                web.post(f"{thing}/actions/{{name}}", self.interactions.invoke),
                web.get(f"{thing}/actions", self.interactions.action_statuses),
                web.get(f"{thing}/actions/{{name}}/{{number}}", self.interactions.action_status),
                web.delete(f"{thing}/actions/{{name}}/{{number}}", self.interactions.cancel_action),
                web.get(f"{thing}/{{kind:properties|events}}/{{name}}/stream", self.streams.open),
            ]
        )
        async with asyncio.timeout(LIMIT_S), TestClient(TestServer(application)) as client:
            watching = asyncio.create_task(self.streams.end_revoked(stopping))
            try:
                yield client
            finally:
                watching.cancel()
                self.interactions.close()
                self.mirror.close()
                self.access.close()

    def permit(self, *permissions: Permission) -> None:
        """Let these be all permissions."""
        change(self._file, lambda _: (Permissions(permissions=permissions), None))
        self.access.look_again()

    def refusals(self) -> list[tuple[str, str, str]]:
        """Who was refused what, by the audit log."""
        lines = map(json.loads, self._audit.read_text().splitlines()) if self._audit.exists() else ()
        return [(each["who"], each["did"], each["thing"]) for each in lines if not each["permitted"]]

    async def waiting(self) -> None:
        """Return when somebody waits for the next event."""
        while not self.mirror.history("urn:a", "events", "burnt_out")._waiting:
            await asyncio.sleep(0)


@web.middleware
async def as_user(request: web.Request, handler: Any) -> web.StreamResponse:
    """In the place of the gateway's guard."""
    request["principal"] = request.headers.get("User", "ada")
    try:
        return cast(web.StreamResponse, await handler(request))
    except BackplaneError as error:
        status, body, headers = problem_of(error)
        return web.json_response(body, status=status, headers=headers)


def bens(*access: str) -> Permission:
    """A permission of Ben's."""
    return Permission(id="1", who="ben", access=access, things=("urn:a",))


async def detail(answer: ClientResponse) -> tuple[int, str]:
    """The status and the words of a problem."""
    return answer.status, (await answer.json())["detail"]


@pytest.mark.parametrize("is_told", [True, False])
def test_a_poll_that_waits_ends_with_its_permission(tmp_path: Path, is_told: bool) -> None:
    """As for a thing that is unknown; an event right behind the revocation is not answered either."""

    async def main() -> None:
        desk = Desk(tmp_path)
        async with desk.served() as client:
            desk.permit(bens("observe"))
            polling = asyncio.create_task(client.get(POLL, headers=BEN))
            await desk.waiting()
            desk.permit()
            if is_told:
                desk.mirror.tell(5)
            unknown = (404, "no thing 'urn:a': GET /things lists all")
            assert await detail(await polling) == await detail(await client.get(POLL, headers=BEN)) == unknown

    asyncio.run(main())


def test_refusals_by_the_gateway_are_in_the_audit_log(tmp_path: Path) -> None:
    """They reach no process of a thing. Whoever looks for ids is seen, too; an operator's slip is no refusal."""

    async def main() -> None:
        desk = Desk(tmp_path)
        async with desk.served() as client:
            for path in ("urn:a/properties", "urn:none/properties", STREAM.removeprefix("/things/")):
                assert (await client.get(f"/things/{path}", headers=BEN)).status == 404
            desk.permit(bens("read"))
            assert (await client.put("/things/urn:a/properties", json={"level": 1}, headers=BEN)).status == 403
            assert (await client.post("/things/urn:a/actions/fade", headers=BEN)).status == 404
            assert (await client.get("/things/urn:none/properties")).status == 404
        assert desk.refusals() == [
            ("ben", "read", "urn:a"), ("ben", "read", "urn:none"), ("ben", "observe burnt_out", "urn:a"),
            ("ben", "write level", "urn:a"), ("ben", "invoke fade", "urn:a"),
        ]  # fmt: skip

    asyncio.run(main())


def test_a_result_is_for_those_who_may_still_act(tmp_path: Path) -> None:
    """Read and cancelled by nobody else; as one that is unknown."""

    async def main() -> None:
        desk = Desk(tmp_path)
        async with desk.served() as client:
            desk.permit(bens("invoke"))
            begun = await client.post("/things/urn:a/actions/fade", headers=BEN)
            href = begun.headers["Location"]
            assert (await client.get(href, headers=BEN)).status == 200
            assert (await client.get(href)).status == 404, "not even an operator: it is Ben's"
            listed = [await (await client.get("/things/urn:a/actions", headers=user)).json() for user in (BEN, {})]
            assert [[each["href"] for each in found["fade"]] for found in listed] == [[href], []]
            desk.permit(bens("read"))
            assert await (await client.get("/things/urn:a/actions", headers=BEN)).json() == {}
            number = href.rpartition("/")[2]
            unknown = f"no invocation {number!r} of yours: unknown, expired, or lost when the gateway ended"
            for answer in (await client.get(href, headers=BEN), await client.delete(href, headers=BEN)):
                assert await detail(answer) == (404, unknown)
            assert desk.refusals() == [("ben", "invoke fade", "urn:a")] * 2
            desk.system.end.set()
            desk.permit(bens("invoke"))
            while (said := await (await client.get(href, headers=BEN)).json())["status"] == "running":
                pass
            assert (said["status"], said["output"]) == ("completed", "the result")

    asyncio.run(main())


def test_a_condition_on_several_properties_is_refused(tmp_path: Path) -> None:
    """Rather than ignored: the client would believe that it has overwritten nothing."""

    async def main() -> None:
        desk = Desk(tmp_path)
        desk.system.end.set()
        async with desk.served() as client:
            asked = {"path": "/things/urn:a/properties", "json": {"level": 1}}
            refused = await client.put(**asked, headers={"If-Match": '"stale"'})
            assert await detail(refused) == (400, "If-Match: a condition is for one property: PUT …/properties/NAME")
            assert (await client.put(**asked)).status == 204

    asyncio.run(main())


async def event_of(answer: ClientResponse) -> dict[str, str]:
    """The next event of a stream."""
    fields: dict[str, str] = {}
    async for line in answer.content:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name and value:
            fields[name] = value
        elif fields:
            return fields
    raise AssertionError("the stream has ended")


def test_a_new_permission_opens_no_past(tmp_path: Path) -> None:
    """Neither by an id that somebody makes up, nor by one from before a revocation; an operator's streams continue."""

    async def main() -> None:
        desk = Desk(tmp_path)
        async with desk.served() as client:
            desk.permit(bens("read"))
            async with client.get(STREAM):  # the history is kept from now on
                desk.mirror.tell("hidden")
            desk.permit(bens("observe"))
            continued = {"Last-Event-ID": event_id("epoch", 0)}
            async with client.get(STREAM, headers=BEN | continued) as stream:
                assert await event_of(stream) == {"event": "lost", "data": "null"}
                desk.mirror.tell("shown")
                assert await event_of(stream) == {"event": "burnt_out", "id": event_id("epoch", 2), "data": '"shown"'}
            async with client.get(STREAM, headers=BEN | {"Last-Event-ID": event_id("epoch", 1)}) as stream:
                assert (await event_of(stream))["data"] == '"shown"'
            async with client.get(STREAM, headers=continued) as stream:
                assert (await event_of(stream))["data"] == '"hidden"'

    asyncio.run(main())


def test_a_queue_of_polls_has_nothing_from_before_a_new_permission(tmp_path: Path) -> None:
    """It is opened, the permission ends, and comes again: what happened meanwhile is lost, nor is it counted."""

    async def main() -> None:
        desk = Desk(tmp_path)
        async with desk.served() as client:
            desk.permit(bens("observe"))
            assert (await client.head(POLL, headers=BEN)).status == 200
            desk.mirror.tell("first")
            assert await (await client.get(POLL, headers=BEN)).json() == "first"
            desk.permit()
            desk.mirror.tell("hidden")
            desk.permit(bens("observe"))
            polling = asyncio.create_task(client.get(POLL, headers=BEN))
            await desk.waiting()
            desk.mirror.tell("shown")
            answer = await polling
            assert (await answer.json(), answer.headers["Lost"]) == ("shown", "unknown")

    asyncio.run(main())


def test_who_is_permitted_all_along_continues(tmp_path: Path) -> None:
    """With the message behind the last id; nothing is lost, though permissions were changed long ago."""

    async def main() -> None:
        desk = Desk(tmp_path)
        desk.permit(bens("observe"))
        async with desk.served() as client:
            async with client.get(STREAM, headers=BEN):
                desk.mirror.tell("first")
                desk.mirror.tell("second")
            async with client.get(STREAM, headers=BEN | {"Last-Event-ID": event_id("epoch", 1)}) as stream:
                assert await event_of(stream) == {"event": "burnt_out", "id": event_id("epoch", 2), "data": '"second"'}

    asyncio.run(main())
