"""OTP's rules on real processes: who goes down with whom, who comes back, and what happens when nothing helps any more.

The pure module is tested case by case (test_restart.py), the director in any order of events (test_director.py); here is
seen that signals, exit codes and hooks of real processes are taken for what they are.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from appbackplane.transport import connect
from tests.waiting import wait_until

from .conftest import LIMIT_S, RunningSystem, is_alive

Start = Callable[..., RunningSystem]

MODULE = '''
"""A store, what uses it, what uses that, and one who needs nobody."""
import os, pathlib, time
from appbackplane.runtime import Component, checkpoint, operation, pause

HERE = pathlib.Path(__file__).parent

class Told(Component):
    "Its hooks write what they are into one file, whose order is the order in which they began."

    def tell(self, state):
        with open(HERE / "trace", "a") as trace:  # before it is said: who has heard it reads it there
            trace.write(f"{self.component_name} {state}\\n")
        print(f"{self.component_name} {state}", flush=True)

    def on_initializing(self):
        self.tell("initializing")

    def on_primary(self):
        self.tell("primary")

    def on_secondary(self):
        self.tell("secondary")

    def on_down(self):
        self.tell("down")

    @operation()
    def pid(self) -> int:
        return os.getpid()

    @operation()
    def exit(self, code: int) -> None:
        os._exit(code)

class Store(Told):
    def __init__(self):
        if (HERE / "broken").exists():
            os._exit(7)

class Shop(Told):
    depends_on = ("store",)

class Till(Told):
    depends_on = ("shop",)

class Aside(Told):
    pass

class Moody(Told):
    "Its hook fails, or hangs, until a file is there."
    component_name = "store"

    def __init__(self, fails: str = "", hangs: str = ""):
        self.fails, self.hangs = fails, hangs

    def on_initializing(self):
        super().on_initializing()
        if self.fails == "initializing" and not (HERE / "mended").exists():
            raise RuntimeError("no disk")

    async def on_primary(self):
        super().on_primary()
        await checkpoint()
        if self.fails == "primary" and not (HERE / "mended").exists():
            raise RuntimeError("no disk")
        while self.hangs and not (HERE / "mended").exists():
            await pause(0.01)
'''

TOML = """
[system]
name = "demo"
run_dir = "run"
{system}
[backplane.store]
components = ["demo:{store}"]
{index}
"""
BACKPLANE = """
[backplane.{name}]
components = ["demo:{component}"]
"""

#: Times that the supervisor wakes for one process that is started and dies: its pipes, its end, what it says, the log. Five
#: were counted on a busy machine; a look each millisecond, or every 20 ms, would be a hundred, or many.
WAKES_A_DEATH_MAX = 30
DEATHS = 5
NAMES = ("store", "shop", "till", "aside")


@pytest.fixture
def begin(start: Start, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts a system: `begin(lines of [backplane.store])`. `others`: the backplanes beside it."""

    def begin(
        index: str = "", *, system: str = "", store: str = "Store", others: tuple[str, ...] = NAMES[1:]
    ) -> RunningSystem:
        toml = TOML + "".join(BACKPLANE.format(name=name, component=name.title()) for name in others)
        monkeypatch.setattr("tests.supervisor.conftest.TOML", toml.replace("{store}", store))
        return start(system, index, module=MODULE)

    return begin


def generations(system: RunningSystem) -> dict[str, int]:
    """Of each backplane."""
    return {backplane["name"]: backplane["generation"] for backplane in system.status()["backplanes"]}


def kill(system: RunningSystem, name: str, number: signal.Signals = signal.SIGKILL) -> None:
    """Its process."""
    os.kill(system.backplane(name)["pid"], number)


def hooks(system: RunningSystem, since: int = 0) -> list[str]:
    """What hooks have begun, in this order, from this one on."""
    return (system.toml.parent / "trace").read_text().splitlines()[since:]


def wait_again(system: RunningSystem, *names: str) -> None:
    """Until these have said that they are up again."""
    for name in names:
        system.wait_said(f"'{name}': up again, generation 2")


# Strategies


def test_one_for_one_restarts_the_one_that_died(begin: Start) -> None:
    """OTP's default. Whoever uses it stays where it is, and is not even told."""
    system = begin(others=("shop",))
    system.wait_up()
    mark = len(hooks(system))
    kill(system, "store")
    system.wait_said("'store': up again, generation 2")
    assert generations(system) == {"store": 2, "shop": 1}
    assert hooks(system, mark) == ["store initializing", "store primary"]


def test_rest_for_one_restarts_who_depends_on_it_too(begin: Start) -> None:
    """In order: they go down before the new one comes up, the last one first, and come up after it."""
    system = begin('restart = { strategy = "rest_for_one" }')
    system.wait_up()
    mark = len(hooks(system))
    kill(system, "store")
    wait_again(system, "store", "shop", "till")
    assert generations(system) == {"store": 2, "shop": 2, "till": 2, "aside": 1}
    said = hooks(system, mark)
    assert said[:2] == ["till down", "shop down"]
    for state in ("initializing", "primary"):
        assert said.index(f"store {state}") < said.index(f"shop {state}") < said.index(f"till {state}")
    assert all(backplane["restarts"] <= 1 for backplane in system.status()["backplanes"])
    assert any("starting it again now, and with it shop, till (rest_for_one)" in line for line in system.said)


