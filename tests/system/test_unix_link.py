"""A system whose processes talk over Unix sockets: everything as over ZeroMQ, without its threads."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from appbackplane.transport.errors import PeerDown
from tests.waiting import LIMIT_S

from .conftest import System, Up, ask_until, wait_dead
from .test_replicas import assert_none_failed, in_load, roll

SHOP = """local_link = "unix"
[backplane.front]
components = ["components:Porch"]
[backplane.web]
components = ["components:Till"]
replicas = 3
restart = { max = 1000, backoff = "5ms", backoff_max = "10ms" }
"""


@pytest.fixture
def shop(up: Up) -> System:
    return up(SHOP)


def thread_names(pid: int) -> list[str]:
    """Of a process."""
    return [path.read_text().strip() for path in Path(f"/proc/{pid}/task").glob("*/comm")]


def test_clients_and_objects_call_and_verbs_answer(shop: System) -> None:
    """ZeroMQ has no thread in any process of the system."""
    with shop.connect() as client:
        calls = [client.submit(route, timeout=LIMIT_S) for _ in range(300) for route in ("till.ring", "porch.ring")]
        served = {call.result() for call in calls}
        pids = shop.pids()
        assert served == {pids[name] for name in ("web-1", "web-2", "web-3")}
        assert client.call("till.ring", timeout=LIMIT_S) in served
    for pid in (*pids.values(), shop.pid):
        assert not [name for name in thread_names(pid) if name.startswith("ZMQ")]
    assert shop.command("routes").returncode == 0
    assert shop.command("call", "porch.ring").returncode == 0


def test_a_process_that_is_killed_is_told_and_the_others_do_not_notice(shop: System) -> None:
    """Its calls end at once, those of its successor are served."""
    with shop.connect() as client:
        for _ in range(5):
            pid = shop.pids()["front"]
            calls = [client.submit("porch.ring", retry=False, timeout=LIMIT_S) for _ in range(50)]
            os.kill(pid, signal.SIGKILL)
            wait_dead(pid)
            for call in calls:
                error = call.exception()
                assert error is None or isinstance(error, PeerDown), error
            ask_until(client, "porch.ring", bool)
        assert client.call("till.ring", timeout=LIMIT_S)


def test_a_rolling_restart_under_load_fails_no_call(shop: System) -> None:
    """The last answers of a process that ends are read before its end is."""
    programs = in_load(shop)
    roll(shop)
    assert_none_failed(programs)
