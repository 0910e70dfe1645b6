"""Things over HTTP: a gateway, a house with lamps, and clients of the standard library."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from tests.waiting import LIMIT_S, wait_until

from .conftest import System, ask_until, short_folder, systems_in, wait_dead

TOKEN = "correct-horse"
TOML = f"""
[backplane.things]
components = ["housed:House", "housed:Gates"]
restart = {{ max = 1000, backoff = "5ms", backoff_max = "10ms" }}
[backplane.web]
components = ["appbackplane.runtime.things.web:Gateway"]
restart = {{ max = 1000, backoff = "5ms", backoff_max = "10ms" }}
[backplane.web.settings.Gateway]
listen = "127.0.0.1:0"
tokens = {{ ada = "{hashlib.sha256(TOKEN.encode()).hexdigest()}" }}
"""
#: The things of this system.
HOUSE = ("urn:appbackplane:house:hall%2F2", "urn:dev:lamp-1")
LAMP = "/things/urn:dev:lamp-1"
BRIGHTNESS = f"{LAMP}/properties/brightness"
OVERHEATED = f"{LAMP}/events/overheated/stream"
#: A thing that nobody has registered.
LAMP_7 = "/things/urn:dev:lamp-7"


class Answer(NamedTuple):
    """An answer, and its body as JSON."""

    status: int
    headers: http.client.HTTPMessage
    body: Any


class Web:
    """A client of one gateway, as a user."""

    def __init__(self, system: System, token: str | None = TOKEN) -> None:
        with system.connect() as client:  # one that starts again is called before it listens
            address = ask_until(client, "gateway.address", bool)
        self._at = address.removeprefix("http://").rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def open(self, method: str, path: str, body: Any = None, **headers: str) -> http.client.HTTPResponse:
        """Send a request; the answer is not read yet."""
        connection = http.client.HTTPConnection(self._at, timeout=LIMIT_S)
        data = body if isinstance(body, bytes | None) else json.dumps(body)
        connection.request(
            method, path, body=data, headers=self._headers | {k.replace("_", "-"): v for k, v in headers.items()}
        )
        return connection.getresponse()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request, and read the answer."""
        with closing(self.open(method, path, body, **headers)) as response:
            data = response.read()
            return Answer(response.status, response.headers, json.loads(data) if data else None)

    def wait_listed(self, *ids: str) -> None:
        """Until the gateway lists these things: it learns of backplanes from the supervisor, and hears them before it lists."""

        def is_so() -> bool:
            listed = self.ask("GET", "/things")
            return listed.status == 200 and {*ids} <= {each["id"] for each in listed.body}

        wait_until(is_so, lambda: f"{ids} are not all in {self.ask('GET', '/things').body}")

    def events(self, path: str, count: int, **headers: str) -> Iterator[tuple[str, str, Any]]:
        """The messages of a stream: event, id and data. The first one is there when the stream is open."""
        with closing(self.open("GET", path, **headers)) as response:
            assert response.status == 200 and response.headers["Content-Type"] == "text/event-stream"
            yield "open", "", None
            for _ in range(count):
                fields: dict[str, str] = {}
                while True:
                    line = response.readline().decode().rstrip("\n")
                    if line and not line.startswith(":"):
                        name, _, value = line.partition(": ")
                        fields[name] = value
                    elif fields:
                        break
                yield fields.get("event", "message"), fields.get("id", ""), json.loads(fields["data"])


@pytest.fixture(scope="module")
def house(_no_ignored_interrupt: None) -> Iterator[System]:
    """One system for all."""
    with house_up() as system:
        yield system


@contextmanager
def house_up(toml: str = TOML, *, token: str | None = TOKEN, things: tuple[str, ...] = HOUSE) -> Iterator[System]:
    """The system of a TOML, which is up; its gateway lists these things to whoever has this token."""
    with short_folder() as folder, systems_in(folder) as begin:
        for name in ("housed.py", "catalogued.py"):
            shutil.copy(Path(__file__).with_name(name), folder)
        system = begin(toml)
        system.wait_up()
        if things:
            Web(system, token).wait_listed(*things)
        yield system


@pytest.fixture
def web(house: System) -> Web:
    """Ada's client."""
    return Web(house)


def killed_and_back(house: System, backplane: str) -> int:
    """Kill a backplane; the pid of its next process, which may be starting. Others learn of it later."""
    pid = house.pids()[backplane]
    os.kill(pid, signal.SIGKILL)
    wait_dead(pid)
    return wait_until(lambda: (again := house.pids()[backplane]) != pid and again, "the backplane is not back")


