"""Observed data: what a handler changes becomes a message, once, after it (seed 003, sections 3.1 and 5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from appbackplane.runtime.dispatcher import (
    Accessor,
    DataProtector,
    Dispatcher,
    Message,
    Observed,
    Read,
    SelectiveProtector,
    changes_of,
    message,
    on_change,
)
from appbackplane.runtime.objects.operation import DeclarationError
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import Busy, InternalError


@message(category=962, id=1, key="room")
class Reading(Message):
    room: str
    celsius: float


@message(category=962, id=2, key="room")
class Warmer(Message):
    """Business: the temperature of a room is another one."""

    room: str
    celsius: float


@message(category=962, id=3)
class TooHot(Message):
    room: str


@message(category=962, id=4)
class Look(Message):
    room: str = "attic"


@message(category=962, id=5)
class Unheard(Message):
    pass


@dataclass
class Room(Observed):
    name: str
    celsius: float = 20.0
    history: list[float] = field(default_factory=list)
    visits: int = 0

    @on_change("celsius")
    def temperature(self) -> Warmer:
        return Warmer(self.name, self.celsius)

    @on_change("celsius", "history")
    def alarm(self) -> TooHot | None:
        return TooHot(self.name) if self.celsius > 30 else None


class Journal:
    def __init__(self) -> None:
        self.lines: list[str] = []


def read(message: Reading, room: Room) -> None:
    for degrees in (1.0, 2.0, message.celsius):
        room.celsius = degrees
    room.visits += 1


def then_fail(message: Reading, room: Room) -> None:
    if message.celsius == 666:
        room.celsius = 667
        raise ValueError("the sensor is mad")


def warmer(message: Warmer, room: Read[Room], journal: Journal) -> None:
    journal.lines.append(f"{message.room} {message.celsius} (now {room.celsius})")


def too_hot(message: TooHot, journal: Journal) -> None:
    journal.lines.append(f"{message.room}!")


def meddle(message: Look, room: Read[Room]) -> None:
    room.visits += 1


class House(Dispatcher):
    def __init__(self) -> None:
        self.journal = Journal()
        self.rooms: dict[str, Room] = {}

    def make(self, name: str) -> Room:
        return self.rooms.setdefault(name, Room(name))

    def setup(self) -> None:
        rooms = SelectiveProtector[str, Room](self.make, by="room")
        journal = DataProtector(self.journal)
        self.register(read, rooms)
        self.register(then_fail, rooms)
        self.register(warmer, rooms, journal)
        self.register(too_hot, journal)
        self.register(meddle, rooms)


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def backplane(house: House) -> VirtualBackplane:
    return VirtualBackplane(house)


def test_a_handler_is_tested_by_asking_for_the_changes() -> None:
    """What the constructor sets is none, and what was asked for once is not told again."""
    room = Room("attic", 15.0)
    assert changes_of(room) == []
    read(Reading("attic", 31.0), room)
    assert changes_of(room) == [Warmer("attic", 31.0), TooHot("attic")]
    assert changes_of(room) == []


def test_a_change_is_told_once_after_the_handler(house: House, backplane: VirtualBackplane) -> None:
    """With the value as of then: what it went through in between is nobody's business."""
    backplane.call("house.reading", room="attic", celsius=25.0).result()
    assert house.journal.lines == ["attic 25.0 (now 25.0)"]


def test_what_is_as_before_has_not_changed(house: House, backplane: VirtualBackplane) -> None:
    """A reading that says the same again would set off all that follows from it."""
    for _ in range(3):
        backplane.call("house.reading", room="attic", celsius=25.0).result()
    assert house.journal.lines == ["attic 25.0 (now 25.0)"]
    assert house.rooms["attic"].visits == 3, "what is not observed is as it always was"


def test_nothing_is_told_where_there_is_nothing_to_say(house: House, backplane: VirtualBackplane) -> None:
    """Conditions belong to the datum."""
    backplane.call("house.reading", room="attic", celsius=29.0).result()
    assert "attic!" not in house.journal.lines
    backplane.call("house.reading", room="attic", celsius=31.0).result()
    assert house.journal.lines[-2:] == ["attic 31.0 (now 31.0)", "attic!"]


def test_what_a_failing_handler_has_changed_is_told(house: House, backplane: VirtualBackplane) -> None:
    """It stays as the handler left it; so who follows it has to know."""
    assert isinstance(backplane.call("house.reading", room="attic", celsius=666.0).error(), InternalError)
    assert house.journal.lines[:2] == ["attic 666.0 (now 667)", "attic!"]
    assert "attic 667 (now 667)" in house.journal.lines, "once for each handler"


def test_a_change_by_a_reader_is_an_error(house: House, backplane: VirtualBackplane) -> None:
    """Others are reading it at the same time."""
    error = backplane.call("house.look").error()
    assert isinstance(error, InternalError)
    assert "handler meddle raised ChangedUnlocked: make 'attic'.visits was set by a handler that only reads it" in str(
        error
    )
    assert house.rooms["attic"].visits == 0


def test_a_change_from_outside_is_an_error(house: House, backplane: VirtualBackplane) -> None:
    """A datum that somebody has kept is nobody's to change; and so is one whose handler has returned."""
    backplane.call("house.reading", room="attic", celsius=25.0).result()
    for change in (lambda room: setattr(room, "celsius", 1.0), lambda room: delattr(room, "celsius"),
                   lambda room: room.touch("celsius")):  # fmt: skip
        with pytest.raises(
            AttributeError, match="set outside of the handlers that it is registered with: send a message"
        ):
            change(house.rooms["attic"])
    assert house.rooms["attic"].celsius == 25.0


