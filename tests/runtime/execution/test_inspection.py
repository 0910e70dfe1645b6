"""Inspection: what is found in the queues of a whole backplane, and that looking has a bound and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest

from appbackplane.runtime import AppObject, Component, StateMachine, operation, pause
from appbackplane.runtime.execution.services import inspection
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.envelope import CAST, Envelope
from appbackplane.transport.errors import InvalidArgument, NotFound


class Stage(Enum):
    SHUT = "shut"
    OPEN = "open"


class Gate(StateMachine):
    initial = Stage.SHUT

    @operation(accepted_in=(Stage.OPEN,), otherwise="defer")
    def walk(self) -> None: ...


class Clerk(AppObject):
    @operation(priority=3)
    async def fetch(self) -> Any:
        return await self.call("archive.find")

    @operation(priority=3)
    async def delegate(self, to: str) -> Any:
        return await self.call("office.fetch", key=to)

    @operation(priority=3)
    async def nap(self) -> None:
        await pause(2.0)

    @operation(priority=3)
    def stamp(self) -> None: ...

    @operation(priority=5, digest="whose")
    def search(self) -> None: ...


class Office(Component):
    max_requests = 40

    def setup(self) -> None:
        for key in "abc":
            self.add(Clerk(), key=key)
        self.add(Gate(), key="gate")

    @operation(states=("secondary",))
    def stand_in(self) -> None: ...

    def whose(self) -> str:
        return "a"


@pytest.fixture
def office() -> VirtualBackplane:
    return VirtualBackplane(Office(), outside=("archive.find",), quotas=(0, 4, 2, 1), tick=1.0)


def reasons(office: VirtualBackplane, asked: str) -> list[str]:
    """The kinds of the last step."""
    return [reason["because"] for reason in office.backplane.why(asked)["steps"][-1]["reasons"]]


def take_in(office: VirtualBackplane) -> None:
    """Hear what was said, and run nothing."""
    office.backplane.engine.drain(office.clock.now_ns())


def test_a_call_inside_the_backplane_is_followed_at_once(office: VirtualBackplane) -> None:
    """Two steps of one answer, and the name of the call to ask about elsewhere."""
    office.call("office.delegate", key="a", to="b")
    office.run_until_idle()
    answer = office.backplane.why("virtual:test:2")
    assert [(step["route"], step["object"]) for step in answer["steps"]] == [
        ("office.delegate", "virtual/office.a"),
        ("office.fetch", "virtual/office.b"),
    ]
    assert [r["because"] for step in answer["steps"] for r in step["reasons"]] == ["awaits", "awaits"]
    (outside,) = office.outside_calls()
    assert answer["next"] == {"backplane": "outside", "call": f"outside:virtual-1:{outside.envelope.id}"}


def test_a_chain_within_has_an_end(office: VirtualBackplane, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lead is not held for as long as somebody's chain of calls is."""
    monkeypatch.setattr(inspection, "STEPS_MAX", 1)
    office.call("office.delegate", key="a", to="b")
    office.run_until_idle()
    answer = office.backplane.why("virtual:test:2")
    assert (len(answer["steps"]), answer["next"]) == (1, None)


def _pauses(office: VirtualBackplane) -> str:
    office.call("office.nap", key="a")
    office.run_until_idle()
    return "virtual:test:2"


def _object_pauses(office: VirtualBackplane) -> str:
    _pauses(office)
    office.call("office.stamp", key="a")
    take_in(office)
    return "virtual/office.a"


def _second_in_its_object(office: VirtualBackplane) -> str:
    for _ in range(2):
        office.call("office.stamp", key="a")
    take_in(office)
    return "virtual:test:3"


def _deferred(office: VirtualBackplane) -> str:
    office.call("office.walk", key="gate")
    office.run_until_idle()
    return "virtual/office.gate"


def _digested(office: VirtualBackplane) -> str:
    office.call("office.search")
    take_in(office)
    return "office.search"


def _digester_by_name(office: VirtualBackplane) -> str:
    _digested(office)
    return "virtual/office.digester"


def _behind_others(office: VirtualBackplane) -> str:
    for key in "abc":
        office.call("office.stamp", key=key)
    take_in(office)
    return "virtual/office.c"


def _behind_more_urgent(office: VirtualBackplane) -> str:
    for key in "abc":
        office.call("office.stamp", key=key, priority=3 if key == "c" else 1)
    take_in(office)
    return "virtual/office.c"


def _quota_spent(office: VirtualBackplane) -> str:
    office.call("office.stamp", key="a")
    office.call("office.stamp", key="b", priority=2)
    take_in(office)
    office.backplane.engine.scheduler.quotas.left[3] = 0
    return "virtual/office.a"


def _budget_spent(office: VirtualBackplane) -> str:
    office.backplane.engine.scheduler.budget.change(10)
    office.backplane.engine.scheduler.budget.charge(1_000_000_000)
    office.call("office.stamp", key="a")
    take_in(office)
    return "virtual:test:2"


def _full(office: VirtualBackplane) -> str:
    for caller in (b"one", b"two"):  # one alone would not get all places
        for _ in range(20):
            office.hear(Envelope(CAST, 0, None, "office.walk", "gate", None, None, {}), caller)
    office.run_until_idle()
    return "virtual/office.b"