def wait_answers_again(web: Web) -> None:
    """Until the next process of the lamp answers: a property that is not observable is read there. From then on the gateway
    knows that the process before it has ended."""
    wait_until(
        lambda: web.ask("GET", f"{LAMP}/properties/range", Prefer="wait=1").status == 200, "the lamp is not back"
    )


def test_things_are_listed_and_described_with_their_forms(web: Web) -> None:
    """The description says where and how; a token is never part of it."""
    listed = web.ask("GET", "/things")
    assert [each["id"] for each in listed.body] == [*HOUSE]
    answer = web.ask("GET", LAMP)
    td = answer.body
    assert answer.headers["Content-Type"] == "application/td+json" and "no-store" in answer.headers["Cache-Control"]
    assert td["@context"][:2] == ["https://www.w3.org/2019/wot/td/v1", "https://www.w3.org/2022/wot/td/v1.1"]
    assert (td["@type"], td["title"], td["security"]) == (["saref:LightSwitch"], "Lamp", ["bearer"])
    read, poll, sse = td["properties"]["brightness"]["forms"]
    assert read == {
        "href": "things/urn%3Adev%3Alamp-1/properties/brightness",
        "op": ["readproperty", "writeproperty"],
        "contentType": "application/json",
    }
    assert (poll["subprotocol"], sse["subprotocol"]) == ("longpoll", "sse")
    assert [form["op"] for form in td["properties"]["user"]["forms"]] == [["readproperty"]]
    base = td["base"].removeprefix("http://" + web._at)
    assert web.ask("GET", base + read["href"]).status == 200
    first, second = listed.body[0]["properties"]["brightness"]["forms"][1]["href"], poll["href"]
    assert first.partition("sub=")[2] != second.partition("sub=")[2], "each retrieval has a queue of its own"


def test_pages_of_things(web: Web) -> None:
    """A client asks for as many as it can take."""
    first = web.ask("GET", "/things?limit=1")
    assert len(first.body) == 1 and first.headers["Link"] == '</things?offset=1&limit=1>; rel="next"'
    second = web.ask("GET", "/things?offset=1&limit=1")
    assert len(second.body) == 1 and second.body != first.body
    assert [each.partition(";")[0] for each in second.headers.get_all("Link")] == ["</things>"]
    assert web.ask("GET", "/things?limit=-1").status == 400


def test_properties_are_read_and_written(web: Web) -> None:
    """Whoever has written reads what he wrote, whether it comes from the cache or from the thing."""
    for value in range(20, 60):
        assert web.ask("PUT", BRIGHTNESS, value).status == 204
        assert web.ask("GET", BRIGHTNESS).body == value
    assert web.ask("PUT", f"{LAMP}/properties/picture", "AAH/").status == 204
    assert web.ask("GET", f"{LAMP}/properties/picture").body == "AAH/"
    everything = web.ask("GET", f"{LAMP}/properties").body
    assert everything == {"brightness": 59, "picture": "AAH/", "user": "ada by web", "range": [1, "step"]}
    other = f"/things/{quote('urn:appbackplane:house:hall%2F2', safe='')}/properties/brightness"
    assert web.ask("GET", other).body == 7


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("PUT", BRIGHTNESS, 101, 400, "<= 100"),
        ("PUT", BRIGHTNESS, b"{", 400, "the body is not valid JSON"),
        ("PUT", BRIGHTNESS, b'"\xff"', 400, "the body is not valid JSON"),
        ("PUT", BRIGHTNESS, None, 400, "expected the value as JSON"),
        ("PUT", f"{LAMP}/properties/picture", "A", 400, "expected base64"),
        ("PUT", f"{LAMP}/properties/user", "eve", 405, "read only"),
        ("GET", f"{LAMP}/properties/colour", None, 404, "has no 'colour' in its properties"),
        ("GET", "/things/urn:dev:lamp-9", None, 404, "no thing 'urn:dev:lamp-9'"),
        ("GET", f"{LAMP}/properties/user/stream", None, 404, "not observable"),
        ("POST", f"{LAMP}/actions/burst", {"count": "many"}, 400, "argument 'count'"),
        ("POST", f"{LAMP}/actions/burst", [1], 400, "expected the input of the action as a JSON object"),
        ("POST", f"{LAMP}/actions/burst", b"x" * (1 << 21), 413, ""),
        ("GET", f"{LAMP}/actions/fade/77", None, 404, "no invocation '77' of yours"),
        ("POST", f"{LAMP}/actions/fade", {}, 400, "needs the parameter 'to'"),
        ("POST", f"{LAMP}/actions/fade", {"to": 1, "by": 2}, 400, "has no parameter 'by'"),
        ("GET", f"{OVERHEATED}?sub={'x' * 65}", None, 400, "at most 64 ASCII characters"),
        ("PATCH", BRIGHTNESS, 1, 405, ""),
        ("GET", "/nowhere", None, 404, "no such path: GET /things lists the things"),
    ],
)
def test_errors_are_problems(web: Web, method: str, path: str, body: Any, status: int, words: str) -> None:
    """Whatever went wrong is told in one form, with the remedy; nothing else is told."""
    answer = web.ask(method, path, body)
    assert answer.status == status and answer.headers["Content-Type"] == "application/problem+json"
    assert answer.body["status"] == status and words in answer.body["detail"]


