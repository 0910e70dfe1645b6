"""Every reason that `why` claims to give, in a system that is really in that state, by the command that people type."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from appbackplane.transport import Client
from tests.waiting import Limit, wait_until

from .conftest import LIMIT_S, System, Up, ask_until, standing, wait_dead

CLINIC = """
drain_limit = "500ms"
stop_limit = "2s"
[backplane.clinic]
components = ["components:Clinic"]
{more}
[backplane.other]
components = ["components:Bystander"]
"""
#: What a clinic is like in which a reason stays, so that nothing else can be asked about afterwards.
SPOILT = {
    "digested": "",
    "quota": 'quotas = [0, 0, 0, 0, 0, 1, 0]\ntick = "1h"',
    "down": "restart = { max = 0 }",
    "no_answer": "",
}
LIMITED = """
[backplane.clinic]
components = ["components:Clinic"]
cpu_limit = 1
cpu_exempt = 1
"""


class Ward:
    """A client that fills the clinic, and asks why."""

    def __init__(self, system: System, client: Client, file: Path) -> None:
        """`file`: lets go what holds the worker."""
        self.system, self.client = system, client
        self.file = str(file)
        self.held: object = None

    def submit(self, operation: str, key: str | None = None, priority: int | None = None, **arguments: Any) -> None:
        """A call that waits."""
        route = f"clinic.{operation}"
        self.client.submit(route, key=key, priority=priority, timeout=10 * LIMIT_S, arguments=arguments)

    def operate(self, key: str = "anna", priority: int | None = None) -> None:
        """The only worker is held, until the end."""
        self.submit("operate", key, priority, file=self.file)
        self.wait_for(f"clinic/clinic.{key}", "running")

    def wait_for(self, asked: str, reason: str) -> None:
        """Until this is among the reasons."""

        def is_so(answer: Any) -> bool:
            return any(one["because"] == reason for step in answer["steps"] for one in step["reasons"])

        ask_until(self.client, "supervisor.why", is_so, asked=asked)

    def why(self, asked: str) -> list[dict[str, Any]]:
        """As a person would find it out: the reasons of all steps."""
        answer = self.system.command("why", asked, "--json")
        assert answer.returncode == 0, answer.stderr
        return [reason for step in json.loads(answer.stdout)["steps"] for reason in step["reasons"]]

    def arrived(self, count: int) -> None:
        """Until so many requests are outstanding."""
        ask_until(
            self.client,
            "supervisor.status",
            lambda told: outstanding(told) == count,
            statistics=True,
        )


def outstanding(told: Any) -> int:
    """Of the clinic."""
    (clinic,) = [one for one in told["backplanes"] if one["name"] == "clinic"]
    return int(clinic["statistics"]["components"]["clinic"]["outstanding"]) if clinic["statistics"] else -1


@pytest.fixture(scope="module")
def clinic(_no_ignored_interrupt: None) -> Iterator[System]:
    """A clinic with one worker, for all reasons that go again."""
    with standing(CLINIC.format(more="")) as system:
        yield system


@contextmanager
def ward_in(system: System, folder: Path) -> Iterator[Ward]:
    """Nothing is at work; whatever holds the worker is let go at the end, and calls end with their client."""
    with system.connect() as client:
        ward = Ward(system, client, folder / "done")
        ward.arrived(0)
        yield ward
        Path(ward.file).touch()


# Each brings the ward into a state, and says what to ask about.


def lies_idle(ward: Ward) -> str:
    return "clinic/clinic.anna"


def runs(ward: Ward) -> str:
    ward.operate()
    return "clinic.operate"


def is_busy_with_another(ward: Ward) -> str:
    ward.operate()
    ward.submit("listen", "anna")
    ward.arrived(2)
    return "clinic.listen"


def stands_behind_others(ward: Ward) -> str:
    ward.operate()
    ward.submit("listen", "bert", seconds=1.0)
    ward.submit("count", "bert", seconds=0.0)
    ward.arrived(3)
    return "clinic.count"


def has_no_worker(ward: Ward) -> str:
    ward.operate()
    ward.submit("listen", "bert")
    ward.arrived(2)
    return "clinic.listen"


def is_less_urgent(ward: Ward) -> str:
    ward.operate(priority=0)
    ward.submit("listen", "bert")
    ward.submit("count", "carl", seconds=0.0)
    ward.arrived(3)
    return "clinic.count"


def came_later(ward: Ward) -> str:
    ward.operate()
    ward.submit("listen", "bert")
    ward.submit("refer", "carl")
    ward.arrived(3)
    return "clinic.refer"


def pauses(ward: Ward) -> str:
    ward.submit("listen", "anna")
    ward.arrived(1)
    ward.wait_for("clinic.listen", "pauses")
    return "clinic.listen"


def waits_for_a_pause(ward: Ward) -> str:
    ward.submit("listen", "anna")
    ward.wait_for("clinic.listen", "pauses")
    ward.submit("count", "anna", seconds=0.0)
    ward.arrived(2)
    return "clinic.count"


def awaits(ward: Ward) -> str:
    ward.submit("refer", "anna")
    ward.wait_for("clinic.refer", "awaits")
    return "clinic.refer"


def waits_for_a_reply(ward: Ward) -> str:
    ward.submit("refer", "anna")
    ward.wait_for("clinic.refer", "awaits")
    ward.submit("count", "anna", seconds=0.0)
    ward.arrived(3)
    return "clinic.count"


def is_put_off(ward: Ward) -> str:
    ward.submit("walk", "door", who="me")
    ward.wait_for("clinic.walk", "deferred")
    return "clinic.walk"


def awaits_an_operand(ward: Ward) -> str:
    ward.held = ward.client.promise("whoever comes")  # a promise that is dropped ends the call
    ward.submit("walk", "door", who=ward.held)
    ward.arrived(1)
    return "clinic.walk"


def is_looked_up(ward: Ward) -> str:
    ward.submit("visit", who="anna")
    ward.arrived(1)
    return "clinic.visit"


def has_spent_its_quota(ward: Ward) -> str:
    ward.client.call("clinic.listen", key="bert", seconds=0.0)  # one a tick at this priority, and a tick is an hour
    ward.operate()
    ward.submit("listen", "bert")
    ward.submit("count", "carl", seconds=0.0)
    ward.arrived(3)
    return "clinic.listen"


def finds_it_full(ward: Ward) -> str:
    ward.operate()
    for _ in range(5):
        ward.submit("listen", "bert")
    ward.arrived(6)
    return "clinic.listen"


def asks_in_the_wrong_state(ward: Ward) -> str:
    return "clinic.stand_in"


def asks_the_dead(ward: Ward) -> str:
    pid = ward.system.pids()["clinic"]
    os.kill(pid, signal.SIGKILL)
    wait_dead(pid)
    ask_until(ward.client, "supervisor.status", lambda told: told["backplanes"][0]["state"] == "failed")
    return "clinic/clinic.anna"


def asks_the_stopped(ward: Ward) -> str:
    os.kill(ward.system.pids()["clinic"], signal.SIGSTOP)
    return "clinic/clinic.anna"


REASONS: dict[str, Callable[[Ward], str]] = {
    "idle": lies_idle,
    "running": runs,
    "object_runs": is_busy_with_another,
    "behind": stands_behind_others,
    "workers": has_no_worker,
    "more_urgent": is_less_urgent,
    "queue": came_later,
    "pauses": pauses,
    "object_pauses": waits_for_a_pause,
    "awaits": awaits,
    "object_awaits": waits_for_a_reply,
    "deferred": is_put_off,
    "operands": awaits_an_operand,
    "digested": is_looked_up,
    "quota": has_spent_its_quota,
    "throttled": finds_it_full,
    "state": asks_in_the_wrong_state,
    "down": asks_the_dead,
    "no_answer": asks_the_stopped,
}


@pytest.mark.parametrize("reason", REASONS)
def test_the_reason_is_found_in_a_system_that_has_it(clinic: System, up: Up, tmp_path: Path, reason: str) -> None:
    """What a page lists and nobody has ever seen is not worth listing."""
    system = up(CLINIC.format(more=SPOILT[reason])) if reason in SPOILT else clinic
    with ward_in(system, tmp_path) as ward:
        asked = REASONS[reason](ward)
        # A backplane that gets no CPU for two seconds gives another reason: that it does not answer.
        limit, found = Limit(), ward.why(asked)
        while reason not in [one["because"] for one in found]:
            limit.check(found)
            found = ward.why(asked)
        assert all(one["text"] for one in found)
        if reason == "no_answer":
            os.kill(ward.system.pids()["clinic"], signal.SIGCONT)


def test_a_spent_cpu_budget_is_found(up: Up, tmp_path: Path) -> None:
    """1 % of each second, and a whole one used at once: for a hundred nothing runs, and the reason is not to be guessed."""
    system = up(LIMITED)
    with system.connect() as client:
        client.call("clinic.count", key="anna", seconds=1.0, timeout=LIMIT_S)
        ward = Ward(system, client, tmp_path / "done")
        ward.submit("listen", "bert")
        ward.arrived(1)
        wait_until(
            lambda: [one["because"] for one in ward.why("clinic.listen")] == ["cpu_budget"],
            lambda: ward.why("clinic.listen"),
        )
