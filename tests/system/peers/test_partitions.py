"""A bad network between two nodes: it heals by itself, no call outlives its deadline, and none is done twice.

Each node is dialled at a proxy, which is what it advertises. A call whose fate nobody knows ends in an error; who asks again
for what may have been done has decided that himself.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from appbackplane.transport import BackplaneError, Client
from appbackplane.transport.errors import Busy, DeadlineExceeded, NotFound, PeerDown, Unavailable
from tests.network.proxy import FaultProxy

from ..conftest import LIMIT_S, ask_until
from .conftest import LONG, Meet, Nodes, wait_reached

#: What a call may take, and by how much a busy machine may be late with telling that it is over.
TIMEOUT_S, LATE_S_MAX = 1.0, 1.5
#: Within which all are up after a partition (docs/concepts/membership.md).
HEALED_S_MAX = 5.0
#: Within which both ends of a cut link know of it.
CUT_S_MAX = 2.8
#: In what a call may end that a bad network has met.
TROUBLE = (PeerDown, Unavailable, Busy, DeadlineExceeded, NotFound)


class Caller:
    """Books one number after the other, each once, and notes what became of it."""

    def __init__(self, client: Client, first: int) -> None:
        self._client, self._number = client, first
        self.answered: list[int] = []
        self.failed: list[tuple[int, BackplaneError]] = []
        self.took_s_max = 0.0

    def call_until(self, is_over: Callable[[], bool]) -> None:
        """One call at a time, and at least one."""
        while True:
            number, self._number = self._number, self._number + 1
            began_s = time.monotonic()
            try:
                assert self._client.call("ledger.book", number=number, timeout=TIMEOUT_S, retry=False) == number
                self.answered.append(number)
            except TROUBLE as error:
                self.failed.append((number, error))
            self.took_s_max = max(self.took_s_max, time.monotonic() - began_s)
            if is_over():
                return


@pytest.fixture
def apart(meet: Meet) -> Nodes:
    """Two nodes, each behind a proxy."""
    return meet("ab", is_proxied=True)


def cut_all(proxies: list[FaultProxy]) -> None:
    """Silence."""
    for proxy in proxies:
        proxy.cut()


def reset_all(proxies: list[FaultProxy]) -> None:
    """An end of all connections, which both sides see."""
    for proxy in proxies:
        proxy.reset()


def booked(nodes: Nodes) -> Counter[int]:
    """How often each number was booked."""
    return Counter(map(int, (nodes.folder / "booked").read_text().split()))


def call_through(nodes: Nodes, strike: Callable[[list[FaultProxy]], None], lasts_s: float) -> list[Caller]:
    """Four callers, before, while and after the links are bad: until each is answered again. On each node that only asks."""
    proxies = list(nodes.proxies.values())
    asking = [name for name in nodes.systems if name != "b"]
    callers = [Caller(nodes.client(asking[first % len(asking)]), first * 1_000_000) for first in range(4)]
    with ThreadPoolExecutor(len(callers)) as pool:

        def all_call_until(is_over: Callable[[Caller], bool]) -> None:
            for each in [pool.submit(one.call_until, lambda one=one: is_over(one)) for one in callers]:
                each.result(2 * LIMIT_S)

        all_call_until(lambda one: len(one.answered) >= 20)
        strike(proxies)
        until_s = time.monotonic() + lasts_s
        all_call_until(lambda _: time.monotonic() >= until_s)
        for proxy in proxies:
            proxy.heal()
        healed_s = time.monotonic()
        counts = {one: len(one.answered) for one in callers}
        all_call_until(lambda one: len(one.answered) >= counts[one] + 20 or time.monotonic() > healed_s + LIMIT_S)
        assert all(len(one.answered) >= counts[one] + 20 for one in callers), [one.failed[-1:] for one in callers]
        assert time.monotonic() - healed_s < HEALED_S_MAX + LATE_S_MAX
    return callers


def assert_once(nodes: Nodes, callers: list[Caller]) -> None:
    """What was answered was done once, and nothing else more often; and nobody waited beyond his deadline."""
    done = booked(nodes)
    assert {number: count for number, count in done.items() if count > 1} == {}
    assert all(done[number] == 1 for one in callers for number in one.answered)
    assert max(one.took_s_max for one in callers) < TIMEOUT_S + LATE_S_MAX


@pytest.mark.parametrize(
    ("names", "lasts_s"),
    [("ab", 1.0), ("abc", 5.0), pytest.param("abc", 1.0, marks=LONG), pytest.param("abc", 20.0, marks=LONG)],
)
def test_a_partition_heals_by_itself(meet: Meet, names: str, lasts_s: float) -> None:
    """Of a second nobody is given up; of five all give each other up, and take each other again; so of twenty."""
    nodes = meet(names, is_proxied=True)
    callers = call_through(nodes, cut_all, lasts_s)
    assert_once(nodes, callers)
    failed = [error for one in callers for _, error in one.failed]
    assert failed, "the links were never bad"


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_link_that_is_cut_one_way_heals_by_itself(apart: Nodes, name: str) -> None:
    """What is said to `b` is heard and its answers are not, or the other way round."""
    callers = call_through(apart, lambda _: cut_all([apart.proxies[name]]), 3.0)
    assert_once(apart, callers)
    assert [error for one in callers for _, error in one.failed], "the link was never bad"


def test_connections_that_break_are_made_again(apart: Nodes) -> None:
    """Nobody is dead, and what was in the sockets is gone: it ends, and what is asked then is answered."""
    callers = call_through(apart, reset_all, 0.0)
    assert_once(apart, callers)
    assert all(proxy.counts().reset for proxy in apart.proxies.values()), "nothing was broken"


def test_calls_that_wait_end_when_the_partition_is_known(apart: Nodes) -> None:
    """Well before their deadlines, and their work is withdrawn where it waits."""
    here, there = apart.client("a"), apart.client("b")

    def wait_held(count: int) -> None:
        ask_until(
            there,
            "backplane.main.statistics",
            lambda told: told["components"]["worker"]["outstanding"] == count,
        )

    calls = [here.submit("worker.work", key="place-0", name=str(number)) for number in range(20)]
    here.flush()
    wait_held(len(calls))
    began_s = time.monotonic()
    for proxy in apart.proxies.values():
        proxy.cut()
    assert {type(call.exception()) for call in calls} == {PeerDown}
    assert time.monotonic() - began_s < CUT_S_MAX + LATE_S_MAX
    wait_held(0)
    assert time.monotonic() - began_s < 2 * CUT_S_MAX + LATE_S_MAX, "they were withdrawn by their deadlines"
    for proxy in apart.proxies.values():
        proxy.heal()
    wait_reached(here)
