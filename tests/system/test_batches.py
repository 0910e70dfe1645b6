"""Batches of rows, delivered to a real system whose backplanes are killed: every row is recorded once, in order."""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path

import msgpack
import pytest

from appbackplane.runtime.observation import segments
from appbackplane.spark.delivery import SystemDelivery
from appbackplane.transport.errors import BackplaneError, FailedPrecondition
from tests.figures import IS_LONG

from .conftest import LIMIT_S, Up, ask_until, wait_dead

TOPIC = "numbers.next"
KILLS = 5 if IS_LONG else 2
SYSTEM = """
[topic."numbers.next"]
record = true
size = "1GiB"
[backplane.hall]
components = ["components:Hearer", "components:Sender"]
restart = { max = 1000, within = "60s" }
[backplane.tower]
components = ["components:Till"]
"""


def recorded(run_dir: Path) -> list[int]:
    """What backplane "hall" has recorded, in its order."""
    numbers = []
    for path in sorted(segments.messages_folder(run_dir, "hall", TOPIC).glob("*.messages")):
        data, at = path.read_bytes(), segments.HEADER_BYTES
        while (message := segments.unpack_message(data, at)) is not None:
            numbers.append(msgpack.unpackb(message[2])["number"])
            at = message[3]
    return numbers


def rows(first: int, count: int) -> list[dict[str, object]]:
    return [{"number": number, "filling": b""} for number in range(first, first + count)]


def test_a_batch_is_published_and_recorded_once(up: Up) -> None:
    """By the first backplane, by name; who subscribes hears it."""
    system = up(SYSTEM)
    delivery = SystemDelivery(system.run_dir, "g")
    assert delivery.to_topic(TOPIC, 0, rows(0, 1_000)) == 1_000
    assert delivery.to_topic(TOPIC, 0, rows(0, 1_000)) == 0
    delivery.close()
    with system.connect() as client:
        assert ask_until(client, "hearer.heard", lambda heard: len(heard) == 1_000) == list(range(1_000))
    assert recorded(system.run_dir) == list(range(1_000))
    again = SystemDelivery(system.run_dir, "g")
    assert again.to_topic(TOPIC, 1, rows(1_000, 1)) == 1
    with pytest.raises(FailedPrecondition, match="has had batch 1, this is 0"):
        again.to_topic(TOPIC, 0, rows(0, 1))
    again.close()


def test_what_kills_its_backplane_loses_and_doubles_nothing(up: Up) -> None:
    """At random moments, and while others publish on the same topic; each batch is sent twice, as after a restart."""
    system = up(SYSTEM)
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    is_over = threading.Event()
    kills = []

    def kill() -> None:
        while not is_over.wait(chance.uniform(0.05, 0.4)):
            pid = system.pids()["hall"]
            os.kill(pid, signal.SIGKILL)
            wait_dead(pid)
            kills.append(pid)
            with system.connect() as client:
                ask_until(client, "backplane.hall.statistics", lambda told: True)

    killer = threading.Thread(target=kill)
    killer.start()
    delivery = SystemDelivery(system.run_dir, "g", backplane="hall", patience_s=LIMIT_S)
    batch = 0
    try:
        while len(kills) < KILLS:
            for _ in range(2):
                delivery.to_topic(TOPIC, batch, rows(1_000 * batch, 1_000))
            batch += 1
    finally:
        is_over.set()
        killer.join(LIMIT_S)
        delivery.close()
    assert recorded(system.run_dir) == list(range(1_000 * batch)), f"seed {seed}"


def test_each_row_is_one_call_of_a_route(up: Up) -> None:
    """The backplane that serves it remembers the row by its key, so that a batch that is sent again is answered, not done."""
    system = up(SYSTEM)
    delivery = SystemDelivery(system.run_dir, "g")
    for _ in range(2):
        assert delivery.to_route("sender.send", 0, [{"count": 1} for _ in range(300)]) == 300
    with pytest.raises(BackplaneError, match=r"row 0 of batch 1: .*count"):
        delivery.to_route("sender.send", 1, [{"count": "many"}])
    delivery.close()
    with system.connect() as client:
        assert len(ask_until(client, "hearer.heard", lambda heard: len(heard) >= 300)) == 300
