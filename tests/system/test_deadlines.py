"""Deadlines and cancellation across processes: nobody goes on working for a caller that has given up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from appbackplane.transport import Client, PendingCall
from appbackplane.transport.errors import Cancelled, DeadlineExceeded

from .conftest import LIMIT_S, System, ask_until, expired_while_it_ran, standing

WORKSHOP = """
[backplane.workshop]
components = ["components:Worker"]
[backplane.agency]
components = ["components:Agent"]
"""


@pytest.fixture(scope="module")
def system(_no_ignored_interrupt: None) -> Iterator[System]:
    """A workshop, and an agency that has it work."""
    with standing(WORKSHOP) as system:
        yield system


@pytest.fixture
def client(system: System) -> Iterator[Client]:
    """A client. Nothing is at work, the gate is closed, and nothing was written before."""
    with system.connect() as client:
        ask_until(client, "backplane.workshop.statistics", lambda told: not told["components"]["worker"]["outstanding"])
        client.call("worker.close", key="gate")
        client.call("worker.forget")
        yield client


def wait_log(client: Client, *lines: str) -> None:
    """Until the workshop has written exactly these."""
    ask_until(client, "worker.ended", lambda log: log == list(lines))


def has_begun(client: Client, name: str) -> bool:
    """By what the workshop has written."""
    return f"{name} began" in client.call("worker.ended", timeout=LIMIT_S)


def assert_ended_late(client: Client, name: str) -> None:
    """Whose clock is first, the callee's or that of the one who takes it back, is not said."""
    log = ask_until(client, "worker.ended", lambda log: sum(line.startswith(f"{name} ") for line in log) == 2)
    assert log[-2:] in ([f"{name} began", f"{name} Cancelled"], [f"{name} began", f"{name} DeadlineExceeded"])


def test_a_call_whose_deadline_passes_ends_here_and_at_its_callee(client: Client) -> None:
    """A server that goes on after its callers have given up is busy with nothing, and answers the next one late."""
    name = expired_while_it_ran(
        lambda name, timeout: client.submit("worker.work", key="place-0", name=name, timeout=timeout),
        lambda name: has_begun(client, name),
    )
    assert_ended_late(client, name)
    assert client.call("worker.work", key="place-0", name="b", seconds=0.0) == "b"


def test_a_call_that_is_taken_back_ends_at_its_callee(client: Client) -> None:
    """At once, and not by its deadline of 30 s."""
    call = client.submit("worker.work", key="place-0", name="a")
    wait_log(client, "a began")
    assert call.cancel()
    assert type(call.exception()) is Cancelled
    wait_log(client, "a began", "a Cancelled")


def test_a_call_that_is_taken_back_in_its_queue_never_begins(client: Client) -> None:
    """And those behind it move up."""
    before = client.call("backplane.workshop.statistics")["operations"].get("worker.work", {"cancelled": 0})
    first, second, third = (client.submit("worker.work", key="place-0", name=name) for name in "abc")
    wait_log(client, "a began")
    second.cancel()
    first.cancel()
    wait_log(client, "a began", "a Cancelled", "c began")
    third.cancel()
    wait_log(client, "a began", "a Cancelled", "c began", "c Cancelled")
    statistics = ask_until(  # what has written its last line may not be counted yet
        client, "backplane.workshop.statistics", lambda told: told["components"]["worker"]["outstanding"] == 0
    )
    assert statistics["operations"]["worker.work"]["cancelled"] == before["cancelled"] + 3


@pytest.mark.parametrize("by_deadline", [False, True])
def test_cancellation_goes_through_whoever_called_on_its_behalf(client: Client, by_deadline: bool) -> None:
    """Client, agency, workshop: three processes, and the last one stops too."""

    def begin(name: str, timeout: float | None) -> PendingCall:
        return client.submit("agent.have_done", timeout=timeout, arguments={"name": name, "key": "place-1"})

    if by_deadline:
        assert_ended_late(client, expired_while_it_ran(begin, lambda name: has_begun(client, name)))
    else:
        call = begin("a", None)
        wait_log(client, "a began")
        call.cancel()
        assert type(call.exception()) is Cancelled
        wait_log(client, "a began", "a Cancelled")
    ask_until(client, "backplane.agency.statistics", lambda told: told["links"]["outstanding"] == 0)


def test_work_that_a_state_machine_has_put_off_is_not_done_for_a_caller_that_has_given_up(client: Client) -> None:
    """It waits for a state, perhaps for days; its caller did not."""
    hasty = client.submit("worker.walk", key="gate", who="hasty")
    assert client.call("worker.who_passed", key="gate") == []
    hasty.cancel()
    patient = client.submit("worker.walk", key="gate", who="patient")
    client.call("worker.open", key="gate")
    patient.result()
    assert client.call("worker.who_passed", key="gate") == ["patient"]


def test_places_of_callers_that_have_given_up_are_free_again(client: Client) -> None:
    """`max_requests` counts who waits, not who once did: each time a caller has its nine tenths of the 50 anew."""
    for _ in range(3):
        calls = [client.submit("worker.walk", key="gate", who="nobody", timeout=0.2) for _ in range(45)]
        assert {type(call.exception()) for call in calls} == {DeadlineExceeded}
        ask_until(
            client,
            "backplane.workshop.statistics",
            lambda told: told["components"]["worker"]["outstanding"] == 0,
        )


GARDEN = """
[backplane.garden]
components = ["components:Garden"]
[backplane.spout]
components = ["components:Spout"]
[backplane.valve]
components = ["components:Valve"]
"""


@pytest.fixture(scope="module")
def garden(_no_ignored_interrupt: None) -> Iterator[System]:
    """Three backplanes, each of which calls the next."""
    with standing(GARDEN) as system:
        yield system


def test_what_is_left_of_a_deadline_goes_through_three_backplanes(garden: System) -> None:
    """Each hop has used some of it; a callee that counted from its own beginning would work on for nobody."""
    with garden.connect() as client:
        assert 0.0 < client.call("garden.left", timeout=20.0) < 19.6


def test_work_whose_deadline_has_passed_is_not_begun_three_backplanes_away(garden: System) -> None:
    """It waits there for a worker; when one is free, nobody wants it any more, and the figures say so."""
    with garden.connect() as client:
        held = client.submit("valve.hold", timeout=LIMIT_S)
        ask_until(client, "supervisor.why", is_running, asked="valve.hold")

        def has_come(name: str) -> bool:
            # More urgent than what holds the worker, so the relief worker answers.
            told = client.call("backplane.valve.statistics", timeout=LIMIT_S)
            return bool(given_up(told) or told["components"]["valve"]["outstanding"] > 1)

        def given_up(told: dict[str, Any]) -> int:
            account = told["operations"].get("valve.fill", {})
            return int(account.get("cancelled", 0) + account.get("expired", 0))

        expired_while_it_ran(lambda name, timeout: client.submit("garden.water", timeout=timeout), has_come)

        told = ask_until(client, "backplane.valve.statistics", given_up)
        client.call("valve.turn", key="handle")
        held.result()
        assert told["operations"]["valve.fill"]["run"]["max_us"] == 0
        for name in ("garden", "spout"):
            ask_until(client, f"backplane.{name}.statistics", lambda told: told["links"]["outstanding"] == 0)


def is_running(answer: Any) -> bool:
    """What was asked about runs."""
    return any(reason["because"] == "running" for reason in answer["steps"][-1]["reasons"])
