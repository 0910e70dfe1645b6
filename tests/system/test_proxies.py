"""Proxies: one system serves a house over HTTP, and another one consumes a lamp of it, and serves that in turn."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import LIMIT_S, wait_until

from .conftest import System, Up, short_folder, systems_in, wait_dead
from .peers.conftest import free_port
from .test_things import BRIGHTNESS, LAMP, OVERHEATED, TOKEN, TOML, Web

HALL = "/things/urn:appbackplane:house:hall%252F2"
DEVICE = "/things/urn:dev:device/properties"
SECRET = "proxy-secret"
BEN = "ben-token"
CONSUMING = """
[permissions]
file = "consuming.json"
operators = ["local", "ada"]
[backplane.proxies]
components = ["appbackplane.runtime.things.proxies:ConsumedThings"]
restart = {{ max = 1000, backoff = "5ms", backoff_max = "10ms" }}
[[backplane.proxies.settings.ConsumedThings.things]]
description = "http://127.0.0.1:{port}{lamp}"
token_file = "{folder}/secret"
copy = "{folder}/copy.td.json"
local = true
[[backplane.proxies.settings.ConsumedThings.things]]
description = "{folder}/device.td.json"
local = true
requests = 1
waiting = 1
[[backplane.proxies.settings.ConsumedThings.things]]
description = "{folder}/hall.td.json"
token_file = "{folder}/secret"
local = true
[[backplane.proxies.settings.ConsumedThings.things]]
description = "{folder}/other_version.td.json"
[[backplane.proxies.settings.ConsumedThings.things]]
description = "{folder}/far.td.json"
[[backplane.proxies.settings.ConsumedThings.things]]
description = "http://127.0.0.1:{port}{lamp}"
[[backplane.proxies.settings.ConsumedThings.things]]
description = "{folder}/boiler.td.json"
driver = "boiling:Boiler"
options = {{ path = "{folder}/level" }}
[[backplane.proxies.settings.ConsumedThings.things]]
description = "{folder}/other_boiler.td.json"
driver = "boiling:Boilr"
[backplane.web]
components = ["appbackplane.runtime.things.web:Gateway"]
[backplane.web.settings.Gateway]
listen = "127.0.0.1:0"
[backplane.web.settings.Gateway.tokens]
ada = "{ada}"
ben = "{ben}"
"""


BOILER = {
    "@context": "https://www.w3.org/2022/wot/td/v1.1", "id": "urn:dev:boiler", "title": "Boiler", "security": "none",
    "securityDefinitions": {"none": {"scheme": "nosec"}},
    "properties": {"level": {"type": "integer", "forms": [{"href": "boiler:1"}]}},
    "actions": {"purge": {"input": {"type": "object", "properties": {"liters": {"type": "integer"}}},
                          "forms": [{"href": "boiler:2"}]}},
    "events": {"leak": {"data": {"type": "integer"}, "forms": [{"href": "boiler:3"}]}},
}  # fmt: skip


class Device(ThreadingHTTPServer):
    """A device that misbehaves."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), DeviceRequest)
        self.asked: list[str] = []
        self.released = threading.Event()


class DeviceRequest(BaseHTTPRequestHandler):
    """One request to it."""

    def do_GET(self) -> None:
        device = self.server
        assert isinstance(device, Device)
        device.asked.append(self.path)
        if self.path == "/slow":
            device.released.wait(LIMIT_S)
        body = {"/large": b'"%s"' % (b"x" * (2 << 20)), "/words": b"no json"}.get(self.path, b"1")
        with suppress(ConnectionError):
            self.send_response(302 if self.path == "/moved" else 200)
            self.send_header("Location", "/secret")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""


def polled(td: dict[str, Any]) -> dict[str, Any]:
    """The description without forms of server-sent events."""
    for group in ("properties", "events"):
        for said in td[group].values():
            said["forms"] = [form for form in said["forms"] if form.get("subprotocol") != "sse"]
    return td


def digest_of(token: str) -> str:
    """As a gateway knows it."""
    return hashlib.sha256(token.encode()).hexdigest()


