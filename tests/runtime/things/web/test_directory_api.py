"""The directory's requests under a virtual clock, by users who see different things; a server in the test's own process."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from appbackplane.runtime import NotFound
from appbackplane.runtime.permissions.permission_file import Permissions, change
from appbackplane.runtime.permissions.table import Permission
from appbackplane.runtime.process_config import PermissionPolicy
from appbackplane.runtime.things.catalogue import CatalogueEntry
from appbackplane.runtime.things.directory.registered_things import Change
from appbackplane.runtime.things.directory.registration_file import RegistrationFile
from appbackplane.runtime.things.web.access import Access
from appbackplane.runtime.things.web.directory_api import DirectoryApi
from appbackplane.runtime.things.web.forms import description_of
from appbackplane.runtime.things.web.history import event_id
from appbackplane.runtime.things.web.problems import problem_of
from appbackplane.transport.errors import BackplaneError

S = 1_000_000_000
MODEL = {
    "@context": "https://www.w3.org/2022/wot/td/v1.1",
    "@type": ["tm:ThingModel"],
    "title": "Lamp",
    "properties": {
        "level": {"type": "integer", "observable": True},
        "secret": {"type": "integer", "observable": True},
    },
}
EVE = {"User": "eve"}


def own(id: str) -> CatalogueEntry:
    """A thing of the system."""
    return CatalogueEntry(id, "house", id, "things", 1, "p1", (), MODEL, {})


def td(id: str, **members: Any) -> dict[str, Any]:
    """A description that somebody registers."""
    return {
        "@context": "https://www.w3.org/2022/wot/td/v1.1",
        "id": id,
        "title": "Lamp",
        "security": "none",
        "securityDefinitions": {"none": {"scheme": "nosec"}},
    } | members


class KnownThings:
    """In the place of the mirror: things that are there, and their values."""

    def __init__(self, *entries: CatalogueEntry) -> None:
        self.catalogue = SimpleNamespace(things={})
        self.catalogue.things = {each.id: each for each in entries}

    async def refresh(self, *, is_thorough: bool) -> None:
        pass

    async def thing(self, id: str, principal: str) -> CatalogueEntry:
        if id not in self.catalogue.things:
            raise NotFound(f"no thing {id!r}: GET /things lists all")
        return cast(CatalogueEntry, self.catalogue.things[id])

    def published(self, entry: CatalogueEntry, name: str) -> bytes | None:
        return {"level": b"7", "secret": b"5"}.get(name)


def visible(principal: str, description: dict[str, Any]) -> dict[str, Any] | None:
    """Eve sees no thing whose id ends with "hidden", and of others no secret."""
    if principal != "eve":
        return description
    if description["id"].endswith("hidden") or description["title"] == "Hidden":
        return None
    properties = {name: each for name, each in description.get("properties", {}).items() if name != "secret"}
    return description | {"properties": properties}


@web.middleware
async def as_user(request: web.Request, handler: Any) -> web.StreamResponse:
    """In the place of the gateway's guard: the user is who he says."""
    request["principal"] = request.headers.get("User", "ada")
    try:
        return cast(web.StreamResponse, await handler(request))
    except BackplaneError as error:
        status, body, headers = problem_of(error)
        return web.json_response(body, status=status, headers=headers)


class FullDisk(RegistrationFile):
    """Nothing can be written."""

    def write(self, change: Change) -> None:
        raise sqlite3.OperationalError("database or disk is full")


class Clock:
    """Unix time that stands still."""

    def __init__(self) -> None:
        self.now_ns = 1_800_000_000 * S

    def __call__(self) -> int:
        return self.now_ns


def served(
    test: Callable[[TestClient[Any, Any], KnownThings, Clock], Awaitable[None]],
    file: RegistrationFile | None = None,
    access: Access | None = None,
) -> None:
    """Run a test against a directory with two things of the system, which has looked at them."""

    async def main() -> None:
        things, clock = KnownThings(own("urn:dev:own"), own("urn:dev:own-hidden")), Clock()
        listed, things.catalogue.things = things.catalogue.things, {}
        directory = DirectoryApi(
            cast(Any, things), file or RegistrationFile(None), "e1", unix_ns=clock, base_of=lambda request: "http://here/",
            describe=lambda request, entry, queue: visible(
                request["principal"], description_of(entry.id, entry.model, "http://here/", queue, security="nosec")
            ),
            security="nosec", visible=visible, may_register=lambda principal: principal != "guest",
            access=access,
        )  # fmt: skip
        things.catalogue.things = listed
        application = web.Application(middlewares=[as_user])
        directory.add_routes(application)
        async with TestClient(TestServer(application)) as client:
            await client.get("/things")
            await test(client, things, clock)
            directory.close()

    asyncio.run(main())


