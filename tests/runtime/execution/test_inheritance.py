"""Inheritance: whoever works on a reply that something urgent waits for is told, through as many calls as there are."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.runtime import AppObject, Component, operation
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport import codec
from appbackplane.transport.envelope import BOOST, Envelope
from appbackplane.transport.errors import MalformedFrame


class Link(AppObject):
    """One of a chain."""

    @operation(priority=6)
    async def ask(self, route: str = "oracle.answer", then: str | None = None) -> Any:
        if then is None:
            return await self.call(route)
        return await self.call(route, key="two", route=then)

    @operation(priority=5)
    async def twice(self) -> Any:
        await self.call("oracle.answer")
        return await self.call("oracle.answer")

    @operation(priority=1)
    def urgent(self) -> str:
        return "urgent"

    @operation(priority=6)
    def bulk(self) -> str:
        return "bulk"


class Chain(Component):
    """Two links."""

    def setup(self) -> None:
        self.add(Link(), key="one")
        self.add(Link(), key="two")


@pytest.fixture
def chain() -> VirtualBackplane:
    return VirtualBackplane(Chain(), outside=("oracle.answer",))


def test_what_an_object_awaits_is_boosted_when_something_urgent_queues_behind_it(chain: VirtualBackplane) -> None:
    """Law 10, "a callee of it, in any backplane". The urgent one waits for the reply, so the reply is as urgent."""
    low = chain.call("chain.ask", key="one")
    chain.run_until_idle()
    (asked,) = chain.outside_calls()
    assert asked.envelope.priority == 6
    urgent = chain.call("chain.urgent", key="one")
    assert chain.run_until_idle() == []
    chain.collect()
    assert asked.boosted_to == 1
    asked.reply("yes")
    assert urgent.result() == "urgent"
    assert low.result() == "yes"


def test_it_goes_down_a_chain(chain: VirtualBackplane) -> None:
    """Through calls within the backplane, and out of it."""
    low = chain.call("chain.ask", key="one", route="chain.ask", then="oracle.answer")
    chain.run_until_idle()
    (asked,) = chain.outside_calls()
    chain.call("chain.urgent", key="one")
    chain.run_until_idle()
    chain.collect()
    assert asked.boosted_to == 1
    asked.reply("yes")
    assert low.result() == "yes"


def test_equals_and_less_urgent_work_boost_nobody(chain: VirtualBackplane) -> None:
    """Nothing is in their way; a boost each would be an envelope a request."""
    chain.call("chain.ask", key="one")
    chain.run_until_idle()
    chain.call("chain.bulk", key="one")
    chain.run_until_idle()
    (asked,) = chain.outside_calls()
    assert asked.boosted_to is None


def test_a_call_made_while_something_urgent_waits_carries_its_priority(chain: VirtualBackplane) -> None:
    """The second call is in the way as the first was."""
    chain.call("chain.twice", key="one")
    chain.run_until_idle()
    chain.call("chain.urgent", key="one")
    chain.run_until_idle()
    first = chain.outside_calls()[0]
    first.reply()
    chain.run_until_idle()
    second = chain.outside_calls()[1]
    assert second.envelope.priority == 1


def test_a_boosted_call_overtakes_at_its_callee(chain: VirtualBackplane) -> None:
    """Where it is queued, its object rises with it (law 2); its own place in the object's queue stays (law 1)."""
    hindering = [chain.call("chain.bulk", key="one", priority=4), chain.call("chain.bulk", key="one", priority=6)]
    other = chain.call("chain.bulk", key="two", priority=3)
    _ = chain.backplane
    chain.backplane.engine.drain(chain.clock.now_ns())
    chain.hear(Envelope(BOOST, hindering[1]._id, 2))
    order: list[str] = []
    for name, call in (("first", hindering[0]), ("boosted", hindering[1]), ("other", other)):
        action = chain.backplane.engine.intake.accepted[b"test", call._id]
        action.on_end = lambda ended, name=name: order.append(name)  # type: ignore[misc]
    chain.run_until_idle()
    assert order == ["first", "boosted", "other"]


def test_a_boost_that_comes_too_late_or_is_nonsense_changes_nothing(chain: VirtualBackplane) -> None:
    """The reply and the boost cross; and strangers may send what they like."""
    call = chain.call("chain.bulk", key="one")
    call.result()
    for priority in (-3, 0, 99):
        chain.hear(Envelope(BOOST, call._id, priority))
        chain.hear(Envelope(BOOST, 4711, priority))
    waiting = chain.call("chain.ask", key="one")
    chain.run_until_idle()
    chain.hear(Envelope(BOOST, waiting._id, 99))
    chain.hear(Envelope(BOOST, waiting._id, -1))
    chain.run_until_idle()
    assert chain.outside_calls()[0].boosted_to is None
    with pytest.raises(MalformedFrame, match="a boost has a priority"):
        codec.decode(codec.batch([codec.Encoder().encode(Envelope(BOOST, 1))]))


def test_a_boosted_call_can_still_be_taken_back(chain: VirtualBackplane) -> None:
    """And leaves nothing behind."""
    low = chain.call("chain.ask", key="one")
    chain.run_until_idle()
    chain.call("chain.urgent", key="one")
    chain.run_until_idle()
    low.cancel()
    chain.run_until_idle()
    assert chain.outside_calls()[0].is_cancelled
    assert not chain.backplane.engine.inheritance._awaiting
