"""`order = "deadline"`: within one priority the nearer deadline goes first, and nothing else changes."""

from __future__ import annotations

import pytest

from appbackplane.runtime import AppObject, operation
from appbackplane.runtime.objects.action import Action, Outcome
from appbackplane.runtime.scheduling.deadline_order import LOOK_AHEAD_MAX, PATIENCE_NS, DeadlineScheduler
from appbackplane.runtime.scheduling.ready_queues import DEAD_MAX
from appbackplane.runtime.scheduling.scheduler import Policy
from appbackplane.runtime.testing import VirtualBackplane


class Work(Action):
    __slots__ = ()


class Machine:
    """Objects a, b, c, … and their work, named by who has it."""

    def __init__(self, **policy: object) -> None:
        self.now_ns = 1_000
        self.scheduler = DeadlineScheduler(Policy(priorities=4, **policy), self.now_ns)  # type: ignore[arg-type]
        self.objects = {name: AppObject() for name in "abcd"}

    def post(self, name: str, left_ns: int | None = None, priority: int = 2) -> Work:
        deadline_ns = None if left_ns is None else self.now_ns + left_ns
        work = Work(self.objects[name[0]], name, priority, deadline_ns)
        self.scheduler.post(work, self.now_ns)
        return work

    def run(self) -> list[str]:
        order = []
        while (action := self.scheduler.next(self.now_ns)) is not None:
            order.append(action.name)
            self.scheduler.finished(action, Outcome.DONE, self.now_ns)
        return order


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_the_nearer_deadline_goes_first(machine: Machine) -> None:
    """What could wait made what could not come too late, when it happened to be first."""
    for name, left_ns in (("a", 300), ("b", 100), ("c", 200)):
        machine.post(name, left_ns)
    assert machine.run() == ["b", "c", "a"]


def test_equal_deadlines_go_in_the_order_they_came(machine: Machine) -> None:
    """Law 3's rule, where deadlines do not decide."""
    for name in "cab":
        machine.post(name, 100)
    assert machine.run() == ["c", "a", "b"]


def test_priority_goes_before_any_deadline(machine: Machine) -> None:
    """Law 3. A deadline is a matter among equals."""
    machine.post("a", 1, priority=3)
    machine.post("b", 1_000_000, priority=1)
    assert machine.run() == ["b", "a"]


def test_an_objects_own_order_holds(machine: Machine) -> None:
    """Law 1. The urgent one brings what is before it forward, as a higher priority would (law 2)."""
    machine.post("a1", 1_000)
    machine.post("b1", 500)
    machine.post("a2", 10)
    assert machine.run() == ["a1", "a2", "b1"]


def test_work_that_joins_a_ready_object_counts_at_once(machine: Machine) -> None:
    """The object stands in its queue already, and moves."""
    machine.post("a", 500)
    machine.post("b1", 1_000)
    assert [o is machine.objects["a"] for o in machine.scheduler.ready.standing(2)] == [True, False]
    machine.post("b2", 10)
    assert [o is machine.objects["a"] for o in machine.scheduler.ready.standing(2)] == [False, True]


def test_work_that_is_taken_back_counts_no_longer(machine: Machine) -> None:
    """A caller that gave up must not leave its haste behind."""
    machine.post("a", 500)
    machine.post("b1", 1_000)
    hasty = machine.post("b2", 10)
    machine.scheduler.withdraw(hasty)
    assert machine.run() == ["a", "b1"]


def test_a_deadline_of_lower_priority_does_not_count(machine: Machine) -> None:
    """It is not what the object stands there for: haste of bulk work would overtake urgent work."""
    machine.post("a", 500, priority=1)
    machine.post("b1", 1_000, priority=1)
    machine.post("b2", 10, priority=3)
    assert machine.run() == ["a", "b1", "b2"]


def test_work_without_a_deadline_does_not_starve(machine: Machine) -> None:
    """Timers, topics and casts have none, and there is always somebody in haste."""
    machine.post("a")
    rounds = 0
    while rounds < 20:
        machine.post("b", 1_000)
        action = machine.scheduler.next(machine.now_ns)
        assert action is not None
        machine.scheduler.finished(action, Outcome.DONE, machine.now_ns)
        if action.name == "a":
            break
        rounds += 1
        machine.now_ns += PATIENCE_NS // 10
    assert 9 <= rounds <= 10


def test_only_the_first_actions_of_an_object_are_looked_at(machine: Machine) -> None:
    """A look has a bound; what is further behind counts once it has moved up."""
    machine.post("a", 500)
    for _ in range(LOOK_AHEAD_MAX):
        machine.post("b", 1_000)
    machine.post("b!", 10)
    assert machine.run()[:2] == ["a", "b"]
    machine.post("a", 500)
    for _ in range(LOOK_AHEAD_MAX - 1):
        machine.post("b", 1_000)
    machine.post("b!", 10)
    assert machine.run()[-1] == "a"


def test_a_queue_that_is_never_reached_does_not_grow(machine: Machine) -> None:
    """Everything has a bound: each change of an object's nearest deadline leaves a dead place behind."""
    machine.post("a", 1)
    machine.post("b", 1_000_000)
    for _ in range(10 * DEAD_MAX):
        machine.scheduler.withdraw(machine.post("b", 10))
    assert len(machine.scheduler.ready.queues[2]) <= 2 + DEAD_MAX + 1
    assert machine.scheduler.ready.depths() == [0, 0, 2, 0]
    assert machine.run() == ["a", "b"]


class Desk(AppObject):
    @operation(priority=2)
    def serve(self, name: str) -> None: ...


@pytest.mark.parametrize(("order", "expected"), [("fifo", ["slow", "fast"]), ("deadline", ["fast", "slow"])])
def test_it_is_an_option_of_the_backplane(order: str, expected: list[str]) -> None:
    """Off by default: who came first is what most people expect."""
    backplane = VirtualBackplane(order=order)  # type: ignore[arg-type]
    for key in ("slow", "fast"):
        backplane.add(Desk(), key=key)
    served: list[str] = []
    backplane.call("bench.serve", key="slow", timeout=5.0, name="slow")
    backplane.call("bench.serve", key="fast", timeout=1.0, name="fast")
    engine, worker = backplane.backplane.engine, backplane._worker
    assert worker is not None
    while (action := engine.choose(worker)) is not None:
        served.append(str(action.object.key))
        engine.complete(action, *engine.execute(worker, action))
    assert served == expected
