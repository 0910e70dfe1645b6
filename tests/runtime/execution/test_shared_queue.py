"""Shared queue: what an object's calls do that wait for room at a replica elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.runtime import AppObject, BackplaneError, Component, operation
from appbackplane.runtime.testing import OutsideCall, VirtualBackplane, VirtualCall
from appbackplane.transport.directory import Directory, Place
from appbackplane.transport.envelope import credit

REPLICAS = ("web-1", "web-2")


class Asker(AppObject):
    """Asks one of the replicas."""

    @operation()
    async def ask(self, name: str, timeout: float = 30.0, urgency: int | None = None, again: bool = False) -> Any:
        try:
            return await self.call("till.ring", timeout=timeout, priority=urgency, retry=again, of=name)
        except BackplaneError as error:
            return f"{type(error).__name__}: {error.message}"

    @operation()
    async def gather_four(self) -> list[Any]:
        return list(await self.gather(*(self.call("till.ring", of=name) for name in "abcd"), timeout=5.0))


class Askers(Component):
    """Six of them."""

    def setup(self) -> None:
        for number in range(6):
            self.add(Asker(), key=str(number))


class World:
    """Two replicas, which the test plays."""

    def __init__(self) -> None:
        self.backplane = VirtualBackplane(Askers(), outside=("till.ring",))
        self.backplane.run_until_idle()
        self.engine = self.backplane.backplane.engine
        self.adopt()
        self.asked_count = self.seen_count = 0

    def adopt(self, generation: int | None = 1, names: tuple[str, ...] = REPLICAS) -> None:
        """A routing table; generation None: the replicas `names` are down."""
        known = self.engine.routing.directory
        changed = {
            name: Place(
                generation or 1, f"/nowhere/{name}-{generation or 1}.sock", generation is not None, is_pulled=True
            )
            for name in names
        }
        places = {**known.backplanes, **changed}
        new = Directory(
            "test", known.version + 1, places, {**known.routes, "till.ring": REPLICAS}, priorities={"till.ring": 4}
        )
        self.engine.update(new, self.backplane.clock.now_ns())
        self.backplane.run_until_idle()

    def ask(self, name: str, **arguments: Any) -> VirtualCall:
        """One more object asks."""
        key = str(self.asked_count % 6)
        self.asked_count += 1
        call = self.backplane.call("askers.ask", key=key, name=name, **arguments)
        self.backplane.run_until_idle()
        return call

    def came(self) -> list[OutsideCall]:
        """The calls that have come to the replicas since the last time."""
        calls = self.backplane.outside_calls("till.ring")
        fresh, self.seen_count = calls[self.seen_count :], len(calls)
        return fresh

    def grant(self, call: OutsideCall, may_send: int) -> list[str]:
        """The replica that got this call has room for more; the names of the calls that come then."""
        self.backplane.hear(credit(0, may_send), call._peer)
        self.backplane.run_until_idle()
        return names(self.came())


def names(calls: list[OutsideCall]) -> list[str]:
    """Whose calls they are."""
    return [call.arguments["of"] for call in calls]


@pytest.fixture
def world() -> World:
    """Its objects may call at once."""
    return World()


def test_a_call_waits_until_there_is_room_and_its_object_with_it(world: World) -> None:
    """Law 6: the object is in the wait queue meanwhile."""
    asked = [world.ask(name) for name in "abc"]
    first, second = world.came()
    assert first._peer != second._peer
    (step,) = world.backplane.backplane.why("virtual/askers.2")["steps"]
    assert "waits for room for till.ring at a replica" in step["reasons"][0]["text"]
    assert world.grant(second, 2) == ["c"]
    for call, outside in zip(asked, world.backplane.outside_calls("till.ring"), strict=True):
        outside.reply(outside.arguments["of"])
        assert call.result() == outside.arguments["of"]


def test_an_urgent_call_goes_at_once_and_the_more_urgent_of_two_first(world: World) -> None:
    """By the priority that it inherits, too."""
    for name in "ab":
        world.ask(name)
    bulk = world.ask("bulk")
    (first, _) = world.came()
    world.ask("urgent", urgency=0)
    assert names(world.came()) == ["urgent"]
    world.ask("late", urgency=3)
    assert names(world.came()) == ["late"], "the other replica has only less urgent calls"
    world.ask("waits", urgency=3)
    assert world.came() == []
    behind = world.backplane.call("askers.ask", key=str(2), priority=0, name="behind")
    world.backplane.run_until_idle()
    assert world.grant(first, 9) == ["bulk", "waits"], "urgent work has queued behind the object of `bulk`"
    assert not bulk.done() and not behind.done()


def test_what_waits_ends_with_its_deadline_and_with_its_caller(world: World) -> None:
    """And nothing of it is sent later."""
    for name in "ab":
        world.ask(name)
    first, _ = world.came()
    hasty, cancelled, last = world.ask("hasty", timeout=1.0), world.ask("cancelled"), world.ask("last")
    cancelled.cancel()
    world.backplane.advance(1.0)
    assert hasty.result() == "DeadlineExceeded: till.ring: no replica had room for it before the deadline"
    assert world.grant(first, 9) == ["last"]
    assert not last.done()


def test_a_replica_that_ends_takes_its_own_calls_along(world: World) -> None:
    """Those that wait go to another, or end when there is none."""
    asked = [world.ask(name) for name in "abcd"]
    world.came()
    world.adopt(None, ("web-1",))
    ended = [call.result() for call in asked if call.done()]
    assert len(ended) == 1 and "died" in ended[0]
    world.adopt(2, ("web-1",))
    assert names(world.came()) == ["c"]
    world.adopt(None)
    assert asked[3].result().startswith("Unavailable: 'till.ring' is served by web-1, web-2: down now")
    assert all(call.done() for call in asked)


def test_what_may_be_retried_outlives_all_replicas(world: World) -> None:
    """As a call that is made while they are down."""
    for name in "ab":
        world.ask(name)
    waiting = world.ask("c", again=True)
    world.came()
    world.adopt(None)
    world.adopt(2)
    world.backplane.advance(1.0)
    (again,) = world.came()
    again.reply("served")
    assert waiting.result() == "served"


def test_the_calls_of_a_group_wait_each_for_itself(world: World) -> None:
    """One failure ends them all, those that wait, too."""
    gathered = world.backplane.call("askers.gather_four", key="0")
    world.backplane.run_until_idle()
    first, second = world.came()
    assert world.grant(first, 2) == ["c"]
    second.fail(BackplaneError("no"))
    assert "no" in gathered.error().message
    assert world.grant(first, 9) == [], "d is cancelled"
