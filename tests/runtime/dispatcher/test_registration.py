"""Registration: what is wrong is refused before any message comes, in one line that names handler, parameter and remedy.

What a type checker sees of it is in tests/typing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Generic, NewType, Optional, Protocol, TypedDict, TypeVar

import pytest

from appbackplane.runtime.dispatcher import (
    READ,
    Accessor,
    ActiveObject,
    DataProtector,
    Dispatcher,
    Message,
    Read,
    RegistrationError,
    SelectiveAccessor,
    SelectiveProtector,
    message,
)


@message(category=981, id=1, key="room")
class Reading(Message):
    room: str
    celsius: float


@message(category=981, id=2)
class Move(Message):
    source: str
    target: str


class Undeclared(Message):
    number: int


class Derived(Reading):
    unit: str = "C"


class Room:
    def __init__(self, name: str = "") -> None:
        self.celsius = 0.0


class Kitchen(Room): ...


class Journal:
    def __init__(self) -> None:
        self.lines: list[str] = []


class Outlet(ActiveObject):
    def tell(self, message: Reading) -> None: ...


class Warm(Protocol):
    celsius: float


class Freezes(Protocol):
    def freeze(self) -> None: ...


class Figures(TypedDict):
    count: int


T = TypeVar("T")
OfRoom = TypeVar("OfRoom", bound=Room)
RoomId = NewType("RoomId", Room)


class Box(Generic[T]):
    def __init__(self) -> None:
        self.items: list[T] = []


class Made:
    """Protectors, anew for each test."""

    def __init__(self) -> None:
        self.room = DataProtector(Room())
        self.kitchen = DataProtector(Kitchen())
        self.journal = DataProtector(Journal())
        self.rooms = SelectiveProtector({"hall": Room(), "attic": Room()})
        self.made = SelectiveProtector(Room)
        self.outlet = Outlet()
        self.numbers = DataProtector({"a": 1.0})
        self.box = DataProtector(Box[int]())


Arguments = Callable[[Made], tuple[Any, ...]]
room: Arguments = lambda made: (made.room,)  # noqa: E731
nothing: Arguments = lambda made: ()  # noqa: E731

RIGHT: list[tuple[Callable[..., Any], Arguments]] = []
WRONG: list[tuple[Any, Arguments, str]] = []
Handler = TypeVar("Handler", bound=Callable[..., Any])


def right(given: Arguments) -> Callable[[Handler], Handler]:
    """A handler that can be registered with what is given."""
    return lambda handler: RIGHT.append((handler, given)) or handler  # type: ignore[func-returns-value]


def wrong(given: Arguments, says: str) -> Callable[[Handler], Handler]:
    """One that cannot."""
    return lambda handler: WRONG.append((handler, given, says)) or handler  # type: ignore[func-returns-value]


# -- what is given ----------------------------------------------------------------------------------------------------


@right(lambda made: (made.room,))
@right(lambda made: (made.kitchen,))
@right(lambda made: (made.rooms,))
@right(lambda made: (made.rooms.by("room"),))
@right(lambda made: (made.made,))
@right(lambda made: (SelectiveProtector[str, Room](lambda name: Room()),))
@wrong(nothing, "nothing is registered for parameter 'room': name a protector for each")
@wrong(lambda made: (made.journal,), "parameter 'room' is a Room, but was registered with a Journal")
@wrong(lambda made: (made.room, made.journal), "has 1 parameters besides its message, and 2 protectors were registered")
@wrong(
    lambda made: (Room("hall"),),
    "parameter 'room' was registered with Room(…): expected a DataProtector, a SelectiveProt",
)
@wrong(lambda made: (None,), "parameter 'room' was registered with None: expected a DataProtector")
@wrong(lambda made: (Outlet,), "parameter 'room' was registered with the class Outlet: register an object, Outlet()")
@wrong(lambda made: (made.outlet,), "parameter 'room' is a Room, but was registered with an Outlet")
@wrong(lambda made: (made.room.accessor,), "was registered with an accessor of Room: write Accessor[Room]")
@wrong(lambda made: (made.rooms.accessor,), "was registered with an accessor of Room: write SelectiveAccessor[…, Room]")
@wrong(lambda made: (DataProtector[Journal](Room()),), "was registered with a Room, which is called a Journal")  # type: ignore[arg-type]
@wrong(lambda made: (SelectiveProtector({"hall": Journal()}),), "is a Room, but was registered with a Journal")
@wrong(
    lambda made: (SelectiveProtector({"hall": Room(), "den": Journal()}),),
    "is a Room, but was registered with a Journal",
)
@wrong(lambda made: (SelectiveProtector[str, Journal](lambda name: Journal()),), "but was registered with a Journal")
@wrong(
    lambda made: (SelectiveProtector(lambda name: Room()),),
    "is a Room, and the type that <lambda> makes is unknown: annotate what that function returns, or write "
    "SelectiveProtector[…, R",
)
@wrong(
    lambda made: (SelectiveProtector({1: Room()}),), "is chosen by Reading.room, a str, but the keys of Room are int"
)
@wrong(lambda made: (SelectiveProtector[int, Room](lambda n: Room()),), "a str, but the keys of <lambda> are int")
@wrong(
    lambda made: (made.rooms.by("floor"),), "is chosen by 'floor', which Reading does not have: it has room, celsius"
)
@wrong(lambda made: (made.rooms.by("celsius"),), "is chosen by Reading.celsius, a float, but the keys of Room are str")
@wrong(lambda made: (made.rooms.by(source_of),), "is chosen by source_of, which takes a Move, not a Reading")
@wrong(
    lambda made: (made.rooms.by(letters_of),), "is chosen by letters_of: list[str] cannot be hashed: choose by a str"
)
def note(message: Reading, room: Room) -> None: ...


def source_of(message: Move) -> str:
    return message.source


def letters_of(message: Reading) -> list[str]:
    return [*message.room]


@right(lambda made: (made.room, made.journal))
@wrong(lambda made: (made.journal, made.room), "registered with a Journal: expected this order: Room, Journal")
@wrong(lambda made: (made.room,), "nothing is registered for parameter 'journal': name a protector for each")
def enter(message: Reading, room: Room, journal: Journal) -> None: ...


@right(lambda made: (made.rooms.by("source"), made.rooms.by("target")))
@right(lambda made: (made.rooms.by(source_of), made.rooms.by(lambda message: message.target)))
@wrong(lambda made: (made.room, made.room), "parameters 'source' and 'target' are the same datum: it is given once")
@wrong(lambda made: (made.rooms.by("source"), made.rooms.by("source")), "are the same datum: it is given once")
@wrong(lambda made: (made.rooms, made.room), "has no key for Move to choose by: declare @message(key=…), or Select")
def carry(message: Move, source: Room, target: Room) -> None: ...


@right(lambda made: (made.room.accessor,))
@right(lambda made: (made.kitchen.accessor,))
@wrong(lambda made: (made.room,), "is an Accessor[Room], but was registered with Room itself: register its .accessor")
@wrong(lambda made: (made.journal.accessor,), "but was registered with an Accessor of Journal")
@wrong(lambda made: (Accessor.of(Room()),), "with an accessor that is for tests: register the .accessor of a protector")
def reach(message: Reading, room: Accessor[Room]) -> None: ...


@right(lambda made: (made.rooms.accessor,))
@wrong(
    lambda made: (made.room.accessor,), "is a SelectiveAccessor[str, Room], but was registered with an accessor of Room"
)
@wrong(
    lambda made: (SelectiveProtector({1: Room()}).accessor,),
    "SelectiveAccessor[str, Room], but the keys of Room are int",
)
def reach_any(message: Reading, rooms: SelectiveAccessor[str, Room]) -> None: ...


@right(lambda made: (made.outlet,))
@wrong(room, "parameter 'outlet' is an Outlet, but was registered with a Room")
def tell(message: Reading, outlet: Outlet) -> None: ...


# -- annotations ------------------------------------------------------------------------------------------------------


@right(room)
def optional(message: Reading, room: Room | None) -> None: ...


@wrong(room, "parameter 'journal' is a Journal | None, but was registered with a Room")
def other_optional(message: Reading, journal: Optional[Journal]) -> None: ...  # noqa: UP045


@right(room)
def anything(message: Reading, room: Any, /) -> None: ...


@right(room)
def an_object(message: Reading, room: object) -> None: ...


@right(room)
@wrong(lambda made: (made.journal,), "is a Warm, but was registered with a Journal")
def by_protocol(message: Reading, room: Warm) -> None: ...


@wrong(room, "is a Freezes, but was registered with a Room")
def by_other_protocol(message: Reading, room: Freezes) -> None: ...


@right(room)
@wrong(lambda made: (made.journal,), "is an OfRoom, but was registered with a Journal")
def by_variable(message: Reading, room: OfRoom) -> None: ...


@wrong(lambda made: (made.journal,), "is a RoomId, but was registered with a Journal")
def by_new_type(message: Reading, room: RoomId) -> None: ...


@wrong(room, "is a Figures, but was registered with a Room")
def by_typed_dictionary(message: Reading, figures: Figures) -> None: ...


@right(lambda made: (made.numbers,))
def by_map(message: Reading, numbers: Mapping[str, float]) -> None: ...


@right(lambda made: (made.numbers,))
def by_generic(message: Reading, numbers: dict[str, float]) -> None: ...


@wrong(lambda made: (made.numbers,), "is a dict[str, str], but was registered with a dict of other contents")
def by_other_generic(message: Reading, numbers: dict[str, str]) -> None: ...


@right(lambda made: (made.box,))
def by_own_generic(message: Reading, box: Box[int]) -> None: ...


@wrong(lambda made: (made.box,), "is a Box[str], but was registered with a Box of other contents")
def by_other_own_generic(message: Reading, box: Box[str]) -> None: ...


@right(room)
def read_message(message: Read[Reading], room: Annotated[Room, READ, "and more"]) -> None: ...


@right(lambda made: (made.room.accessor, made.journal.accessor))
def read_accessor(message: Reading, room: Read[Accessor[Room]], journal: Accessor[Read[Journal]]) -> None: ...


@wrong(room, "parameter 'room' is Read of nothing: write Read[…] with the type of its argument")
def read_nothing(message: Reading, room: Read) -> None: ...  # type: ignore[type-arg]


@wrong(room, "parameter 'room' is marked with Read: write Read[Room]")
def read_as_mark(message: Reading, room: Annotated[Room, Read]) -> None: ...


@wrong(room, "parameter 'room' is a 3: 3 is not a type: write the type of its argument")
def no_type(message: Reading, room: 3) -> None: ...  # type: ignore[valid-type]


@wrong(
    room, "name 'Unknown' is not defined: registration reads annotations at run time: import it outside `if TYPE_CHECK"
)
def unknown(message: Reading, room: Unknown) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@wrong(room, "its annotations cannot be read: module 'functools' has no attribute 'Missing'")
def missing(message: Reading, room: functools.Missing) -> None: ...  # type: ignore[name-defined]


@wrong(room, "parameter 'room' has no annotation: write the type of its argument")
def bare(message: Reading, room) -> None: ...  # type: ignore[no-untyped-def]


@wrong(room, "parameter 'room' is a DataProtector[Room]: a handler gets the datum: write Room")
def protector(message: Reading, room: DataProtector[Room]) -> None: ...


def named(handler: Any) -> str:
    return str(getattr(handler, "__name__", type(handler).__name__))


@pytest.mark.parametrize(("handler", "given"), RIGHT, ids=[named(each[0]) for each in RIGHT])
def test_what_is_right_is_registered(handler: Callable[..., Any], given: Arguments) -> None:
    """A check that refuses what works is worse than none."""
    Dispatcher().register(handler, *given(Made()))


@pytest.mark.parametrize(
    ("handler", "given", "says"), WRONG, ids=[f"{named(each[0])}: {each[2]}"[:70] for each in WRONG]
)
def test_what_is_wrong_is_refused_with_the_remedy(handler: Any, given: Arguments, says: str) -> None:
    """Seed 003, section 6, of what Python could do: "throw a run-time exception if a mismatched registration is encountered at
    dispatching time". Here nothing is left for then."""
    dispatcher = Dispatcher()
    with pytest.raises(RegistrationError) as raised:
        dispatcher.register(handler, *given(Made()))
    text = str(raised.value)
    assert says in text
    assert "\n" not in text and getattr(handler, "__name__", "") in text
    assert dispatcher.entries == ()


