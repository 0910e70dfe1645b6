"""Why something waits: asked from outside, answered by sentinels, followed through all backplanes of the chain."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from appbackplane.transport import Client
from tests.waiting import Limit

from .conftest import LIMIT_S, System, ask_until, standing

GARDEN = """
[backplane.garden]
components = ["components:Garden"]
[backplane.spout]
components = ["components:Spout"]
[backplane.valve]
components = ["components:Valve"]
"""


@pytest.fixture(scope="module")
def system(_no_ignored_interrupt: None) -> Iterator[System]:
    """Garden, spout and valve: each calls the next. Each test lets go what it has held."""
    with standing(GARDEN) as system:
        yield system


@pytest.fixture
def client(system: System) -> Iterator[Client]:
    """The valve's only worker is held; whatever happens, it is let go at the end."""
    with system.connect() as client:
        held = client.submit("valve.hold", timeout=LIMIT_S)
        wait_until(client, "valve.hold", "running")
        yield client
        client.call("valve.turn", key="handle")
        held.result()


def because(steps: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """Where, and the kinds of reasons, of each step."""
    return [(step["backplane"], [reason["because"] for reason in step["reasons"]]) for step in steps]


def wait_until(client: Client, asked: str, kind: str) -> list[dict[str, Any]]:
    """Until the last step gives that reason."""

    def is_so(answer: Any) -> bool:
        return any(reason["because"] == kind for reason in answer["steps"][-1]["reasons"])

    answer = ask_until(client, "supervisor.why", is_so, asked=asked)
    steps: list[dict[str, Any]] = answer["steps"]
    return steps


def answered(system: System, *words: str) -> subprocess.CompletedProcess[str]:
    """What the command says, once all have answered: it goes on without a backplane that gets no CPU for two seconds."""
    limit = Limit()
    while "does not answer" in (answer := system.command("why", *words)).stdout:
        limit.check(answer.stdout)
    return answer


def test_a_chain_is_followed_through_three_backplanes_to_the_worker_that_is_busy(client: Client) -> None:
    """The first of them only knows that it awaits the second; the last one's only worker cannot answer for itself."""
    call = client.submit("garden.water", timeout=LIMIT_S)
    steps = wait_until(client, "garden.water", "workers")
    assert because(steps) == [("garden", ["awaits"]), ("spout", ["awaits"]), ("valve", ["workers"])]
    assert [step["object"] for step in steps] == ["garden/garden", "spout/spout", "valve/valve.bucket"]
    (reason,) = steps[-1]["reasons"]
    assert reason["text"].startswith("the worker is busy with valve.hold on valve/valve (priority 4, for ")
    assert reason["running"][0]["for_ms"] > 0
    client.call("valve.turn", key="handle")
    call.result()


def test_a_call_is_asked_about_by_the_name_that_the_statistics_show(client: Client, system: System) -> None:
    """Whoever sees an old call in a table must be able to ask about this one."""
    call = client.submit("valve.fill", key="bucket", timeout=LIMIT_S)
    wait_until(client, "valve.fill", "workers")

    def of_valve(status: Any) -> Any:  # None where it has not answered in time
        return next(each for each in status["backplanes"] if each["name"] == "valve")["statistics"]

    statistics = of_valve(ask_until(client, "supervisor.status", of_valve, statistics=True))
    (name,) = [one["call"] for one in statistics["oldest"]["calls"] if one["route"] == "valve.fill"]
    assert statistics["queues"]["ready"][4] == 1
    assert statistics["queues"]["oldest_ms"][4] > 0
    assert [one["object"] for one in statistics["oldest"]["objects"]] == ["valve/valve.bucket"]
    (step,) = wait_until(client, name, "workers")
    assert (step["route"], step["call"]) == ("valve.fill", name)
    call.cancel()
    (step,) = wait_until(client, name, "not_here")


def test_the_stack_of_what_is_in_the_way_is_shown_on_request(client: Client, system: System) -> None:
    """Taken during the stall, by name of the object that is stuck."""
    answer = answered(system, "valve", "--stack")
    assert answer.returncode == 0, answer.stderr
    assert "it runs on worker 1 for " in answer.stdout
    assert "self.may_end.wait(60.0)" in answer.stdout
    document = json.loads(answered(system, "valve/valve", "--json").stdout)
    assert "stack" not in document["steps"][0]["reasons"][0]


def test_a_backplane_that_cannot_answer_ends_the_chain_and_is_named(client: Client, system: System) -> None:
    """A stopped process: the question must not hang with it."""
    call = client.submit("garden.water", timeout=LIMIT_S)
    wait_until(client, "garden.water", "workers")
    expected = [("garden", ["awaits"]), ("spout", ["awaits"]), ("valve", ["no_answer"])]
    pid = system.pids()["valve"]
    os.kill(pid, signal.SIGSTOP)
    try:
        # The others may be late, too, on a busy machine.
        ask_until(client, "supervisor.why", lambda told: because(told["steps"]) == expected, asked="garden.water")
    finally:
        os.kill(pid, signal.SIGCONT)
    call.cancel()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("valve.fil", "did you mean 'valve.fill'?"),
        ("valv/valve", "no backplane 'valv' (did you mean 'valve'?)"),
        ("valve/valve.buckt", "backplane valve has no object 'valve/valve.buckt'"),
        ("valve:nobody", "expected BACKPLANE:CALLER:NUMBER"),
    ],
)
def test_what_is_not_there_is_named(system: System, asked: str, words: str) -> None:
    """One clear line, and what was probably meant."""
    answer = answered(system, asked)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert words in answer.stderr