def test_odd_headers_are_told_apart(web: Web) -> None:
    """A host that is none, and a body that would have to be unpacked."""
    assert web.ask("GET", LAMP, Host="\xff").status == 400
    assert web.ask("PUT", BRIGHTNESS, 5, Content_Encoding="gzip").status == 415


def test_nobody_is_served_without_a_token(house: System) -> None:
    """Nor learns which things there are."""
    for web in (Web(house, token=None), Web(house, token="guess"), Web(house, token="\xff\xfe")):
        for path in ("/things", LAMP, BRIGHTNESS, "/things/urn:dev:none"):
            answer = web.ask("GET", path)
            assert answer.status == 401 and answer.headers["WWW-Authenticate"] == "Bearer"
    assert Web(house).ask("GET", f"{LAMP}/properties/user").body == "ada by web"


def test_nothing_of_the_directory_is_served_without_a_token(house: System) -> None:
    """No path of it is forgotten."""
    stranger = Web(house, token=None)
    for method, path in (
        ("GET", "/things"), ("POST", "/things"), ("GET", LAMP_7), ("PUT", LAMP_7), ("PATCH", LAMP_7), ("DELETE", LAMP_7),
        ("GET", "/search"), ("GET", "/search/jsonpath?query=$"), ("GET", "/events"), ("GET", "/.well-known/wot"),
    ):  # fmt: skip
        assert stranger.ask(method, path, {"id": "urn:dev:lamp-7"}).status == 401
    assert Web(house).ask("GET", "/.well-known/wot").body["security"] == ["bearer"]


def test_an_observed_property_is_read_beside_an_action_of_the_same_thing(house: System, web: Web) -> None:
    """From its last value: the object itself awaits a reply, and serves nobody until then."""
    assert web.ask("PUT", BRIGHTNESS, 33).status == 204
    with house.connect() as client:
        holding = client.submit("house.hold", key="urn:dev:lamp-1", seconds=600.0, timeout=LIMIT_S)
        ask_until(client, "gates.waiting", lambda count: count == 1)
        assert web.ask("GET", BRIGHTNESS).body == 33
        assert not holding.done()
        client.call("gates.release")
        assert holding.result() == "held"


def test_a_client_that_goes_takes_its_call_back(house: System, web: Web) -> None:
    """Else the thing would work for nobody."""
    with house.connect() as client:
        connection = http.client.HTTPConnection(web._at, timeout=LIMIT_S)
        connection.request("POST", f"{LAMP}/actions/hold", json.dumps({"seconds": 600.0}), headers=web._headers)
        ask_until(client, "gates.waiting", lambda count: count == 1)
        connection.close()
        ask_until(client, "gates.waiting", lambda count: count == 0)


def test_a_long_action_is_answered_before_its_end(house: System, web: Web) -> None:
    """And its status asked for, by whoever has begun it; or it is cancelled."""
    with house.connect() as client:
        begun = web.ask("POST", f"{LAMP}/actions/fade", {"to": 80})
        assert begun.status == 201 and begun.body["status"] == "running"
        href = begun.headers["Location"]
        assert href == begun.body["href"] and web.ask("GET", href).body["status"] == "running"
        ask_until(client, "gates.waiting", lambda count: count == 1)
        client.call("gates.release")
        wait_until(lambda: web.ask("GET", href).body["status"] != "running", "the action does not end")
        ended = web.ask("GET", href).body
        assert (ended["status"], ended["output"]) == ("completed", 80)
        cancelled = web.ask("POST", f"{LAMP}/actions/fade", {"to": 1}).headers["Location"]
        ask_until(client, "gates.waiting", lambda count: count == 1)
        assert web.ask("DELETE", cancelled).status == 204
        ask_until(client, "gates.waiting", lambda count: count == 0)
        assert web.ask("GET", BRIGHTNESS).body == 80


def test_events_are_sent_in_order_and_replayed(web: Web) -> None:
    """By their ids; those of another process of the gateway mean nothing, and that is told."""
    stream = web.events(OVERHEATED, 10)
    next(stream)
    assert web.ask("POST", f"{LAMP}/actions/burst", {"count": 10}).status == 204
    told = list(stream)
    assert [(event, data) for event, _, data in told] == [("overheated", float(number)) for number in range(10)]
    _, *again = web.events(OVERHEATED, 5, Last_Event_ID=told[4][1])
    assert again == told[5:]
    stream = web.events(OVERHEATED, 1, Last_Event_ID="0badc0de-3")
    assert [next(stream)[0], *stream] == ["open", ("lost", "", None)]


