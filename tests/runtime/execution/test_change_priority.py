"""An action that changes its own priority from phase to phase, and the work that waits for it."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.runtime import Action, AppObject, Outcome, change_priority, checkpoint, current, operation, pause
from appbackplane.runtime.testing import VirtualBackplane


class Order(AppObject):
    """Is looked at in no hurry, and booked at once; or the other way round."""

    @operation(priority=5)
    async def place(self, to: int, explicit: int | None = None) -> int:
        change_priority(to)
        await self.call("bank.charge", priority=explicit)
        return current().priority

    @operation(priority=5)
    async def grow(self, to: int) -> int:
        change_priority(to)
        await checkpoint()
        return current().priority

    @operation(priority=5)
    async def rest(self, to: int) -> None:
        change_priority(to)
        await pause(1.0)

    @operation(priority=5)
    def wrong(self, to: Any) -> None:
        change_priority(to)

    @operation(priority=3)
    def other(self) -> None: ...

    @operation(priority=0)
    def urgent(self) -> None: ...


class Lending(Order):
    """Everybody needs it."""

    lends = 2


class Shop(AppObject):
    """Has orders placed."""

    @operation(priority=5)
    async def buy(self, to: int) -> int:
        return int(await self.call("bench.place", key="order", to=to))

    @operation(priority=0)
    def hurry(self) -> None: ...


class Phases(Action):
    """An action of a user's own, in two steps."""

    has_looked = False

    def run(self) -> Outcome:
        if self.has_looked:
            return Outcome.DONE
        self.has_looked = True
        change_priority(1)
        return Outcome.YIELDED


@pytest.fixture
def backplane() -> VirtualBackplane:
    backplane = VirtualBackplane(outside=("bank.charge",))
    for key, object in (("order", Order()), ("next", Order()), ("lending", Lending()), ("shop", Shop())):
        backplane.add(object, key=key)
    return backplane


def charged(backplane: VirtualBackplane) -> Any:
    """The call of the bank, after all that is to happen now."""
    backplane.run_until_idle()
    backplane.collect()
    [asked] = backplane.outside_calls()
    return asked


@pytest.mark.parametrize(("to", "expected"), [(1, ["rest", "other"]), (5, ["other", "rest"])])
def test_the_next_phase_runs_at_its_priority(backplane: VirtualBackplane, to: int, expected: list[str]) -> None:
    """It goes before work that was more urgent than its first phase."""
    backplane.call("bench.rest", key="order", to=to)
    backplane.run_until_idle()
    backplane.clock.sleep(1.0)
    backplane.call("bench.other", key="next")
    assert backplane.run_until_idle() == expected


def test_a_less_urgent_phase_lets_others_go_first(backplane: VirtualBackplane) -> None:
    """Nobody waits for a cast, so it may put itself off. `checkpoint` knows at once that there is more urgent work."""
    backplane.cast("bench.grow", key="order", to=6, priority=1)
    backplane.call("bench.other", key="next")
    assert backplane.run_until_idle() == ["grow", "other", "grow"]


def test_an_action_whose_caller_waits_is_as_urgent_as_the_caller(backplane: VirtualBackplane) -> None:
    """Law 10: whoever it chose to put off might be waiting for its caller."""
    grow = backplane.call("bench.grow", key="order", to=6, priority=1)
    backplane.call("bench.other", key="next")
    assert backplane.run_until_idle() == ["grow", "other"]
    assert grow.result() == 1


@pytest.mark.parametrize(("explicit", "expected"), [(None, 2), (7, 7)])
def test_its_calls_carry_the_priority_of_the_phase(
    backplane: VirtualBackplane, explicit: int | None, expected: int
) -> None:
    """A call that has a priority of its own keeps it: nothing more urgent waits for it."""
    place = backplane.call("bench.place", key="order", to=2, explicit=explicit)
    asked = charged(backplane)
    assert asked.envelope.priority == expected
    asked.reply(None)
    assert place.result() == 2


def test_work_that_waits_behind_it_keeps_it_urgent(backplane: VirtualBackplane) -> None:
    """Law 10: it may not put off the urgent request of its own object. When that has gone, the phase counts again."""
    backplane.call("bench.place", key="order", to=3)
    urgent = backplane.call("bench.urgent", key="order")
    asked = charged(backplane)
    assert asked.envelope.priority == 0
    urgent.cancel()
    assert charged(backplane).boosted_to == 3