def test_what_changes_inside_has_to_be_said() -> None:
    """Setting fields is seen, appending to one is not."""
    room = Room("attic", 35.0)
    room.history.append(1.0)
    assert changes_of(room) == []
    room.touch("history")
    assert changes_of(room) == [TooHot("attic")]
    with pytest.raises(DeclarationError, match="no @on_change names it"):
        room.touch("visits")


class Odd:
    """Compares like an array."""

    def __eq__(self, other: object) -> Any:
        raise ValueError("the truth value is ambiguous")

    __hash__ = None  # type: ignore[assignment]


def test_values_that_cannot_be_compared_have_changed() -> None:
    """Rather once too often than never."""
    room = Room("attic", 35.0)
    room.history = Odd()  # type: ignore[assignment]
    assert changes_of(room) == [TooHot("attic")]


def test_rules_are_inherited_and_overridden() -> None:
    """As methods are."""

    class Cellar(Room):
        depth: float = 2.0

        def alarm(self) -> TooHot | None:  # without @on_change: it is no rule any more
            return TooHot("never")

        @on_change("depth")
        def deeper(self) -> Warmer:
            return Warmer(self.name, -self.depth)

    cellar = Cellar("cellar")
    cellar.celsius, cellar.depth = 40.0, 3.0
    assert changes_of(cellar) == [Warmer("cellar", 40.0), Warmer("cellar", -3.0)]


def test_a_field_that_there_is_not_is_refused() -> None:
    """When the class is made; a misspelt rule would be silent for ever."""
    with pytest.raises(DeclarationError, match=r"Typo.tell: @on_change\('celsuis'\).*did you mean 'celsius'"):

        class Typo(Observed):
            celsius: float = 0.0

            @on_change("celsuis")
            def tell(self) -> TooHot:
                return TooHot("x")

    with pytest.raises(DeclarationError, match="needs the names"):
        on_change()


# -- with accessors ----------------------------------------------------------------------------------------------------


@dataclass
class Meter(Observed):
    total: int = 0

    @on_change("total")
    def tell(self) -> Warmer:
        return Warmer("meter", self.total)


def through_accessor(message: Look, room: Room, meter: Accessor[Meter], journal: Journal) -> None:
    room.celsius = 21.0
    with meter.lock() as locked:
        locked.total += 1
        locked.total += 1
    room.celsius = 22.0
    journal.lines.append("end")


class Reaching(Dispatcher):
    def __init__(self) -> None:
        self.journal = Journal()

    def setup(self) -> None:
        meter = DataProtector(Meter())  # constructed first: the room is let go when it is reached for
        room = DataProtector(Room("attic"))
        journal = DataProtector(self.journal)
        self.register(through_accessor, room, meter.accessor, journal)
        self.register(warmer, room, journal)


def test_with_an_accessor_each_datum_is_told_once() -> None:
    """What was let go meanwhile is told at the end, with its last value; what was reached for, as it is let go."""
    reaching = Reaching()
    VirtualBackplane(reaching).call("reaching.look").result()
    assert reaching.journal.lines == ["end", "meter 2 (now 22.0)", "attic 22.0 (now 22.0)"]


# -- without room, without hearers -------------------------------------------------------------------------------------


def test_what_there_is_no_room_for_is_told_after_the_next_handler() -> None:
    """Nothing is dropped: the caller hears that its changes have not been told, and they are once there is room."""

    class Tight(House):
        component_name = "house"
        max_posted = 1

    house = Tight()
    backplane = VirtualBackplane(house)
    backplane.run_until_idle()
    _ = backplane.backplane
    house.dispatch(TooHot("door"))  # takes the one place
    call = backplane.call("house.reading", room="attic", celsius=25.0, priority=0)
    assert isinstance(call.error(), Busy)
    assert house.journal.lines == ["door!"]
    backplane.call("house.reading", room="attic", celsius=25.0).result()
    assert house.journal.lines == ["door!", "attic 25.0 (now 25.0)"]


@dataclass
class Quiet(Observed):
    level: int = 0

    @on_change("level")
    def tell(self) -> Unheard:
        return Unheard()

    @on_change("level")
    def stumble(self) -> Warmer | None:
        if self.level > 1:
            raise RuntimeError("no words")
        return None


def louder(message: Look, quiet: Quiet) -> None:
    quiet.level += 1


class Still(Dispatcher):
    def setup(self) -> None:
        self.register(louder, DataProtector(Quiet()))


def test_a_change_that_nobody_handles_is_mentioned_once(caplog: pytest.LogCaptureFixture) -> None:
    """The datum may be another program's, with rules that are of no use here; but a forgotten handler must be found."""
    caplog.set_level("INFO")
    backplane = VirtualBackplane(Still())
    backplane.call("still.look").result()
    assert caplog.text.count("Unheard has no handler here; dropped") == 1


def test_a_rule_that_raises_is_told_like_a_handler() -> None:
    """It is a user's code; nothing else may depend on it."""
    backplane = VirtualBackplane(Still())
    backplane.call("still.look").result()
    error = backplane.call("still.look").error()
    assert "handler louder raised RuntimeError: no words" in str(error)


def test_what_is_no_message_is_named() -> None:
    """Who forgets that a message is wanted is told where, not that a `str` has no handler."""

    class Careless(Observed):
        celsius: float = 0.0

        @on_change("celsius")
        def tell(self) -> Any:
            return "warmer"

    careless = Careless()
    careless.celsius = 1.0
    with pytest.raises(TypeError, match=r"Careless\.tell\(\) gave 'warmer': expected a message, or None"):
        changes_of(careless)
