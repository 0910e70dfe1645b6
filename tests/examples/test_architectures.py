"""The architectures, as real processes: the same class, and what is seen from outside is what each TOML promises.

All by the documented command line, `appbackplane up FILE --detach`, `call`, `down`, and a client program.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from registry import ARCHITECTURES, HERE, Architecture
from show import FILES, observe, work

from appbackplane.runtime import FailedPrecondition
from appbackplane.transport import connect

COMMAND_S_MAX = 60


def appbackplane(*words: str) -> str:
    """A command; fails with what it said."""
    ended = subprocess.run(
        [sys.executable, "-m", "appbackplane.supervisor", *words],
        capture_output=True,
        text=True,
        timeout=COMMAND_S_MAX,
        check=False,
    )
    assert ended.returncode == 0, f"appbackplane {' '.join(words)}: {ended.stdout}{ended.stderr}"
    return ended.stdout


@pytest.fixture
def run_dirs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place of its own for run directories, with a path short enough for sockets, so that no other test is met."""
    with tempfile.TemporaryDirectory(prefix="ab-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        monkeypatch.setenv("XDG_STATE_HOME", f"{folder}/state")
        yield Path(folder)


@pytest.fixture
def client(run_dirs: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A client of the system whose TOML the test is marked with; the system is brought up and taken down."""
    file = str(HERE / request.param)
    appbackplane("up", file, "--detach")
    try:
        with connect(file) as connected:
            yield connected
    finally:
        appbackplane("down", "-s", file)


def using(file: str) -> pytest.MarkDecorator:
    """The test runs against this architecture."""
    return pytest.mark.parametrize("client", [file], indirect=True)


@using("event.toml")
def test_event_all_applications_share_one_thread(client: Any) -> None:
    """Nothing is ever done beside something else, so no application needs a lock."""
    seen = observe(work(client))
    assert (seen.applications, seen.processes, seen.threads, seen.at_once) == (3, 1, 1, 1)


@using("one_to_one.toml")
def test_one_to_one_each_application_has_a_thread_of_its_own(client: Any) -> None:
    """Applications do not wait for each other; each does one thing at a time."""
    served = work(client)
    seen = observe(served)
    assert (seen.applications, seen.processes, seen.threads, seen.at_once) == (3, 3, 3, 3)
    for application in ("orders", "billing", "alerts"):
        own = observe(piece for piece in served if piece["application"] == application)
        assert (own.processes, own.threads, own.at_once) == (1, 1, 1)


@using("one_to_many.toml")
def test_one_to_many_a_pool_serves_one_application(client: Any) -> None:
    """As many pieces of work at once as there are threads, each at a desk of its own."""
    served = work(client)
    seen = observe(served)
    assert (seen.applications, seen.processes, seen.threads, seen.at_once) == (1, 1, 4, 4)
    for desk in {piece["object"] for piece in served}:
        assert observe(piece for piece in served if piece["object"] == desk).at_once == 1, (
            "an object does one at a time"
        )


@using("many_to_many.toml")
def test_many_to_many_any_thread_serves_any_application(client: Any) -> None:
    """Threads belong to the backplane: one that is free takes whatever is next."""
    served = work(client)
    seen = observe(served)
    assert (seen.applications, seen.processes, seen.threads, seen.at_once) == (3, 1, 4, 4)
    by_thread: dict[int, set[str]] = {}
    for piece in served:
        by_thread.setdefault(piece["thread"], set()).add(piece["application"])
    assert max(len(applications) for applications in by_thread.values()) > 1


@using("state_machines.toml")
def test_state_machines_a_thousand_over_two_threads(client: Any) -> None:
    """Each keeps its own state and order, whichever thread serves; what comes too early waits, and nothing is lost."""
    keys = [f"ticket-{n}" for n in range(1000)]
    shipped = [client.submit("orders.ship", key=key) for key in keys]
    paid = [client.submit("orders.pay", key=key).result() for key in keys]
    done = [call.result() for call in shipped]
    assert {piece["state"] for piece in paid} == {"paid"}
    assert {piece["state"] for piece in done} == {"shipped"}
    assert len({piece["object"] for piece in done}) == 1000
    assert all(p["ended_ns"] <= d["began_ns"] for p, d in zip(paid, done, strict=True)), "shipped before it was paid"
    with pytest.raises(FailedPrecondition, match="SHIPPED"):
        client.call("orders.pay", key="ticket-7")
    threads = client.call("orders.threads")["served"]
    assert len(threads) <= 2
    assert sum(threads.values()) >= 2000


@pytest.mark.parametrize("file", FILES)
def test_by_the_command_line(run_dirs: Path, file: str) -> None:
    """What a README says is what a newcomer types."""
    path = str(HERE / file)
    appbackplane("check", path)
    appbackplane("up", path, "--detach")
    try:
        served = json.loads(appbackplane("call", "-s", path, "orders.where", "--json"))
        assert served["application"] == "orders"
        assert served["process"] != os.getpid()
    finally:
        appbackplane("down", "-s", path)
    assert not list(run_dirs.rglob("*.sock"))


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda each: each.name)
def test_each_station_is_a_system_that_can_be_brought_up(architecture: Architecture) -> None:
    """By its own TOML, and from its own folder."""
    assert "comes up as station" in appbackplane("check", str(architecture.station))


def test_a_station_by_the_command_line(run_dirs: Path) -> None:
    """The README's tour."""
    path = str(HERE / "station" / "seda.toml")
    appbackplane("up", path, "--detach")
    try:
        call = ("call", "-s", path, "--json")
        assert json.loads(appbackplane(*call, "station.frame", "camera=camera-1", "number=0")) == "good"
        assert json.loads(appbackplane(*call, "station.command", "order=report"))["frame_count"] == 1
    finally:
        appbackplane("down", "-s", path)
