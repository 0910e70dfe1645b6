"""The House Hub as a newcomer brings it up: processes, this host's sensors, and devices that a program simulates."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from simulate import Room, simulate

from appbackplane.transport import connect
from tests.waiting import LIMIT_S, Limit, wait_until

HOUSE = Path(__file__).resolve().parents[2] / "examples" / "house_hub"
SYSTEM = HOUSE / "house_hub.toml"


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


def test_the_house_is_looked_after(system: str) -> None:
    """Cold rooms become warm, warm ones cool down, the host is measured, and who falls silent is missed: the README's tour."""
    rooms = [Room("kitchen", 18.0), Room("attic", 24.0)]
    is_over = threading.Event()
    options = {"speed": 300.0, "is_over": is_over.is_set, "say": str}
    with (
        connect(system, timeout=LIMIT_S) as devices,
        connect(system, timeout=LIMIT_S) as client,
        client.subscribe("house.orders") as orders,
        client.subscribe("house.alerts") as alerts,
    ):
        living = threading.Thread(target=simulate, args=(devices, rooms), kwargs=options)
        living.start()
        try:
            heated = set[str]()
            limit = Limit()
            while heated < {"kitchen", "attic"} or not all(19.0 < room.celsius < 23.0 for room in rooms):
                limit.check(f"{rooms}; heated at all: {heated}")
                heating = orders.get(timeout=LIMIT_S).body["heating"]
                heated.update(room for room, is_on in heating.items() if is_on)
            # One that has not been scheduled for five seconds is silent, until it speaks again.
            told = lambda: client.call("hub.report", timeout=LIMIT_S)  # noqa: E731
            wait_until(lambda: set(told()["celsius"]) == {"kitchen", "attic"}, told)
        finally:
            is_over.set()
            living.join()
        silent = set[str]()
        while silent < {"kitchen", "attic"}:
            alert = alerts.get(timeout=LIMIT_S).body
            if alert["text"] == "is silent":  # a busy host is another alert
                silent.add(alert["device"])
        # The alert may overtake `keep_warm`, which switches the heater off: they are two handlers of one message.
        wait_until(lambda: told()["celsius"] == {}, told)
        assert told()["heating"] == {"kitchen": False, "attic": False}
    handlers = {
        each["handler"]: each for each in json.loads(appbackplane("call", "-s", system, "hub.handlers", "--json"))
    }
    assert handlers["take_measurement"]["failures"] == 0, "the host's own sensors are among them"
