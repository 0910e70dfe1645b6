"""`fair_by`: within one priority each key gets its share, and nothing else changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime import AppObject, Component, operation
from appbackplane.runtime.objects.action import Action, Outcome
from appbackplane.runtime.scheduling.fair_order import FLOWS_MAX, FairScheduler
from appbackplane.runtime.scheduling.scheduler import Policy
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.envelope import CAST, Envelope


class Work(Action):
    __slots__ = ()


class Machine:
    """Objects a, b and c, and work that is named by its key."""

    def __init__(self, weights: Mapping[str, int] | None = None) -> None:
        self.now_ns = 1_000
        self.scheduler = FairScheduler(Policy(priorities=4), self.now_ns, lambda key: (weights or {}).get(key, 1))
        self.objects = {name: AppObject() for name in "abc"}

    def post(self, key: str, count: int = 1, on: str = "a", priority: int = 2) -> list[Work]:
        """So much work of a key, for an object."""
        posted = []
        for _ in range(count):
            work = Work(self.objects[on], key, priority)
            work.fair_key = key
            self.scheduler.post(work, self.now_ns)
            posted.append(work)
        return posted

    def run(self, count: int = 1_000_000, takes: Mapping[str, int] | None = None) -> Iterator[str]:
        """Run so much, or all; the keys in order. `takes`: ns, by key; 1,000 by default."""
        while count and (action := self.scheduler.next(self.now_ns)) is not None:
            action.run_ns = (takes or {}).get(action.name, 1_000)
            self.scheduler.finished(action, Outcome.DONE, self.now_ns)
            count -= 1
            yield action.name


@pytest.fixture
def machine() -> Machine:
    """Weights of 1."""
    return Machine()


def test_a_flood_does_not_hold_up_who_comes_later(machine: Machine) -> None:
    """Neither at one object nor at several: first come, first served gave the flood everything until it had passed."""
    machine.post("flood", 100)
    list(machine.run(10))
    machine.post("late", 10)
    assert Counter(machine.run(20)) == {"flood": 10, "late": 10}
    machine.post("late", 10, on="b")
    assert Counter(machine.run(20)) == {"flood": 10, "late": 10}
    assert set(machine.run()) == {"flood"}


@pytest.mark.parametrize("weight", [1, 2, 3, 7])
def test_shares_are_by_weight(weight: int) -> None:
    """Of any number of keys."""
    machine = Machine({"heavy": weight})
    for key in ("light", "heavy", "other"):
        machine.post(key, 900)
    done = Counter(machine.run(100 * (weight + 2)))
    assert done["light"] == pytest.approx(100, abs=2) and done["other"] == pytest.approx(100, abs=2)
    assert done["heavy"] == pytest.approx(100 * weight, abs=4)


def test_shares_are_of_time_and_not_of_numbers(machine: Machine) -> None:
    """One who asks for more each time would get more."""
    takes = {"long": 10_000, "short": 1_000}
    spent: Counter[str] = Counter()
    for _ in range(400):
        machine.post("long", 2)
        machine.post("short", 20)
        for key in machine.run(11, takes):
            spent[key] += takes[key]
    assert spent["long"] / spent["short"] == pytest.approx(1.0, rel=0.1)


def test_who_was_idle_does_not_save_up(machine: Machine) -> None:
    """Its share is of the present."""
    machine.post("busy", 1_000)
    list(machine.run(500))
    machine.post("back", 100)
    assert Counter(machine.run(100)) == {"busy": 50, "back": 50}


def test_a_keys_own_work_keeps_its_order_and_continues_first(machine: Machine) -> None:
    """Law 1; and what an object has begun is not put off for others."""
    machine.post("flood", 5)
    begun = machine.scheduler.next(machine.now_ns)
    assert begun is not None
    machine.scheduler.finished(begun, Outcome.YIELDED, machine.now_ns)
    first, second = machine.post("late", 2)
    again = machine.scheduler.next(machine.now_ns)
    assert again is begun, "it goes on"
    machine.scheduler.finished(again, Outcome.DONE, machine.now_ns)
    order = []
    while (action := machine.scheduler.next(machine.now_ns)) is not None:
        order.append(action)
        machine.scheduler.finished(action, Outcome.DONE, machine.now_ns)
    assert order.index(first) < order.index(second) < 4


def test_priorities_are_as_ever(machine: Machine) -> None:
    """A share is of one priority; in an object's queue nothing passes what has another."""
    machine.post("flood", 3, priority=2)
    machine.post("urgent", 2, on="b", priority=1)
    machine.post("other", 1, on="a", priority=3)
    assert list(machine.run()) == ["urgent", "urgent", "flood", "flood", "flood", "other"]


def test_what_is_withdrawn_is_not_charged(machine: Machine) -> None:
    """A caller that cancels has had nothing."""
    for work in machine.post("cancels", 50):
        assert machine.scheduler.withdraw(work)
    machine.post("other", 10)
    machine.post("cancels", 10, on="b")
    assert Counter(machine.run(10)) == {"other": 5, "cancels": 5}


