"""A stall is only ever reported where no worker can go on by itself: tried out in every way, on everything that can happen."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appbackplane.runtime.build import BUILD
from appbackplane.runtime.requests import KernelPolicy, Rejoin
from appbackplane.runtime.requests.ledger.element import Element, State
from appbackplane.runtime.requests.ledger.ledger import Ledger
from appbackplane.runtime.requests.ledger.stall import stall_of
from tests.profiles import examples

POLICIES = [
    KernelPolicy(workers=workers, ready=ready, rejoin=rejoin, mode=mode)
    for workers, ready, mode in [(1, 1, "plain"), (2, 2, "plain"), (2, 4, "plain"), (3, 3, "lanes"), (3, 6, "lanes")]
    for rejoin in (1, 2, 50)
]


class World:
    """A ledger, with workers that do what they are told and wait where they have to."""

    def __init__(self, policy: KernelPolicy, missing: int = 0) -> None:
        """`missing`: so many of its workers do not exist."""
        self.ledger = Ledger(policy)
        self.names = [f"w{number}" for number in range(max(1, policy.workers - missing))]
        self.count = 0

    def executing(self) -> list[Element]:
        """Those that could do something: they do not wait."""
        held = (self.ledger.workers[name].elements for name in self.names if name in self.ledger.workers)
        return [elements[0] for elements in held if elements and not elements[0].waits_for]

    def request(self, owner: Any, lane: int, parent: Element | None) -> Element:
        self.count += 1
        return Element(self.count, None, "R", owner, 0, lane, parent=parent)

    def take(self) -> bool:
        """An idle worker takes one."""
        for name in self.names:
            held = self.ledger.workers.get(name)
            if held is None or not held.elements:
                return bool(self.ledger.take(name, 1, 0))
        return False

    def post(self, owner: Any, lane: int, parent: Element | None) -> None:
        """A request, or somebody outside, posts, and waits."""
        one = self.request(owner, lane, parent)
        if not self.ledger.post(one, 0):
            one.waiter = one
            self.ledger.wait(one, 0)
            if parent is not None:
                self.ledger.blocks(parent, "room")

    def rejoin(self, owner: Any, asking: Element | None) -> None:
        """And waits."""
        if self.ledger.rejoin(owner)[0] is Rejoin.NONE_READY:
            waiter = Waiting(asking)
            self.ledger.await_rejoin(owner, waiter)
            if asking is not None:
                self.ledger.blocks(asking, "rejoin")

    def tell(self) -> None:
        """Those who have what they waited for go on."""
        for element in self.ledger.admitted:
            if element.parent is not None:
                self.ledger.blocks(element.parent, "")
        for waiter, _ in self.ledger.handed:
            if waiter.asking is not None:
                self.ledger.blocks(waiter.asking, "")
        self.ledger.admitted.clear()
        self.ledger.handed.clear()

    def goes_on(self) -> bool:
        """Whether any execution can do anything, or a worker can begin one: what a stall denies."""
        world = copy.deepcopy(self)
        world.tell()
        return bool(world.executing()) or world.take()


class Waiting:
    """Who waits for a rejoin."""

    def __init__(self, asking: Element | None) -> None:
        self.asking = asking


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["post", "post", "rejoin", "take", "take", "end", "outside", "tell", "tell"]),
        st.integers(0, 2),
        st.sampled_from([3, 3, 2, 1]),
        st.integers(0, 5),
    ),
    max_size=40,
)


@pytest.mark.skipif(BUILD == "compiled", reason="it copies ledgers, which compiled objects do not let anybody do")
@settings(max_examples=examples(75), deadline=None, suppress_health_check=list(HealthCheck))
@given(policy=st.sampled_from(POLICIES), missing=st.integers(0, 2), steps=STEPS)
def test_a_stall_is_reported_only_where_nothing_goes_on(policy: KernelPolicy, missing: int, steps: list[Any]) -> None:
    """No sequence of `take` and `end` makes progress: there is nobody who could do either."""
    world = World(policy, missing)
    for what, which, lane, whose in steps:
        executing = world.executing()
        asking = executing[which % len(executing)] if executing else None
        if what == "outside" or (what == "post" and asking is None):
            world.post("outside", lane, None)
        elif what == "post":
            world.post([asking, asking, asking, "outside", "shared", asking][whose], lane, asking)
        elif what == "rejoin":
            world.rejoin(asking if asking is not None and whose < 4 else ["outside", "shared"][whose % 2], asking)
        elif what == "take":
            world.take()
        elif what == "end" and asking is not None:
            world.ledger.end(asking.worker, asking, None, None, 0, 0)
        elif what == "tell":
            world.tell()
        stall = stall_of(world.ledger, world.names)
        if stall is not None:
            assert not world.goes_on(), stall
            assert stall.cause in ("workers", "lanes", "nothing", "rejoin")
        elif (
            world.ledger.executing.total and not (world.ledger.admitted or world.ledger.handed) and not world.goes_on()
        ):
            # Everybody waits, has been told, and it is no stall: somebody outside may rejoin what fills the pool.
            assert sum(world.ledger.rejoinable) >= policy.rejoin


def stalled(policy: KernelPolicy, *lanes: int, child_lane: int = 3) -> Any:
    """As many requests as lanes say, each of which has posted one and waits for it."""
    world = World(policy)
    for lane in lanes:
        world.post("outside", lane, None)
    while world.take():
        pass
    for element in world.executing():
        world.post(element, child_lane, element)
        world.rejoin(element, element)
    return stall_of(world.ledger), world


def test_all_workers_that_exist_wait() -> None:
    """Two replicas for a policy of three workers: the third never comes, and what is ready is not for it to begin."""
    world = World(KernelPolicy(workers=3), missing=1)
    for _ in world.names:
        world.post("outside", 2, None)
        world.take()
    for element in world.executing():
        world.post(element, 3, element)
        world.rejoin(element, element)
    assert stall_of(world.ledger) is None, "as far as the policy goes, one may come"
    assert stall_of(world.ledger, [*world.names, "restarting"]) is None
    stall = stall_of(world.ledger, world.names)
    assert stall is not None
    assert stall.cause == "workers"
    assert "all 2 workers execute requests that wait" in stall.text
    assert "fewer workers than the 3 of the policy" in stall.text


def test_all_workers_wait() -> None:
    stall, _ = stalled(KernelPolicy(workers=2), 1, 1)
    assert stall.cause == "workers"
    assert (
        "all 2 workers execute requests that wait: 2 x R in lane 1 for its sub-requests; 2 requests are ready"
        in stall.text
    )
    assert 'mode = "lanes"' in stall.text


def test_lanes_have_all_that_they_may() -> None:
    """A transaction that posts transactions: workers are free, and not for them."""
    policy = KernelPolicy(workers=5, mode="lanes", lanes=(0, 0, 20))
    stall, _ = stalled(policy, 2, child_lane=2)
    assert stall.cause == "lanes"
    assert "the 1 that are ready are of lanes [2]" in stall.text
    assert "post sub-requests in a lane below" in stall.text


def test_nothing_is_ready() -> None:
    world = World(KernelPolicy(workers=2))
    world.post("shared", 3, None)
    world.take()
    (element,) = world.executing()
    world.rejoin("shared", element)
    stall = stall_of(world.ledger)
    assert stall is not None
    assert stall.cause == "nothing"
    assert "is a request waiting for its own owner?" in stall.text


def test_who_waits_to_post_has_filled_the_rejoin_pool_himself() -> None:
    world = World(KernelPolicy(workers=2, rejoin=1))
    world.post("outside", 3, None)
    world.take()
    (parent,) = world.executing()
    world.post(parent, 3, parent)
    world.take()
    child = next(each for each in world.executing() if each is not parent)
    world.ledger.end(child.worker, child, None, None, 0, 0)
    world.post(parent, 3, parent)
    stall = stall_of(world.ledger)
    assert stall is not None
    assert stall.cause == "rejoin"
    assert "rejoin = 1" in stall.text


def test_what_somebody_outside_may_rejoin_is_no_stall() -> None:
    """The pool is full of what is of others: they may come."""
    world = World(KernelPolicy(workers=2, rejoin=1))
    world.post("outside", 3, None)
    world.post("outside", 3, None)
    world.take()
    world.take()
    first, second = world.executing()
    world.ledger.end(second.worker, second, None, None, 0, 0)
    world.post(first, 3, first)
    assert first.waits_for == "room"
    assert stall_of(world.ledger) is None
    assert world.ledger.rejoin("outside")[0] is Rejoin.RETURNED
    assert [each.state for each in world.ledger.admitted] == [State.READY]


def test_what_has_been_handed_over_goes_on() -> None:
    """Between the end of a request and the telling of who waits for it, nothing stands still."""
    world = World(KernelPolicy(workers=2))
    world.post("outside", 3, None)
    world.take()
    (parent,) = world.executing()
    world.post(parent, 3, parent)
    world.rejoin(parent, parent)
    world.take()
    (child,) = world.executing()
    world.ledger.end(child.worker, child, None, None, 0, 0)
    assert world.ledger.handed
    assert stall_of(world.ledger) is None


def test_who_waits_for_what_is_yet_to_be_posted_is_not_hopeless() -> None:
    """Its poster waits for an entry that somebody outside holds: he may come."""
    world = World(KernelPolicy(workers=2, rejoin=1))
    ledger = world.ledger
    consumer = world.request("me", 3, None)
    assert ledger.post(consumer, 0) and ledger.take("w0", 1, 0) == [consumer]
    other = world.request("other", 3, None)
    assert ledger.post(other, 0) and ledger.take("w1", 1, 0) == [other]
    assert ledger.end("w1", other, None, None, 0, 0)
    world.post("items", 3, None)
    world.rejoin("items", consumer)
    assert stall_of(ledger) is None
    assert ledger.rejoin("other") == (Rejoin.RETURNED, other)
    world.tell()
    (item,) = ledger.take("w1", 1, 0)
    assert ledger.end("w1", item, None, None, 0, 0)
    world.tell()
    assert not consumer.waits_for


def test_with_no_worker_left_it_is() -> None:
    """Whoever comes outside, nobody would execute what is posted then."""
    world = World(KernelPolicy(workers=1, rejoin=1))
    ledger = world.ledger
    other = world.request("other", 3, None)
    assert ledger.post(other, 0) and ledger.take("w0", 1, 0) == [other]
    assert ledger.end("w0", other, None, None, 0, 0)
    world.ledger.change(KernelPolicy(workers=1, rejoin=2))
    consumer = world.request("me", 3, None)
    assert ledger.post(consumer, 0) and ledger.take("w0", 1, 0) == [consumer]
    world.ledger.change(KernelPolicy(workers=1, rejoin=1))
    world.post("items", 3, None)
    world.rejoin("items", consumer)
    stall = stall_of(ledger)
    assert stall is not None and stall.cause == "workers"