def test_one_for_all_restarts_everybody(begin: Start) -> None:
    """Who shares a state with it that is lost now cannot go on."""
    system = begin('restart = { strategy = "one_for_all" }', others=("shop", "aside"))
    system.wait_up()
    kill(system, "store")
    wait_again(system, "store", "shop", "aside")
    assert set(generations(system).values()) == {2}


# Types


def test_a_transient_one_that_ends_well_is_not_started_again(begin: Start) -> None:
    """It has done what it was for; a death is still a death."""
    system = begin('restart = { type = "transient" }', others=("shop",))
    system.wait_up()
    kill(system, "store")
    system.wait_said("'store': up again, generation 2")
    with connect(system.run_dir, timeout=LIMIT_S) as client:
        client.cast("store.exit", code=0)
        system.wait_said("it is transient and exited with code 0: not restarted")
    store = system.backplane("store")
    assert (store["state"], store["generation"], store["health"]) == ("ended", 2, "dead")
    assert system.status()["state"] == "up", "nothing has failed"
    assert system.backplane("shop")["components"] == {"shop": "primary"}, "OTP leaves siblings alone"
    system.signal(signal.SIGTERM)
    assert system.wait_down() == 0


def test_a_temporary_one_is_never_started_again(begin: Start) -> None:
    """Not after a kill either, and nobody is the worse for it."""
    system = begin('restart = { type = "temporary" }', others=("shop",))
    system.wait_up()
    kill(system, "store")
    system.wait_said("killed by signal 9: store primary; it is temporary: not restarted")
    assert system.backplane("store")["state"] == "ended"
    assert system.status()["state"] == "up"
    system.signal(signal.SIGTERM)
    assert system.wait_down() == 0


def test_up_ends_once_everything_has_ended(begin: Start) -> None:
    """The only backplane of a system was temporary; it was killed, and `up` went on with no process left."""
    system = begin(system='restart = { type = "temporary" }', others=("aside",))
    system.wait_up()
    for name in ("store", "aside"):
        kill(system, name)
        system.wait_said(f"backplane {name!r}: killed by signal 9")
    system.wait_said("all backplanes have ended: going down")
    assert system.wait_down() == 0


# Escalation


def test_what_depends_on_one_that_was_given_up_goes_where_its_policy_says(begin: Start) -> None:
    """on_give_up = "down": who cannot do without it lets go, in order, and whoever needs nobody serves on."""
    system = begin('restart = { max = 0, on_give_up = "down" }')
    system.wait_up()
    mark = len(hooks(system))
    kill(system, "store")
    system.wait_said("given up: restarts are off (restart.max = 0); dependents lowered to down: shop, till")

    def components() -> dict[str, str]:
        return {n: s for backplane in system.status()["backplanes"] for n, s in backplane["components"].items()}

    # A hook says that it is down before it has ended.
    wait_until(lambda: components()["shop"] == "down", components)
    assert components() == {"store": "down", "shop": "down", "till": "down", "aside": "primary"}
    assert hooks(system, mark) == ["till down", "shop down"]
    assert system.status()["state"] == "degraded"
    system.signal(signal.SIGTERM)
    assert system.wait_down() == 1


def test_escalation_to_the_end_takes_the_system_down(begin: Start) -> None:
    """OTP: a supervisor that gives up ends, with a reason. Here it is an exit code and one message."""
    system = begin(system='restart = { max = 0, on_give_up = "shutdown" }')
    system.wait_up()
    mark = len(hooks(system))
    kill(system, "store")
    assert system.wait_down() == 1
    because = "backplane 'store': killed by signal 9: store primary; given up: restarts are off (restart.max = 0)"
    assert [line for line in system.said if "supervisor" in line and because in line] == [
        f"supervisor | {because}",
        f"supervisor | down, exit code 1: {because}",
    ]
    said = hooks(system, mark)
    assert sorted(said) == ["aside down", "shop down", "till down"]
    assert said.index("till down") < said.index("shop down")


def test_a_crash_loop_waits_longer_each_time_and_costs_nothing_meanwhile(begin: Start) -> None:
    """Doubling, each wait between a half and the whole of it by chance; the supervisor sleeps through it."""
    system = begin('restart = { max = 5, backoff = "400ms", healthy_after = "1h" }', others=())
    system.wait_up()
    supervisor, waits, idle_cpu_s = psutil.Process(system.process.pid), [], []
    for generation in range(2, 6):
        mark = len(system.said)
        kill(system, "store")
        said = system.wait_said("starting it again", mark)
        waits.append(0.0 if "again now" in said else float(re.search(r"in ([\d.]+) s", said)[1]))  # type: ignore[index]
        cpu_s = sum(supervisor.cpu_times()[:2])
        system.wait_said("store initializing", mark)
        if waits[-1] > 1:
            idle_cpu_s.append(sum(supervisor.cpu_times()[:2]) - cpu_s)
        system.wait_said(f"'store': up again, generation {generation}")
    for wait, whole in zip(waits, (0, 0.4, 0.8, 1.6), strict=True):
        assert whole / 2 - 0.05 <= wait <= whole + 0.05
    assert all(cpu_s < 0.4 for cpu_s in idle_cpu_s), "a wait of 0.8 s at least is slept, with a spawn at its end"