async def ids(client: TestClient[Any, Any], path: str, headers: Any = None) -> Any:
    """Those in an answer."""
    async with client.get(path, headers=headers) as answer:
        return [each["id"] for each in await answer.json(content_type=None)]


async def event(stream: Any) -> tuple[str, str]:
    """The next event of a stream, and its data."""
    fields: dict[str, str] = {}
    while line := (await stream.content.readline()).decode().rstrip("\n"):
        name, _, value = line.partition(": ")
        fields[name] = value
    return fields["event"], fields["data"]


def test_what_a_user_must_not_see_is_in_no_answer() -> None:
    """Neither listed, counted, found nor described; a request for it is answered as if there were none."""

    async def test(client: TestClient[Any, Any], things: KnownThings, clock: Clock) -> None:
        for id in ("urn:dev:a", "urn:dev:a-hidden"):
            assert (await client.put(f"/things/{id}", json=td(id))).status == 201
        everything = ["urn:dev:a", "urn:dev:a-hidden", "urn:dev:own", "urn:dev:own-hidden"]
        assert await ids(client, "/things") == everything
        for path in ("/things", "/search?text=lamp", "/search/jsonpath?query=$[*]", "/things?limit=2"):
            assert await ids(client, path, EVE) == ["urn:dev:a", "urn:dev:own"]
        assert await ids(client, "/search?where=secret=5") == ["urn:dev:own", "urn:dev:own-hidden"]
        assert await ids(client, "/search?where=secret=5", EVE) == []
        assert await ids(client, "/search?where=level=7", EVE) == ["urn:dev:own"]
        collection = await (await client.get("/things?format=collection", headers=EVE)).json(content_type=None)
        assert collection["total"] == 2
        patch = {"Content-Type": "application/merge-patch+json"} | EVE
        for hidden in ("urn:dev:a-hidden", "urn:dev:none-hidden"):
            for answer in (
                await client.get(f"/things/{hidden}", headers=EVE),
                await client.patch(f"/things/{hidden}", data=b"{}", headers=patch),
                await client.delete(f"/things/{hidden}", headers=EVE),
            ):
                assert (answer.status, (await answer.json())["detail"]) == (
                    404, f"no thing {hidden!r}: GET /things lists all",
                )  # fmt: skip
        assert (await client.get("/things/urn:dev:own-hidden", headers=EVE)).status == 404
        for hidden in ("urn:dev:a-hidden", "urn:dev:own-hidden"):
            assert (await client.put(f"/things/{hidden}", json=td(hidden), headers=EVE)).status == 403
        assert (await client.get("/things/urn:dev:a-hidden")).status == 200

    served(test)


def test_only_those_register_who_may() -> None:
    """What is there is not told to others by that: the answer comes before any is looked up."""

    async def test(client: TestClient[Any, Any], things: KnownThings, clock: Clock) -> None:
        guest = {"User": "guest"}
        details = set()
        for method, path in (
            ("POST", "/things"), ("PUT", "/things/urn:dev:own"), ("PATCH", "/things/urn:dev:none"),
            ("DELETE", "/things/urn:dev:own"),
        ):  # fmt: skip
            answer = await client.request(method, path, json=td("urn:dev:own"), headers=guest)
            details.add((answer.status, (await answer.json())["detail"]))
        assert details == {(403, "only operators may register, change and delete descriptions")}
        assert (await client.get("/things/urn:dev:own", headers=guest)).status == 200

    served(test)