class Pair:
    """Both systems, in one folder."""

    def __init__(self, folder: Path, begin: Up, device: Device) -> None:
        self.folder, self._begin, self.port, self.device = folder, begin, free_port(), device
        for name in ("housed.py", "boiling.py"):
            shutil.copy(Path(__file__).with_name(name), folder)
        self.describe("boiler", BOILER)
        self.describe("other_boiler", BOILER | {"id": "urn:dev:other-boiler"})
        self.renew()
        device = self.device.server_address[1]
        for name, context, base in (
            ("device", "https://www.w3.org/2022/wot/td/v1.1", f"http://127.0.0.1:{device}/"),
            ("other_version", "https://www.w3.org/2031/wot/td/v3", "http://127.0.0.1/"),
            ("far", "https://www.w3.org/2022/wot/td/v1.1", "http://127.0.0.1:9/"),
        ):
            td = {
                "@context": context, "id": f"urn:dev:{name}", "title": name, "base": base, "security": "none",
                "securityDefinitions": {"none": {"scheme": "nosec"}},
                "properties": {each: {"forms": [{"href": each}]} for each in ("large", "moved", "slow", "words")},
            }  # fmt: skip
            self.describe(name, td)
        self.exposing = self.expose()
        self.exposing.wait_up()
        self.describe("hall", polled(Web(self.exposing).ask("GET", HALL).body))
        toml = CONSUMING.format(port=self.port, lamp=LAMP, folder=folder, ada=digest_of(TOKEN), ben=digest_of(BEN))
        self.consuming = begin(toml, "consuming")
        self.consuming.wait_up()

    def describe(self, name: str, td: dict[str, Any]) -> None:
        """Write a description into a file."""
        (self.folder / f"{name}.td.json").write_text(json.dumps(td))

    def expose(self) -> System:
        """The house, at the same port each time."""
        toml = TOML.replace("127.0.0.1:0", f"127.0.0.1:{self.port}")
        toml = toml.replace("tokens = {", f'tokens = {{ proxy = "{digest_of(SECRET)}",')
        return self._begin(toml, "exposing")

    def renew(self, secret: str = SECRET) -> None:
        """The credentials of the proxy."""
        (self.folder / "new").write_text(secret)
        os.replace(self.folder / "new", self.folder / "secret")


@pytest.fixture(scope="module")
def pair(_no_ignored_interrupt: None) -> Iterator[Pair]:
    """Two systems for all."""
    with short_folder() as folder, Device() as device:
        serving = threading.Thread(target=device.serve_forever)
        serving.start()
        try:
            with systems_in(folder) as begin:
                yield Pair(folder, begin, device)
        finally:
            device.released.set()
            device.shutdown()
            serving.join()


@pytest.fixture
def ada(pair: Pair) -> Web:
    """A user of the consuming system, and its operator."""
    web = Web(pair.consuming)
    wait_until(lambda: web.ask("GET", BRIGHTNESS).status == 200, "the lamp is not served")
    return web


def wait_heard(web: Web, thing: str) -> None:
    """Until the events of a lamp come here, and those that this has caused have come: the last of two tells it."""
    queue = f"{thing}/events/overheated/stream?sub=heard"
    assert web.ask("HEAD", queue).status == 200

    def is_heard() -> bool:
        web.ask("POST", f"{thing}/actions/burst", {"count": 2})
        while (answer := web.ask("GET", queue, Prefer="wait=1")).status == 200:
            if answer.body == 1.0:
                return True
        return False

    wait_until(is_heard, f"the events of {thing} are not heard")


