"""StateMachine: what is accepted in which state; the waiting of what is deferred is tested in tests/runtime/execution."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from appbackplane.runtime.objects.app_object import AppObject
from appbackplane.runtime.objects.operation import DeclarationError, operation, subscribe
from appbackplane.runtime.objects.state_machine import StateMachine
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import Cancelled, DeadlineExceeded, FailedPrecondition


class Door(enum.Enum):
    OPEN = "open"
    SHUT = "shut"
    LOCKED = "locked"


class Other(enum.Enum):
    OPEN = "open"


class DoorMachine(StateMachine):
    initial = Door.SHUT

    def __init__(self) -> None:
        self.seen: list[str] = []

    @operation(accepted_in=[Door.SHUT])
    def open(self) -> None:
        self.become(Door.OPEN)

    @operation()
    def shut(self) -> None:
        self.become(Door.SHUT)

    @operation(accepted_in=[Door.OPEN], otherwise="defer")
    def walk(self, who: str) -> str:
        self.seen.append(who)
        return who

    @operation(accepted_in=[Door.OPEN], otherwise="defer")
    def slam(self) -> None:
        self.seen.append("slam")
        self.become(Door.SHUT)


def machine() -> tuple[VirtualBackplane, DoorMachine]:
    backplane = VirtualBackplane()
    return backplane, backplane.add(DoorMachine())


def test_it_begins_in_its_initial_state() -> None:
    """Each machine has a state of its own."""
    first, second = DoorMachine(), DoorMachine()
    first._machine_state = Door.OPEN
    assert (first.state, second.state) == (Door.OPEN, Door.SHUT)


def test_what_is_not_accepted_is_refused_and_says_in_which_state() -> None:
    """The caller can do something about it only if it knows."""
    backplane, door = machine()
    backplane.call("bench.open").result()
    error = backplane.call("bench.open").error()
    assert isinstance(error, FailedPrecondition)
    assert "bench.open is not accepted by virtual/bench.0 in state OPEN (accepted in: SHUT)" in str(error)
    assert door.state is Door.OPEN


def test_what_is_deferred_runs_in_its_order_before_anything_newer() -> None:
    """The postpone rule of OTP's gen_statem. In another order, a protocol that relies on it breaks (DESIGN 12.7)."""
    backplane, door = machine()
    calls = [backplane.call("bench.walk", who=who) for who in "abc"]
    backplane.run_until_idle()
    assert not any(call.done() for call in calls)
    backplane.post(door, "open")
    newer = backplane.call("bench.walk", who="newer")
    backplane.run_until_idle()
    assert door.seen == ["a", "b", "c", "newer"]
    assert [call.result() for call in [*calls, newer]] == ["a", "b", "c", "newer"]


def test_a_change_of_state_in_between_defers_the_rest_again() -> None:
    """Deferred work that runs in the wrong state is what deferring is there to prevent."""
    backplane, door = machine()
    for operation_name, arguments in (("walk", {"who": "a"}), ("slam", {}), ("walk", {"who": "b"})):
        backplane.cast(f"bench.{operation_name}", **arguments)
    backplane.post(door, "open")
    backplane.run_until_idle()
    assert (door.seen, door.state) == (["a", "slam"], Door.SHUT)
    backplane.post(door, "open")
    backplane.run_until_idle()
    assert door.seen == ["a", "slam", "b"]


def test_deferred_work_that_is_taken_back_leaves_at_once_and_never_runs() -> None:
    """Its caller has gone, by its deadline or by itself: it would take a place until some day, and then be done for nobody."""
    backplane, door = machine()
    call = backplane.call("bench.walk", who="late")
    other = backplane.call("bench.walk", who="patient")
    backplane.run_until_idle()
    call.cancel()
    assert isinstance(call.error(), Cancelled)
    backplane.call("bench.open").result()
    assert other.result() == "patient"
    assert door.seen == ["patient"]
    assert door._load == 0
    assert backplane.backplane.statistics()["components"]["bench"]["outstanding"] == 0


