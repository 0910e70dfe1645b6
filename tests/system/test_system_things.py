"""The things of a running system: true to its processes, and able to restart and scale them; read over HTTP."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.waiting import wait_until

from .conftest import System, ask_until, short_folder, systems_in
from .test_things import TOKEN, Answer, Web

PROCESSES = """
[permissions]
operators = ["local", "ada"]
[backplane.mill]
components = ["machines:Machine"]
restart = { max = 1000, backoff = "5ms", backoff_max = "10ms" }
[backplane.fragile]
components = ["components:Bystander"]
restart = { max = 0 }
[backplane.pair]
components = ["components:Shelf"]
replicas = 2
"""
THINGS = """
[backplane.desk]
components = ["appbackplane.runtime.things.system:SystemThings"]
"""
GATEWAY = f"""
[backplane.web]
components = ["appbackplane.runtime.things.web:Gateway"]
[backplane.web.settings.Gateway]
listen = "127.0.0.1:0"
tokens = {{ ada = "{hashlib.sha256(TOKEN.encode()).hexdigest()}", ben = "{hashlib.sha256(b"ben").hexdigest()}" }}
"""
#: What the ids of the things begin with.
SYSTEM = "urn:appbackplane:system:"
#: Of two measurements of the CPU that one process takes, over two seconds that overlap: in percent of a core, and as a part.
CPU_OFF_MAX, CPU_PART_MAX = 15.0, 0.4
#: What a process that computes gets at least, in percent of a core: with less, the difference above is not told.
CPU_MIN = 5.0
MEMORY_OFF_MAX = 0.05
#: Between two questions for what a look at the system tells, of which there is one a second.
LOOK_S = 0.1


@contextmanager
def system_up(toml: str) -> Iterator[System]:
    """A system that is up."""
    with short_folder() as folder, systems_in(folder) as begin:
        shutil.copy(Path(__file__).with_name("machines.py"), folder)
        system = begin(toml)
        system.wait_up()
        yield system


@pytest.fixture(scope="module")
def system(_no_ignored_interrupt: None) -> Iterator[System]:
    """One system for all, in which Ada is an operator."""
    with system_up(f"{PROCESSES}{THINGS}settings.SystemThings = {{ actions = true }}{GATEWAY}") as system:
        yield system


class SystemWeb(Web):
    """Reads the things of the system. They look at it once a second, so they say a moment later what the supervisor knows."""

    def listed(self) -> list[str]:
        """The backplanes of which there are things."""
        return [each["id"].rpartition(":")[2] for each in self.ask("GET", "/things").body]

    def of(self, backplane: str) -> dict[str, Any]:
        """All properties of one backplane."""
        answer = self.ask("GET", f"{path(backplane)}/properties")
        assert answer.status == 200, answer.body
        found: dict[str, Any] = answer.body
        return found

    def wait_for(self, backplane: str, **expected: Any) -> dict[str, Any]:
        """Until the properties have these values."""
        found: dict[str, Any] = {}

        def is_so() -> bool:
            found.update(self.of(backplane))
            return expected.items() <= found.items()

        wait_until(is_so, lambda: f"expected {expected}, and it is {found}", every_s=LOOK_S)
        return found

    def wait_current(self, system: System) -> None:
        """Until there are things of all backplanes, which say that these are up, in the processes that they have now."""

        def value(backplane: str, name: str) -> Any:
            return self.ask("GET", f"{path(backplane)}/properties/{name}", Prefer="wait=1").body

        def is_so() -> bool:
            now = {each["name"]: each["restarts"] for each in system.status()["backplanes"]}
            return all((value(name, "state"), value(name, "restarts")) == ("up", count) for name, count in now.items())

        wait_until(is_so, lambda: {name: self.ask("GET", f"{path(name)}/properties").body for name in system.pids()})

    def status(self, invocation: Answer) -> Any:
        """How an action ends that was begun."""
        assert invocation.status == 201, invocation.body
        at = invocation.headers["Location"]
        wait_until(lambda: self.ask("GET", at).body["status"] != "running", "the action does not end", every_s=LOOK_S)
        return self.ask("GET", at).body


def path(backplane: str) -> str:
    """Of its thing."""
    return f"/things/{SYSTEM}{backplane}"


@pytest.fixture
def web(system: System) -> SystemWeb:
    """Ada's client, once the things know what the test before has done."""
    web = SystemWeb(system)
    web.wait_current(system)
    return web


def test_each_backplane_is_listed(web: SystemWeb) -> None:
    """The gateway and the things themselves as well."""
    assert web.listed() == ["desk", "fragile", "mill", "pair-1", "pair-2", "web"]


