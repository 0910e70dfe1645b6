"""Rings: of calls that would wait for themselves one is refused at once, and told the whole way."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from appbackplane.runtime import AppObject, Component, FailedPrecondition, operation
from appbackplane.runtime.testing import VirtualBackplane, VirtualCall
from appbackplane.transport import codec
from appbackplane.transport.envelope import BOOST, CALL, Envelope
from appbackplane.transport.errors import InternalError, MalformedFrame

#: Of calls from other backplanes.
IDS = count(100)


class Side(AppObject):
    """One of those that call each other."""

    @operation(priority=6)
    async def go(self, then: str, key: str) -> Any:
        """Once others have gone as far."""
        await self.call("gate.open")
        return await self.call(then, key=key)

    @operation(priority=6)
    async def both(self, then: list[str]) -> Any:
        """Once others have gone as far, several at once."""
        await self.call("gate.open")
        return await self.gather(self.call("there.leaf"), *(self.call("sides.leaf", key=key) for key in then))

    @operation(priority=6)
    async def ask(self, route: str = "there.leaf") -> Any:
        return await self.call(route)

    @operation(priority=6)
    def leaf(self) -> str:
        return "leaf"

    @operation(priority=6, reentrant=True)
    def inner(self) -> str:
        return "inner"

    @operation(priority=6)
    async def work(self, then: str) -> Any:
        """Calls `sides.leaf` of another one, once the gate is open."""
        await self.call("gate.open")
        return await self.call("sides.leaf", key=then)

    @operation(priority=6)
    async def join(self, other: str, then: str, order: str) -> Any:
        """Wait for the work that another call has begun, once the gate is open."""
        await self.call("gate.open")
        return await self.call("sides.work", key=other, then=then, idempotency_key=order)


class Payer(AppObject):
    """A chain that comes back with its own key."""

    @operation()
    async def pay(self, order: str) -> Any:
        return await self.call("bench.confirm", order=order)


class Confirmer(AppObject):
    @operation()
    async def confirm(self, order: str) -> Any:
        return await self.call("bench.pay", idempotency_key=order, order=order)


class Sides(Component):
    """Three objects."""

    def setup(self) -> None:
        for key in "abc":
            self.add(Side(), key=key)


@pytest.fixture
def sides() -> VirtualBackplane:
    return VirtualBackplane(Sides(), outside=("gate.open", "there.leaf"))


def cross(sides: VirtualBackplane, then: str, *keys: str) -> list[VirtualCall]:
    """Each object of these goes, and then calls the next one; all have gone before the first calls."""
    calls = []
    for key, following in zip(keys, (*keys[1:], keys[0]), strict=True):
        calls.append(go(sides, key, then, following))
    sides.run_until_idle()
    for gate in sides.outside_calls("gate.open"):
        gate.reply()
    sides.run_until_idle()
    return calls


def go(sides: VirtualBackplane, key: str, then: str, following: str) -> VirtualCall:
    """`sides.go` of one object; its argument `key` is the object that it calls."""
    return sides.hear_call(
        Envelope(CALL, next(IDS), None, "sides.go", key, None, None, {"then": then, "key": following})
    )


@pytest.mark.parametrize("keys", ["ab", "abc"])
def test_whoever_closes_a_ring_is_refused_and_all_others_go_on(sides: VirtualBackplane, keys: str) -> None:
    """All would wait for each other until their deadlines, with nothing to see."""
    *others, last = cross(sides, "sides.leaf", *keys)
    error = last.error()
    assert isinstance(error, InternalError)
    steps = [f"sides.leaf on virtual/sides.{keys[0]}"]
    for key, following in zip(keys, keys[1:] + keys[0], strict=True):
        steps += [f"sides.go on virtual/sides.{key}", f"sides.leaf on virtual/sides.{following}"]
    assert f"call ring: {' -> '.join(steps)}, each of which waits for the next" in error.message
    assert "declare sides.leaf reentrant=True" in error.message
    assert [call.result() for call in others] == ["leaf"] * len(others)
    assert sides.backplane.statistics()["operations"]["sides.leaf"]["refused"] == 1


def test_a_ring_through_calls_that_are_awaited_together_is_refused(sides: VirtualBackplane) -> None:
    """Whichever of them is a part of it; the others of them are cancelled, as after any error."""
    calls = [
        sides.hear_call(Envelope(CALL, next(IDS), None, "sides.both", key, None, None, {"then": [*then]}))
        for key, then in (("a", "cb"), ("b", "ca"), ("c", ""))
    ]
    sides.run_until_idle()
    for gate in sides.outside_calls("gate.open"):
        gate.reply()
    sides.run_until_idle()
    for leaf in sides.outside_calls("there.leaf"):
        leaf.reply("far")
    sides.run_until_idle()
    ends = [call.exception() for call in calls]
    assert [end is not None and "call ring" in end.message for end in ends].count(True) == 1
    assert ends.count(None) == 2
    assert not sides.backplane.engine.calls


def test_chains_that_meet_reentrant_operations_may_cross(sides: VirtualBackplane) -> None:
    """The one that closes the ring runs in the middle of what its object awaits, and nobody is refused."""
    assert [call.result() for call in cross(sides, "sides.inner", "a", "b")] == ["inner"] * 2


def test_a_chain_that_waits_for_another_is_no_ring(sides: VirtualBackplane) -> None:
    """The other waits for somebody else, who answers in the end."""
    first = sides.call("sides.ask", key="b")
    sides.run_until_idle()
    second = go(sides, "a", "sides.leaf", "b")
    sides.run_until_idle()
    sides.outside_calls("gate.open")[0].reply()
    sides.run_until_idle()
    sides.outside_calls("there.leaf")[0].reply("far")
    assert (first.result(), second.result()) == ("far", "leaf")


# -- over several backplanes ----------------------------------------------------------------------------------------------

THERE = ["there/object", "there.go"]


@pytest.fixture
def waiting(sides: VirtualBackplane) -> VirtualCall:
    """Object a awaits another backplane; a call from there has come, and queues behind that."""
    sides.call("sides.ask", key="a")
    sides.run_until_idle()
    sides.clock.sleep(0.001)
    return call_from_there(sides)


def call_from_there(sides: VirtualBackplane) -> VirtualCall:
    """`sides.leaf` of object a."""
    call = sides.hear_call(Envelope(CALL, next(IDS), None, "sides.leaf", "a", None, None, {}, [THERE]))
    sides.run_until_idle()
    return call


def test_the_other_backplane_is_asked_once_whether_its_call_waits_for_this_one(
    sides: VirtualBackplane, waiting: VirtualCall
) -> None:
    """And told who waits. For the calls of clients, for which nothing waits, nobody is asked."""
    (asked,) = sides.outside_calls("there.leaf")
    client = sides.call("sides.leaf", key="a")
    sides.run_until_idle()
    sides.collect()
    (search,) = asked.searches
    assert search.chain == [["virtual/sides.a", "sides.leaf"], ["virtual/sides.a", "sides.ask"]]
    assert asked.boosted_to is None
    asked.reply()
    assert waiting.result() == client.result() == "leaf"


def test_a_search_that_comes_back_refuses_the_call_that_began_it(sides: VirtualBackplane, waiting: VirtualCall) -> None:
    """The other backplane has followed it through its own objects."""
    (asked,) = sides.outside_calls("there.leaf")
    sides.collect()
    (search,) = asked.searches
    assert search.chain is not None
    way = [*search.chain, ["there/object", "there.leaf"], THERE]
    sides.hear(Envelope(BOOST, waiting._id, 6, body=search.body, chain=way))
    sides.run_until_idle()
    assert isinstance(waiting.error(), FailedPrecondition)
    assert "there.leaf on there/object -> there.go on there/object -> sides.leaf on virtual/sides.a" in str(
        waiting.error()
    )


@pytest.mark.parametrize(("age_ns", "is_passed_on"), [(1, True), (-1, False)])
def test_a_search_from_elsewhere_goes_on_through_calls_that_are_older(
    sides: VirtualBackplane, waiting: VirtualCall, age_ns: int, is_passed_on: bool
) -> None:
    """It ends at a newer one, whose own search finds the ring: else both would be refused."""
    (asked,) = sides.outside_calls("there.leaf")
    way = [["there/object", "there.leaf"], THERE]
    since = sides.clock.now_ns() + age_ns
    sides.hear(Envelope(BOOST, waiting._id, 6, body=since, chain=way))
    sides.run_until_idle()
    sides.collect()
    passed_on = [search.chain for search in asked.searches if search.body == since]
    own = [["virtual/sides.a", "sides.leaf"], ["virtual/sides.a", "sides.ask"]]
    assert passed_on == ([[*way, *own]] if is_passed_on else [])


def test_a_search_that_goes_round_in_another_ring_ends(sides: VirtualBackplane, waiting: VirtualCall) -> None:
    """It would travel for ever. And one of a call that has ended is nobody's."""
    (asked,) = sides.outside_calls("there.leaf")
    for id in (waiting._id, 4711):
        sides.hear(Envelope(BOOST, id, 6, body=sides.clock.now_ns() + 1, chain=[THERE] * 64))
    sides.run_until_idle()
    sides.collect()
    assert len(asked.searches) == 1
    assert not waiting.done()


