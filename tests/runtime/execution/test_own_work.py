"""What a component gives itself to do: actions that it posts and timers that it sets have a bound, as requests have."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from appbackplane.runtime import Action, AppObject, BackplaneError, Busy, Component, Outcome, every, operation
from appbackplane.runtime.objects.component import POSTED_MAX_DEFAULT
from appbackplane.runtime.testing import VirtualBackplane
from tests.waiting import LIMIT_S


class Step(Action):
    """A piece of work, and perhaps the next one."""

    __slots__ = ("follow",)

    def __init__(self, object: AppObject, follow: int = 0) -> None:
        super().__init__(object, "mill.step", 5)
        self.follow = follow

    def run(self) -> Outcome:
        object: Any = self.object
        object.steps += 1
        if self.follow:
            object._component.post(Step(object, self.follow - 1))
        return Outcome.DONE


class Wheel(AppObject):
    """Turns."""

    def __init__(self) -> None:
        self.steps = 0
        self.handles: list[Any] = []

    @operation()
    def plan(self, count: int, seconds: float = 1.0) -> None:
        """So many timers."""
        for _ in range(count):
            self.handles.append(self.after(seconds, self.turn))

    @operation()
    def plan_and_take_back(self, count: int) -> None:
        """Time-outs, which nearly always are."""
        for _ in range(count):
            assert self.after(1.0, self.turn).cancel()

    @operation()
    def take_back(self) -> int:
        """All that have not fired."""
        return sum(handle.cancel() for handle in self.handles)

    def turn(self) -> None:
        """Once."""
        self.steps += 1

    @operation()
    def work(self) -> int:
        """As asked by others."""
        return self.steps

    @every(10.0)
    def creak(self) -> None:
        """Now and then."""
        self.steps += 100


class Mill(Component):
    """Little room."""

    max_posted = 10
    max_requests = 3

    def setup(self) -> None:
        self.wheel = Wheel()
        self.add(self.wheel)

    def make_room(self, request: Action) -> bool:
        return self.shed(below=request.priority) > 0


@pytest.fixture
def mill() -> Mill:
    """A mill in a backplane (`virtual`)."""
    return Mill()


@pytest.fixture
def virtual(mill: Mill) -> VirtualBackplane:
    """Where it is."""
    backplane = VirtualBackplane(mill)
    _ = backplane.backplane
    return backplane


def figures(virtual: VirtualBackplane) -> tuple[int, int]:
    """Posted and not ended; refused."""
    told = virtual.backplane.statistics()["components"]["mill"]
    return told["posted"], told["posted_refused"]


def test_who_posts_without_end_is_told_so(mill: Mill, virtual: VirtualBackplane) -> None:
    """Law 9. A loop that posts, or a device that is faster than its object, would have taken all memory there is."""
    for _ in range(10):
        mill.post(Step(mill.wheel))
    with pytest.raises(
        Busy, match=r"mill\.step: virtual/mill has 10 actions and timers .* \(max_posted = 10\)"
    ) as told:
        mill.post(Step(mill.wheel))
    assert told.value.retry_after is not None
    assert figures(virtual) == (10, 1)
    assert virtual.run_until_idle() == ["step"] * 10
    assert figures(virtual) == (0, 1)
    mill.post(Step(mill.wheel))


def test_who_sets_timers_without_end_is_told_so(mill: Mill, virtual: VirtualBackplane) -> None:
    """In the line that set one too many."""
    error = virtual.call("mill.plan", count=11).error()
    assert isinstance(error, Busy)
    assert "mill.turn: virtual/mill has 10 actions and timers" in error.message
    assert figures(virtual) == (10, 1)
    virtual.advance(1.0)
    assert (mill.wheel.steps, figures(virtual)) == (10, (0, 1))


def test_a_timer_that_is_taken_back_gives_its_place_back(mill: Mill, virtual: VirtualBackplane) -> None:
    """A time-out a call, each taken back, must not use up what there is."""
    virtual.call("mill.plan_and_take_back", count=1_000).result()
    assert figures(virtual) == (0, 0)
    virtual.call("mill.plan", count=10).result()
    assert virtual.call("mill.take_back").result() == 10
    assert virtual.call("mill.take_back").result() == 0
    assert figures(virtual) == (0, 0)
    virtual.call("mill.plan", count=10).result()
    virtual.advance(1.0)
    assert virtual.call("mill.take_back").result() == 0, "they have fired"
    assert figures(virtual) == (0, 0)


def test_timers_of_a_component_that_goes_down_give_their_places_back(mill: Mill, virtual: VirtualBackplane) -> None:
    """It comes back with all its room."""
    virtual.call("mill.plan", count=10).result()
    virtual.move("down")
    assert figures(virtual) == (0, 0)


def test_timers_of_an_object_that_is_removed_give_their_places_back(mill: Mill, virtual: VirtualBackplane) -> None:
    """As often as objects come and go."""
    for _ in range(5):
        wheel = Wheel()
        mill.add(wheel, key="other")
        virtual.call("mill.plan", key="other", count=10).result()
        mill.remove(wheel)
    assert figures(virtual) == (0, 0)


def test_work_that_goes_on_by_posting_its_next_step_is_not_stopped(mill: Mill, virtual: VirtualBackplane) -> None:
    """One after the other, for ever: at any time there are two."""
    mill.post(Step(mill.wheel, follow=5_000))
    virtual.run_until_idle()
    assert (mill.wheel.steps, figures(virtual)) == (5_001, (0, 0))


def test_what_it_has_posted_and_what_others_ask_of_it_have_a_bound_each(mill: Mill, virtual: VirtualBackplane) -> None:
    """Full of its own work, it takes requests; and to make room for a request nothing of its own is shed."""
    for _ in range(10):
        mill.post(Step(mill.wheel))
    calls = [virtual.call("mill.work", priority=3) for _ in range(4)]
    virtual.backplane.engine.drain(virtual.clock.now_ns())
    urgent = virtual.call("mill.work", priority=0)
    virtual.run_until_idle()
    assert mill.wheel.steps == 10
    assert urgent.result() >= 0
    assert sum(isinstance(outcome(call), Busy) for call in calls) == 2


def outcome(call: Any) -> object:
    """Result or error."""
    try:
        return call.result()
    except BackplaneError as error:
        return error


def test_repeated_timers_are_not_counted(mill: Mill, virtual: VirtualBackplane) -> None:
    """There are as many as were declared, and each skips while its last action has not ended."""
    virtual.call("mill.plan", count=10, seconds=100.0).result()
    virtual.advance(10.0)
    assert mill.wheel.steps == 100


def test_the_bound_changes_while_it_runs(mill: Mill, virtual: VirtualBackplane) -> None:
    """As `max_requests` does, by the same operation, and with the same care."""
    assert virtual.call("backplane.virtual.limits", component="mill", max_posted=2).result() == {
        "cpu_limit": None, "max_requests": {"mill": 3}, "max_posted": {"mill": 2},
    }  # fmt: skip
    assert isinstance(virtual.call("mill.plan", count=3).error(), Busy)
    error = virtual.call("backplane.virtual.limits", component="mill", max_posted=0).error()
    assert "max_posted: 0 would refuse everything: expected 1 or more" in error.message
    error = virtual.call("backplane.virtual.limits", max_posted=5).error()
    assert "no component None here: name one of mill" in error.message


def test_a_component_that_says_nothing_has_room_for_much() -> None:
    """Enough for whoever did not think of it, and bounded."""
    assert Component.max_posted == POSTED_MAX_DEFAULT == 100_000


def test_threads_that_set_and_take_back_at_once_leave_nothing_behind(mill: Mill, virtual: VirtualBackplane) -> None:
    """A timer is taken back without the lead, from any thread: the count must come out all the same."""
    virtual.call("backplane.virtual.limits", component="mill", max_posted=100_000).result()
    start = threading.Barrier(4)

    def both() -> None:
        start.wait(LIMIT_S)
        for number in range(2_000):
            handle = mill.wheel.after(100.0 if number % 3 else 0.0, mill.wheel.turn)
            if number % 2:
                handle.cancel()

    threads = [threading.Thread(target=both) for _ in range(3)]
    for thread in threads:
        thread.start()
    start.wait(LIMIT_S)
    while any(thread.is_alive() for thread in threads):
        with virtual.backplane.engine.lead:
            virtual.run_until_idle()
    virtual.advance(200.0)
    assert figures(virtual) == (0, 0)
