"""Nodes on hosts of their own: network namespaces with addresses, routes and 10 Mbit/s of the kernel's own (root only).

What the proxy makes of a bad network is a model; here the kernel's TCP meets one, and addresses are what others see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.figures import LONG
from tests.network.faults import NOTHING_WRONG, Faults
from tests.network.hosts import Hosts, obstacle

from ..conftest import short_folder, systems_in
from .conftest import Nodes
from .ledgers import assert_once, call_through
from .urgent import RATE, Bulk, assert_urgent, idle_trips

#: Long enough for all to give up whom they do not hear.
PARTED_S = 3.0


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """Three, for the nodes `a`, `b` and `c`."""
    if reason := obstacle():
        pytest.skip(reason)
    with Hosts(3) as three:
        yield three


@pytest.fixture(scope="module")
def nodes(hosts: Hosts, _no_ignored_interrupt: None) -> Iterator[Nodes]:
    """One on each host, dialled at a proxy there, as only proxies have delays."""
    with short_folder() as folder, systems_in(folder) as begin, ExitStack() as stack:
        yield Nodes(folder, begin, stack, "abc", is_proxied=True, hosts=list(hosts))


@pytest.fixture
def slow(hosts: Hosts, nodes: Nodes) -> Iterator[None]:
    """10 Mbit/s at each cable, with one queue, and 5 ms each way."""
    for host in hosts:
        host.limit(RATE, queue_s=0.1)
    for proxy in nodes.proxies.values():
        proxy.set(both=Faults(delay_s=0.005))
    yield
    for proxy in nodes.proxies.values():
        proxy.set(both=NOTHING_WRONG)
    for host in hosts:
        host.unlimit()


def test_urgent_is_not_behind_bulk(nodes: Nodes, slow: None) -> None:
    """The queue has room for 100 ms of bulk: it is not filled."""
    client = nodes.client("a")
    idle = idle_trips(client)
    with Bulk(nodes.client("a"), "b/store.keep", 6, data=bytes(1 << 20)) as bulk:
        nodes.proxies["b"].wait_for(up_bytes=nodes.proxies["b"].counts().up_bytes + (2 << 20))
        assert_urgent(client, bulk, idle=idle)
        assert bulk.error is None


SEPARATIONS: dict[str, tuple[Callable[[Hosts], object], Callable[[Hosts], object]]] = {
    "a has no way to b": (
        lambda hosts: hosts[0].blackhole(hosts[1]),
        lambda hosts: hosts[0].remove_blackhole(hosts[1]),
    ),
    "b has lost its address": (lambda hosts: hosts[1].lose_address(), lambda hosts: hosts[1].regain_address()),
    "the router drops all of b": (lambda hosts: hosts.part(hosts[1]), lambda hosts: hosts.heal()),
    "b is not heard": (lambda hosts: hosts.drop(hosts[1], hosts[0]), lambda hosts: hosts.heal()),
}
MANY = [
    "a has no way to b", "b has lost its address", *(
        pytest.param(name, marks=LONG) for name in ("the router drops all of b", "b is not heard")
    ),
]  # fmt: skip


@pytest.mark.parametrize("name", MANY)
def test_a_partition_heals_by_itself(hosts: Hosts, nodes: Nodes, name: str) -> None:
    """Every call ends, none is done twice, and `b` is served and asked again soon after."""
    separate, heal = SEPARATIONS[name]
    (nodes.folder / "booked").unlink(missing_ok=True)
    callers = call_through(nodes, lambda: separate(hosts), lambda: heal(hosts), PARTED_S)
    assert_once(nodes, callers)
    assert [error for one in callers for _, error in one.failed], "they were never parted"
