"""W3C's profiles for HTTP, against a gateway that serves: what its descriptions claim, and a client that knows nothing else.

judges/profile_assertions.csv names the test for each assertion. The client follows the forms of the description alone.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

import pytest

from tests.waiting import wait_until

from .conftest import System, ask_until
from .test_things import BRIGHTNESS, LAMP, TOKEN, Answer, Web, house_up

TOML = f"""
[backplane.things]
components = ["housed:House"]
[backplane.gates]
components = ["housed:Gates"]
[backplane.web]
components = ["appbackplane.runtime.things.web:Gateway"]
[backplane.web.settings.Gateway]
listen = "127.0.0.1:0"
basic = true
tokens = {{ ada = "{hashlib.sha256(TOKEN.encode()).hexdigest()}" }}
"""
V11 = "https://www.w3.org/2022/wot/td/v1.1"
PROFILES = ["https://www.w3.org/2022/wot/profile/http-basic/v1", "https://www.w3.org/2022/wot/profile/http-sse/v1"]
JSON, PROBLEM = "application/json", "application/problem+json"
#: A date and time of RFC 3339.
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


class ProfileClient(Web):
    """A client that signs in by Basic, and finds what it uses by the forms of one description."""

    def __init__(self, system: System, user: str = "ada", password: str = TOKEN) -> None:
        super().__init__(system, token=None)
        self._headers = {"Authorization": f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}", "Accept": JSON}

    def description(self) -> Any:
        return self.ask("GET", LAMP).body

    def path(self, op: str, *names: str, subprotocol: str | None = None) -> str:
        """Of the form for an operation: of an affordance, such as ("properties", "brightness"), or of the thing."""
        td = found = self.description()
        for name in names:
            found = found[name]
        hrefs = [
            urljoin(td["base"], form["href"])
            for form in found["forms"]
            if op in form["op"] and form.get("subprotocol") == subprotocol and form["contentType"] == JSON
        ]
        assert len(hrefs) == 1 and hrefs[0].startswith(f"http://{self._at}/")
        return hrefs[0].removeprefix(f"http://{self._at}")


@pytest.fixture(scope="module")
def house(_no_ignored_interrupt: None) -> Iterator[System]:
    """One system for all."""
    with house_up(TOML) as system:
        yield system


@pytest.fixture
def client(house: System) -> ProfileClient:
    """Ada's."""
    return ProfileClient(house)


def is_json(answer: Answer, status: int) -> bool:
    return answer.status == status and answer.headers["Content-Type"] in (JSON, f"{JSON}; charset=utf-8")


def is_problem(answer: Answer, status: int) -> bool:
    """Whether it tells what went wrong, in the form of problem details."""
    is_told = answer.headers["Content-Type"] == PROBLEM and answer.body["status"] == status and answer.body["detail"]
    return answer.status == status and bool(is_told)


def test_a_description_claims_its_profiles(client: ProfileClient) -> None:
    """In the version of descriptions that has the member, from the address of the thing."""
    answer = client.ask("GET", LAMP)
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/td+json"
    assert answer.body["profile"] == PROFILES and V11 in answer.body["@context"]


def test_a_description_can_be_read_to_a_person(client: ProfileClient) -> None:
    """It has a title, a text, their language, and the units of its quantities."""
    td = client.description()
    languages = [each["@language"] for each in td["@context"] if isinstance(each, dict) and "@language" in each]
    assert (td["title"], td["description"], languages) == ("Lamp", "A lamp.", ["en"])
    assert td["properties"]["brightness"]["unit"] == "percent"


def test_users_sign_in_as_the_description_says(house: System, client: ProfileClient) -> None:
    """With the scheme that the profiles know; who does not learns of it from the refusal."""
    td = client.description()
    definition = td["securityDefinitions"][td["security"][0]]
    assert (definition["scheme"], definition["in"], definition["name"]) == ("basic", "header", "Authorization")
    assert client.ask("GET", f"{LAMP}/properties/user").body == "ada by web"
    assert ProfileClient(house, user="").ask("GET", LAMP).status == 200, "the token alone tells who it is"
    for stranger in (Web(house, token=None), ProfileClient(house, password="guess"), ProfileClient(house, "eve")):
        refused = stranger.ask("GET", LAMP)
        assert is_problem(refused, 401) and refused.headers["WWW-Authenticate"].startswith("Basic ")