def test_a_protector_belongs_to_the_dispatcher_that_locks_it() -> None:
    """Two dispatchers have an order each, and between the two there would be none."""
    made = Made()
    Dispatcher().register(note, made.room)
    with pytest.raises(
        RegistrationError, match="note: parameter 'room': Room is registered with another dispatcher: share it"
    ):
        Dispatcher().register(note, made.room)
    with pytest.raises(RegistrationError, match="registered with another dispatcher"):
        Dispatcher().register(reach, made.room.accessor)


def test_what_was_refused_leaves_its_protectors_free() -> None:
    """Or a mistake that was caught and put right would be told as another one."""
    made = Made()
    with pytest.raises(RegistrationError):
        Dispatcher().register(enter, made.room, made.rooms)  # type: ignore[arg-type]
    Dispatcher().register(enter, made.room, made.journal)


def test_a_handler_is_registered_once_for_the_same_data() -> None:
    """Twice with the same would do everything twice; with other data it is another thing."""
    made, dispatcher = Made(), Dispatcher()
    dispatcher.register(note, made.room)
    dispatcher.register(note, made.kitchen)
    with pytest.raises(
        RegistrationError, match="note is registered for Reading already, with the same data: once is enough"
    ):
        dispatcher.register(note, made.room)
    assert len(dispatcher.entries) == 2


@message(category=981, id=3, name="reading")
class Lecture(Message): ...


@message(category=981, id=4)
class Handlers(Message): ...


def attend(message: Lecture) -> None: ...


def count(message: Handlers) -> None: ...


def test_two_messages_do_not_have_one_route() -> None:
    """Whoever calls it could not say which is meant."""
    dispatcher = Dispatcher()
    dispatcher.register(note, Made().room)
    with pytest.raises(
        RegistrationError, match=r"attend: Lecture would have the route of \S+Reading, 'reading': declare @"
    ):
        dispatcher.register(attend)
    with pytest.raises(
        RegistrationError, match=r"count: Handlers would have the route of Dispatcher.handlers, 'handlers'"
    ):
        dispatcher.register(count)
