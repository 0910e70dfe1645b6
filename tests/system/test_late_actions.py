"""The latency contract in a real process: what waits unread in the socket, while the only thread works, waits all the same."""

from __future__ import annotations

from typing import Any

from appbackplane.transport import Client

from .conftest import LIMIT_S, Up, ask_until

CLINIC = """
[backplane.clinic]
components = ["components:Clinic"]
preempt = false
max_latency = "20ms"
"""
CALLS = 3


def running_ms(told: Any) -> float:
    """How long the clinic's action has been running; -1: the clinic has not answered, or runs none."""
    (clinic,) = [one for one in told["backplanes"] if one["name"] == "clinic"]
    running = clinic["statistics"]["running"] if clinic["statistics"] else []
    return float(running[0]["running_ms"]) if running else -1.0


def wait_until_it_has_run(client: Client, for_ms: float) -> float:
    """Until the clinic's action has run for so long."""
    answer = ask_until(client, "supervisor.status", lambda told: running_ms(told) > for_ms, statistics=True)
    return running_ms(answer)


def test_calls_that_wait_behind_a_running_action_are_late_although_nobody_has_read_them(up: Up) -> None:
    """A worker reads them when the action has ended, and begins them at once: without the socket they would not have waited."""
    system = up(CLINIC)
    with system.connect() as client:
        file = system.folder / "done"
        client.submit("clinic.operate", key="anna", file=str(file), timeout=LIMIT_S)
        begun_ms = wait_until_it_has_run(client, 0)
        calls = [client.submit("clinic.operate", key="bert", file=str(file), timeout=LIMIT_S) for _ in range(CALLS)]
        wait_until_it_has_run(client, begun_ms + 1_200)  # so a report of the first is more than a second ago
        file.touch()
        for call in calls:
            call.result(LIMIT_S)
        line = system.wait_for("late action: clinic.operate on clinic/clinic.bert")
        assert ": workers: its worker was busy with clinic.operate on clinic/clinic.anna" in line
        figures = ask_until(  # a reply may arrive before its action is counted
            client,
            "backplane.clinic.statistics",
            lambda told: told["operations"]["clinic.operate"]["count"] == CALLS + 1,
        )
    account = figures["operations"]["clinic.operate"]
    assert account["late"] in (CALLS, CALLS + 1), "all but the first, which a busy machine may delay as well"
    assert figures["late_actions"] >= account["late"]