def test_it_is_served_as_a_thing_of_this_system(pair: Pair, ada: Web) -> None:
    """Its schemas are those of its own description, its forms are here, and it acts for the proxy's own user."""
    there, here = Web(pair.exposing).ask("GET", LAMP).body, ada.ask("GET", LAMP).body
    assert (here["title"], here["@type"], here["id"]) == (there["title"], there["@type"], there["id"])
    assert here["base"] != there["base"] and here["properties"]["brightness"]["maximum"] == 100
    assert here["properties"]["user"]["readOnly"] is True
    for value in range(20, 30):
        assert ada.ask("PUT", BRIGHTNESS, value).status == 204 and ada.ask("GET", BRIGHTNESS).body == value
    assert ada.ask("GET", f"{LAMP}/properties").body["user"] == "proxy by web"
    assert ada.ask("POST", f"{LAMP}/actions/double", {"number": 4}).body == 8
    with pair.consuming.connect() as client:
        assert client.call("proxies.brightness", key="urn:dev:lamp-1") == 29


def test_errors_are_those_of_the_thing(ada: Web) -> None:
    """With its words."""
    refused = ada.ask("PUT", BRIGHTNESS, 101)
    assert refused.status == 400 and "<= 100" in refused.body["detail"]
    assert ada.ask("GET", f"{LAMP}/properties/colour").status == 404
    assert ada.ask("PUT", f"{LAMP}/properties/user", "eve").status == 405
    assert ada.ask("POST", f"{LAMP}/actions/double", {}).status == 400


def test_events_and_changes_arrive_in_order(ada: Web) -> None:
    """From one stream to the next."""
    wait_heard(ada, LAMP)
    stream, changes = ada.events(OVERHEATED, 200), ada.events(f"{BRIGHTNESS}/stream", 2)
    next(stream), next(changes)
    assert ada.ask("POST", f"{LAMP}/actions/burst", {"count": 200}).status == 204
    assert [data for _, _, data in stream] == [float(number) for number in range(200)]
    for value in (51, 52):
        assert ada.ask("PUT", BRIGHTNESS, value).status == 204
    assert [data for _, _, data in changes] == [51, 52]


def test_events_are_polled_where_there_is_no_stream(ada: Web) -> None:
    """One request a message."""
    wait_heard(ada, HALL)
    stream = ada.events(f"{HALL}/events/overheated/stream", 20)
    next(stream)
    assert ada.ask("POST", f"{HALL}/actions/burst", {"count": 20}).status == 204
    assert [data for _, _, data in stream] == [float(number) for number in range(20)]


def test_a_device_that_misbehaves_harms_nobody(pair: Pair, ada: Web) -> None:
    """Its answers are bounded in size, place and time, and so are the requests to it."""
    large = ada.ask("GET", f"{DEVICE}/large")
    assert large.status == 409 and "more than 1,048,576 bytes" in large.body["detail"]
    moved = ada.ask("GET", f"{DEVICE}/moved")
    assert moved.status == 503 and "redirects are not followed" in moved.body["detail"]
    assert "/secret" not in pair.device.asked
    words = ada.ask("GET", f"{DEVICE}/words")
    assert words.status == 503 and "no JSON" in words.body["detail"]
    late = ada.ask("GET", f"{DEVICE}/slow", Prefer="wait=1")
    assert late.status == 504
    with ThreadPoolExecutor() as pool:
        # Each with a time of its own, or they would share a request.
        asked = [pool.submit(ada.ask, "GET", f"{DEVICE}/slow", Prefer=f"wait={LIMIT_S + n:g}") for n in range(3)]
        wait_until(lambda: any(each.done() for each in asked), "nobody is refused")
        pair.device.released.set()
        assert sorted(each.result().status for each in asked) == [200, 200, 503]


def test_a_driver_speaks_for_a_device(pair: Pair, ada: Web) -> None:
    """One that cannot be reached is told as any other thing."""
    boiler = "/things/urn:dev:boiler"
    stream = ada.events(f"{boiler}/events/leak/stream", 1)
    next(stream)
    assert ada.ask("GET", f"{boiler}/properties/level").status == 503
    assert ada.ask("PUT", f"{boiler}/properties/level", 4).status == 204
    assert ada.ask("GET", f"{boiler}/properties/level").body == 4
    assert ada.ask("POST", f"{boiler}/actions/purge", {"liters": 9}).status == 204
    assert next(stream)[2] == 9