def test_what_was_withdrawn_leaves_no_gap_that_later_work_of_the_key_takes(machine: Machine) -> None:
    """Law 1: it stays behind what came before it."""
    machine.post("other", 5)
    gone, also_gone, stays = machine.post("cancels", 3)
    assert machine.scheduler.withdraw(gone) and machine.scheduler.withdraw(also_gone)
    (later,) = machine.post("cancels")
    order = []
    while (action := machine.scheduler.next(machine.now_ns)) is not None:
        order.append(action)
        machine.scheduler.finished(action, Outcome.DONE, machine.now_ns)
    assert order.index(stays) < order.index(later)


def test_an_object_goes_as_early_as_its_first_action(machine: Machine) -> None:
    """What was put first in its queue may be due before other objects."""
    machine.post("flood", 10, on="c")
    machine.post("flood", 1, on="a")
    machine.post("other", 5, on="b")
    machine.post("late", 1, on="a")
    assert "late" in list(machine.run(3))


def test_keys_without_work_are_forgotten(machine: Machine) -> None:
    """There may be any number of callers in time."""
    for number in range(3 * FLOWS_MAX):
        machine.post(f"caller-{number}")
        list(machine.run())
    assert len(machine.scheduler._flows) <= FLOWS_MAX


@given(
    st.lists(
        st.tuples(st.sampled_from("wxyz"), st.sampled_from("abc"), st.integers(0, 3), st.integers(0, 2)), max_size=60
    )
)
def test_whatever_is_posted_runs_once_in_its_keys_order(steps: list[tuple[str, str, int, int]]) -> None:
    """By object; and all counts of the scheduler are right again in the end."""
    machine = Machine({"w": 3})
    posted: list[Work] = []
    ran: list[Action] = []

    def run(count: int) -> None:
        while count and (action := machine.scheduler.next(machine.now_ns)) is not None:
            ran.append(action)
            machine.scheduler.finished(action, Outcome.DONE, machine.now_ns)
            count -= 1

    for key, on, priority, count in steps:
        posted += machine.post(key, on=on, priority=priority)
        run(count)
    run(-1)
    assert sorted(map(id, ran)) == sorted(map(id, posted))
    for name, thing in machine.objects.items():
        for key in "wxyz":
            for priority in range(4):
                of_key = [w for w in posted if w.object is thing and w.name == key and w.priority_asked == priority]
                assert [w for w in ran if w in of_key] == of_key, name
    assert machine.scheduler.queued_count == 0 and machine.scheduler.ready.count == 0
    assert all(thing._load == 0 and thing._head is None for thing in machine.objects.values())


class Desk(AppObject):
    """Notes whom it has served."""

    def __init__(self, served: list[str]) -> None:
        self.served = served

    @operation()
    def serve(self, tenant: str | int | None = None) -> None:
        self.served.append(str(tenant))


class Desks(Component):
    def __init__(self) -> None:
        self.served: list[str] = []

    def setup(self) -> None:
        self.add(Desk(self.served), key="one")


@pytest.mark.parametrize(
    ("fair_by", "expected"),
    [
        (None, ["a", "a", "a", "a", "b", "b"]),
        ("arguments.tenant", ["a", "b", "a", "b", "a", "a"]),
        ("principal", ["a", "b", "a", "b", "a", "a"]),
        ("source", ["a", "b", "a", "b", "a", "a"]),
    ],
)
def test_it_is_an_option_of_the_backplane(fair_by: str | None, expected: list[str]) -> None:
    """Off by default: who came first is what most people expect."""
    desks = Desks()
    backplane = VirtualBackplane(desks, fair_by=fair_by)
    backplane.run_until_idle()
    engine = backplane.backplane.engine
    for who in "aaaabb":
        peer = f"{who}/1".encode() if fair_by == "source" else b"virtual"
        principal = who if fair_by == "principal" else None
        envelope = Envelope(CAST, 0, None, "desks.serve", "one", body={"tenant": who}, principal=principal)
        engine.intake.accept(b"" if principal else peer, envelope, engine.now_ns())
    backplane.run_until_idle()
    assert desks.served == expected


def test_who_names_no_key_shares_the_empty_one() -> None:
    """And a key of another type than text or number is none."""
    desks = Desks()
    backplane = VirtualBackplane(desks, fair_by="arguments.tenant", weights={"gold*": 2})
    backplane.run_until_idle()
    engine = backplane.backplane.engine
    for tenant in ("golden", "golden", "golden", "golden", None, None, 7):
        body = {} if tenant is None else {"tenant": tenant}
        engine.intake.accept(b"x", Envelope(CAST, 0, None, "desks.serve", "one", body=body), engine.now_ns())
    backplane.run_until_idle()
    assert desks.served == ["golden", "None", "7", "golden", "golden", "None", "golden"]