def test_figures_are_those_of_the_process(system: System, web: SystemWeb) -> None:
    """Idle, and while it computes."""
    pid = system.pids()["mill"]
    process = psutil.Process(pid)
    web.wait_for("mill", pid=pid, state="up", running=0, queued=0, restarts=system.backplane("mill")["restarts"])

    def has_right_memory() -> bool:
        return abs(web.of("mill")["memory"] / process.memory_info().rss - 1) < MEMORY_OFF_MAX

    wait_until(has_right_memory, lambda: (web.of("mill"), process.memory_info()))
    with system.connect() as client:
        turning = client.submit("machine.turn", timeout=None)
        queued = client.submit("machine.wait", seconds=0.0, timeout=None)
        process.cpu_percent()

        def has_right_cpu() -> bool:
            share = process.cpu_percent()
            return share > CPU_MIN and abs(web.of("mill")["cpu"] - share) < min(CPU_OFF_MAX, CPU_PART_MAX * share)

        wait_until(has_right_cpu, lambda: (web.of("mill"), process.cpu_percent()), every_s=1.0)
        web.wait_for("mill", running=1, queued=1)
        client.call("machine.stop")
        turning.result()
        queued.result()
    web.wait_for("mill", running=0, queued=0)


def test_what_waits_longest_is_told_with_the_reason(system: System, web: SystemWeb) -> None:
    """In the words of `why`."""
    web.wait_for("mill", waiting_since=0.0, waiting_for="")
    with system.connect() as client:
        waiting = client.submit("machine.wait", seconds=600.0, timeout=600.0)

        def says_why() -> bool:
            told = web.of("mill")
            return told["waiting_since"] > 1.0 and told["waiting_for"].startswith(
                "machine.wait: it pauses for another "
            )

        # A busy machine may not answer why within the second that a look has for it.
        wait_until(says_why, lambda: web.of("mill"), every_s=LOOK_S)

        def is_said_by_why(answer: Any) -> bool:
            reasons = answer["steps"][-1]["reasons"]
            return bool(reasons) and reasons[0]["text"].startswith("it pauses for another ")

        ask_until(client, "supervisor.why", is_said_by_why, asked="machine.wait")
        waiting.cancel()
    web.wait_for("mill", waiting_since=0.0, waiting_for="")


def test_a_process_that_is_killed_is_told(system: System, web: SystemWeb) -> None:
    """How it ended, and that the next one is up."""
    before = web.of("mill")
    died = web.events(f"{path('mill')}/events/died/stream", 1)
    started = web.events(f"{path('mill')}/events/started/stream", 1)
    assert [next(died)[0], next(started)[0]] == ["open", "open"]
    os.kill(before["pid"], signal.SIGKILL)
    ((_, _, death),) = died
    assert death == {"reason": "killed by signal 9", "pid": before["pid"], "is_given_up": False, "count": 1}
    ((_, _, start),) = started
    assert start == {"pid": system.pids()["mill"], "restarts": before["restarts"] + 1}
    web.wait_for("mill", pid=start["pid"], restarts=before["restarts"] + 1, reason="killed by signal 9", state="up")


def test_one_that_is_stopped_holds_up_no_other(system: System, web: SystemWeb) -> None:
    """It answers no question about its calls; the others' ends are told all the same."""
    pid, other = system.pids()["mill"], system.pids()["pair-2"]
    with system.connect() as client:
        waiting = client.submit("machine.wait", seconds=600.0, timeout=600.0)
        wait_until(lambda: web.of("mill")["waiting_since"] > 1.0, "nothing waits", every_s=LOOK_S)
        died = web.events(f"{path('pair-2')}/events/died/stream", 1)
        next(died)
        os.kill(pid, signal.SIGSTOP)
        try:
            web.wait_for("mill", waiting_since=0.0)
            os.kill(other, signal.SIGKILL)
            assert [data["pid"] for _, _, data in died] == [other]
            assert web.of("mill")["state"] == "up"
        finally:
            os.kill(pid, signal.SIGCONT)
        wait_until(lambda: web.of("mill")["waiting_since"] > 1.0, "it does not go on", every_s=LOOK_S)
        waiting.cancel()


def test_a_restart_is_ordered_and_is_no_death(system: System, web: SystemWeb) -> None:
    """Even of one that has died before. It ends when the new process is up."""
    died = web.events(f"{path('pair-1')}/events/died/stream", 1)
    next(died)
    before = {name: web.of(name) for name in ("pair-1", "pair-2")}
    os.kill(before["pair-1"]["pid"], signal.SIGKILL)
    assert [data["reason"] for _, _, data in died] == ["killed by signal 9"]
    web.wait_current(system)
    second = web.wait_for("pair-1", restarts=before["pair-1"]["restarts"] + 1)
    died = web.events(f"{path('pair-1')}/events/died/stream", 1)
    next(died)
    ended = web.status(web.ask("POST", f"{path('pair-1')}/actions/restart", {}))
    web.wait_current(system)
    third = web.wait_for("pair-1", restarts=second["restarts"] + 1)
    output = [{"backplane": "pair-1", "generation": third["restarts"] + 1}]
    assert (ended["status"], ended["output"]) == ("completed", output)
    assert third["pid"] != second["pid"]
    os.kill(third["pid"], signal.SIGKILL)
    ((_, _, death),) = died
    assert death["pid"] == third["pid"], "the first event since then"
    assert web.of("pair-2")["pid"] == before["pair-2"]["pid"]


