"""The House Hub as a newcomer brings it up: processes, this host's sensors, and devices that a program simulates."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from simulate import Room, simulate

from appbackplane.transport import Client, connect

HOUSE = Path(__file__).resolve().parents[2] / "examples" / "house_hub"
SYSTEM = HOUSE / "house_hub.toml"
#: Generous: a machine that runs other tests meanwhile.
LIMIT_S = 60.0


def appbackplane(*words: str) -> str:
    """A command; fails with what it said."""
    command = [sys.executable, "-m", "appbackplane.supervisor", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert ended.returncode == 0, f"appbackplane {' '.join(words)}: {ended.stdout}{ended.stderr}"
    return ended.stdout


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Up, in run directories of its own with a path short enough for sockets; and down again."""
    with tempfile.TemporaryDirectory(prefix="ab-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        monkeypatch.setenv("XDG_STATE_HOME", f"{folder}/state")
        appbackplane("check", str(SYSTEM))
        appbackplane("up", str(SYSTEM), "--detach")
        try:
            yield str(SYSTEM)
        finally:
            appbackplane("down", "-s", str(SYSTEM))
        assert not list(Path(folder).rglob("*.sock"))


def wait_for_alert(client: Client, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first alert of this kind from now on."""
    with client.subscribe("house.alerts") as alerts:
        while True:
            body = dict(alerts.get(timeout=LIMIT_S).body)
            if is_it(body):
                return body


def test_the_house_is_looked_after(system: str) -> None:
    """Cold rooms become warm, the host is measured, and who falls silent is missed: the README's tour."""
    rooms = [Room("kitchen", 18.0), Room("attic", 24.0)]
    with connect(system) as devices, connect(system) as client:
        is_over, said = threading.Event(), list[str]()
        living = threading.Thread(
            target=simulate,
            args=(devices, rooms),
            kwargs={"speed": 600.0, "is_over": is_over.is_set, "say": said.append},
        )
        living.start()
        try:
            end = time.monotonic() + LIMIT_S
            with client.subscribe("house.orders") as orders:
                heated: set[str] = set()
                while not (heated >= {"kitchen", "attic"} and all(20.0 < room.celsius < 22.0 for room in rooms)):
                    heating = orders.get(timeout=LIMIT_S).body["heating"]
                    heated |= {room for room, is_on in heating.items() if is_on}
                    assert time.monotonic() < end, f"{[str(room) for room in rooms]}, of which {heated} were heated"
            found = client.call("hub.report")
            assert set(found["celsius"]) == {"kitchen", "attic"}
        finally:
            is_over.set()
            living.join()
        assert said
        assert wait_for_alert(client, lambda body: body["text"] == "is silent")["device"] in ("kitchen", "attic")
    handlers = {
        each["handler"]: each for each in json.loads(appbackplane("call", "-s", system, "hub.handlers", "--json"))
    }
    assert handlers["take_measurement"]["calls"] > len(rooms)
    assert handlers["take_measurement"]["failures"] == 0, "the host's own sensors are among them"
