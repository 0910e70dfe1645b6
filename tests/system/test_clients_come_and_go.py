"""Clients that come and go, politely or not: what a backplane and a supervisor keep of them is nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any

import psutil

from appbackplane.transport import Client

from .conftest import LIMIT_S, System, Up, ask_until, wait_ready

HOUSE = """
[backplane.house]
components = ["components:Sleeper", "components:Sender", "components:Hearer"]
"""
POLITE_COUNT, KILLED_COUNT, CROWDS_COUNT = 160, 20, 2
#: What is left of 200 clients, bytes: the allocators of Python and of ZeroMQ keep pages, clients are not to be seen in it.
#: A kept connection would be 59 KiB each (TRAPS 12), 12 MiB in all.
LEFT_BYTES_MAX = 4 << 20


def size_of(process: psutil.Process) -> tuple[int, int]:
    """Descriptors and threads."""
    return process.num_fds(), process.num_threads()


def come_and_go(system: System, polite: int, killed: int) -> None:
    """Clients that connect, call, listen, publish and close; and others that are killed amid calls and subscriptions."""
    for _ in range(polite):
        with system.connect() as client, client.subscribe("numbers.next"):
            client.call("sleeper.pid")
            client.publish("numbers.next", number=0, filling=b"")
            client.submit("sleeper.hold", seconds=0.0)
    crowd = system.program("crowd", str(system.run_dir), str(killed))
    wait_ready(crowd)
    os.kill(crowd.pid, signal.SIGKILL)
    crowd.wait()


def test_200_clients_leave_nothing_behind(up: Up) -> None:
    """A backplane runs for months: a descriptor a client, and it ends at the limit; a kilobyte a client, and it ends later."""
    system = up(HOUSE)
    house, supervisor = psutil.Process(system.pids()["house"]), psutil.Process(system.pid)
    come_and_go(system, 20, KILLED_COUNT)  # pools and caches are filled once
    with system.connect() as client:
        settle(client, house, (10**9, 10**9))
        before, supervisor_before = size_of(house), size_of(supervisor)
        resident = house.memory_info().rss + supervisor.memory_info().rss
        for _ in range(CROWDS_COUNT):
            come_and_go(system, POLITE_COUNT // CROWDS_COUNT, KILLED_COUNT)
        settle(client, house, before)
        settle(client, supervisor, supervisor_before)
        left = house.memory_info().rss + supervisor.memory_info().rss - resident
        assert left < LEFT_BYTES_MAX, f"{left:,} bytes"
        statistics = client.call("backplane.house.statistics")
        assert statistics["components"]["sleeper"]["outstanding"] == 0
        assert statistics["links"]["outstanding"] == 0
        with client.subscribe("numbers.next", timeout=LIMIT_S) as numbers:
            last = client.call("sender.send", count=1)
            assert numbers.get(timeout=LIMIT_S).body["number"] == last


def settle(client: Client, process: psutil.Process, size: tuple[int, int]) -> None:
    """Until the work of those that were killed has ended, and no more is held than this."""

    def is_settled(told: Mapping[str, Any]) -> bool:
        fds, threads = size_of(process)
        held = told["components"]["sleeper"]["outstanding"]
        return not held and fds <= size[0] and threads <= size[1]

    ask_until(client, "backplane.house.statistics", is_settled)
