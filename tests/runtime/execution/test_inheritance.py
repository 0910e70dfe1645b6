"""Inheritance: whoever works on a reply that something urgent waits for is told, through as many calls as there are,
and told again when nothing urgent waits any more."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.runtime import AppObject, Component, operation
from appbackplane.runtime.objects.action import Action
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport import codec
from appbackplane.transport.envelope import BOOST, CANCEL, Envelope
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

    @operation(priority=5)
    async def as_bulk(self) -> Any:
        await self.call("oracle.answer", priority=7)
        return await self.call("oracle.answer", priority=7)

    @operation(priority=6, digest="key_of")
    def found(self, name: str) -> str:
        return "found"

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

    def key_of(self, name: str) -> str:
        return name


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
        action = chain.backplane.engine.accepted.get((b"test", call._id))
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
    chain.hear(Envelope(BOOST, waiting._id, -1))
    chain.run_until_idle()
    assert chain.outside_calls()[0].boosted_to is None
    chain.hear(Envelope(BOOST, waiting._id, 99))  # of a caller whose backplane has more priorities
    chain.run_until_idle()
    chain.collect()
    assert chain.outside_calls()[0].boosted_to == 7
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


# -- and gives it back ------------------------------------------------------------------------------------------------


def test_a_chain_falls_back_when_the_urgent_caller_takes_its_call_back(chain: VirtualBackplane) -> None:
    """Through calls within the backplane, and out of it. Else bulk work stays urgent for nobody, and is in everybody's way."""
    low = chain.call("chain.ask", key="one", route="chain.ask", then="oracle.answer")
    chain.run_until_idle()
    (asked,) = chain.outside_calls()
    urgent = chain.call("chain.urgent", key="one")
    chain.run_until_idle()
    chain.collect()
    assert asked.boosted_to == 1
    urgent.cancel()
    chain.run_until_idle()
    chain.collect()
    assert asked.boosted_to == 6
    asked.reply("yes")
    assert low.result() == "yes"


def test_it_falls_back_to_the_most_urgent_that_still_waits(chain: VirtualBackplane) -> None:
    """One of three gives up; the chain is as urgent as the others, and told only when that changes."""
    chain.call("chain.ask", key="one")
    chain.run_until_idle()
    (asked,) = chain.outside_calls()
    calls = {priority: chain.call("chain.urgent", key="one", priority=priority) for priority in (3, 0, 1)}
    told = []
    for priority in (0, 3, 1):
        chain.run_until_idle()
        calls[priority].cancel()
        chain.run_until_idle()
        chain.collect()
        told.append(asked.boosted_to)
    assert told == [1, 1, 6]


def test_a_callee_falls_back_when_its_caller_says_so(chain: VirtualBackplane) -> None:
    """The middle of a chain of backplanes: what it is told it hands on, whether its action waits or is queued."""
    waiting = chain.call("chain.ask", key="one")
    chain.run_until_idle()
    queued = chain.call("chain.bulk", key="one")
    (asked,) = chain.outside_calls()
    told = []
    for call, priority in ((waiting, 2), (queued, 0), (waiting, 6), (queued, 6)):
        chain.hear(Envelope(BOOST, call._id, priority))
        chain.run_until_idle()
        chain.collect()
        told.append(asked.boosted_to)
    assert told == [2, 0, 0, 6]


def test_a_call_that_began_urgent_falls_back_too(chain: VirtualBackplane) -> None:
    """It was made while something urgent waited for its caller: that priority is not its own."""
    chain.call("chain.twice", key="one")
    chain.run_until_idle()
    urgent = chain.call("chain.urgent", key="one")
    chain.run_until_idle()
    chain.outside_calls()[0].reply()
    chain.run_until_idle()
    second = chain.outside_calls()[1]
    assert second.envelope.priority == 1
    urgent.cancel()
    chain.run_until_idle()
    chain.collect()
    assert second.boosted_to == 5


def test_what_goes_on_falls_back_as_well(chain: VirtualBackplane) -> None:
    """Its reply has come, and it is about to run: it calls again at its own priority."""
    chain.call("chain.twice", key="one")
    chain.run_until_idle()
    urgent = chain.call("chain.urgent", key="one")
    chain.run_until_idle()
    chain.outside_calls()[0].reply()
    urgent.cancel()
    chain.run_until_idle()
    assert [call.envelope.priority for call in chain.outside_calls()] == [5, 5]


def test_a_call_with_a_priority_of_its_own_inherits_as_well(chain: VirtualBackplane) -> None:
    """What waits for its caller waits for it; and it falls back to what the operation has given it."""
    chain.call("chain.as_bulk", key="one")
    chain.run_until_idle()
    urgent = chain.call("chain.urgent", key="one")
    chain.run_until_idle()
    first, second = chain.outside_calls()[0], None
    chain.collect()
    assert (first.envelope.priority, first.boosted_to) == (7, 1)
    first.reply()
    chain.run_until_idle()
    second = chain.outside_calls()[1]
    assert second.envelope.priority == 1
    urgent.cancel()
    chain.run_until_idle()
    chain.collect()
    assert second.boosted_to == 7


def test_what_runs_for_nobody_any_more_falls_back(chain: VirtualBackplane) -> None:
    """Its caller was hurried, and takes the call back: what cannot be interrupted is no longer urgent."""
    call = chain.call("chain.bulk", key="one")
    engine = chain.backplane.engine
    engine.drain(chain.clock.now_ns())
    worker = chain._worker
    assert worker is not None
    running = engine.choose(worker)
    assert running is not None
    priorities = []
    for said in (Envelope(BOOST, call._id, 0), Envelope(CANCEL, call._id)):
        chain.hear(said)
        engine.drain(chain.clock.now_ns())
        priorities.append(running.priority)
    engine.complete(running, *engine.execute(worker, running))
    assert priorities == [0, 6]


def test_a_boost_reaches_what_a_digester_has(chain: VirtualBackplane) -> None:
    """Its object is still worked out: it is admitted at the priority that its caller has by then."""
    call = chain.call("chain.found", name="one")
    chain.hear(Envelope(BOOST, call._id, 2))
    engine = chain.backplane.engine
    engine.drain(chain.clock.now_ns())
    priorities: list[int] = []
    digest = engine.accepted.get((b"test", call._id))
    ended = digest.on_end
    assert ended is not None

    def note(action: Action) -> None:
        ended(action)
        priorities.append(engine.accepted.get((b"test", call._id)).priority)

    digest.on_end = note
    assert call.result() == "found"
    assert priorities == [2]