def test_it_is_urgent_at_once_if_urgent_work_waits_behind_it(backplane: VirtualBackplane) -> None:
    """Not only from its next `await` on: others of middle priority must not go first at its `checkpoint`."""
    grow = backplane.call("bench.grow", key="order", to=3)
    backplane.call("bench.urgent", key="order")
    backplane.call("bench.other", key="next")
    assert backplane.run_until_idle() == ["grow", "urgent", "other"]
    assert grow.result() == 0


def test_urgent_work_that_comes_later_raises_the_phase(backplane: VirtualBackplane) -> None:
    """And its callee with it; then both fall back to what was chosen, not to the priority of the call."""
    backplane.call("bench.place", key="order", to=3)
    assert charged(backplane).envelope.priority == 3
    urgent = backplane.call("bench.urgent", key="order")
    assert charged(backplane).boosted_to == 0
    urgent.cancel()
    assert charged(backplane).boosted_to == 3


def test_a_boost_of_its_caller_raises_the_phase(backplane: VirtualBackplane) -> None:
    """Something urgent waits for the caller, and so for the phase; afterwards the phase counts again."""
    backplane.call("bench.buy", key="shop", to=3)
    assert charged(backplane).envelope.priority == 3
    hurry = backplane.call("bench.hurry", key="shop")
    assert charged(backplane).boosted_to == 0
    hurry.cancel()
    assert charged(backplane).boosted_to == 3


def test_the_urgency_of_its_caller_stays_when_others_leave(backplane: VirtualBackplane) -> None:
    """Somebody waits for the caller all the time; a request of its own object comes and goes."""
    backplane.call("bench.buy", key="shop", to=3)
    backplane.call("bench.hurry", key="shop")
    assert charged(backplane).envelope.priority == 0
    urgent = backplane.call("bench.urgent", key="order")
    charged(backplane)
    urgent.cancel()
    assert charged(backplane).boosted_to is None


def test_a_boost_stays_when_others_leave(backplane: VirtualBackplane) -> None:
    """The same, if the caller became urgent after its call."""
    backplane.call("bench.buy", key="shop", to=3)
    charged(backplane)
    backplane.call("bench.hurry", key="shop")
    assert charged(backplane).boosted_to == 0
    urgent = backplane.call("bench.urgent", key="order")
    charged(backplane)
    urgent.cancel()
    assert charged(backplane).boosted_to == 0


def test_an_urgent_phase_is_not_lowered_by_its_caller(backplane: VirtualBackplane) -> None:
    """Its caller has become more urgent, but less so than the phase, and falls back: the phase has been 1 all the time."""
    backplane.call("bench.buy", key="shop", to=1)
    assert charged(backplane).envelope.priority == 1
    other = backplane.call("bench.hurry", key="shop", priority=3)
    charged(backplane)
    other.cancel()
    asked = charged(backplane)
    assert asked.boosted_to is None
    asked.reply(None)
    backplane.run_until_idle()


def test_the_minimum_of_its_object_holds(backplane: VirtualBackplane) -> None:
    """`lends`: everybody waits for this object, whatever its action is up to."""
    backplane.call("bench.place", key="lending", to=6)
    assert charged(backplane).envelope.priority == 2


def test_an_action_of_a_users_own_may_change_it_too(backplane: VirtualBackplane) -> None:
    """Between two steps."""
    order = backplane.backplane.engine.registry.by_key("bench", "order")
    assert order is not None and order._component is not None
    order._component.post(Phases(order, "phases", 5))
    backplane.call("bench.other", key="next", priority=5)
    assert backplane.run_until_idle() == ["phases", "phases", "other"]


@pytest.mark.parametrize(
    ("to", "problem"),
    [
        (8, "ValueError: change_priority(8): expected 0..7"),
        (-1, "ValueError: change_priority(-1): expected 0..7"),
        ("1", "TypeError: change_priority('1'): expected a whole number"),
        (True, "TypeError: change_priority(True): expected a whole number"),
    ],
)
def test_a_priority_that_does_not_exist_is_refused(backplane: VirtualBackplane, to: Any, problem: str) -> None:
    """Where it was written."""
    assert problem in str(backplane.call("bench.wrong", key="order", to=to).error())


def test_outside_of_actions_there_is_nothing_to_change() -> None:
    """A thread of one's own has no priority here."""
    with pytest.raises(RuntimeError, match=r"change_priority\(\): no action runs in this thread"):
        change_priority(1)