@pytest.mark.parametrize("row", [(None, [THERE]), ("now", [THERE]), (5, []), (5, [["one"]]), (5, "chain")])
def test_a_search_that_is_none_is_malformed(row: tuple[Any, Any]) -> None:
    """What strangers send is looked at before anybody acts on it."""
    with pytest.raises(MalformedFrame, match="chain of a boost"):
        codec.decode(codec.batch([codec.Encoder().encode(Envelope(BOOST, 1, 6, body=row[0], chain=row[1]))]))


# -- its own key ----------------------------------------------------------------------------------------------------------


def test_a_chain_that_returns_with_its_own_key_is_refused_at_once() -> None:
    """It would wait for the end of the work that waits for it."""
    backplane = VirtualBackplane()
    backplane.add(Payer(), key="payer")
    backplane.add(Confirmer(), key="confirmer")
    error = backplane.call("bench.pay", order="o", idempotency_key="o").error()
    assert isinstance(error, InternalError)
    way = "bench.pay on virtual/bench.payer -> bench.confirm on virtual/bench.confirmer -> bench.pay on virtual/bench.payer"
    assert f"call cycle: {way} with idempotency_key 'o', which waits for this very call" in error.message
    assert "take another key" in error.message


#: Of calls that are delivered as they come over the link.
IDS = count(100)


