"""`concurrency`: an object that serves several requests at the same time, as one object to everybody else."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from appbackplane.runtime import (
    AppObject,
    Batch,
    Component,
    DeclarationError,
    FailedPrecondition,
    StateMachine,
    every,
    operation,
    subscribe,
)
from appbackplane.runtime.testing import VirtualBackplane, VirtualCall


class Gate(AppObject):
    """Asks somebody outside."""

    concurrency = 3

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.ticks_count = 0

    @operation()
    async def enter(self, name: str) -> str:
        answer = await self.call("oracle.may_enter", name=name)
        self.passed.append(name)
        return f"{name}: {answer}"

    @subscribe("alarms")
    def close(self, why: str) -> None:
        self.passed.append(why)

    @every(1.0)
    def tick(self) -> None:
        self.ticks_count += 1


class Yard(Component):
    """One gate, and a second one on request."""

    declares = (Gate,)

    def setup(self) -> None:
        self.gate = self.add(Gate(), key="north")


@pytest.fixture
def yard() -> Yard:
    return Yard()


@pytest.fixture
def backplane(yard: Yard) -> VirtualBackplane:
    backplane = VirtualBackplane(yard, outside=("oracle.may_enter",))
    backplane.run_until_idle()
    assert backplane.backplane is not None
    return backplane


def enter(backplane: VirtualBackplane, *names: str, key: str | None = "north") -> list[VirtualCall]:
    calls = [backplane.call("yard.enter", key=key, name=name) for name in names]
    backplane.run_until_idle()
    return calls


@pytest.mark.parametrize("key", ["north", None])
def test_so_many_requests_wait_for_replies_at_the_same_time(backplane: VirtualBackplane, key: str | None) -> None:
    """The fourth waits for the first that ends, whichever that is."""
    calls = enter(backplane, *"abcdef", key=key)
    asked = backplane.outside_calls()
    assert [call.arguments["name"] for call in asked] == ["a", "b", "c"]
    backplane.advance(1.0)
    for number, name in ((1, "d"), (2, "e"), (3, "f")):
        asked[number].reply("yes")
        backplane.run_until_idle()
        asked = backplane.outside_calls()
        assert asked[-1].arguments["name"] == name, "in the order of arrival"
    for number in (0, 4, 5):
        asked[number].reply("yes")
    assert [call.result() for call in calls] == [f"{name}: yes" for name in "abcdef"]
    waited = backplane.backplane.engine.statistics.of("yard.enter").wait
    assert waited.total_ns == pytest.approx(3e9, rel=0.01), "three of them for a second"


def test_its_attributes_are_those_of_one_object(backplane: VirtualBackplane, yard: Yard) -> None:
    enter(backplane, "a", "b", "c")
    for call in backplane.outside_calls():
        call.reply("yes")
    backplane.run_until_idle()
    assert sorted(yard.gate.passed) == ["a", "b", "c"]


def test_it_is_one_object_to_everybody_else(backplane: VirtualBackplane, yard: Yard) -> None:
    """Its component has one, timers and topics reach it once, and its name is one."""
    enter(backplane, "a", "b", "c")
    assert yard.objects == (yard.gate,)
    backplane.publish("alarms", why="fire")
    backplane.advance(2.0)
    for call in backplane.outside_calls():
        call.reply("yes")
    backplane.run_until_idle()
    assert yard.gate.passed.count("fire") == 1
    assert yard.gate.ticks_count == 1, "as its first queue waited"
    assert {action.object.name for action in backplane.backplane.engine.accepted.values()} <= {"virtual/yard.north"}
    assert backplane.backplane.entries()[0].objects_count == 1


def test_an_idle_one_has_one_queue_only(backplane: VirtualBackplane, yard: Yard) -> None:
    """Twins are made when all queues are busy."""
    for number in range(5):
        (call,) = enter(backplane, str(number))
        backplane.outside_calls()[-1].reply("yes")
        assert call.result()
    assert len(yard._objects) == 1


def test_a_queue_that_becomes_idle_without_an_end_takes_over(backplane: VirtualBackplane) -> None:
    """The deadline of its only request has passed. What waits for any of the three would wait for the other two."""
    enter(backplane, "a", "b")
    for name, timeout in (("late", 0.1), ("next", 30.0)):
        backplane.call("yard.enter", key="north", name=name, timeout=timeout)
    backplane.clock.sleep(0.2)
    backplane.run_until_idle()
    assert [call.arguments["name"] for call in backplane.outside_calls()] == ["a", "b", "next"]


def test_its_timers_pass_a_request_that_waits(backplane: VirtualBackplane, yard: Yard) -> None:
    enter(backplane, "a")
    backplane.advance(3.0)
    assert yard.gate.ticks_count == 3


def test_its_batches_would_gather_in_one_queue() -> None:
    class Both(AppObject):
        concurrency = 2

        @operation(batch=Batch(max=2))
        def store(self, row: list[int]) -> None: ...

    backplane = VirtualBackplane()
    backplane.add(Both())
    with pytest.raises(DeclarationError, match="its batches gather in one queue"):
        backplane.run_until_idle()


def test_it_is_removed_as_a_whole(backplane: VirtualBackplane, yard: Yard) -> None:
    calls = enter(backplane, "a", "b")
    backplane.outside_calls()[0].reply("yes")
    backplane.run_until_idle()
    with pytest.raises(FailedPrecondition, match="awaits a reply"):
        yard.remove(yard.gate)
    backplane.outside_calls()[1].reply("yes")
    assert calls[1].result()
    yard.remove(yard.gate)
    assert yard._objects == []
    again = yard.add(Gate(), key="north")
    enter(backplane, "z")
    assert again._load == 1


def test_a_drain_refuses_the_queues_of_all(backplane: VirtualBackplane, yard: Yard) -> None:
    """What waits behind any of them has a caller."""
    enter(backplane, "a", "b", "c", "d", "e")
    assert yard.shed(below=3) == yard.shed(below=3) == 1
    assert yard.shed(below=3) == 0


class Leaf(enum.Enum):
    OPEN = enum.auto()


class Door(StateMachine):
    initial = Leaf.OPEN
    concurrency = 2


class Slotted(AppObject):
    __slots__ = ("name_of",)
    concurrency = 2


class Whole(Component):
    concurrency = 2


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (Door, "Door.concurrency: 2 actions at a time would meet a state"), (Slotted, "so it has no __slots__"),
        (type("Zero", (AppObject,), {"concurrency": 0}), "Zero.concurrency: expected a whole number, 1 to 1,000, got 0"),
        (type("Yes", (AppObject,), {"concurrency": True}), "got True"),
        (type("Many", (AppObject,), {"concurrency": 1_001}), "got 1001"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(made: Any, says: str) -> None:
    backplane = VirtualBackplane()
    backplane.add(made())
    with pytest.raises(DeclarationError, match=says):
        backplane.run_until_idle()


def test_a_component_is_no_such_object() -> None:
    with pytest.raises(DeclarationError, match=r"Whole.concurrency is for objects: add one that has the operations"):
        assert VirtualBackplane(Whole()).backplane is not None


class Mirror(AppObject):
    """Calls itself."""

    concurrency = 3

    @operation()
    async def reflect(self, depth: int) -> int:
        return 0 if not depth else 1 + await self.call("bench.reflect", key="wall", depth=depth - 1)


def test_a_call_that_comes_back_is_served_by_an_idle_queue() -> None:
    """And refused where it would wait for itself: all queues wait in its own chain."""
    backplane = VirtualBackplane()
    backplane.add(Mirror(), key="wall")
    assert backplane.call("bench.reflect", key="wall", depth=2).result() == 2
    assert "call cycle" in str(backplane.call("bench.reflect", key="wall", depth=3).error())