def test_a_user_is_told_of_what_he_sees_alone() -> None:
    """A thing that is hidden from now on is deleted for him; one that shows itself is created."""

    async def test(client: TestClient[Any, Any], things: KnownThings, clock: Clock) -> None:
        stream = await client.get("/events", headers=EVE)
        for title in ("Hidden", "Lamp", "Dim lamp", "Hidden", "Hidden still"):
            await client.put("/things/urn:dev:a", json=td("urn:dev:a", title=title))
            clock.now_ns += S
        expected = ["thing_created", "thing_updated", "thing_deleted", "thing_created"]
        assert [(await event(stream))[0] for _ in expected] == expected
        stream.close()

    served(test)


def test_things_of_the_system_are_announced_with_what_has_changed_alone() -> None:
    """Not with the ids of queues, which differ in each description."""

    async def test(client: TestClient[Any, Any], things: KnownThings, clock: Clock) -> None:
        stream = await client.get("/events?diff=true")
        brighter = CatalogueEntry(
            "urn:dev:own", "house", "x", "things", 2, "p2", (), MODEL | {"title": "Bright lamp"}, {}
        )
        clock.now_ns += S
        things.catalogue.things = {"urn:dev:own": brighter, "urn:dev:new": own("urn:dev:new")}
        await client.get("/things")
        assert await event(stream) == (
            "thing_updated",
            '{"title":"Bright lamp","registration":{"modified":"2027-01-15T08:00:01.000Z"},"id":"urn:dev:own"}',
        )
        assert (await event(stream))[0] == "thing_created"
        assert await event(stream) == ("thing_deleted", '{"id":"urn:dev:own-hidden"}')
        stream.close()

    served(test)


def test_a_thing_of_the_system_wins_over_a_registration() -> None:
    """It is what a request to its id reaches."""

    async def test(client: TestClient[Any, Any], things: KnownThings, clock: Clock) -> None:
        assert (await client.put("/things/urn:dev:late", json=td("urn:dev:late", title="Foreign"))).status == 201
        things.catalogue.things = {"urn:dev:late": own("urn:dev:late")}
        assert (await (await client.get("/things/urn:dev:late")).json(content_type=None))["title"] == "Lamp"
        assert await ids(client, "/things") == ["urn:dev:late"]
        assert (await client.delete("/things/urn:dev:late")).status == 405

    served(test)


def test_a_registration_is_renewed_by_each_change() -> None:
    """And gone at the moment at which it expires, whoever asks first."""

    async def test(client: TestClient[Any, Any], things: KnownThings, clock: Clock) -> None:
        path, patch = "/things/urn:dev:a", {"Content-Type": "application/merge-patch+json"}
        await client.put(path, json=td("urn:dev:a", registration={"ttl": 60}))
        clock.now_ns += 59 * S
        assert (await client.patch(path, data=b'{"title": "Dim lamp"}', headers=patch)).status == 204
        clock.now_ns += 60 * S - 1
        found = await (await client.get(path)).json(content_type=None)
        assert found["registration"] == {
            "created": "2027-01-15T08:00:00.000Z",
            "modified": "2027-01-15T08:00:59.000Z",
            "ttl": 60,
            "expires": "2027-01-15T08:01:59.000Z",
            "retrieved": "2027-01-15T08:01:58.999Z",
        }
        clock.now_ns += 1
        assert (await client.get(path)).status == 404
        assert (await client.put(path, json=td("urn:dev:a"))).status == 201

    served(test)


def test_what_cannot_be_kept_is_not_registered() -> None:
    """The disk is full: the client is told, and nothing has changed."""

    async def test(client: TestClient[Any, Any], things: KnownThings, clock: Clock) -> None:
        answer = await client.put("/things/urn:dev:a", json=td("urn:dev:a"))
        assert answer.status == 507 and "disk is full" in await answer.text()
        assert (await client.get("/things/urn:dev:a")).status == 404

    served(test, FullDisk(None))


def test_the_directory_is_full_at_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says what to do."""
    monkeypatch.setattr("appbackplane.runtime.things.directory.registered_things.REGISTRATIONS_MAX", 1)

    async def test(client: TestClient[Any, Any], things: KnownThings, clock: Clock) -> None:
        await client.put("/things/urn:dev:a", json=td("urn:dev:a"))
        answer = await client.put("/things/urn:dev:b", json=td("urn:dev:b"))
        assert answer.status == 507 and "delete some, or give them a ttl" in await answer.text()

    served(test)


def test_searches_by_jsonpath_are_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are told to come back."""
    monkeypatch.setattr("appbackplane.runtime.things.web.directory_api.SEARCHES_MAX", 0)

    async def test(client: TestClient[Any, Any], things: KnownThings, clock: Clock) -> None:
        answer = await client.get("/search/jsonpath?query=$")
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")

    served(test)


