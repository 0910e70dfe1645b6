"""Replicas on real processes: calls are spread, one that dies is missed by nobody, and all can be replaced under load."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from subprocess import Popen
from typing import Any

import pytest

from tests.figures import IS_LONG
from tests.waiting import wait_until

from .conftest import LIMIT_S, System, Up, answer_of, ask_until, standing, wait_ready

SHOP = """
[backplane.front]
components = ["components:Porch"]
[backplane.web]
components = ["components:Till"]
replicas = 3
"""
#: The replicas share a queue.
SHARED = SHOP.replace("replicas = 3", 'replicas = 3\nbalance = "pull"')
WEB = ("web-1", "web-2", "web-3")
ROUNDS_COUNT = 3 if IS_LONG else 1
#: Of clients, behind each answer. Without it three of them take the CPU from the processes that come up.
PAUSE_S = "0.0" if IS_LONG else "0.004"
#: Three times as long as intake stays open when nothing comes (GRACE_NS).
STOPPED_S = 0.15
#: Half of the time that a caller who does not know yet is waited for (FAREWELL_NS): so it has the other half to say something.
HEARS_S_MAX = 0.5


def pids_of(system: System) -> set[int]:
    """Of the replicas."""
    return {pid for name, pid in system.pids().items() if name in WEB}


def answered_by(system: System, count: int = 12) -> set[int]:
    """Who serves so many calls, made directly and by another backplane."""
    with system.connect() as client:
        return {client.call(route) for route in ("till.ring", "porch.ring") for _ in range(count)}


def in_load(system: System) -> list[Popen[str]]:
    """Three clients that call all the time, each in its way."""
    programs = [
        system.program("steady", "till.ring", PAUSE_S),
        system.program("pipelined", "till.ring", "64", PAUSE_S),
        system.program("concurrent", "porch.ring", "4", PAUSE_S),
    ]
    for program in programs:
        wait_ready(program)
    return programs


def assert_none_failed(programs: list[Popen[str]]) -> None:
    """As many answers as calls."""
    for told in map(answer_of, programs):
        assert told["errors"] == []
        assert told.get("replies", told["count"]) == told["count"] > 0


def roll(system: System) -> dict[str, int]:
    """All of them; the generations they have then."""
    done = system.command("restart", "web", "--rolling", "--json")
    assert done.returncode == 0, done.stderr
    generations: dict[str, int] = json.loads(done.stdout)["backplanes"]
    return generations


@pytest.fixture(scope="module")
def shop(_no_ignored_interrupt: None) -> Iterator[System]:
    """A system whose replicas go on."""
    with standing(SHOP) as system:
        yield system


def test_replicas_share_the_calls_and_are_told_apart_everywhere_else(shop: System) -> None:
    """One table of the TOML; routes once, with all places; status, logs and top by the name of one, or of all."""
    system = shop
    assert list(system.pids()) == ["front", *WEB]
    assert answered_by(system) == pids_of(system)
    entries = json.loads(system.command("routes", "--json").stdout)
    (ring,) = [entry for entry in entries if entry["route"] == "till.ring"]
    assert (ring["backplane"], ring["places"]) == ("web", dict.fromkeys(WEB, True))
    assert "web-1, web-2, web-3" in system.command("routes").stdout
    top = json.loads(system.command("top", "--json", "--backplane", "web").stdout)
    assert [one["name"] for one in top["backplanes"]] == list(WEB)
    text = system.command("top", "--once", "--backplane", "web").stdout
    assert all(name in text for name in WEB)
    assert "front" not in text
    system.wait_for("the porch is open")
    logged = system.command("logs", "--backplane", "web").stdout.splitlines()
    assert sorted(line.split()[3] for line in logged if "the till is open" in line) == list(WEB)
    assert not any("porch" in line for line in logged)
    # One that gets no CPU for two seconds is no idle one, and then only those that are not idle are shown.
    wait_until(lambda: "web-1/till has nothing to do" in system.command("why", "till").stdout, "it is not idle")
    with system.connect() as client:
        assert client.publish("prices.new", number=7) == 3, "every replica hears every message"
        wait_until(lambda: [client.call("till.told") for _ in WEB] == [[7]] * 3, "not every replica hears it once")
        keyed = {client.call("backplane.web-2.threads"), client.call("backplane.web-3.threads")}
        assert keyed == {1}


def test_one_that_dies_is_missed_by_nobody_but_by_the_calls_that_it_held(up: Up) -> None:
    """Whoever depends on it stays up; calls go to the others until it is back, and then to it, too."""
    system = up(SHOP)
    victim = system.pids()["web-2"]
    os.kill(victim, signal.SIGKILL)
    with system.connect() as client:
        ask_until(client, "supervisor.status", lambda told: told["backplanes"][2]["restarts"] == 1)
        for _ in range(20):
            assert client.call("till.ring") != victim
        states = [entry["components"] for entry in system.status()["backplanes"]]
        assert states[0] == {"porch": "primary"}
        ask_until(client, "supervisor.status", lambda told: told["backplanes"][2]["components"] == {"till": "primary"})
    assert len([line for line in system.said if "the porch is open" in line]) == 1, "it was not moved"
    wait_until(lambda: answered_by(system) == pids_of(system), "it is not called again")


@pytest.mark.parametrize("shop", [SHOP, SHARED], ids=["turns", "pull"])
def test_a_rolling_restart_and_a_change_of_their_number_under_load_fail_no_call(up: Up, shop: str) -> None:
    """Every one of them is a new process after a restart; they come and go by one command, and that the file is not touched is
    said; there are as many answers as there were calls.
    """
    system = up(shop)
    programs = in_load(system)
    for number in range(ROUNDS_COUNT):
        before = pids_of(system)
        assert roll(system) == dict.fromkeys(WEB, number + 2)
        assert before.isdisjoint(pids_of(system))
    assert system.backplane("front")["generation"] == 1
    more = system.command("scale", "web", "--replicas", "4")
    assert more.returncode == 0, more.stderr
    assert more.stdout.splitlines() == [
        "web: replicas = 4 (before: 3)",
        f"{system.toml} still says 3: the next reload goes back to it",
    ]
    assert list(system.pids()) == ["front", *WEB, "web-4"]
    wait_until(lambda: answered_by(system) == set(system.pids().values()) - {system.pids()["front"]}, "web-4 idles")
    kept = system.pids()["web-1"]
    fewer = system.command("scale", "web", "--replicas", "1")
    assert fewer.returncode == 0, fewer.stderr
    assert fewer.stdout.splitlines()[0] == "web: replicas = 1 (before: 4)"
    assert system.pids() == {"front": system.pids()["front"], "web-1": kept}
    assert answered_by(system) == {kept}
    assert_none_failed(programs)


@pytest.fixture(scope="module")
def shared_queue(_no_ignored_interrupt: None) -> Iterator[System]:
    """Replicas that share a queue."""
    with standing(SHARED) as system:
        yield system


def test_no_call_waits_behind_a_long_one_while_another_replica_is_idle(shared_queue: System) -> None:
    """Where they take turns, each third call did."""
    system = shared_queue
    pipe = system.folder / "pipe"
    os.mkfifo(pipe)
    with system.connect() as client:
        long = [client.submit("till.serve", pipe=str(pipe), timeout=LIMIT_S) for _ in range(2)]
        free = {client.call("till.ring") for _ in range(30)}
        assert len(free) == 1

        def has_ended() -> bool:
            with suppress(OSError):  # nobody reads it now: the second has not begun yet
                os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            return all([one.done() for one in long])

        wait_until(has_ended, "they wait on")
        assert {one.result() for one in long} | free == pids_of(system)
        wait_until(lambda: answered_by(system) == pids_of(system), "the others are called no more")


def test_with_a_shared_queue_every_call_ends_once_whoever_is_killed(shared_queue: System) -> None:
    """Of those that waited nobody has begun any: they are served by the others."""
    system = shared_queue
    programs = [system.program("pipelined", "till.ring", "64"), system.program("concurrent", "porch.ring", "16")]
    for program in programs:
        wait_ready(program)
    with system.connect() as client:
        for number, name in enumerate(WEB):
            os.kill(system.pids()[name], signal.SIGKILL)
            ask_until(
                client,
                "supervisor.status",
                lambda told, at=number + 1: (
                    (told["backplanes"][at]["restarts"], told["backplanes"][at]["components"])
                    == (1, {"till": "primary"})
                ),
            )
    for told in map(answer_of, programs):
        assert told["replies"] + len(told["errors"]) == told["count"] > 0
        assert {error.partition("(")[0] for error in told["errors"]} <= {"PeerDown", "Unavailable"}, told["errors"]


def test_a_caller_that_hears_late_of_a_drain_is_waited_for(up: Up) -> None:
    """It was stopped while the directory came: its calls are on their way to a place that would have closed."""
    system = up(SHOP)
    program = system.program("pipelined", "till.ring", "64")
    wait_ready(program)
    with system.connect() as client:
        body = {"backplanes": ["web-1"], "timeout": LIMIT_S, "rolling": True}
        rolling = client.submit("supervisor.restart", timeout=LIMIT_S, arguments=body)

        def has_drained_for_a_while(told: dict[str, Any]) -> bool:
            entry = told["backplanes"][1]
            if entry["generation"] == 1 and entry["state"] != "draining":  # first it is constructed aside
                os.kill(program.pid, signal.SIGCONT)  # only who has called within the last second is waited for
                client.call("supervisor.status")
                os.kill(program.pid, signal.SIGSTOP)
                return False
            return entry["generation"] == 2 or entry["since"] > STOPPED_S

        try:
            ask_until(client, "supervisor.status", has_drained_for_a_while)
        finally:
            os.kill(program.pid, signal.SIGCONT)
        drained = client.call("supervisor.status")["backplanes"][1]
        assert rolling.result() == {"backplanes": {"web-1": 2}, "unfinished": []}
    if drained["state"] == "draining" and drained["since"] < HEARS_S_MAX:
        assert_none_failed([program])
    else:  # on so busy a machine it was stopped for longer than anybody is waited for
        answer_of(program)


def test_it_stops_at_the_first_that_does_not_come_back(up: Up) -> None:
    """The others are as they were, and serve; what to do is said, and done again it begins with the one that is missing."""
    system = up(SHOP.replace("replicas = 3", "replicas = 3\nrestart = { max = 0 }"))
    closed = system.folder / "closed"
    closed.touch()
    before = pids_of(system)
    stopped = system.command("restart", "web", "--rolling")
    assert (stopped.returncode, stopped.stdout) == (1, "")
    line = stopped.stderr.splitlines()[-1]
    assert "web-1 did not come back: till did not become initializing: " in line
    assert "the shop is closed" in line
    assert line.endswith("not restarted: web-2, web-3 (2 of 3 are unchanged)")
    assert answered_by(system) < before
    closed.unlink()
    assert roll(system) == {"web-1": 3, "web-2": 2, "web-3": 2}
    assert answered_by(system) == pids_of(system)


def test_what_cannot_roll_is_said_in_one_line(shop: System) -> None:
    """With the exit code by which a script knows whose mistake it is."""
    for words, code, says in (
        (("front", "--rolling"), 1, "backplane 'front' has no replicas to answer meanwhile"),
        (("wbe", "--rolling"), 1, "no backplane 'wbe' (did you mean 'web'?)"),
        (("web", "--rolling", "--now"), 2, "--now and --rolling exclude each other"),
        (("web", "--force"), 2, "--force is for --rolling"),
        (("front", "--rolling", "--force"), 0, ""),
    ):
        done = shop.command("restart", *words)
        assert done.returncode == code
        assert says in done.stderr