def test_replicas_are_restarted_one_at_a_time(system: System, web: SystemWeb) -> None:
    """All of them, whichever thing is asked."""
    before = {name: web.of(name) for name in ("pair-1", "pair-2")}
    with system.connect() as client:
        restarted = client.call("system.restart", key="pair-2", rolling=True, timeout=None)
    assert {each["backplane"]: each["generation"] for each in restarted} == {
        name: of["restarts"] + 2 for name, of in before.items()
    }
    for name, of in before.items():
        web.wait_for(name, state="up", restarts=of["restarts"] + 1)


def test_a_backplane_is_scaled(system: System, web: SystemWeb) -> None:
    """Things of replicas come and go with them."""
    with system.connect() as client:
        client.call("system.scale", key="mill", threads=3)
        assert client.call("backplane.mill.threads") == 3
        assert client.call("system.scale", key="pair-1", replicas=3) is None
        ask_until(client, "system.state", lambda state: state == "up", key="pair-3")
        web.wait_listed(f"{SYSTEM}pair-3")
        web.wait_for("pair-3", pid=system.pids()["pair-3"])
        client.call("system.scale", key="pair-1", replicas=2)
    wait_until(lambda: "pair-3" not in web.listed(), "the thing is still there")
    assert web.ask("GET", f"{path('pair-3')}/properties/pid").status == 404
    assert web.status(web.ask("POST", f"{path('pair-1')}/actions/scale", {"replicas": 0}))["status"] == "failed"


def test_one_that_is_given_up_is_told(system: System, web: SystemWeb) -> None:
    """With the reason; and whoever restarts it by hand is told that it is up."""
    pid = web.of("fragile")["pid"]
    died = web.events(f"{path('fragile')}/events/died/stream", 1)
    next(died)
    os.kill(pid, signal.SIGKILL)
    ((_, _, death),) = died
    assert (death["pid"], death["is_given_up"]) == (pid, True)
    assert death["reason"] == "killed by signal 9; given up: restarts are off (restart.max = 0)"
    web.wait_for("fragile", state="failed", pid=None, memory=0, cpu=0.0, reason=death["reason"])
    started = web.events(f"{path('fragile')}/events/started/stream", 1)
    next(started)
    with system.connect() as client:
        client.call("system.restart", key="fragile", timeout=None)
    ((_, _, start),) = started
    assert start["pid"] == system.pids()["fragile"]


def test_the_things_start_again_with_their_backplane(system: System, web: SystemWeb) -> None:
    """They are in it; what they cannot do is restart it."""
    refused = web.ask("POST", f"{path('desk')}/actions/restart", {}, Prefer="wait=1")
    with system.connect() as client:
        error = client.submit("system.restart", key="desk").exception()
        assert "would wait for the end of this very action: appbackplane restart desk" in str(error)
    assert refused.status == 201
    pid = system.pids()["desk"]
    os.kill(pid, signal.SIGKILL)
    restarts = f"{path('desk')}/properties/restarts"
    wait_until(lambda: web.ask("GET", restarts, Prefer="wait=1").body == 1, "the things are not back")
    web.wait_for("desk", pid=system.pids()["desk"], reason="killed by signal 9")
    assert web.of("desk")["pid"] != pid


def test_permissions_hold_for_them(system: System, web: SystemWeb) -> None:
    """Who may read the figures of a backplane may not restart it for that."""
    reader = SystemWeb(system, "ben")
    assert reader.ask("GET", path("mill")).status == 404
    given = web.ask("POST", "/permissions", {"who": "ben", "things": [f"{SYSTEM}*"], "access": ["read"]})
    assert given.status == 201
    # The gateway has changed the file itself; the backplane of the things looks at it a moment later.
    waiting_since = f"{path('mill')}/properties/waiting_since"
    wait_until(lambda: reader.ask("GET", waiting_since).status == 200, "the permission does not hold")
    assert reader.of("mill")["pid"] == web.of("mill")["pid"]
    for name, body in (("restart", {}), ("scale", {"threads": 2})):
        assert reader.ask("POST", f"{path('mill')}/actions/{name}", body).status == 404
    assert web.ask("DELETE", f"/permissions/{given.body['id']}").status == 204


@pytest.mark.usefixtures("_no_ignored_interrupt")
def test_actions_are_off_unless_they_are_set() -> None:
    """Over HTTP the error is a conflict, with the setting in it."""
    with system_up(f"{THINGS}{GATEWAY}") as system:
        web = SystemWeb(system)
        web.wait_current(system)
        for name, body in (("restart", {}), ("scale", {"threads": 2})):
            refused = web.status(web.ask("POST", f"{path('web')}/actions/{name}", body))
            assert (refused["status"], refused["error"]["status"]) == ("failed", 409)
            assert "set actions = true in [backplane.desk.settings.SystemThings]" in refused["error"]["detail"]
        assert web.of("web")["pid"] == system.pids()["web"]
