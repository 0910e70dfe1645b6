"""Parking: actions that wait for something of their own, and whoever has it resumes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from appbackplane.runtime import Action, AppObject, Component, Outcome
from appbackplane.runtime.objects.action import ParkableAction
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.envelope import BOOST, CANCEL, Envelope
from appbackplane.transport.errors import FailedPrecondition


class Thing(AppObject):
    pass


class Guest(ParkableAction):
    """Waits once, then leaves."""

    def __init__(self, object: AppObject, name: str, priority: int = 4, *, comes_at_once: bool = False) -> None:
        super().__init__(object, name, priority)
        self.runs = 0
        self.comes_at_once = comes_at_once
        self.in_the_way: list[Action] = []

    def run(self) -> Outcome:
        self.runs += 1
        if self.runs > 1:
            return Outcome.DONE
        if self.comes_at_once:
            component = self.object._component
            assert component is not None
            component._platform.resume(self)
        return Outcome.WAITING

    def waits_for(self) -> Sequence[Action]:
        return self.in_the_way


class Begun(Guest):
    """Has done a part of its work when it waits."""

    @property
    def has_begun(self) -> bool:
        return self.runs > 0


class Plain(Action):
    def run(self) -> Outcome:
        return Outcome.DONE


class Impatient(Action):
    def run(self) -> Outcome:
        return Outcome.WAITING


class House(Component):
    hear: Callable[[bytes, Envelope, int], None]

    def setup(self) -> None:
        self.things = [Thing() for _ in range(4)]
        for number, thing in enumerate(self.things):
            self.add(thing, key=str(number))


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def backplane(house: House) -> VirtualBackplane:
    backplane = VirtualBackplane(house)
    _ = backplane.backplane
    return backplane


def test_it_waits_in_the_wait_queue_and_runs_again_when_it_is_resumed(
    backplane: VirtualBackplane, house: House
) -> None:
    """Law 6: meanwhile nothing else of its object runs, and the object cannot be removed."""
    guest, behind = Guest(house.things[0], "guest"), Plain(house.things[0], "behind", 4)
    house.post(guest)
    house.post(behind)
    assert backplane.run_until_idle() == ["guest"]
    assert backplane.backplane.engine.scheduler.waiting_count == 1
    with pytest.raises(FailedPrecondition, match="awaits"):
        house.remove(house.things[0])
    house._platform.resume(guest)
    assert backplane.run_until_idle() == ["guest", "behind"]
    assert backplane.backplane.engine.scheduler.waiting_count == 0


def test_what_came_before_it_was_put_aside_is_not_lost(backplane: VirtualBackplane, house: House) -> None:
    """Another thread may have what it waits for before the worker has finished with it: a lost wake-up is a hang."""
    house.post(Guest(house.things[0], "guest", comes_at_once=True))
    assert backplane.run_until_idle() == ["guest", "guest"]


def test_it_goes_before_its_equals_when_it_is_resumed(backplane: VirtualBackplane, house: House) -> None:
    """It holds what others wait for; behind them it would keep those waiting for as long as the queue is."""
    guest = Guest(house.things[0], "guest")
    house.post(guest)
    backplane.run_until_idle()
    for number, thing in enumerate(house.things[1:]):
        house.post(Plain(thing, f"plain{number}", 4))
    house.post(Plain(house.things[1], "urgent", 0))
    house._platform.resume(guest)
    ran = backplane.run_until_idle()
    assert ran.index("guest") < ran.index("plain1") and set(ran) == {"guest", "plain0", "plain1", "plain2", "urgent"}


def test_those_in_its_way_inherit_its_priority(backplane: VirtualBackplane, house: House) -> None:
    """Law 10, for whatever is waited for."""
    holder, guest = Plain(house.things[1], "holder", 7), Guest(house.things[0], "guest", 1)
    guest.in_the_way = [holder]
    house.post(guest)
    house.post(holder)
    engine = backplane.backplane.engine
    worker = backplane._worker
    assert worker is not None
    engine.complete(guest, *engine.execute(worker, engine.choose(worker) or guest))
    assert holder.priority == 1 and holder.object._priority == 1
    worker.action = None


def test_only_what_can_be_resumed_may_wait(backplane: VirtualBackplane, house: House) -> None:
    """Any other action would wait for ever."""
    action = Impatient(house.things[0], "impatient", 4)
    house.post(action)
    backplane.run_until_idle()
    assert isinstance(action.error, TypeError) and "expected Outcome.DONE or YIELDED" in str(action.error)


CALLER = b"caller"


def hear(backplane: VirtualBackplane, *envelopes: Envelope) -> None:
    """From who called."""
    for envelope in envelopes:
        backplane.backplane.engine.hear(CALLER, envelope, backplane.clock.now_ns())


def accept(backplane: VirtualBackplane, action: Action) -> None:
    """It is what `CALLER` called."""
    action.peer, action.call_id = CALLER, 1
    backplane.backplane.engine.accepted[CALLER, 1] = action


def test_what_waits_for_nobody_any_more_falls_back(backplane: VirtualBackplane, house: House) -> None:
    """Half of it is done, so it goes on; but no longer as urgently as its caller had waited, nor do those in its way."""
    holder, guest = Guest(house.things[1], "holder", 7), Begun(house.things[0], "guest", 6)
    guest.in_the_way = [holder]
    accept(backplane, guest)
    house.post(holder)
    house.post(guest)
    backplane.run_until_idle()
    hear(backplane, Envelope(BOOST, 1, 0))
    assert (guest.priority, holder.priority) == (0, 0)
    hear(backplane, Envelope(CANCEL, 1))
    assert (guest.priority, guest.priority_own, holder.priority) == (6, 6, 7)


def hurry_and_take_back(action: Action) -> None:
    """What its caller does while it runs."""
    component = action.object._component
    assert isinstance(component, House)
    for envelope in (Envelope(BOOST, 1, 0), Envelope(CANCEL, 1)):
        component.hear(CALLER, envelope, 0)


class Patient(Guest):
    def run(self) -> Outcome:
        hurry_and_take_back(self)
        return super().run()


class Hurried(Action):
    def run(self) -> Outcome:
        hurry_and_take_back(self)
        self.peer = None  # nobody is told
        return Outcome.DONE


@pytest.mark.parametrize("kind", [Patient, Hurried])
def test_what_runs_for_nobody_any_more_falls_back(
    backplane: VirtualBackplane, house: House, kind: type[Action]
) -> None:
    """Else whatever it waits for next is hurried for nobody, and its thread is."""
    action = kind(house.things[0], "action", 6)
    accept(backplane, action)
    house.hear = backplane.backplane.engine.hear
    house.post(action)
    backplane.run_until_idle()
    assert (action.priority, action.priority_own) == (6, 6)
