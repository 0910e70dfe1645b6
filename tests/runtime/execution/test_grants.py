"""Grants: how many calls each caller may have here, told in few words, and taken back when nobody uses it."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.runtime import AppObject, Component, operation, pause
from appbackplane.runtime.execution.intake.grants import AHEAD_NS, IDLE_NS, ROOM_MAX
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.codec import decode
from appbackplane.transport.envelope import CALL, CREDIT, Envelope

ANN, BOB = b"ann", b"bob"


class Clerk(AppObject):
    """Serves, one after the other."""

    @operation()
    def ring(self) -> None: ...

    @operation()
    async def wait(self) -> None:
        await pause(3600.0)


class Till(Component):
    """Two clerks, and itself."""

    def setup(self) -> None:
        self.add(Clerk(), key="1")
        self.add(Clerk(), key="2")

    @operation()
    def count(self) -> None: ...


class World:
    """A replica, and callers that are lists of what they were told."""

    def __init__(self) -> None:
        self.backplane = VirtualBackplane(Till(), balance="pull")
        self.backplane.run_until_idle()
        grants = self.backplane.backplane.engine.grants
        assert grants is not None
        self.grants = grants
        self.last_id = 0
        self.credit: dict[bytes, list[int]] = {ANN: [], BOB: []}
        collect = self.backplane.collect

        def listen() -> None:
            for peer, frame in self.backplane.link.sent:
                for envelope in decode(frame):
                    if envelope.kind == CREDIT:
                        assert envelope.id == 0
                        self.credit[peer].append(envelope.body)
            collect()

        self.backplane.collect = listen  # type: ignore[method-assign]

    def call(self, peer: bytes = ANN, route: str = "till.ring", *, run: bool = True, **fields: Any) -> None:
        """One more of a caller's."""
        self.last_id += 1
        self.backplane.hear(Envelope(CALL, self.last_id, None, route, body={}, **fields), peer)
        if run:
            self.backplane.run_until_idle()

    def occupy_clerks(self) -> None:
        """What is called of them from now on stays in their queues."""
        for key in ("1", "2"):
            self.call(BOB, "till.wait", key=key)

    def takes(self, seconds: float) -> None:
        """Say how long calls take from now on."""
        self.grants._run_ns, self.grants._run_count = round(seconds * 1e9 * 1_000), 1_000.0


@pytest.fixture
def world() -> World:
    """Calls take no time on the virtual clock."""
    return World()


def test_long_calls_are_granted_one_by_one(world: World) -> None:
    """When one has ended the next may come."""
    world.takes(10.0)
    for _ in range(3):
        world.call()
    assert world.credit[ANN] == [2, 3, 4]


def test_a_call_in_the_queue_leaves_no_room_for_another(world: World) -> None:
    """It would wait behind it, although another replica may be idle."""
    world.takes(10.0)
    world.call(run=False)
    assert world.credit[ANN] == []
    world.backplane.run_until_idle()
    assert world.credit[ANN] == [2]


def test_what_awaits_something_leaves_its_place_to_others(world: World) -> None:
    """Or a replica whose calls await a database would have one of them at a time."""
    world.takes(10.0)
    world.call(route="till.wait")
    assert world.credit[ANN] == [2]


def test_short_calls_have_room_for_what_takes_a_few_milliseconds(world: World) -> None:
    """It is told in halves: a word for each call would cost as much as the call."""
    world.takes(AHEAD_NS / 1e9 / 100)
    world.call()
    (first,) = world.credit[ANN]
    assert 100 <= first <= 120
    for _ in range(200):
        world.takes(AHEAD_NS / 1e9 / 100)
        world.call()
    assert 3 <= len(world.credit[ANN]) <= 6
    world.takes(0)
    world.call()
    assert world.credit[ANN][-1] - world.last_id == ROOM_MAX


def test_callers_share_the_room(world: World) -> None:
    """Those that have something here; one each in any case."""
    world.occupy_clerks()
    world.call(BOB)
    world.takes(AHEAD_NS / 1e9 / 100)
    world.call(ANN, "till.count")
    (alone,) = world.credit[ANN]
    assert 100 <= alone <= 120, "BOB has something in a queue, but ANN has nothing left here"
    world.call(ANN)
    for _ in range(60):
        world.takes(AHEAD_NS / 1e9 / 100)
        world.call(ANN, "till.count")
    received = world.grants._callers[ANN].received_count
    assert 20 <= world.credit[ANN][-1] - received <= 60, "half of what was hers alone"
    for _ in range(60):
        world.takes(10.0)
        world.call(ANN, "till.count")
    assert world.credit[ANN][-1] == world.grants._callers[ANN].received_count, "her call in the queue is her one"


def test_as_many_are_granted_as_run_at_the_same_time() -> None:
    """A backplane with threads of its own for them."""
    world = World()
    world.grants._threads = 4
    world.takes(10.0)
    world.call()
    assert world.credit[ANN] == [1 + 4]


def test_room_is_taken_back_when_calls_turn_out_to_be_long(world: World) -> None:
    """What was granted for short ones would all be sent here."""
    world.takes(AHEAD_NS / 1e9 / 100)
    world.call()
    world.takes(10.0)
    world.call()
    assert world.credit[ANN][-1] == 2 + 1


def test_room_is_taken_back_from_whoever_does_not_use_it(world: World) -> None:
    """What comes next may be long."""
    world.takes(AHEAD_NS / 1e9 / 100)
    world.call()
    world.backplane.advance(IDLE_NS / 2e9)
    assert world.credit[ANN][-1] > 50
    world.backplane.advance(IDLE_NS / 1e9)
    assert world.credit[ANN][-1] == 1 + 1
    told = len(world.credit[ANN])
    world.backplane.advance(10.0)
    assert len(world.credit[ANN]) == told, "nothing is left to say"


@pytest.mark.parametrize(
    ("route", "fields"),
    [
        ("till.ring", {"key": "1"}),
        ("till.ring", {"idempotency_key": "once"}),
        ("backplane.virtual.threads", {}),
    ],
)
def test_what_has_a_place_of_its_own_takes_no_room(world: World, route: str, fields: dict[str, Any]) -> None:
    """Its caller does not count it either."""
    world.takes(10.0)
    world.call(route=route, **fields)
    assert world.credit[ANN] == []


def test_what_is_refused_takes_no_room(world: World) -> None:
    """Its caller has counted it, so the next may come."""
    world.takes(10.0)
    world.call(route="till.no_such")
    assert world.credit[ANN] == [2]


def test_a_dead_caller_has_no_part_in_the_room(world: World) -> None:
    """Its calls may still run."""
    world.occupy_clerks()
    world.call(BOB)
    world.call(ANN)
    assert world.grants._busy_count == 2
    world.backplane.backplane.engine.callers.gone(BOB)
    assert world.grants._busy_count == 1
    world.takes(AHEAD_NS / 1e9 / 100)
    world.call(ANN, "till.count")
    assert world.credit[ANN][-1] > 90 and world.credit[BOB] == []


def test_of_silent_callers_those_are_kept_that_have_something_here(world: World) -> None:
    """Each takes memory, and some come only once."""
    world.call(ANN)
    world.occupy_clerks()
    world.call(BOB)
    world.grants.keep(())
    assert list(world.grants._callers) == [BOB]


def test_without_it_nobody_is_told_anything() -> None:
    """It is configured, and replicas that take turns say nothing of room."""
    backplane = VirtualBackplane(Till())
    assert backplane.backplane.engine.grants is None