def test_properties_are_read_and_written_by_their_forms(client: ProfileClient) -> None:
    """One, and all that can be read or are given."""
    path = client.path("readproperty", "properties", "brightness")
    assert client.ask("PUT", client.path("writeproperty", "properties", "brightness"), 12).status == 204
    answer = client.ask("GET", path)
    assert is_json(answer, 200) and answer.body == 12
    assert (
        client.ask("PUT", client.path("writemultipleproperties"), {"brightness": 13, "picture": "AAH/"}).status == 204
    )
    answer = client.ask("GET", client.path("readallproperties"))
    expected = {"brightness": 13, "picture": "AAH/", "user": "ada by web", "range": [1, "step"]}
    assert is_json(answer, 200) and answer.body == expected


def test_a_synchronous_action_is_answered_with_its_output(client: ProfileClient) -> None:
    """As the description says; there is nothing to ask later."""
    actions = client.description()["actions"]
    assert all(type(each["synchronous"]) is bool for each in actions.values()) and actions["double"]["synchronous"]
    assert {op for form in actions["double"]["forms"] for op in form["op"]} == {"invokeaction"}
    answer = client.ask("POST", client.path("invokeaction", "actions", "double"), {"number": 21})
    assert is_json(answer, 200) and answer.body == 42 and "Location" not in answer.headers
    without = client.ask("POST", client.path("invokeaction", "actions", "burst"), {"count": 0})
    assert (without.status, without.body, without.headers["Content-Type"]) == (204, None, None)
    refused = client.ask("POST", client.path("invokeaction", "actions", "double"), {"number": "many"})
    assert is_problem(refused, 400)


def begun(client: ProfileClient, to: Any) -> str:
    """The path of a long action that has just begun."""
    answer = client.ask("POST", client.path("invokeaction", "actions", "fade"), {"to": to})
    assert is_json(answer, 201) and answer.body["status"] in ("pending", "running")
    href = urljoin(f"http://{client._at}/", answer.body["href"])
    assert href == urljoin(f"http://{client._at}/", answer.headers["Location"]) and href.startswith("http://")
    return href.removeprefix(f"http://{client._at}")


def status_at_the_end(client: ProfileClient, href: str) -> Any:
    """The ActionStatus of a long action, when it has ended."""
    wait_until(lambda: client.ask("GET", href).body["status"] not in ("pending", "running"), "it does not end")
    answer = client.ask("GET", href)
    assert is_json(answer, 200) and answer.body["href"] == href
    return answer.body


def test_an_asynchronous_action_has_a_status(house: System, client: ProfileClient) -> None:
    """Which tells its output or its error, and when it began and ended."""
    assert client.description()["actions"]["fade"]["synchronous"] is False
    with house.connect() as caller:
        href = begun(client, 80)
        ask_until(caller, "gates.waiting", lambda count: count == 1)
        caller.call("gates.release")
    completed, failed = status_at_the_end(client, href), status_at_the_end(client, begun(client, "far"))
    assert (completed["status"], completed["output"], "error" in completed) == ("completed", 80, False)
    assert client.description()["actions"]["fade"]["output"]["type"] == "integer"
    assert (failed["status"], failed["error"]["status"]) == ("failed", 400) and "'to'" in failed["error"]["detail"]
    for each in (completed, failed):
        times = each["timeRequested"], each["timeEnded"]
        assert all(RFC_3339.fullmatch(text) for text in times)
        requested, ended = map(datetime.datetime.fromisoformat, times)
        assert requested <= ended


