"""The directory over HTTP: registered descriptions beside the system's own things, searches, events, and kill -9."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import pytest

from .conftest import System, wait_dead
from .test_things import LAMP_7, Web, house_up

#: Without tokens, and with rooms that come and go.
OPEN_TOML = """
[backplane.rooms]
components = ["catalogued:Rooms"]
[backplane.web]
components = ["appbackplane.runtime.things.web:Gateway"]
restart = { max = 1000, backoff = "5ms", backoff_max = "10ms" }
[backplane.web.settings.Gateway]
listen = "127.0.0.1:0"
anonymous = true
"""
ROOMS = ["urn:dev:room-1", "urn:dev:room-2"]
MERGE_PATCH = "application/merge-patch+json"


def lamp(**members: Any) -> dict[str, Any]:
    """The description of a lamp that lives elsewhere."""
    return {
        "@context": "https://www.w3.org/2022/wot/td/v1.1",
        "id": "urn:dev:lamp-7",
        "title": "Lamp of a neighbour",
        "security": "none",
        "securityDefinitions": {"none": {"scheme": "nosec"}},
        "properties": {"on": {"type": "boolean", "forms": [{"href": "http://lamp-7.example/on"}]}},
    } | members


@pytest.fixture(scope="module")
def rooms(_no_ignored_interrupt: None) -> Iterator[System]:
    """One system for all."""
    with house_up(OPEN_TOML, token=None, things=(*ROOMS,)) as system:
        yield system


@pytest.fixture
def web(rooms: System) -> Iterator[Web]:
    """A client; what it registers is gone afterwards."""
    web = Web(rooms, token=None)
    web.wait_listed(*ROOMS)
    yield web
    for each in Web(rooms, token=None).ask("GET", "/things").body:
        if each["id"] not in ROOMS:
            web.ask("DELETE", f"/things/{quote(each['id'], safe='')}")


def ids(web: Web, path: str) -> list[str]:
    """Those of the descriptions in an answer."""
    return [each["id"] for each in web.ask("GET", path).body]


def test_a_description_is_registered_changed_and_deleted(web: Web) -> None:
    """The requests of the standard, each with its status."""
    assert web.ask("PUT", LAMP_7, lamp(), Content_Type="application/td+json").status == 201
    found = web.ask("GET", LAMP_7)
    assert found.headers["Content-Type"] == "application/td+json"
    registration = found.body.pop("registration")
    assert registration.keys() == {"created", "modified", "retrieved"}
    assert found.body == lamp(
        **{"@context": ["https://www.w3.org/2022/wot/td/v1.1", "https://www.w3.org/2022/wot/discovery"]}
    )
    assert web.ask("PUT", LAMP_7, lamp(title="Dim lamp"), Content_Type="application/td+json").status == 204
    patch = {"title": None, "titles": {"de": "Lampe"}, "registration": {"ttl": 3600}}
    refused = web.ask("PATCH", LAMP_7, patch, Content_Type=MERGE_PATCH)
    assert refused.status == 400 and refused.body["validationErrors"][0]["field"] == "title"
    assert web.ask("PATCH", LAMP_7, patch | {"title": "Lamp"}, Content_Type=MERGE_PATCH).status == 204
    found = web.ask("GET", LAMP_7).body
    assert (found["title"], found["titles"]) == ("Lamp", {"de": "Lampe"})
    assert found["registration"]["created"] == registration["created"] and found["registration"]["ttl"] == 3600
    assert web.ask("HEAD", LAMP_7).status == 200
    assert web.ask("DELETE", LAMP_7).status == 204
    assert [web.ask(method, LAMP_7).status for method in ("GET", "DELETE")] == [404, 404]
    assert web.ask("PATCH", LAMP_7, patch, Content_Type=MERGE_PATCH).status == 404


def test_an_anonymous_description_gets_an_id(web: Web) -> None:
    """The header `Location` has it alone."""
    td = lamp()
    del td["id"]
    created = web.ask("POST", "/things", td)
    assert created.status == 201 and created.headers["Location"].startswith("urn:uuid:")
    assert web.ask("GET", f"/things/{created.headers['Location']}").body["id"] == created.headers["Location"]


@pytest.mark.parametrize(
    ("method", "path", "body", "content_type", "status", "words"),
    [
        ("POST", "/things", lamp(), "application/td+json", 400, "registered by PUT /things/ID"),
        (
            "PUT",
            "/things/urn:dev:lamp-8",
            lamp(),
            "application/td+json",
            400,
            "expected 'urn:dev:lamp-8', as in the path",
        ),
        ("PUT", LAMP_7, lamp(security=[]), "application/td+json", 400, "security: expected the name"),
        ("PUT", LAMP_7, lamp(), "text/turtle", 415, "application/td+json"),
        ("PUT", LAMP_7, [1], "application/td+json", 400, "expected a JSON object"),
        ("PUT", LAMP_7, b"", "application/td+json", 400, "expected a JSON object"),
        ("PUT", LAMP_7, lamp(title="x" * (300 << 10)), "application/td+json", 413, "at most 256 KiB"),
        ("PUT", LAMP_7, b'{"a":' * 500 + b"1" + b"}" * 500, "application/td+json", 413, "nested at most"),
        ("PATCH", LAMP_7, {"title": "x"}, "application/json", 415, "application/merge-patch+json"),
        ("PATCH", LAMP_7, {"title": "x"}, MERGE_PATCH, 404, "no thing 'urn:dev:lamp-7'"),
        (
            "PUT",
            "/things/urn:dev:room-1",
            lamp(id="urn:dev:room-1"),
            "application/td+json",
            405,
            "derived from its class",
        ),
        ("PATCH", "/things/urn:dev:room-1", {"title": "x"}, MERGE_PATCH, 405, "read only here"),
        ("DELETE", "/things/urn:dev:room-1", None, "", 405, "read only here"),
        ("GET", "/things?format=turtle", None, "", 400, "expected array or collection"),
        ("GET", "/search/sparql?query=x", None, "", 501, "/search/jsonpath"),
        ("GET", "/search/jsonpath?query=*/id", None, "", 400, "unexpected token"),
        ("GET", "/search/jsonpath", None, "", 400, "query: missing"),
        ("GET", "/search?where=warm", None, "", 400, "temperature>21"),
        ("GET", "/events/thing_moved", None, "", 404, "thing_created, thing_updated, thing_deleted"),
        ("GET", "/events?diff=maybe", None, "", 400, "expected true or false"),
    ],
)
def test_errors_of_the_directory_are_problems(
    web: Web, method: str, path: str, body: Any, content_type: str, status: int, words: str
) -> None:
    """Each says what to do."""
    answer = web.ask(method, path, body, **({"Content_Type": content_type} if content_type else {}))
    assert (answer.status, answer.headers["Content-Type"]) == (status, "application/problem+json")
    assert answer.body["status"] == status and words in answer.body["detail"]


def test_an_id_cannot_be_patched(web: Web) -> None:
    """Nor does a patch make a description that is too large, or too deep."""
    web.ask("PUT", LAMP_7, lamp(description="x" * (200 << 10)))
    moved = web.ask("PATCH", LAMP_7, {"id": "urn:dev:lamp-8"}, Content_Type=MERGE_PATCH)
    assert moved.status == 400 and "an id cannot be changed" in moved.body["detail"]
    assert web.ask("PATCH", LAMP_7, {"support": "x" * (100 << 10)}, Content_Type=MERGE_PATCH).status == 413


def test_one_sorted_list_has_all_things_page_by_page(web: Web) -> None:
    """Those of the system and of others; the next page is linked, and the canonical list with its state."""
    for name in ("urn:dev:a", "urn:dev:room-15", "urn:dev:z"):
        assert web.ask("PUT", f"/things/{name}", lamp(id=name)).status == 201
    everything = ["urn:dev:a", "urn:dev:room-1", "urn:dev:room-15", "urn:dev:room-2", "urn:dev:z"]
    whole = web.ask("GET", "/things")
    assert [each["id"] for each in whole.body] == everything and whole.headers["Link"] is None
    assert whole.headers["Content-Type"] == "application/ld+json"
    assert all(each["registration"]["created"] for each in whole.body)
    path, found, states = "/things?limit=2", [], set()
    while path:
        page = web.ask("GET", path)
        found += [each["id"] for each in page.body]
        links = {link.split("; ")[1]: link for link in page.headers.get_all("Link")}
        states.add(links['rel="canonical"'])
        path = links.get('rel="next"', "<>;").partition(">")[0][1:]
    assert found == everything and len(states) == 1
    collection = web.ask("GET", "/things?offset=3&limit=1&format=collection").body
    assert [each["id"] for each in collection.pop("members")] == ["urn:dev:room-2"]
    assert collection == {
        "@context": "https://www.w3.org/2022/wot/discovery",
        "@type": "ThingCollection",
        "total": 5,
        "@id": "/things?offset=3&limit=1&format=collection",
        "next": "/things?offset=4&limit=1&format=collection",
    }


def test_things_are_found_by_text_type_place_and_state(web: Web) -> None:
    """The warm rooms near the hall."""
    for number in (1, 2):
        assert web.ask("PUT", f"/things/urn:dev:room-{number}/properties/temperature", 20 + number).status == 204
    web.ask("PUT", LAMP_7, lamp(**{"schema:containedInPlace": {"schema:name": "Hall"}}))
    assert ids(web, "/search?where=temperature%3E21") == ["urn:dev:room-2"]
    assert ids(web, "/search?where=temperature%3E20&place=hall") == ["urn:dev:room-1"]
    assert ids(web, "/search?place=hall") == ["urn:dev:lamp-7", "urn:dev:room-1"]
    assert ids(web, "/search?type=brick:Room") == ROOMS
    assert ids(web, "/search?text=neighbour") == ["urn:dev:lamp-7"]
    assert ids(web, "/search?limit=1&offset=2") == ["urn:dev:room-2"]
    room = web.ask("GET", "/things/urn:dev:room-1").body
    assert room["schema:containedInPlace"] == "ground floor, hall"
    assert {"schema": "https://schema.org/"}.items() <= room["@context"][-1].items()
    assert web.ask("GET", "/search/jsonpath?query=" + quote("$[?@.title == 'Room'].id")).body == ROOMS


def test_events_tell_what_comes_changes_and_goes(web: Web) -> None:
    """As server-sent events, with ids to go on from; by kind, and with what has changed."""
    everything, updates = web.events("/events?diff=true", 3), web.events("/events/thing_updated", 1)
    assert next(everything)[0] == next(updates)[0] == "open"
    web.ask("PUT", LAMP_7, lamp())
    web.ask("PATCH", LAMP_7, {"title": "Dim lamp"}, Content_Type=MERGE_PATCH)
    web.ask("DELETE", LAMP_7)
    created, updated, deleted = everything
    assert (created[0], created[2]["title"]) == ("thing_created", "Lamp of a neighbour")
    assert (updated[0], updated[2].pop("registration").keys()) == ("thing_updated", {"modified"})
    assert updated[2] == {"id": "urn:dev:lamp-7", "title": "Dim lamp"}
    assert (deleted[0], deleted[2]) == ("thing_deleted", {"id": "urn:dev:lamp-7"})
    assert list(updates) == [("thing_updated", updated[1], {"id": "urn:dev:lamp-7"})]
    _, *again = web.events("/events", 2, Last_Event_ID=created[1])
    assert [each[:2] for each in again] == [updated[:2], deleted[:2]]
    _, gap = web.events("/events", 1, Last_Event_ID="0badc0de-3")
    assert gap == ("lost", "", None)


def test_things_of_the_system_that_come_and_go_are_announced(rooms: System, web: Web) -> None:
    """Whoever listens needs no list."""
    stream = web.events("/events?diff=true", 3)
    next(stream)
    with rooms.connect() as client:
        client.call("rooms.furnish", name="urn:dev:room-3")
        event, _, td = next(stream)
        assert (event, td["id"], td["properties"]["temperature"]["unit"]) == (
            "thing_created",
            "urn:dev:room-3",
            "celsius",
        )
        client.call("rooms.move", name="urn:dev:room-3", place="attic")
        event, _, patch = next(stream)
        assert (event, patch["schema:containedInPlace"]) == ("thing_updated", "attic")
        assert patch.keys() == {"id", "schema:containedInPlace", "@context", "registration"}
        client.call("rooms.clear", name="urn:dev:room-3")
    assert [each[0] for each in stream] == ["thing_deleted"]


def test_a_registration_ends_with_its_time_to_live(web: Web) -> None:
    """And that is announced."""
    stream = web.events("/events/thing_deleted", 1)
    next(stream)
    assert web.ask("PUT", LAMP_7, lamp(registration={"ttl": 0.2})).status == 201
    assert next(stream)[2] == {"id": "urn:dev:lamp-7"}
    assert web.ask("GET", LAMP_7).status == 404 and ids(web, "/things") == ROOMS


def test_the_directory_describes_itself(web: Web) -> None:
    """Where the standard looks for it; each of its forms is a path that is served."""
    answer = web.ask("GET", "/.well-known/wot")
    td = answer.body
    assert answer.headers["Content-Type"] == "application/td+json"
    assert "ThingDirectory" in td["@type"] and "https://www.w3.org/2022/wot/discovery" in td["@context"]
    assert td["base"] == f"http://{web._at}/" and td["securityDefinitions"] == {"nosec": {"scheme": "nosec"}}
    hrefs = {
        form["href"].partition("{?")[0]: form["htv:methodName"]
        for each in (*td["properties"].values(), *td["actions"].values())
        for form in each["forms"]
    }
    for href, method in hrefs.items():
        assert web.ask(method, f"/{href.replace('{id}', 'urn:dev:room-1')}").status != 404
    for each in td["events"].values():
        next(web.events("/" + each["forms"][0]["href"].partition("{?")[0], 0))


def test_errors_are_in_utf_8(web: Web) -> None:
    """Also those of validation."""
    with closing(web.open("PUT", LAMP_7, lamp(security="glühen"))) as response:
        assert "'glühen' is not in" in json.loads(response.read().decode("utf-8"))["validationErrors"][0]["description"]
    with closing(web.open("GET", f"/things/{quote('urn:dev:ü')}")) as response:
        assert "no thing 'urn:dev:ü'" in json.loads(response.read().decode("utf-8"))["detail"]


def test_heads_have_the_headers_of_the_answers(web: Web) -> None:
    """And no body."""
    for path in ("/things", "/things/urn:dev:room-1", "/.well-known/wot", "/search", "/search/jsonpath?query=$[*].id"):
        head, answer = web.ask("HEAD", path), web.ask("GET", path)
        assert (head.status, head.body) == (200, None)
        for name in ("Content-Type", "Content-Length", "Cache-Control", "Link"):
            assert head.headers[name] == answer.headers[name]


@pytest.mark.parametrize("content_type", ["application/json", "application/ld+json; charset=utf-8"])
def test_a_description_may_come_as_plain_json(web: Web, content_type: str) -> None:
    """Clients that know no type of their own for descriptions."""
    assert web.ask("PUT", LAMP_7, lamp(), Content_Type=content_type).status == 201


def test_a_browser_gets_a_page(web: Web) -> None:
    """It may run nothing: descriptions come from others."""
    web.ask("PUT", LAMP_7, lamp(title="<script>"))
    with closing(web.open("GET", LAMP_7, Accept="text/html,*/*;q=0.8")) as response:
        page = response.read().decode()
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "<h1>&lt;script&gt;</h1>" in page and f'href="http://{web._at}/things/urn%3Adev%3Alamp-7"' in page


def test_registrations_outlive_a_gateway_that_is_killed(rooms: System, web: Web) -> None:
    """Each that was answered is there; subscribers are told that they may have missed events."""
    stream = web.events("/events", 1)
    next(stream)
    web.ask("PUT", LAMP_7, lamp(registration={"ttl": 3600}))
    ((_, last, _),) = stream
    before = web.ask("GET", LAMP_7).body
    for number in range(50):
        assert web.ask("PUT", f"/things/urn:dev:many-{number}", lamp(id=f"urn:dev:many-{number}")).status == 201
    assert web.ask("DELETE", "/things/urn:dev:many-7").status == 204
    pid = rooms.pids()["web"]
    os.kill(pid, signal.SIGKILL)
    wait_dead(pid)
    again = Web(rooms, token=None)
    web._at = again._at  # the fixture cleans up with it
    again.wait_listed(*ROOMS)
    kept = {f"urn:dev:many-{number}" for number in range(50) if number != 7} | {"urn:dev:lamp-7", *ROOMS}
    assert set(ids(again, "/things")) == kept
    after = again.ask("GET", LAMP_7).body
    del before["registration"]["retrieved"], after["registration"]["retrieved"]
    assert json.dumps(after) == json.dumps(before)
    _, gap = again.events("/events", 1, Last_Event_ID=last)
    assert gap == ("lost", "", None)
