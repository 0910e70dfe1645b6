"""What a node's death does to those who wait for it: every call ends, once, in `PeerDown` and not by its deadline.

The times are those of docs/concepts/membership.md; `scripts/long` judges them.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from appbackplane.transport import BackplaneError, Client, PendingCall
from appbackplane.transport.errors import PeerDown, Unavailable
from tests.figures import Stopwatch, judge

from ..conftest import LIMIT_S, System, ask_until, short_folder, systems_in, wait_dead
from .conftest import Nodes, wait_reached

#: Within which a death is known to all.
DEATH_S_MAX = 2.4
#: An orderly leave is told: nobody waits for `dead_ns`, which is 2 s.
LEAVE_S_MAX = 1.5
#: On the four workplaces; four run, the rest are queued there.
CALLS = 200


@pytest.fixture(scope="module")
def pair(_no_ignored_interrupt: None) -> Iterator[Nodes]:
    """`a`, which asks, and `b`; whatever a test has killed is there again after it."""
    with short_folder() as folder, systems_in(folder) as begin, ExitStack() as stack:
        yield Nodes(folder, begin, stack, "ab")


@pytest.fixture
def nodes(pair: Nodes) -> Nodes:
    """Both. Nobody works, and nothing was written before."""
    with pair.systems["b"].connect() as there:
        wait_held(there, 0)
        there.call("worker.forget")
    return pair


def begin_work(client: Client) -> list[PendingCall]:
    """By a client, and by an operation."""
    calls = [client.submit("worker.work", key=f"place-{number % 4}", name=f"{number}") for number in range(CALLS)]
    calls.append(client.submit("home.have_done", arguments={"name": "inside", "key": "place-0"}))
    client.flush()
    return calls


def wait_held(there: Client, count: int) -> None:
    """Wait until `count` calls are outstanding there."""
    ask_until(
        there,
        "backplane.main.statistics",
        lambda told: told["components"]["worker"]["outstanding"] == count,
    )


def count_begun(log: list[str]) -> int:
    """On each place one at a time."""
    return sum(line.endswith(" began") for line in log)


def assert_all_down(calls: list[PendingCall]) -> None:
    """All have ended, none by its deadline of 30 s. An operation whose own call has ended so cannot serve its caller."""
    *ends, inside = (call.exception() for call in calls)
    assert {type(end) for end in ends} == {PeerDown}, Counter(map(repr, ends))
    assert type(inside) is Unavailable, inside
    assert str(inside).startswith("home.have_done: b/worker.work: "), inside


def kill(system: System) -> None:
    """The process that carries everything between nodes."""
    pid = system.pids()["node"]
    os.kill(pid, signal.SIGKILL)
    wait_dead(pid)


def assert_told(nodes: Nodes, strike: Callable[[], None]) -> None:
    """All calls end in `PeerDown`, and then others are answered."""
    with nodes.systems["a"].connect() as client, nodes.systems["b"].connect() as there:
        calls = begin_work(client)
        wait_held(there, CALLS + 1)
        ask_until(there, "worker.ended", lambda log: count_begun(log) == 4)  # what is here may not have begun
        watch = Stopwatch()
        strike()
        assert_all_down(calls)
        judge("from kill -9 of a node to the end of the last call", watch.taken_s, DEATH_S_MAX)
        wait_reached(client)
        wait_held(there, 0)
        log = there.call("worker.ended")
    # What is queued may move up while it is withdrawn, which is done in steps of so much time: a busy machine takes many.
    assert 4 <= count_begun(log) < CALLS, "what is queued is not withdrawn there"
    assert not [line for line in log if line.endswith(" done")]


def test_calls_end_when_the_node_that_has_them_is_killed(nodes: Nodes) -> None:
    """Nobody knows whether the work was done; and nobody goes on with it, as its caller has been told so."""
    assert_told(nodes, lambda: kill(nodes.systems["b"]))


def test_calls_end_when_the_node_that_made_them_is_killed(nodes: Nodes) -> None:
    """Those who asked it are told by their own supervisor; the other node gives up what nobody waits for."""
    assert_told(nodes, lambda: kill(nodes.systems["a"]))


def test_calls_end_when_a_whole_system_is_killed_and_the_next_one_serves(nodes: Nodes) -> None:
    """The next bears the same name at the same address, and is not taken for the former."""
    with nodes.systems["a"].connect() as client:
        with nodes.systems["b"].connect() as there:
            # Less the one inside of an operation, which is made again if it had not begun.
            calls = begin_work(client)[:-1]
            wait_held(there, CALLS + 1)
        former = nodes.systems["b"]
        former.process.kill()
        ends = [type(call.exception()) for call in calls]
        # The backplane that had them may have had the time to say that it goes.
        assert set(ends) <= {PeerDown, Unavailable}
        with pytest.raises(BackplaneError) as told:
            client.call("b/calc.add", x=1, y=1, retry=False, timeout=LIMIT_S)
        assert type(told.value) in (Unavailable, PeerDown)
        former.process.wait(LIMIT_S)
        nodes.start("b").wait_up()
        wait_reached(client)
        with nodes.systems["b"].connect() as there:
            assert [line for line in there.call("worker.ended") if not line.startswith("inside ")] == []


def test_who_stops_in_order_tells_its_callers_at_once(nodes: Nodes) -> None:
    """None waits until the node is missed; what asks afterwards is told that it has left."""
    with nodes.systems["a"].connect() as client:
        with nodes.systems["b"].connect() as there:
            calls = begin_work(client)
            wait_held(there, CALLS + 1)
        watch = Stopwatch()
        nodes.systems["b"].interrupt()
        assert_all_down(calls)
        judge("from the order to stop to the end of the last call", watch.taken_s, LEAVE_S_MAX)
        assert nodes.systems["b"].wait_down() == 0
        with pytest.raises(Unavailable, match=r"node 'b' at tcp://127.0.0.1:\d+ has left"):
            client.call("b/calc.add", x=1, y=1, retry=False, timeout=LIMIT_S)
        with pytest.raises(Unavailable, match=r"^'calc\.add' is served by node b: down now$"):
            client.call("calc.add", x=1, y=1, retry=False, timeout=LIMIT_S)
        nodes.start("b").wait_up()
        wait_reached(client)