def begin(
    sides: VirtualBackplane, route: str, key: str, idempotency_key: str | None = None, **body: str
) -> VirtualCall:
    """A call of a client that runs as far as the gate."""
    call = sides.hear_call(Envelope(CALL, next(IDS), None, route, key, None, None, body, None, idempotency_key))
    sides.run_until_idle()
    return call


@pytest.mark.parametrize("is_work_first", [True, False], ids=["joining closes it", "the work closes it"])
def test_a_ring_through_the_work_of_another_call_is_refused_at_once(
    sides: VirtualBackplane, is_work_first: bool
) -> None:
    """It was found by the deadline alone where it was closed by waiting for work that had begun under the same key."""
    work = begin(sides, "sides.work", "b", "order-1", then="a")
    join = begin(sides, "sides.join", "a", other="b", then="a", order="order-1")
    at_work, at_join = sides.outside_calls("gate.open")
    for gate in (at_work, at_join) if is_work_first else (at_join, at_work):
        gate.reply()
        sides.run_until_idle()
    refused, well = (join, work) if is_work_first else (work, join)
    error = refused.error()
    assert isinstance(error, InternalError)
    ring = ["sides.work on virtual/sides.b", "sides.leaf on virtual/sides.a", "sides.join on virtual/sides.a"]
    if not is_work_first:
        ring = [*ring[1:], ring[0]]
    assert f"call ring: {' -> '.join([*ring, ring[0]])}, each of which waits for the next" in error.message
    if is_work_first:
        assert "idempotency_key 'order-1'" in error.message
        assert well.result() == "leaf", "the work goes on"
    else:
        assert isinstance(well.error(), InternalError), "it waited for the same end"


def test_waiting_for_the_work_of_another_call_that_can_go_on_is_no_ring(sides: VirtualBackplane) -> None:
    """The usual case: two orders of one thing."""
    work = begin(sides, "sides.work", "b", "order-1", then="c")
    join = begin(sides, "sides.join", "a", other="b", then="c", order="order-1")
    at_work, at_join = sides.outside_calls("gate.open")
    at_join.reply()
    sides.run_until_idle()
    at_work.reply()
    assert (work.result(), join.result()) == ("leaf", "leaf")


def test_a_ring_through_work_and_another_backplane_is_refused_when_its_search_comes_back(
    sides: VirtualBackplane,
) -> None:
    """The other backplane asked for the work of a call that waits for that backplane."""
    work = begin(sides, "sides.ask", "a", "order-1")
    sides.clock.sleep(0.001)
    id = next(IDS)
    joined = sides.hear_call(Envelope(CALL, id, None, "sides.ask", "a", None, None, {}, [THERE], "order-1"))
    sides.run_until_idle()
    (asked,) = sides.outside_calls("there.leaf")
    sides.collect()
    (search,) = asked.searches
    assert search.chain == [["virtual/sides.a", "sides.ask"]]
    older = Envelope(BOOST, id, 6, body=search.body - 1, chain=[["there/object", "there.leaf"], THERE])
    sides.hear(older)
    sides.run_until_idle()
    sides.collect()
    assert not joined.done() and len(asked.searches) == 1, "the search of an older call ends here"
    sides.hear(Envelope(BOOST, id, 6, body=search.body, chain=[*search.chain, ["there/object", "there.leaf"], THERE]))
    sides.run_until_idle()
    assert isinstance(joined.error(), FailedPrecondition)
    assert "sides.ask on virtual/sides.a -> there.leaf on there/object -> there.go on there/object -> sides.ask" in str(
        joined.error()
    )
    asked.reply("far")
    assert work.result() == "far"
