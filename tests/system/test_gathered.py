"""Admission by queueing time, batches, and objects that serve several: on real processes, over real sockets."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from appbackplane.transport import Busy
from tests.waiting import wait_until

from .conftest import LIMIT_S, System, Up, ask_until

AIM_MS = 20
SHOP = """
[backplane.shop]
components = ["gathered:Shop"]
threads = 4
"""


def arrived_count(told: Any) -> int:
    """Requests for the press: on a busy machine the last come when the first are late already, and are refused for that."""
    limit = told["admission"]["shop.print"]
    return int(limit["outstanding"] + limit["refused_early"] + limit["refused_late"])


def oldest_ms(told: Any) -> float:
    """The time for which the oldest request has waited, ms; 0: none waits."""
    return max((float(one["oldest_ms"]) for one in told["oldest"]["objects"]), default=0.0)


def statistics_of_shop(system: System) -> Any:
    """As the command tells them; None: the shop has not answered in time."""
    told = json.loads(system.command("status", "--stats", "--json").stdout)
    return told["backplanes"][0]["statistics"]


@pytest.fixture
def system(folder: Path, up: Up) -> System:
    shutil.copy(Path(__file__).with_name("gathered.py"), folder)
    return up(SHOP)


def test_what_has_queued_for_too_long_is_refused_and_never_begins(system: System) -> None:
    """The first one holds the press for longer than the aim; those behind it end in `Busy`, which says why."""
    with system.connect() as client:
        calls = [client.submit("shop.print", page=page, retry=False, timeout=LIMIT_S) for page in range(100)]
        urgent = client.submit("shop.print", page=1_000, priority=0, retry=False, timeout=LIMIT_S)
        arrived = ask_until(client, "backplane.shop.statistics", lambda told: arrived_count(told) == 101)
        # On a busy machine they arrive one by one, and the last is to be late, too.
        late_ms = oldest_ms(arrived) + AIM_MS
        ask_until(client, "backplane.shop.statistics", lambda told: oldest_ms(told) > late_ms)
        late = client.submit("shop.print", page=2_000, retry=False, timeout=LIMIT_S)  # who comes now finds them late
        client.call("shop.go")
        assert urgent.result() == 1_000
        errors = [call.exception() for call in (*calls, late)]
        refused = [error for error in errors if error is not None]
        assert all(type(error) is Busy and "shop.print: it " in str(error) for error in refused)
        printed = client.call("shop.pages")
        assert len(printed) == len(calls) + 2 - len(refused)
        assert 1_000 in printed and len(refused) > 50
        # A backplane that has no CPU for a moment is left out of the statistics.
        wait_until(lambda: "ADMISSION OF" in system.command("status", "--stats").stdout, "the shop gives no statistics")
        told = wait_until(lambda: statistics_of_shop(system), "the shop gives no statistics")
        limit = told["admission"]["shop.print"]
        assert limit["refused_early"] + limit["refused_late"] == len(refused)


def test_what_has_gathered_is_served_together(system: System) -> None:
    with system.connect() as client:
        calls = [client.submit("shop.bind", page=page, timeout=LIMIT_S) for page in range(200)]
        ask_until(client, "backplane.shop.statistics", lambda told: told["components"]["shop"]["outstanding"] == 200)
        client.call("shop.go")
        sizes = [call.result() for call in calls]
    assert max(sizes) == 64
    assert sum(1 / size for size in sizes) < 10, "batches"


def test_one_object_holds_several_threads(system: System) -> None:
    with system.connect() as client:
        calls = [client.submit("shop.sign", timeout=LIMIT_S) for _ in range(5)]
        ask_until(client, "shop.signed_count", lambda count: count == 3)
        client.call("shop.go")
        assert len(set(calls[0].result()[:3])) == 3
        assert all(len(call.result()) == 5 for call in calls[3:]) or calls[4].result()
