"""A kernel is operated from the command line while it works: on threads, and on processes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appbackplane.transport import Client
from appbackplane.transport.errors import FailedPrecondition

from .conftest import HERE, System, Up, ask_until, command, lay_out, standing

#: What it does at 22:00 bears on no test that is executed then.
THREADS = """
[backplane.index]
components = ["operated:Index"]
[backplane.index.settings.Index.policy]
workers = 2
ready = 50
schedule = { "every 1h" = ["workers 2", "lanes off"], "mon-fri 22:00" = "beat" }
"""
PROCESSES = """
[backplane.index]
components = ["operated:Spread"]
[backplane.seats]
components = ["appbackplane.runtime.requests:RequestWorker"]
replicas = 2
[backplane.seats.settings.RequestWorker]
kernel = "operated:Spread"
"""
REQUESTS = 8

Ask = Callable[..., Any]


@pytest.fixture
def start(folder: Path, up: Up) -> Up:
    """Starts a system with the kernels."""
    shutil.copy(HERE / "operated.py", folder)
    return up


@pytest.fixture(scope="module")
def on_threads(_no_ignored_interrupt: None) -> Iterator[System]:
    """With workers that are threads."""
    with standing(THREADS, "operated.py") as system:
        yield system


@pytest.fixture
def threads(on_threads: System) -> Iterator[tuple[System, Client]]:
    """The same, with a client. Afterwards it is as it was."""
    with on_threads.connect() as client:
        yield on_threads, client
        client.call("index.workers", count=2)
        client.call("index.pools", ready=50)


def said(system: System, *words: str) -> Any:
    """What a command says, as data."""
    ended = system.command(*words, "--json")
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def told(system: System, *words: str) -> Any:
    """What the only kernel there is answers."""
    (one,) = said(system, "requests", *words)
    return one["answer"]


def refused(system: System, *words: str) -> str:
    """The line on standard error."""
    ended = system.command(*words)
    assert (ended.returncode, ended.stdout) == (1, ""), ended
    return ended.stderr.removeprefix("appbackplane: ").rstrip("\n")


def test_a_kernel_at_work_is_told_what_to_do(threads: tuple[System, Client]) -> None:
    """By the verb, by the route of a command, and by that of lines; and what is posted all ends."""
    system, client = threads
    gate = system.folder / "gate"
    client.call("index.feed", file=str(gate), count=REQUESTS)
    ask_until(client, "index.status", lambda answer: answer["executing"] == 2)
    assert said(system, "call", "index.workers", "count=3") == {"workers": 3, "before": {"workers": 2}}
    assert said(system, "call", "index.command", "line=workers 4")["workers"] == 4
    assert told(system, "index", "pools", "ready=60")["before"] == {"ready": 50}
    ask_until(client, "index.status", lambda answer: answer["executing"] == 4)
    status = told(system)
    assert (status["ready"], status["ready_max"]) == (REQUESTS - 4, 60)
    assert [worker["executing"] for worker in status["workers"]] == ["Waits in lane 3"] * 4
    assert status["oldest_ms"] > 0

    quiesced = client.submit("index.quiesce", wait=True, timeout=60)
    ask_until(client, "index.status", lambda answer: answer["state"] == "quiescing")
    with pytest.raises(FailedPrecondition, match="accepts no requests"):
        client.call("index.feed", file=str(gate), count=1)
    gate.touch()
    assert quiesced.result()["rejoinable"] == REQUESTS
    assert client.call("index.joined") == [True] * REQUESTS
    assert told(system, "index", "stop", "wait=true")["state"] == "stopped"
    assert told(system)["workers"] == []
    assert told(system, "index", "resume")["state"] == "open"
    client.call("index.feed", file=str(gate), count=REQUESTS)
    assert client.call("index.joined") == [True] * REQUESTS


def test_what_it_is_told_wrongly_is_said_in_one_line(threads: tuple[System, Client]) -> None:
    """With the nearest, and nothing changed."""
    system, _ = threads
    assert refused(system, "requests", "index", "wrokers", "4") == (
        "index has no command 'wrokers' (did you mean 'workers'?)"
    )
    assert refused(system, "requests", "indx") == "no request kernel 'indx' in system 'demo' (did you mean 'index'?)"
    assert "argument 'count': expected `int | null`, got `str`" in refused(system, "call", "index.workers", "count=x")
    assert "redy" in refused(system, "requests", "index", "settings", "workers=3", "redy=4")
    assert told(system, "index", "workers") == {"workers": 2}


def test_a_person_reads_tables(threads: tuple[System, Client]) -> None:
    """All that can be known at a glance; and its own commands are among them."""
    system, client = threads
    ask_until(client, "index.beats_so_far", lambda beats: beats > 1)
    shown = system.command("requests").stdout
    assert shown.startswith("index/index: open, 2 workers (threads), 0 executing, ")
    for part in (
        "POOL ",
        "LANE ",
        "WORKER ",
        "lanes off; ageing off",
        "scheduled, every 0.05s: beat",
        "mon-fri 22:00: beat",
    ):
        assert part in shown, shown
    assert int(system.command("requests", "index", "beats_so_far").stdout) > 1
    assert '{"command": "workers", ' in system.command("requests", "index", "help").stdout
    assert '{"name": "worker-1", ' in system.command("call", "index.status").stdout


def test_a_kernel_of_processes_is_operated_the_same(start: Up) -> None:
    """Its workers are another backplane's; how many are used is its own affair."""
    system = start(PROCESSES)
    gate = system.folder / "gate"
    with system.connect() as client:
        client.call("spread.feed", file=str(gate), count=REQUESTS)
        ask_until(client, "spread.status", lambda answer: answer["executing"] == 1)
        assert told(system, "spread", "workers", "2")["before"] == {"workers": 1}
        ask_until(client, "spread.status", lambda answer: answer["executing"] == 2)
        assert {row["name"] for row in told(system)["workers"]} == {"seats-1", "seats-2"}
        stopped = client.submit("spread.stop", wait=True, timeout=60)
        ask_until(client, "spread.status", lambda answer: answer["state"] == "stopping")
        gate.touch()
        assert stopped.result()["state"] == "stopped"
        assert client.call("spread.joined") == [True] * REQUESTS
        assert told(system, "spread", "resume")["state"] == "open"
        client.call("spread.feed", file=str(gate), count=REQUESTS)
        assert client.call("spread.joined") == [True] * REQUESTS


@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        ('"25:00" = "beat"', "schedule: '25:00': there is no such time of day"),
        ('"22:00" = "baet"', "schedule: index has no command 'baet' (did you mean 'beat'?)"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_found_before_anything_starts(folder: Path, schedule: str, says: str) -> None:
    """By `check`, in one line that names the component."""
    shutil.copy(HERE / "operated.py", folder)
    toml = lay_out(folder, "demo", THREADS.replace('"mon-fri 22:00" = "beat"', schedule))
    ended = command(folder, "check", str(toml))
    assert ended.returncode == 2
    assert says in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