def test_a_loss_is_told(web: Web) -> None:
    """A burst is longer than the history: the subscriber that comes back learns how many he has missed."""
    stream = web.events(OVERHEATED, 1)
    next(stream)
    web.ask("POST", f"{LAMP}/actions/burst", {"count": 1})
    ((_, last, _),) = stream
    assert web.ask("POST", f"{LAMP}/actions/burst", {"count": 1_500}).status == 204
    everything = web.events(OVERHEATED, 1_025, Last_Event_ID=last)
    next(everything)
    event, _, lost = next(everything)
    rest = list(everything)
    assert event == "lost" and lost + len(rest) == 1_500 and rest[-1][2] == 1_499.0


def test_a_notification_of_a_stranger_harms_nothing(house: System, web: Web) -> None:
    """Anybody of the system may publish on the topic. Values that came later count as before."""
    with house.connect() as client:
        client.publish("things.notifications", nonsense=1)
    for value in (41, 42):
        assert web.ask("PUT", BRIGHTNESS, value).status == 204
        assert web.ask("GET", BRIGHTNESS).body == value


def test_long_polling_tells_what_it_cannot_know(web: Web) -> None:
    """A queue of another process of the gateway may have missed messages; and a poll waits as long as its client says."""
    opened = web.ask("GET", f"{OVERHEATED}?sub=0badc0de.7", Prefer="wait=1")
    assert (opened.status, opened.headers["Lost"]) == (204, "unknown")
    queue = f"{OVERHEATED}?sub=0badc0de.8"
    assert web.ask("GET", queue, Prefer="wait=1").status == 204
    web.ask("POST", f"{LAMP}/actions/burst", {"count": 2})
    assert [web.ask("GET", queue).body for _ in range(2)] == [0.0, 1.0]


def test_long_polling_misses_nothing(web: Web) -> None:
    """Each answer is one message, from a queue that the first HEAD has opened."""
    path = web.ask("GET", LAMP).body["events"]["overheated"]["forms"][0]["href"]
    assert web.ask("HEAD", f"/{path}").status == 200
    web.ask("POST", f"{LAMP}/actions/burst", {"count": 200})
    assert [web.ask("GET", f"/{path}").body for _ in range(200)] == [float(number) for number in range(200)]


def test_no_value_outlives_its_process(house: System, web: Web) -> None:
    """A lamp that has started again is as bright as it begins, whatever was published before."""
    assert web.ask("PUT", BRIGHTNESS, 66).status == 204 and web.ask("GET", BRIGHTNESS).body == 66
    killed_and_back(house, "things")
    wait_answers_again(web)
    assert web.ask("GET", BRIGHTNESS).body == 7


def test_no_value_outlives_its_process_when_the_client_that_asked_first_has_gone(house: System, web: Web) -> None:
    """What a client has begun and given up, the listing of the things, the next one needs as well."""
    assert web.ask("PUT", BRIGHTNESS, 77).status == 204 and web.ask("GET", BRIGHTNESS).body == 77
    again = killed_and_back(house, "things")
    os.kill(again, signal.SIGSTOP)
    try:
        connection = http.client.HTTPConnection(web._at, timeout=LIMIT_S)
        connection.request("GET", BRIGHTNESS, headers=web._headers)
        connection.close()
    finally:
        os.kill(again, signal.SIGCONT)
    wait_answers_again(web)
    assert web.ask("GET", BRIGHTNESS).body == 7


def test_a_gateway_that_is_killed_serves_again(house: System, web: Web) -> None:
    """Its clients connect again; of the messages that it had they are told that they are lost."""
    stream = web.events(OVERHEATED, 1)
    next(stream)
    web.ask("POST", f"{LAMP}/actions/burst", {"count": 1})
    ((_, last, _),) = stream
    pid = house.pids()["web"]
    os.kill(pid, signal.SIGKILL)
    wait_dead(pid)
    again = Web(house)
    again.wait_listed(*HOUSE)
    stream = again.events(OVERHEATED, 1, Last_Event_ID=last)
    assert [next(stream)[0], *stream] == ["open", ("lost", "", None)]


def test_a_system_without_permissions_has_nothing_to_share(web: Web) -> None:
    """Each path of the API says so."""
    for method, path in (("GET", "/permissions"), ("POST", "/permissions"), ("DELETE", "/permissions/1")):
        answer = web.ask(method, path)
        assert answer.status == 404 and "this system has no permissions" in answer.body["detail"]