def test_permissions_of_this_system_hold_before_a_request_leaves(pair: Pair, ada: Web) -> None:
    """Ben has none, and the thing is asked for nothing."""
    ben = Web(pair.consuming, BEN)
    assert ben.ask("GET", BRIGHTNESS).status == 404
    given = ada.ask("POST", "/permissions", {"who": "ben", "things": ["urn:dev:lamp-1"], "access": ["read:brightness"]})
    assert given.status == 201
    wait_until(lambda: ben.ask("GET", BRIGHTNESS).status == 200, "Ben may not read")
    assert ben.ask("PUT", BRIGHTNESS, 3).status == 403 and ben.ask("GET", f"{LAMP}/properties/user").status == 404


def test_what_is_wrong_is_told_in_one_line_each(pair: Pair, ada: Web) -> None:
    """And the rest goes on."""
    for words in (
        "other_version.td.json: it is left out: it is a Thing Description of another version: expected 1.1",
        "other_boiler.td.json: it is left out: driver 'boiling:Boilr': expected module:Class",
        f"proxy of http://127.0.0.1:{pair.port}{LAMP}: 127.0.0.1 is at 127.0.0.1, an address of this host",
    ):
        pair.consuming.wait_for(words)
    assert [each["id"] for each in ada.ask("GET", "/things").body] == [
        "urn:appbackplane:house:hall%2F2", "urn:dev:boiler", "urn:dev:device", "urn:dev:far", "urn:dev:lamp-1",
    ]  # fmt: skip
    refused = ada.ask("GET", "/things/urn:dev:far/properties/words")
    assert refused.status == 409 and "set local = true" in refused.body["detail"]


def test_credentials_that_have_expired_are_told_and_renewed(pair: Pair, ada: Web) -> None:
    """The file is read again when it changes."""
    pair.renew("expired")
    try:
        refused = ada.ask("GET", BRIGHTNESS)
        assert refused.status == 503 and "refuses the credentials of this system (401)" in refused.body["detail"]
        assert SECRET not in str(refused.body)
        line = pair.consuming.wait_for("urn:dev:lamp-1 cannot be used")
        assert "token_file" in line
    finally:
        pair.renew()
    assert ada.ask("GET", BRIGHTNESS).status == 200


def test_a_thing_that_is_gone_is_unavailable_until_it_is_back(pair: Pair, ada: Web) -> None:
    """Its streams are read again by themselves."""
    for pid in pair.exposing.processes():
        os.kill(pid, signal.SIGKILL)
        wait_dead(pid)
    gone = ada.ask("GET", BRIGHTNESS)
    assert gone.status == 503 and gone.headers["Retry-After"] and f"127.0.0.1:{pair.port}" in gone.body["detail"]
    pair.exposing = pair.expose()
    wait_until(lambda: ada.ask("GET", BRIGHTNESS).status == 200, "the lamp is not served again")
    wait_heard(ada, LAMP)


def test_a_start_without_the_thing(pair: Pair, ada: Web) -> None:
    """With the copy of its description it is unavailable. Without one the proxies are restarted when there is a description."""
    for pid in pair.exposing.processes():
        os.kill(pid, signal.SIGKILL)
        wait_dead(pid)

    def is_unavailable() -> bool:
        answer = ada.ask("GET", BRIGHTNESS)
        return answer.status == 503 and "cannot be reached" in answer.body["detail"]

    restart_proxies(pair.consuming)
    pair.consuming.wait_for("its copy is used")
    wait_until(is_unavailable, "the lamp is not known")
    (pair.folder / "copy.td.json").unlink()
    restart_proxies(pair.consuming)
    pair.consuming.wait_for("it is asked for again until it is there")
    pair.exposing = pair.expose()
    wait_until(lambda: ada.ask("GET", BRIGHTNESS).status == 200, "the lamp is not served")


def restart_proxies(consuming: System) -> None:
    """By force."""
    pid = consuming.pids()["proxies"]
    os.kill(pid, signal.SIGKILL)
    wait_dead(pid)
    wait_until(lambda: consuming.backplane("proxies")["pid"] not in (pid, 0, None), "the proxies are not back")
