"""Objects that interleave, in real processes: thousands of requests that await replies, on several threads."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from appbackplane.transport import Client

from .conftest import System, Up, ask_until

#: More than a link reads ahead, a frame each: a flood, while the callee makes as many calls of its own.
REQUESTS_COUNT = 3_000
STATION = """
[backplane.station]
components = ["interleaved:Station"]
threads = 4
[backplane.archive]
components = ["interleaved:Archive"]
restart = { max = 10, within = "60s" }
"""


@pytest.fixture
def system(folder: Path, up: Up) -> System:
    shutil.copy(Path(__file__).with_name("interleaved.py"), folder)
    return up(STATION)


@pytest.fixture
def client(system: System) -> Iterator[Client]:
    """It has sent a flood, all of which awaits replies now."""
    with system.connect() as client:
        for number in range(REQUESTS_COUNT):
            client.cast("station.inspect", number=number)
        ask_until(client, "archive.asked_count", lambda count: count == REQUESTS_COUNT)
        yield client


def test_each_goes_on_with_its_reply_and_one_at_a_time_runs(system: System, client: Client) -> None:
    """An urgent request is answered before all of them. `why` names the reply that is awaited: of the archive's requests, and
    of the station's, which wait for these.
    """
    assert client.call("station.told")["done"] == 0
    said = system.command("why", "station.inspect").stdout
    assert "awaits archive.look" in said and "the reply" in said
    client.call("archive.answer")
    told = ask_until(client, "station.told", lambda told: told["done"] == REQUESTS_COUNT)
    assert told == {"done": REQUESTS_COUNT, "lost": 0, "most_inside": 1}


def test_each_is_told_when_its_callee_is_killed(client: Client) -> None:
    """None waits for its deadline, and the object serves on."""
    os.kill(client.call("archive.pid"), signal.SIGKILL)
    told = ask_until(client, "station.told", lambda told: told["done"] == REQUESTS_COUNT)
    assert told == {"done": REQUESTS_COUNT, "lost": REQUESTS_COUNT, "most_inside": 1}
