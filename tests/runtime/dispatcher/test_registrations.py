"""Registrations: changed at run time by handlers that are given them, or never."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.runtime.dispatcher import (
    Accessor,
    DataProtector,
    Dispatcher,
    Message,
    RegistrationError,
    message,
)
from appbackplane.runtime.dispatcher.registrations import Registrations
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import FailedPrecondition, NotFound


@message(category=920, id=1)
class Mode(Message):
    name: str


@message(category=920, id=2)
class Ring(Message):
    pass


@message(category=920, id=3)
class Unheard(Message):
    pass


class Bell:
    def __init__(self) -> None:
        self.rings: list[str] = []


def ring(_: Ring, bell: Bell) -> None:
    bell.rings.append("ring")


def ring_loudly(_: Ring, bell: Bell) -> None:
    bell.rings.append("RING")


def ring_far_away(message: Ring, bell: Accessor[Bell]) -> None:
    with bell.lock() as found:
        found.rings.append("far away")


def hear(_: Unheard) -> None: ...


class House(Dispatcher):
    """Its mode decides who answers the bell."""

    def __init__(self) -> None:
        self.bell = Bell()

    def setup(self) -> None:
        bell = DataProtector(self.bell)

        def on_mode(mode: Mode, registrations: Registrations) -> None:
            if mode.name == "loud":
                registrations.register(ring_loudly, bell)
            elif mode.name == "quiet":
                registrations.unregister(ring_loudly)
            elif mode.name == "far":
                registrations.register(ring_far_away, bell.accessor)
            elif mode.name == "new":
                registrations.register(hear)
            else:
                registrations.register(ring_loudly)  # type: ignore[call-overload]

        self.register(ring, bell)
        self.register(on_mode, self.registrations)


def test_handlers_change_what_is_registered() -> None:
    """The paper's future work: the dispatcher as protected data."""
    house = House()
    backplane = VirtualBackplane(house)
    for mode in ("loud", "quiet", "far"):
        backplane.call("house.mode", name=mode).result()
        backplane.call("house.ring").result()
    assert house.bell.rings == ["ring", "RING", "ring", "ring", "far away"]


def test_what_holds_is_looked_up_when_the_turn_of_a_message_has_come() -> None:
    """A message that was queued before the change is handled by those that are registered now."""
    house = House()
    backplane = VirtualBackplane(house)
    mode = backplane.call("house.mode", name="loud", priority=0)
    ringing = backplane.call("house.ring", priority=7)
    assert ringing.result() is None and mode.done()
    assert house.bell.rings == ["ring", "RING"]


@pytest.mark.parametrize(
    ("mode", "error", "says"),
    [
        ("quiet", NotFound, "ring_loudly is not registered with virtual/house"),
        ("new", FailedPrecondition, "Unheard has no route in virtual/house: a message needs a handler in setup"),
        ("nonsense", None, "nothing is registered for parameter 'bell'"),
    ],
)
def test_what_cannot_be_changed_is_refused_and_nothing_has_changed(mode: str, error: Any, says: str) -> None:
    """Each with its reason."""
    house = House()
    backplane = VirtualBackplane(house)
    found = backplane.call("house.mode", name=mode).error()
    assert says in str(found) and (error is None or isinstance(found, error))
    assert [each.name for each in house.entries].count("ring") == 1 and len(house.entries) == 2


def test_nobody_changes_registrations_from_outside_once_it_runs() -> None:
    """There the table may be in use."""
    house = House()
    _ = VirtualBackplane(house).backplane
    with pytest.raises(FailedPrecondition, match=r"register handlers in setup\(\), or in a handler"):
        house.register(hear)


def test_a_frozen_dispatcher_hands_its_registrations_to_nobody() -> None:
    """Where certification forbids it (seed 003, section 6)."""

    class Certified(House):
        frozen = True

    with pytest.raises(RegistrationError, match="Certified is frozen"):
        _ = VirtualBackplane(Certified()).backplane


def test_what_is_frozen_is_frozen_for_whoever_makes_registrations_of_his_own() -> None:
    """`Registrations(house)` is a line that anybody can write."""

    class Certified(Dispatcher):
        frozen = True

        def setup(self) -> None:
            self.register(hear)

    house = Certified()
    _ = VirtualBackplane(house).backplane
    for change in (lambda: Registrations(house).unregister(hear), lambda: Registrations(house).register(hear)):
        with pytest.raises(RegistrationError, match="Certified is frozen"):
            change()
    assert [each.name for each in house.entries] == ["hear"]


def test_two_answers_to_one_message_are_refused() -> None:
    """Its caller gets one result; which, nobody could say."""

    def first(_: Ring) -> int:
        return 1

    def second(_: Ring) -> str:
        return "2"

    class Twice(Dispatcher):
        def setup(self) -> None:
            self.register(first)
            self.register(second)

    with pytest.raises(RegistrationError, match="both return a result for the caller of Ring: only one may answer"):
        _ = VirtualBackplane(Twice()).backplane


def test_the_same_handler_twice_is_refused() -> None:
    """It would be called twice a message."""

    class Twice(Dispatcher):
        def setup(self) -> None:
            self.register(hear)
            self.register(hear)

    with pytest.raises(RegistrationError, match="hear is registered for Unheard already"):
        _ = VirtualBackplane(Twice()).backplane