def test_a_user_lists_and_cancels_asynchronous_actions(house: System, client: ProfileClient) -> None:
    """Each action has its own list, the latest first."""
    with house.connect() as caller:
        hrefs = [begun(client, to) for to in (1, 2, 3)]
        answer = client.ask("GET", client.path("queryallactions"))
        assert is_json(answer, 200) and answer.body.keys() == {"fade"}
        assert [each["href"] for each in answer.body["fade"][:3]] == hrefs[::-1]
        for href in hrefs:
            assert client.ask("DELETE", href).status == 204
        ask_until(caller, "gates.waiting", lambda count: count == 0)
    assert {status_at_the_end(client, href)["status"] for href in hrefs} == {"failed"}


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("PUT", BRIGHTNESS, 101, {}, 400),
        ("PUT", BRIGHTNESS, b"{", {}, 400),
        ("GET", BRIGHTNESS, None, {"Authorization": "Basic ?"}, 401),
        ("GET", BRIGHTNESS, None, {"Sec-Fetch-Site": "cross-site"}, 403),
        ("PUT", BRIGHTNESS, 5, {"Origin": "https://evil.example"}, 403),
        ("GET", f"{LAMP}/properties/colour", None, {}, 404),
        ("GET", "/things/urn:dev:none/stream/events", None, {}, 404),
        ("GET", f"{LAMP}/actions/fade/0", None, {}, 404),
        ("PUT", f"{LAMP}/properties/user", "eve", {}, 405),
        ("PUT", BRIGHTNESS, 5, {"If-Match": '"old"'}, 412),
    ],
)
def test_whatever_fails_says_why(
    client: ProfileClient, method: str, path: str, body: Any, headers: dict[str, str], status: int
) -> None:
    """By the status and a problem; there is no choice between representations."""
    assert is_problem(client.ask(method, path, body, **headers), status)


def test_a_client_that_has_the_value_is_told_so(client: ProfileClient) -> None:
    """A redirection of the kind that caches know."""
    tag = client.ask("GET", BRIGHTNESS).headers["ETag"]
    answer = client.ask("GET", BRIGHTNESS, **{"If-None-Match": tag})
    assert (answer.status, answer.body) == (304, None)


def test_changes_of_one_property_are_sent_and_sent_again(client: ProfileClient) -> None:
    """By its name, with ids; whoever comes back gets what was missed."""
    path = client.path("observeproperty", "properties", "brightness", subprotocol="sse")
    sent_and_sent_again(client, path, "brightness")


def test_changes_of_all_properties_are_sent_and_sent_again(client: ProfileClient) -> None:
    """By one stream."""
    sent_and_sent_again(client, client.path("observeallproperties", subprotocol="sse"), "brightness")


def sent_and_sent_again(client: ProfileClient, path: str, name: str) -> None:
    client.ask("PUT", BRIGHTNESS, 1)
    stream = client.events(path, 4)
    next(stream)
    for value in range(2, 6):
        assert client.ask("PUT", BRIGHTNESS, value).status == 204
    told = list(stream)
    assert [(event, data) for event, _, data in told] == [(name, value) for value in range(2, 6)]
    replayed(client, path, told)


def replayed(client: ProfileClient, path: str, told: list[tuple[str, str, Any]]) -> None:
    """Each message has an id of its own, and who has the second one gets the third."""
    assert len({id for _, id, _ in told}) == len(told)
    _, *again = client.events(path, len(told) - 2, Last_Event_ID=told[1][1])
    assert again == told[2:]


@pytest.mark.parametrize("is_all", [False, True])
def test_events_are_sent_and_sent_again(client: ProfileClient, is_all: bool) -> None:
    """One, and all of a thing by one stream: by name, as data of the kind that the description says."""
    event = client.description()["events"]["overheated"]
    if is_all:
        path = client.path("subscribeallevents", subprotocol="sse")
    else:
        path = client.path("subscribeevent", "events", "overheated", subprotocol="sse")
    stream = client.events(path, 4)
    next(stream)
    client.ask("POST", f"{LAMP}/actions/burst", {"count": 4})
    told = list(stream)
    assert [(name, data) for name, _, data in told] == [("overheated", float(number)) for number in range(4)]
    assert event["data"] == {"type": "number"}
    replayed(client, path, told)
