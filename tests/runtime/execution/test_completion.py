"""Endings: what is counted as an error of an operation is what it raised, and nothing that was done to it."""

from __future__ import annotations

from enum import Enum
from typing import Any

from appbackplane.runtime import AppObject, Component, StateMachine, every, operation, pause
from appbackplane.runtime.execution.actions.completion import FAILING_MIN
from appbackplane.runtime.testing import VirtualBackplane


class Door(Enum):
    """Of the gate."""

    OPEN = 1
    SHUT = 2


class Gate(Component, StateMachine):
    """Shut, and patient."""

    initial = Door.SHUT

    @operation(accepted_in=[Door.OPEN])
    def enter(self) -> None:
        """Not now."""

    @operation(accepted_in=[Door.OPEN], otherwise="defer")
    def queue(self) -> None:
        """Later."""

    @operation()
    async def linger(self) -> None:
        """For long."""
        await pause(60)

    @operation()
    def stumble(self) -> None:
        """Its own fault."""
        raise ValueError("a step")


class Clock(Component):
    """Broken at first."""

    is_mended = False

    @every(1.0)
    def tick(self) -> None:
        """Each second."""
        if not self.is_mended:
            raise ValueError("tock")


def told(backplane: VirtualBackplane, operation: str) -> dict[str, Any]:
    """How it ended, by the statistics; what is 0 left out."""
    account = backplane.backplane.engine.statistics.of(f"gate.{operation}").snapshot()
    return {key: account[key] for key in ("errors", "refused", "cancelled", "expired") if account[key]}


def test_what_a_client_takes_back_is_no_error() -> None:
    """Every impatient client made a healthy operation look broken. Before it began, beside its queue, and while it waits."""
    backplane = VirtualBackplane(Gate())
    for name in ("linger", "queue"):
        taken_back = backplane.call(f"gate.{name}")
        backplane.run_until_idle()
        taken_back.cancel()
        backplane.run_until_idle()
        assert told(backplane, name) == {"cancelled": 1}
    backplane.call("gate.stumble").cancel()
    backplane.run_until_idle()
    assert told(backplane, "stumble") == {"cancelled": 1}


def test_what_a_state_refuses_is_refused_and_no_error() -> None:
    """The gate does what it is made for."""
    backplane = VirtualBackplane(Gate())
    assert "is not accepted by" in str(backplane.call("gate.enter").error())
    assert told(backplane, "enter") == {"refused": 1}


def test_what_was_never_begun_is_expired_and_no_error() -> None:
    """Its deadline passed in the queue."""
    backplane = VirtualBackplane(Gate())
    late = backplane.call("gate.queue", timeout=1)
    backplane.advance(2)
    late.error()
    assert told(backplane, "queue") == {"expired": 1}


def failing(backplane: VirtualBackplane, name: str) -> tuple[int, int]:
    """Timers that fail each time, and how often in a row the one of this name has failed."""
    operations = backplane.backplane.statistics()["operations"]
    return backplane.backplane.engine.completion.failing_count(), operations[name]["failing"]


def test_a_timer_that_fails_each_time_is_known_until_it_does_well() -> None:
    """Nobody has called it, so nobody is told but the log."""
    clock = Clock()
    backplane = VirtualBackplane(clock)
    backplane.advance(FAILING_MIN - 0.5)
    assert failing(backplane, "clock.tick") == (0, FAILING_MIN - 1), "it may be an accident"
    backplane.advance(1)
    assert failing(backplane, "clock.tick") == (1, FAILING_MIN)
    clock.is_mended = True
    backplane.advance(1)
    assert failing(backplane, "clock.tick") == (0, 0)


class Lamp(AppObject):
    """One of several."""

    def __init__(self, *, is_broken: bool) -> None:
        self.is_broken = is_broken

    @every(1.0)
    def glow(self) -> None:
        """Each second."""
        if self.is_broken:
            raise ValueError("dark")

    @operation()
    def flash(self) -> None:
        """Three times, once each."""
        for _ in range(FAILING_MIN):
            self.after(0.1, self.glow_once)

    def glow_once(self) -> None:
        raise ValueError("dark")


class Street(Component):
    """Ten lamps, the second of which is broken."""

    def setup(self) -> None:
        self.lamps = [Lamp(is_broken=number == 1) for number in range(10)]
        for number, lamp in enumerate(self.lamps):
            self.add(lamp, key=str(number))


def test_of_many_objects_that_one_timer_fails_is_known() -> None:
    """Those of the others do well in between."""
    backplane = VirtualBackplane(Street())
    backplane.advance(5.5)
    assert failing(backplane, "street.glow") == (1, 5)


def test_what_was_set_once_and_failed_is_no_timer_that_fails_each_time() -> None:
    """It does not come back: it would be named for ever."""
    backplane = VirtualBackplane(Street())
    backplane.call("street.flash", key="0").result()
    backplane.advance(0.5)
    assert not backplane.backplane.engine.completion._failing, "thousands of them may come between two looks"
    assert failing(backplane, "street.glow_once") == (0, 0)


def test_a_timer_of_an_object_that_was_removed_fails_no_more() -> None:
    """It would be named for ever."""
    street = Street()
    backplane = VirtualBackplane(street)
    backplane.advance(5.5)
    street.remove(street.lamps[1])
    assert failing(backplane, "street.glow") == (0, 0)


def test_what_an_operation_raises_is_its_error() -> None:
    """And what it is counted for."""
    backplane = VirtualBackplane(Gate())
    backplane.call("gate.stumble").error()
    assert told(backplane, "stumble") == {"errors": 1}