@pytest.mark.parametrize(
    ("arrange", "expected"),
    [
        (_pauses, ["pauses"]),
        (_object_pauses, ["object_pauses"]),
        (_second_in_its_object, ["behind", "next"]),
        (_deferred, ["deferred"]),
        (_digested, ["digested", "next"]),
        (_digester_by_name, ["digested", "next"]),
        (_behind_others, ["queue"]),
        (_behind_more_urgent, ["more_urgent"]),
        (_quota_spent, ["quota", "more_urgent"]),
        (_budget_spent, ["cpu_budget"]),
        (_full, ["idle", "throttled"]),
        (lambda office: "virtual:test:1", ["not_here"]),
        (lambda office: "virtual/office", ["idle"]),
        (lambda office: "office.stamp", ["idle"]),
    ],
)
def test_what_keeps_it_waiting_is_found(
    office: VirtualBackplane, arrange: Callable[[VirtualBackplane], str], expected: list[str]
) -> None:
    """Each law that may hold something up, with work that it holds up."""
    assert reasons(office, arrange(office)) == expected


def test_of_a_component_the_oldest_of_all_its_objects_is_told(office: VirtualBackplane) -> None:
    """Who asks about a component does not know which object stands still; "nothing to do" would send him elsewhere."""
    assert reasons(office, "virtual/office") == ["idle"]
    office.call("office.nap", key="b")
    office.run_until_idle()
    office.clock.sleep(0.001)
    office.call("office.stamp", key="a")
    office.call("office.stamp", key="b")
    take_in(office)
    (step,) = office.backplane.why("virtual/office")["steps"]
    assert (step["object"], step["route"], step["count"]) == ("virtual/office.b", "office.nap", 3)
    assert reasons(office, "virtual/office") == ["pauses"]


def test_a_component_that_does_not_serve_is_the_reason() -> None:
    """Else its callers look for load where there is none."""
    office = VirtualBackplane(Office(), role=None)
    assert reasons(office, "office.stamp") == ["idle", "state"]
    office = VirtualBackplane(Office())
    assert reasons(office, "office.stand_in") == ["idle", "state"], "one operation that is not served in this state"


def test_looking_changes_nothing(office: VirtualBackplane) -> None:
    """What is asked about in an incident must not be disturbed by it."""
    twin = VirtualBackplane(Office(), outside=("archive.find",), quotas=(0, 4, 2, 1), tick=1.0)
    for one in (office, twin):
        for key in "abcabc":
            one.call("office.stamp", key=key)
        one.call("office.search")
        take_in(one)
    names = ["office.stamp", "office.search", *(f"virtual/office.{key}" for key in "abc"), "virtual:test:5"]
    before = office.backplane.statistics()
    for name in names:
        office.backplane.why(name, with_stack=True)
    assert office.backplane.statistics() == before
    assert office.run_until_idle() == twin.run_until_idle()


def test_a_look_has_a_bound_and_says_so(office: VirtualBackplane, monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 objects must not hold the lead while somebody counts them."""
    monkeypatch.setattr(inspection, "LOOK_MAX", 1)
    name = _behind_others(office)
    (step,) = office.backplane.why(name)["steps"]
    assert step["reasons"][0]["text"].startswith("at least 1 object before")


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ("virtual/office.z", NotFound),
        ("other/office.a", NotFound),
        ("office.nothing", NotFound),
        ("virtual:test", InvalidArgument),
        ("virtual:test:x", InvalidArgument),
        ("other:test:1", NotFound),
    ],
)
def test_what_is_not_here_is_an_error(office: VirtualBackplane, asked: str, kind: type[Exception]) -> None:
    """An answer about nothing would look like one that all is well."""
    with pytest.raises(kind):
        office.backplane.why(asked)


def test_ages_are_those_of_the_first_actions(office: VirtualBackplane) -> None:
    """Depth beside age: a long queue may be young, and a short one may have been standing still for hours."""
    office.call("office.stamp", key="a")
    take_in(office)
    office.clock.sleep(1.0)
    for key in "abbb":
        office.call("office.stamp", key=key)
    take_in(office)
    office.clock.sleep(0.5)
    statistics = office.backplane.statistics()
    assert (statistics["queues"]["ready"][3], statistics["queues"]["oldest_ms"][3]) == (2, 1500.0)
    assert [(o["object"], o["oldest_ms"], o["outstanding"]) for o in statistics["oldest"]["objects"]] == [
        ("virtual/office.a", 1500.0, 2),
        ("virtual/office.b", 500.0, 3),
    ]
    assert [c["call"] for c in statistics["oldest"]["calls"]] == [f"virtual:test:{n}" for n in range(2, 7)]


def test_what_goes_first_is_named(office: VirtualBackplane) -> None:
    """`3 actions before it` leaves the question of which ones."""
    for key in "ab":
        for name in ("nap", "stamp", "nap"):
            office.call(f"office.{name}", key=key)
    take_in(office)
    texts = [reason["text"] for reason in office.backplane.why("virtual:test:7")["steps"][0]["reasons"]]
    assert any("2 actions of virtual/office.b before it (office.nap, office.stamp)" in text for text in texts), texts
    assert any("1 object before virtual/office.b in ready queue 3 (virtual/office.a)" in text for text in texts), texts