def test_deferred_work_ends_by_its_deadline_at_the_latest() -> None:
    """Its caller was killed and says no word. Ten thousand of these, and the component is busy for ever."""
    backplane, door = machine()
    call = backplane.call("bench.walk", who="late", timeout=1.0)
    other = backplane.call("bench.walk", who="patient", timeout=5.0)
    backplane.advance(2.0)
    assert isinstance(call.error(), DeadlineExceeded)
    assert not other.done()
    figures = backplane.backplane.statistics()
    assert figures["components"]["bench"]["outstanding"] == 1
    assert figures["operations"]["bench.walk"]["expired"] == 1
    backplane.call("bench.open").result()
    assert other.result() == "patient"
    backplane.advance(10.0)
    assert door.seen == ["patient"]
    assert (door._load, backplane.backplane.engine.deferring.next_deadline_ns()) == (0, None)


def test_a_machine_that_keeps_deferred_work_cannot_be_removed() -> None:
    """Nothing is dropped silently: its callers would wait until their deadlines, and never know why."""
    backplane, door = machine()
    call = backplane.call("bench.walk", who="a")
    backplane.run_until_idle()
    component = door._component
    assert component is not None
    with pytest.raises(FailedPrecondition, match="1 actions outstanding"):
        component.remove(door)
    backplane.post(door, "open")
    assert call.result() == "a"
    component.remove(door)


def test_waiting_beside_the_queue_is_counted_once() -> None:
    """Law 11. A wait that is counted twice sends people to look for a queue that is not there."""
    backplane, door = machine()
    backplane.call("bench.walk", who="a")
    backplane.advance(2)
    backplane.post(door, "open")
    backplane.run_until_idle()
    wait = backplane.backplane.statistics()["operations"]["bench.walk"]["wait"]
    assert (wait["count"], wait["max_us"]) == (1, 2_000_000.0)


def test_wrong_machines_are_refused_when_declared() -> None:
    """A state of another machine is accepted never, and nobody would see why."""
    with pytest.raises(DeclarationError, match="initial: expected a member of an Enum, got None"):
        type("Lost", (StateMachine,), {})

    def odd(self: Any) -> None: ...

    with pytest.raises(DeclarationError, match=r"Mixed\.odd: .*OPEN.* is no Door"):
        type("Mixed", (StateMachine,), {"initial": Door.SHUT, "odd": operation(accepted_in=[Other.OPEN])(odd)})
    with pytest.raises(TypeError, match="has no state"):
        DoorMachine().become(Other.OPEN)


class Reader(StateMachine):
    """Hears of letters, if the door is open."""

    initial = Door.SHUT

    def __init__(self) -> None:
        self.read: list[str] = []

    @operation()
    def open(self) -> None:
        self.become(Door.OPEN)

    @subscribe("letters", accepted_in=(Door.OPEN,))
    def on_letter(self, text: str) -> None:
        self.read.append(text)


def test_a_message_in_another_state_is_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The state counts when its turn comes: a letter behind the call that opens the door is read."""
    backplane = VirtualBackplane()
    reader = backplane.add(Reader())
    backplane.publish("letters", text="early")
    backplane.run_until_idle()
    backplane.call("bench.open")
    backplane.publish("letters", text="late")
    backplane.run_until_idle()
    account = backplane.backplane.statistics()["operations"]["bench.on_letter"]
    assert reader.read == ["late"]
    assert (account["count"], account["refused"], account["errors"]) == (2, 1, 0)
    assert not caplog.records


def test_a_cast_in_another_state_is_still_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Its sender expected it to be done."""
    backplane, _ = machine()
    backplane.call("bench.open").result()
    backplane.cast("bench.open")
    backplane.run_until_idle()
    assert "bench.open is not accepted by virtual/bench.0 in state OPEN" in caplog.text


def test_states_of_a_subscription_are_those_of_its_machine() -> None:
    """An object without states would hear nothing, or everything."""
    with pytest.raises(DeclarationError, match=r"on_letter: .* is no Door"):

        class Wrong(StateMachine):
            initial = Door.SHUT

            @subscribe("letters", accepted_in=(Other.OPEN,))
            def on_letter(self, text: str) -> None: ...

    class Stateless(AppObject):
        @subscribe("letters", accepted_in=(Door.OPEN,))
        def on_letter(self, text: str) -> None: ...

    backplane = VirtualBackplane()
    backplane.add(Stateless())
    with pytest.raises(DeclarationError, match=r"Stateless.on_letter: accepted_in is for a StateMachine"):
        _ = backplane.backplane