def test_a_crash_loop_is_a_few_processes_and_nothing_between_them(begin: Start) -> None:
    """Counted: who is started, and how often the supervisor wakes for it. Whoever polls meanwhile wakes by the thousand."""
    system = begin('restart = { max = 1000, backoff = "100ms", backoff_max = "800ms" }', others=())
    system.wait_up()
    supervisor = psutil.Process(system.process.pid)
    (system.toml.parent / "broken").touch()
    mark = len(system.said)

    def deaths() -> int:
        """Whose news have been read here; more may have died."""
        return sum("starting it again" in line for line in system.said[mark:])

    kill(system, "store")
    before = supervisor.num_ctx_switches().voluntary
    while deaths() < DEATHS:
        system.wait_said("starting it again", len(system.said))
    wakes = supervisor.num_ctx_switches().voluntary - before
    generation = system.backplane("store")["generation"]
    system.read(0.0)  # what was said before the answer
    assert generation <= 1 + deaths()
    assert wakes < deaths() * WAKES_A_DEATH_MAX
    (system.toml.parent / "broken").unlink()
    system.wait_said("'store': up again", mark)


# Hooks


def test_a_hook_that_fails_at_first_start_leaves_the_rest_up(begin: Start) -> None:
    """It is shown, with its reason and with who waits for it; and mended, it comes up by an order, without a restart."""
    system = begin('restart = { max = 1 }\n[backplane.store.settings.Moody]\nfails = "initializing"', store="Moody")
    system.wait_said("is up, pid")
    system.wait_said("given up: 1 further tries within 60 s were not enough")
    status = system.status()
    assert status["state"] == "degraded"
    entries = {backplane["name"]: backplane for backplane in status["backplanes"]}
    failed = entries["store"]["failed"]["store"]
    assert failed["to"] == "initializing"
    assert "no disk" in failed["reason"]
    assert (failed["is_given_up"], failed["retry_in"], failed["holds_up"]) == (True, None, ["shop", "till"])
    assert entries["aside"]["components"] == {"aside": "primary"}
    assert {entry["generation"] for entry in entries.values()} == {1}, "no process had to die for it"
    (system.toml.parent / "mended").touch()
    moved = system.ask("supervisor.move", {"state": "primary", "component": "store", "timeout": LIMIT_S})
    assert moved["components"] == {"store": "primary", "shop": "primary", "till": "primary"}
    assert system.status()["state"] == "up"
    system.signal(signal.SIGTERM)
    assert system.wait_down() == 0


def test_a_hook_that_fails_is_tried_again_by_itself(begin: Start) -> None:
    """A coroutine as well as a plain one. What it needs may come a second later, and nobody is there to order it."""
    system = begin(
        'restart = { max = 1000, backoff_max = "400ms" }\n[backplane.store.settings.Moody]\nfails = "primary"',
        store="Moody",
        others=("shop",),
    )
    system.wait_said("did not become primary: RuntimeError: no disk; trying it again in")
    (system.toml.parent / "mended").touch()
    system.wait_said("component 'store' is primary now")
    wait_until(lambda: system.status()["state"] == "up", lambda: system.status())
    assert set(generations(system).values()) == {1}


def test_a_hook_that_does_not_end_in_time_is_shown_and_its_late_end_counts(begin: Start) -> None:
    """`start_limit` of its own backplane. It is not tried again beside itself, and nothing is killed for it."""
    system = begin(
        'start_limit = "8s"\n[backplane.store.settings.Moody]\nhangs = "yes"', store="Moody", others=("shop", "till")
    )
    system.wait_said("component 'store' did not become primary: its hook has not ended within 8 s")
    system.wait_said("is up, pid")
    assert system.backplane("store")["moving"] == {"store": "primary"}
    (system.toml.parent / "mended").touch()
    system.wait_said("component 'store' is primary now")
    system.wait_said("till primary")
    assert set(generations(system).values()) == {1}


def test_a_restart_while_others_go_down_with_it_leaves_nothing_behind(begin: Start) -> None:
    """Ordered down in the middle of a restart of all: no process outlives it, and none is started."""
    system = begin('restart = { strategy = "one_for_all" }', others=("shop", "aside"))
    system.wait_up()
    before = {backplane["pid"] for backplane in system.status()["backplanes"]}
    kill(system, "store")
    system.wait_said("starting it again now, and with it")
    system.signal(signal.SIGTERM)
    assert system.wait_down() == 0
    assert not any(is_alive(pid) for pid in before)
    assert Path(system.toml).exists()
