"""Endings: what is counted as an error of an operation is what it raised, and nothing that was done to it."""

from __future__ import annotations

from enum import Enum
from typing import Any

from appbackplane.runtime import Component, StateMachine, every, operation, pause
from appbackplane.runtime.execution.endings import FAILING_MIN
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


def test_a_timer_that_fails_each_time_is_known_until_it_does_well() -> None:
    """Nobody has called it, so nobody is told but the log."""
    clock = Clock()
    backplane = VirtualBackplane(clock)
    endings = backplane.backplane.engine.endings
    backplane.advance(FAILING_MIN - 0.5)
    assert endings.failing == set(), "it may be an accident"
    backplane.advance(1)
    assert endings.failing == {"clock.tick"}
    assert backplane.backplane.engine.statistics.of("clock.tick").snapshot()["failing"] == FAILING_MIN
    clock.is_mended = True
    backplane.advance(1)
    assert endings.failing == set()
    assert backplane.backplane.engine.statistics.of("clock.tick").snapshot()["failing"] == 0


def test_what_an_operation_raises_is_its_error() -> None:
    """And what it is counted for."""
    backplane = VirtualBackplane(Gate())
    backplane.call("gate.stumble").error()
    assert told(backplane, "stumble") == {"errors": 1}
