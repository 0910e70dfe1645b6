"""Slow links between three nodes: urgent calls do not wait behind bulk, and bulk uses the rest of the link.

Each node is dialled at a proxy, over 10 Mbit/s with 5 ms each way; what is sent to one node shares one queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.figures import IS_LONG, LONG, Stopwatch, judge
from tests.network.faults import NOTHING_WRONG, Faults
from tests.network.proxy import FaultProxy

from ..conftest import LIMIT_S, short_folder, systems_in
from .conftest import Nodes
from .urgent import RATE, Bulk, assert_urgent, idle_trips

SLOW = Faults(delay_s=0.005, rate=RATE, is_fair=False)
LOSSY = Faults(delay_s=0.005, rate=RATE, is_fair=False, loss=0.05)
BULK_BYTES = 1 << 20
#: Of each bulk client: the link takes twenty seconds for all of them, which no urgent call waits for on a machine of any speed.
OUTSTANDING = 6 if IS_LONG else 12


@pytest.fixture(scope="module")
def three(_no_ignored_interrupt: None) -> Iterator[Nodes]:
    """`a`, `b` and `c`, each behind a proxy."""
    with short_folder() as folder, systems_in(folder) as begin, ExitStack() as stack:
        yield Nodes(folder, begin, stack, "abc", is_proxied=True)


@pytest.fixture
def slowed(three: Nodes) -> Iterator[Callable[[Faults], list[FaultProxy]]]:
    """Makes all links as bad; afterwards they are good."""
    proxies = list(three.proxies.values())

    def slow(faults: Faults) -> list[FaultProxy]:
        for proxy in proxies:
            proxy.set(both=faults)
        return proxies

    yield slow
    for proxy in proxies:
        proxy.set(both=NOTHING_WRONG)


@pytest.mark.parametrize(
    ("route", "arguments"),
    [
        ("b/store.keep", {"data": bytes(BULK_BYTES)}),
        pytest.param("b/store.give", {"size": BULK_BYTES}, marks=LONG),  # the link carries the former's bulk first
    ],
)
def test_urgent_is_not_behind_bulk(
    three: Nodes, slowed: Callable[[Faults], list[FaultProxy]], route: str, arguments: dict[str, object]
) -> None:
    """Urgent calls are answered before the bulk of two nodes that is outstanding, on its way there or back."""
    proxies = slowed(SLOW)
    client = three.client("a")
    idle = idle_trips(client)
    counted = three.proxies["b" if "keep" in route else "a"]
    with (
        Bulk(three.client("a"), route, OUTSTANDING, **arguments) as bulk,
        Bulk(three.client("c"), route, OUTSTANDING, **arguments) as other,
    ):
        counted.wait_for(up_bytes=counted.counts().up_bytes + 2 * BULK_BYTES)
        began, watch = counted.counts(), Stopwatch()
        assert_urgent(client, bulk, other, idle=idle)
        unused = 1 - (counted.counts().up_bytes - began.up_bytes) / RATE / watch.taken_s
        for proxy in proxies:
            proxy.set(both=NOTHING_WRONG)
        counted.wait_for(LIMIT_S, up_bytes=began.up_bytes + 2 * BULK_BYTES)
        assert bulk.error is None and other.error is None
    judge("share of the link that bulk leaves unused", unused, 0.3, unit="of 1")


@LONG
def test_urgent_is_not_behind_bulk_where_segments_are_lost(
    three: Nodes, slowed: Callable[[Faults], list[FaultProxy]]
) -> None:
    """Of 5 % of the segments: each is a stall, some of them long, and no call ends by it."""
    proxies = slowed(LOSSY)
    ends = [proxy.counts() for proxy in proxies]
    client = three.client("a")
    idle = idle_trips(client)
    with Bulk(three.client("a"), "b/store.keep", 6, data=bytes(BULK_BYTES)) as bulk:
        three.proxies["b"].wait_for(up_bytes=three.proxies["b"].counts().up_bytes + BULK_BYTES // 4)
        assert_urgent(client, bulk, idle=idle)
        assert bulk.error is None
    assert sum(proxy.counts().up_losses for proxy in proxies) > sum(count.up_losses for count in ends)
    given_up = sum(proxy.counts().accepted for proxy in proxies) - sum(count.accepted for count in ends)
    judge("lines given up for lost segments", given_up, 0, unit="lines")
