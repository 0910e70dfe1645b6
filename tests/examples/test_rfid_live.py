"""The RFID example as a newcomer brings it up: a simulated reader, processes that die, and clients over HTTP."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from rfid.epc import uri_of
from rfid.epcis import CONTEXT, text_of
from rfid.simulation import SimulatedReader
from rfid.world import TagWorld

from appbackplane.transport import connect
from tests.waiting import LIMIT_S, wait_until

RFID = Path(__file__).resolve().parents[2] / "examples" / "rfid"
DOORS = [f"urn:epc:id:sgln:0614141.07346.{number}" for number in (1, 2)]
EVENT = {
    "type": "ObjectEvent", "action": "OBSERVE", "bizStep": "shipping", "epcList": ["urn:epc:id:sgtin:4012345.011111.9876"],
    "eventTime": "2020-04-03T20:33:31.116-06:00", "eventTimeZoneOffset": "-06:00", "readPoint": {"id": "urn:b:gate"},
    "example:carrier": "ship",
}  # fmt: skip
DOCUMENT = {
    "@context": [CONTEXT, {"example": "https://ns.example/"}], "type": "EPCISDocument", "schemaVersion": "2.0",
    "creationDate": "2020-04-04T00:00:00Z", "epcisBody": {"eventList": [EVENT | {"eventID": "urn:uuid:1"}, EVENT]},
}  # fmt: skip


class EpcisAnswer(NamedTuple):
    """An answer of the gateway."""

    status: int
    headers: http.client.HTTPMessage
    body: Any

    @property
    def events(self) -> list[Any]:
        """Of a query."""
        found: list[Any] = self.body["epcisBody"]["queryResults"]["resultsBody"]["eventList"]
        return found


class RfidSystem:
    """The system, its reader, and a client of its gateway."""

    def __init__(self, system: Path, reader: SimulatedReader, world: TagWorld) -> None:
        self.system, self.reader, self.world = str(system), reader, world

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> EpcisAnswer:
        """Send a request, and read the answer."""
        with connect(self.system, timeout=LIMIT_S) as client:
            at = client.call("gateway.address", timeout=LIMIT_S).removeprefix("http://").rstrip("/")
        with closing(http.client.HTTPConnection(at, timeout=LIMIT_S)) as connection:
            data = body if isinstance(body, bytes | None) else json.dumps(body)
            connection.request(method, path, data, {name.replace("_", "-"): value for name, value in headers.items()})
            response = connection.getresponse()
            received = response.read()
            return EpcisAnswer(response.status, response.headers, json.loads(received) if received else None)

    def kill(self, backplane: str) -> None:
        """Kill it, and wait until it has another process."""

        def pid() -> int | None:
            with connect(self.system, timeout=LIMIT_S) as client:
                found = client.call("supervisor.status", statistics=False)["backplanes"]
            return next((each["pid"] for each in found if each["name"] == backplane), None)

        killed = pid()
        assert killed
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: pid() not in (killed, None), f"{backplane} is not back")


def appbackplane(*words: str) -> str:
    """A command; fails with what it said."""
    command = [sys.executable, "-m", "appbackplane.supervisor", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert ended.returncode == 0, f"appbackplane {' '.join(words)}: {ended.stdout}{ended.stderr}"
    return ended.stdout


@pytest.fixture(scope="module")
def dock() -> Iterator[RfidSystem]:
    """Up, with a reader that does not report yet; and down again."""
    world = TagWorld(11, tags=12)
    reader = SimulatedReader(world, cut_every=4)
    with tempfile.TemporaryDirectory(prefix="ab-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", folder)
        patch.setenv("XDG_STATE_HOME", f"{folder}/state")
        shutil.copytree(RFID / "rfid", Path(folder) / "rfid")
        system = Path(folder) / "rfid.toml"
        text = (RFID / "rfid.toml").read_text().replace("127.0.0.1:5084", f"127.0.0.1:{reader.port}")
        text = text.replace("127.0.0.1:8080", "127.0.0.1:0").replace(
            "[backplane.readers.settings.Readers.readers.dock]",
            "[backplane.readers.settings.Readers]\nretry_s = 0.05\n[backplane.readers.settings.Readers.readers.dock]",
        )
        system.write_text(text)
        appbackplane("check", str(system))
        appbackplane("up", str(system), "--detach")
        try:
            yield RfidSystem(system, reader, world)
        finally:
            reader.close()
            appbackplane("down", "-s", str(system))
        assert not list(Path(folder).rglob("*.sock"))


def test_each_pass_is_one_event_and_no_stray_is(dock: RfidSystem) -> None:
    """Although the reader hangs up and sends noise, and the repository is killed."""
    running = threading.Thread(target=dock.reader.run)
    running.start()
    try:
        wait_until(lambda: dock.reader.cut_count >= 2, "the reader has no client")
        dock.kill("repository")
        assert dock.reader.is_reported.wait(LIMIT_S)
        expected = sorted(
            (uri_of(each.epc), DOORS[each.antenna - 1], text_of(each.first_us)) for each in dock.world.passes
        )

        def events() -> list[Any]:
            answer = dock.ask("GET", "/epcis/events?perPage=1000&EQ_bizStep=receiving")
            return answer.events if answer.status == 200 else []  # the repository may be starting

        wait_until(lambda: len(events()) >= len(expected), lambda: f"{len(events())} events of {len(expected)} passes")
        found = [(event["epcList"][0], event["readPoint"]["id"], event["eventTime"]) for event in events()]
        assert sorted(found) == expected
        assert dock.world.stray_count > 5, "a world without strays shows nothing"

        def settles_at(path: str, expected: Any) -> None:
            """The last changes are published behind the events."""
            wait_until(lambda: dock.ask("GET", path).body == expected, lambda: (path, dock.ask("GET", path).body))

        reader = "/things/urn:appbackplane:readers:dock/properties/"
        assert dock.reader.cut_count > 0
        settles_at(f"{reader}is_connected", True)
        settles_at(f"{reader}malformed_count", (dock.reader.cut_count + 1) // 2)
        for door in DOORS:
            settles_at(f"/things/{quote(door)}/properties/present_count", 0)
            assert [*dock.ask("GET", f"/things/{quote(door)}").body["events"]] == ["tag_seen", "tag_gone"]
        one = dock.ask("GET", f"/epcis/events?MATCH_epc={quote(expected[0][0])}&EQ_readPoint={quote(DOORS[0])}").events
        assert [event["eventTime"] for event in one] == [
            at for epc, door, at in expected if (epc, door) == (expected[0][0], DOORS[0])
        ]
    finally:
        dock.reader.close()
        running.join()


def test_events_are_captured_and_found_page_by_page(dock: RfidSystem) -> None:
    """Of other clients, with their extensions. One that is sent again is stored once."""
    before = dock.ask("GET", "/epcis/events?LT_eventTime=2021-01-01T00:00:00Z").events
    captured = dock.ask("POST", "/epcis/capture", DOCUMENT)
    assert captured.status == 202
    job = dock.ask("GET", captured.headers["Location"])
    assert (job.status, job.body["running"], job.body["success"]) == (200, False, True)
    first = dock.ask("GET", "/epcis/events?LT_eventTime=2021-01-01T00:00:00Z&EQ_bizStep=shipping&perPage=1")
    assert before == [] and first.headers["GS1-EPCIS-Version"] == "2.0.0"
    [event] = first.events
    assert event.items() >= (EVENT | {"eventID": "urn:uuid:1", "@context": DOCUMENT["@context"]}).items()
    target, _, relation = first.headers["Link"].partition(">")
    assert relation == '; rel="next"'
    second = dock.ask("GET", target.removeprefix("<"))
    assert second.events[0]["eventID"].startswith("urn:uuid:") and second.headers["Link"] is None
    again = DOCUMENT | {"epcisBody": {"eventList": [second.events[0], event]}}
    assert dock.ask("POST", "/epcis/capture", again).status == 202
    assert len(dock.ask("GET", "/epcis/events?LT_eventTime=2021-01-01T00:00:00Z").events) == 2


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "problem", "words"),
    [
        ("POST", "/epcis/capture", b"{", 400, "Validation", "not valid JSON"),
        ("POST", "/epcis/capture", b"", 400, "Validation", "expected {'@context'"),
        ("POST", "/epcis/capture", DOCUMENT | {"epcisBody": {"eventList": [{}]}}, 400, "Validation", "eventList[0]: "),
        ("POST", "/epcis/capture", json.dumps(DOCUMENT).replace('"ship"', "9" * 50).encode(), 400, "Validation", ""),
        (
            "POST", "/epcis/capture", json.dumps(DOCUMENT).replace('"ship"', "[" * 9_000 + "]" * 9_000).encode(),
            400, "Validation", "",
        ),
        ("GET", "/epcis/capture/none", None, 404, "NoSuchResource", "no capture job 'none'"),
        ("GET", "/epcis/events?colour=red", None, 400, "QueryParameter", "query parameter 'colour' is not supported"),
        ("GET", "/epcis/events?perPage=0", None, 400, "QueryParameter", "perPage=0: expected 1 to 1000"),
        ("GET", "/epcis/events?nextPageToken=x", None, 400, "QueryParameter", "nextPageToken='x': expected a number"),
        ("GET", "/epcis/events?eventType=a&eventType=b", None, 400, "QueryParameter", "is there twice: separate its values"),
    ],
)  # fmt: skip
def test_wrong_requests_are_problems_of_epcis(
    dock: RfidSystem, method: str, path: str, body: Any, status: int, problem: str, words: str
) -> None:
    """With the type that the standard names, and the reason."""
    answer = dock.ask(method, path, body)
    assert answer.headers["Content-Type"] == "application/problem+json", answer
    assert (answer.status, answer.body["type"]) == (status, f"epcisException:{problem}Exception"), answer.body
    assert words in answer.body["detail"]


def test_the_paths_of_epcis_are_guarded_as_those_of_things(dock: RfidSystem) -> None:
    """A page of another site could otherwise read and write events through its visitor's browser."""
    assert dock.ask("GET", "/epcis/events", Origin="https://evil.example").status == 403
    assert dock.ask("GET", "/epcis/events", Authorization="Bearer wrong").status == 401
    assert dock.ask("POST", "/epcis/capture", b"x" * (2 << 20)).status == 413