def permitted(folder: Path, *permissions: Permission) -> Access:
    """These are all permissions; Ada is an operator."""
    policy = PermissionPolicy(file=str(folder / "p.json"), operators=("ada",), audit=str(folder / "p.audit"))
    change(folder / "p.json", lambda _: (Permissions(permissions=permissions), None))
    return Access(policy, lambda: 1_000.0)


def test_a_search_by_value_is_a_read(tmp_path: Path) -> None:
    """Who may observe a property would else find its value by guessing."""

    async def test(client: TestClient[Any, Any], things: KnownThings, clock: Clock) -> None:
        assert await ids(client, "/search?where=level=7", EVE) == []
        assert await ids(client, "/search?where=level=7", {"User": "dan"}) == ["urn:dev:own"]
        assert await ids(client, "/search?where=level=7") == ["urn:dev:own", "urn:dev:own-hidden"]

    both = ("eve", "observe"), ("dan", "read")
    given = [Permission(id=who, who=who, access=(access,), things=("urn:dev:own",)) for who, access in both]
    served(test, access=permitted(tmp_path, *given))


def test_the_state_of_a_list_tells_no_hidden_change() -> None:
    """A counter of all changes would tell how much happens to the things of others."""

    async def state(client: TestClient[Any, Any], offset: int) -> str:
        async with client.get(f"/things?limit=1&offset={offset}", headers=EVE) as answer:
            link = next(each for each in answer.headers.getall("Link") if "canonical" in each)
            return link.partition("etag=")[2]

    async def test(client: TestClient[Any, Any], things: KnownThings, clock: Clock) -> None:
        await client.put("/things/urn:dev:a", json=td("urn:dev:a"))
        before = await state(client, 0)
        await client.put("/things/urn:dev:b-hidden", json=td("urn:dev:b-hidden"))
        assert await state(client, 0) == await state(client, 1) == before
        await client.put("/things/urn:dev:a", json=td("urn:dev:a", title="Dim lamp"))
        assert await state(client, 1) != before

    served(test)


def test_a_new_permission_opens_no_past(tmp_path: Path) -> None:
    """Descriptions that have changed since are not told; an operator is told all."""

    async def test(client: TestClient[Any, Any], things: KnownThings, clock: Clock) -> None:
        for title in ("First", "Second"):
            await client.put("/things/urn:dev:a", json=td("urn:dev:a", title=title))
        stream = await client.get("/events?diff=true", headers={"Last-Event-ID": event_id("e1", 0)})
        assert '"First"' in (await event(stream))[1]
        stream.close()
        stream = await client.get("/events?diff=true", headers=EVE | {"Last-Event-ID": event_id("e1", 0)})
        assert await event(stream) == ("lost", "null")
        await client.put("/things/urn:dev:b", json=td("urn:dev:b"))
        assert (await event(stream))[0] == "thing_created"
        stream.close()

    served(test, access=permitted(tmp_path))


def test_refusals_by_the_directory_are_in_the_audit_log(tmp_path: Path) -> None:
    """Of those who may not see a registration, and of those who may not register."""

    async def test(client: TestClient[Any, Any], things: KnownThings, clock: Clock) -> None:
        hidden, guest = "/things/urn:dev:a-hidden", {"User": "guest"}
        await client.put(hidden, json=td("urn:dev:a-hidden"))
        assert (await client.get(hidden, headers=EVE)).status == 404
        assert (await client.put(hidden, json=td("urn:dev:a-hidden"), headers=guest)).status == 403
        assert (await client.post("/things", json=td("urn:dev:b"), headers=guest)).status == 403
        lines = [json.loads(line) for line in (tmp_path / "p.audit").read_text().splitlines()]
        assert [(each["who"], each["did"], each["thing"], each["permitted"]) for each in lines] == [
            ("eve", "describe", "urn:dev:a-hidden", False), ("guest", "register", "urn:dev:a-hidden", False),
            ("guest", "register", "", False),
        ]  # fmt: skip

    served(test, access=permitted(tmp_path))
