"""A bad network between two nodes: it heals by itself, no call outlives its deadline, and none is done twice.

Each node is dialled at a proxy, which is what it advertises. A call whose fate nobody knows ends in an error; who asks again
for what may have been done has decided that himself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from appbackplane.transport.errors import PeerDown
from tests.figures import IS_LONG, LONG, Stopwatch, judge

from ..conftest import ask_until, short_folder, systems_in
from .conftest import Meet, Nodes, wait_reached
from .ledgers import assert_once, call_through

#: Within which both ends of a cut link know of it.
CUT_S_MAX = 2.8


@pytest.fixture(scope="module")
def apart(_no_ignored_interrupt: None) -> Iterator[Nodes]:
    """Two nodes, each behind a proxy. Each test heals what it has broken."""
    with short_folder() as folder, systems_in(folder) as begin, ExitStack() as stack:
        yield Nodes(folder, begin, stack, "ab", is_proxied=True)


def cut_all(nodes: Nodes) -> None:
    """Silence."""
    for proxy in nodes.proxies.values():
        proxy.cut()


def reset_all(nodes: Nodes) -> None:
    """An end of all connections, which both sides see."""
    for proxy in nodes.proxies.values():
        proxy.reset()


def heal_all(nodes: Nodes) -> None:
    """As before."""
    for proxy in nodes.proxies.values():
        proxy.heal()


@pytest.mark.parametrize("lasts_s", [1.0, pytest.param(5.0, marks=LONG), pytest.param(20.0, marks=LONG)])
def test_a_partition_heals_by_itself(meet: Meet, apart: Nodes, lasts_s: float) -> None:
    """Of a second nobody is given up; of five all give each other up, and take each other again; so of twenty."""
    nodes = meet("abc", is_proxied=True) if IS_LONG else apart
    callers = call_through(nodes, lambda: cut_all(nodes), lambda: heal_all(nodes), lasts_s)
    assert_once(nodes, callers)
    failed = [error for one in callers for _, error in one.failed]
    assert failed, "the links were never bad"


@LONG
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2))
def test_whatever_breaks_heals_by_itself(meet: Meet, seed: int) -> None:
    """Again and again: some of the three, one way or both, in silence, late or with an end, for moments or longer."""
    chance = random.Random(seed)
    nodes = meet("abc", is_proxied=True)
    callers = None
    for number in range(30):
        lasts_s = chance.choice((0.3, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 8.0))
        struck = {name: chance.choice(("both", "both", "up", "down", "reset", "stall")) for name in "abc"}
        spared = chance.choice(("", "a", "c", "ac"))
        print(f"{number}: {lasts_s} s, {struck} but {spared or 'nobody'}")
        strike = partial(strike_each, nodes, {name: how for name, how in struck.items() if name not in spared}, lasts_s)
        callers = call_through(nodes, strike, lambda: heal_all(nodes), lasts_s, callers)
    assert callers is not None
    assert_once(nodes, callers)


def strike_each(nodes: Nodes, struck: dict[str, str], lasts_s: float) -> None:
    """Each in its way: the directions that are cut, or what else its proxy does."""
    for name, how in struck.items():
        proxy = nodes.proxies[name]
        if how == "reset":
            proxy.reset()
        elif how == "stall":
            proxy.stall(lasts_s)
        else:
            proxy.cut(how)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_link_that_is_cut_one_way_heals_by_itself(apart: Nodes, name: str) -> None:
    """What is said to `b` is heard and its answers are not, or the other way round."""
    callers = call_through(apart, apart.proxies[name].cut, apart.proxies[name].heal, 3.0)
    assert_once(apart, callers)
    assert [error for one in callers for _, error in one.failed], "the link was never bad"


def test_connections_that_break_are_made_again(apart: Nodes) -> None:
    """Nobody is dead, and what was in the sockets is gone: it ends, and what is asked then is answered."""
    callers = call_through(apart, lambda: reset_all(apart), lambda: heal_all(apart), 0.0)
    assert_once(apart, callers)
    assert all(proxy.counts().reset for proxy in apart.proxies.values()), "nothing was broken"


def test_calls_that_wait_end_when_the_partition_is_known(apart: Nodes) -> None:
    """In `PeerDown`, not by their deadlines, and their work is withdrawn where it waits."""
    here, there = apart.client("a"), apart.client("b")

    def wait_held(count: int) -> None:
        ask_until(
            there,
            "backplane.main.statistics",
            lambda told: told["components"]["worker"]["outstanding"] == count,
        )

    calls = [here.submit("worker.work", key="place-0", name=str(n), timeout=600, seconds=600) for n in range(20)]
    here.flush()
    wait_held(len(calls))
    watch = Stopwatch()
    for proxy in apart.proxies.values():
        proxy.cut()
    assert {type(call.exception()) for call in calls} == {PeerDown}
    judge("from a cut to the end of the last call through it", watch.taken_s, CUT_S_MAX)
    wait_held(0)
    judge("from a cut to the withdrawal of all work behind it", watch.taken_s, 2 * CUT_S_MAX)
    for proxy in apart.proxies.values():
        proxy.heal()
    wait_reached(here)
