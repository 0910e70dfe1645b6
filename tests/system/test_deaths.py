"""Processes that die: who is told, and who does not notice. How soon is judged by `scripts/long`."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from statistics import median
from typing import Any

from appbackplane.transport import Client
from appbackplane.transport.errors import PeerDown, SystemNotRunning, Unavailable
from tests.figures import IS_LONG, Stopwatch, judge
from tests.waiting import wait_until

from .conftest import AS_TYPED, Up, answer_of, ask_until, wait_children, wait_dead, wait_ready

SLEEPER = """
[backplane.bedroom]
components = ["components:Sleeper"]
restart = { max = 10, within = "60s" }
[backplane.office]
components = ["components:Relay"]
[backplane.street]
components = ["components:Bystander"]
"""
DESKS_COUNT, CALLS_COUNT = 20, 200
#: From the kill to the end of the last call that it held: 2 to 5 ms on two cores that do little else.
TOLD_S_MAX = 0.1
#: From the supervisor's kill to the end of the last of its processes.
OUTLIVES_S_MAX = 1.0
KILLS_COUNT = 3 if IS_LONG else 2


def are_all_there(queues: Mapping[str, Any]) -> bool:
    """One object serves them one after the other: it waits with the first, and the others queue."""
    return bool(queues["actions"] + queues["waiting"] == CALLS_COUNT + DESKS_COUNT)


def told(client: Client) -> PeerDown | SystemNotRunning | None:
    """How a call ends; None: it is answered."""
    try:
        client.call("sleeper.pid")
    except (PeerDown, SystemNotRunning) as error:
        return error
    return None


def pid_other_than(client: Client, dead: int) -> int:
    """Of the next sleeper, once there is one."""
    return int(ask_until(client, "sleeper.pid", lambda pid: pid != dead))


def test_calls_held_by_a_process_that_is_killed_end_at_once_and_the_others_do_not_notice(up: Up) -> None:
    """Every call ends in `PeerDown`, none by its deadline; of all others nobody is told anything."""
    system = up(SLEEPER)
    before = system.pids()
    bystander = system.program("steady", "bystander.pid")
    wait_ready(bystander)
    told_s = []
    with system.connect() as client:
        for _ in range(KILLS_COUNT):
            victim = client.call("sleeper.pid")
            direct = [client.submit("sleeper.hold") for _ in range(CALLS_COUNT)]
            relayed = [client.submit("relay.hold", key=f"desk-{n}") for n in range(DESKS_COUNT)]
            ask_until(client, "backplane.bedroom.statistics", lambda told: are_all_there(told["queues"]))
            watch = Stopwatch()
            os.kill(victim, signal.SIGKILL)
            direct_errors = [call.exception() for call in direct]
            relayed_errors = [call.exception() for call in relayed]
            told_s.append(watch.taken_s)
            assert {type(error) for error in direct_errors} == {PeerDown}
            assert "'bedroom'" in str(direct_errors[0])
            # To the relay's callers it is the relay that cannot serve.
            assert {type(error) for error in relayed_errors} == {Unavailable}
            assert str(relayed_errors[0]).startswith("relay.hold: sleeper.hold: ")
            # It comes back, and so do calls to it, by clients and by objects that knew its predecessor.
            successor = pid_other_than(client, victim)
            # (We know the successor; the relay's backplane may be told of it a moment later.)
            ask_until(client, "relay.hold", lambda pid, now=successor: pid == now, key="desk-0", seconds=0.0)
    seen = answer_of(bystander)
    assert (seen["answers"], seen["errors"]) == ([before["street"]], [])
    after = system.pids()
    assert (after["street"], after["office"]) == (before["street"], before["office"])
    bedroom = system.backplane("bedroom")
    assert (bedroom["restarts"], bedroom["generation"]) == (KILLS_COUNT, KILLS_COUNT + 1)
    judge("from kill -9 to the end of the last call, median", median(told_s), TOLD_S_MAX)


def test_when_the_supervisor_is_killed_everything_ends_at_once_and_can_be_started_again(up: Up) -> None:
    """Nobody would restart or stop them any more. Not even a stopped process may stay, and nobody has to clean up."""
    system = up(SLEEPER)
    pids = system.pids()
    os.kill(pids["street"], signal.SIGSTOP)
    with system.connect() as client:
        call = client.submit("sleeper.hold")
        watch = Stopwatch()
        os.kill(system.pid, signal.SIGKILL)
        # A backplane that sees the end of its lifeline before the kernel kills it still says so to its callers.
        assert isinstance(call.exception(), PeerDown | Unavailable)
        for pid in pids.values():
            wait_dead(pid)
        judge("backplanes outlive their supervisor by", watch.taken_s, OUTLIVES_S_MAX)
        # A call may leave just before the client has seen it.
        wait_until(lambda: type(told(client)) is SystemNotRunning, lambda: told(client))
        system.process.wait()
        again = up(SLEEPER)
        assert set(again.pids().values()).isdisjoint(pids.values())
        assert client.call("sleeper.pid") == again.pids()["bedroom"], "the same client, once the system is back"


def test_a_supervisor_that_is_killed_while_it_comes_up_leaves_nobody(begin: Up, up: Up) -> None:
    """Its children are in the middle of their imports, and have not learnt yet whose they are."""
    system = begin(SLEEPER, prefix=AS_TYPED)
    children = wait_children(system)
    os.kill(system.pid, signal.SIGKILL)
    for pid in children:
        wait_dead(pid)
    system.process.wait()
    assert "is not running" in system.command("call", "sleeper.pid").stderr
    assert set(up(SLEEPER).pids().values()).isdisjoint(children)
