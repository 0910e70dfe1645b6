"""Protectors: what may be protected, and that nobody gets at it but as a handler's argument."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import math
import pickle
import threading
import types
from collections.abc import Callable
from typing import Any

import pytest

from appbackplane.runtime import AppObject
from appbackplane.runtime.dispatcher import (
    ActiveObject,
    DataProtector,
    Dispatcher,
    Message,
    RegistrationError,
    SelectiveProtector,
    message,
)
from appbackplane.runtime.objects.operation import DeclarationError
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import Busy, InvalidArgument


@message(category=984, id=1, key="room")
class Reading(Message):
    room: str
    celsius: float = 0.0


class Room:
    def __init__(self, name: str = "") -> None:
        self.celsius = 0.0


class Journal: ...


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass(frozen=True)
class Point:
    x: int


@dataclasses.dataclass(frozen=True)
class Points:
    """Frozen, but what is in it is not."""

    points: list[Point]


class Outlet(ActiveObject): ...


SHARED = Room()


# -- what may be protected --------------------------------------------------------------------------------------------

PLACE = "in place: protect an object that has it in a field"
NO_DATUM = [
    (3, f"DataProtector(3): a handler cannot change an int {PLACE}"),
    ("x", f"DataProtector('x'): a handler cannot change a str {PLACE}"),
    (None, f"DataProtector(None): a handler cannot change a NoneType {PLACE}"),
    ((1, "x"), f"a handler cannot change a tuple {PLACE}"),
    (frozenset(), f"a handler cannot change a frozenset {PLACE}"),
    (Colour.RED, f"a handler cannot change a Colour {PLACE}"),
    (Point(1), f"a handler cannot change a Point {PLACE}"),
    (Reading("hall"), f"a handler cannot change a Reading {PLACE}"),
    (Room, "DataProtector(Room) is a class: construct the datum in the call, Room()"),
    (len, "DataProtector(len) is a builtin_function_or_method: protect an object that handlers can change"),
    (types, "DataProtector(module(…)) is a module: protect an object that handlers can change"),
    ((each for each in ()), "is a generator: protect an object that handlers can change"),
    (threading.Lock(), "is a lock: protect what it guards, and the dispatcher locks it"),
    (DataProtector(Room()), "is protected already: register it as it is"),
    (DataProtector(Room()).accessor, "is protected already: register it as it is"),
    (AppObject(), "is active: send it messages, or protect a plain object that it shares"),
]


@pytest.mark.parametrize(("datum", "says"), NO_DATUM, ids=[each[1][:60] for each in NO_DATUM])
def test_what_is_no_datum_is_refused_where_it_is_protected(datum: object, says: str) -> None:
    """What a handler did to it would be lost, or happen without the lock."""
    with pytest.raises(DeclarationError) as raised:
        DataProtector(datum)
    assert says in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "datum",
    [[], {}, bytearray(), Room(), Points([]), ([],), Outlet()],
    ids=["list", "dict", "bytearray", "object", "dataclass", "tuple", "outlet"],
)
def test_what_can_be_changed_is_a_datum(datum: object) -> None:
    """However frozen its outside is."""
    DataProtector(datum)


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({"order": "first"}, "order='first': expected a number: lower ones are locked first"),
        ({"order": 1.5}, "order=1.5: expected a number"),
        ({"order": True}, "order=True: expected a number"),
        ({"name": 3}, "name=3: expected a word for errors and statistics"),
        ({"name": ""}, "name='': expected a word"),
    ],
)
def test_what_is_said_of_a_datum_is_checked(keywords: Any, says: str) -> None:
    """An order that cannot be compared would show when two locks are taken together for the first time."""
    with pytest.raises(DeclarationError) as raised:
        DataProtector(Room(), **keywords)
    assert says in str(raised.value)
    with pytest.raises(DeclarationError):
        SelectiveProtector({"a": Room()}, **keywords)


def test_one_datum_has_one_lock() -> None:
    """Under two, each handler would hold one of them."""
    room = Room()
    first = DataProtector(room)
    with pytest.raises(DeclarationError, match="is protected already, by <DataProtector Room>: two locks would"):
        DataProtector(room)
    with pytest.raises(DeclarationError, match="that of 'a' is protected already"):
        SelectiveProtector({"a": room})
    other = Room()
    with pytest.raises(DeclarationError, match="that of 'b' is protected already, by <SelectiveProtector Room>"):
        SelectiveProtector({"a": other, "b": other})
    del first
    DataProtector(room)  # nobody protects it any more


FACTORIES: list[tuple[Any, str]] = [
    ([Room()], "is a list: give a map of keys to data, dict(enumerate(…))"),
    (Room(), "SelectiveProtector(Room(…)) is a Room: expected a function of the key"),
    (None, "SelectiveProtector(None) is a NoneType: expected a function of the key"),
    ({}, "no data, and no function to make them from their keys"),
    ({"a": 1}, "that of 'a': a handler cannot change an int in place"),
    ({"a": Room}, "that of 'a' is a class: construct the datum in the call, Room()"),
    (dict, "would make a dict of the key itself: write lambda key: dict()"),
    (collections.deque, "would make a deque of the key itself: write lambda key: deque()"),
    (Journal, "SelectiveProtector(Journal) takes (): expected a function of the key alone"),
    (lambda: Room(), "takes (): expected a function of the key alone"),
    (lambda key, also: Room(), "takes (key, also): expected a function of the key alone"),
    (Point, "SelectiveProtector(Point): a handler cannot change a Point in place"),
    (threading.Lock, "makes locks: give a function that makes data from their keys"),
    (DataProtector(Room()), "is protected already: register it as it is"),
]


@pytest.mark.parametrize(("data", "says"), FACTORIES, ids=[each[1][:60] for each in FACTORIES])
def test_what_makes_no_data_is_refused_before_a_message_has_a_key(data: Any, says: str) -> None:
    """The first message would be the first to know."""
    with pytest.raises(DeclarationError) as raised:
        SelectiveProtector(data)
    assert says in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("by", "says"),
    [
        (3, "by=3 is an int: expected a function of the message"),
        ("", "by='': expected a field of the message, or a function of it"),
        ("a b", "by='a b': expected a field"),
        (lambda: 1, "takes (): expected a function of the message alone"),
        (lambda message, also: 1, "takes (message, also): expected a function of the message alone"),
    ],
)
def test_what_chooses_is_checked(by: Any, says: str) -> None:
    """As what makes."""
    with pytest.raises(DeclarationError) as raised:
        SelectiveProtector({"a": Room()}, by=by)
    assert says in str(raised.value)
    with pytest.raises(DeclarationError):
        SelectiveProtector({"a": Room()}).by(by)


@pytest.mark.parametrize("keys_max", [0, -1, "many"])
def test_there_is_room_for_a_datum(keys_max: Any) -> None:
    """Or all messages would be refused."""
    with pytest.raises(DeclarationError, match=r"keys_max=.*: expected the maximum number of data"):
        SelectiveProtector(Room, keys_max=keys_max)


def note(message: Reading, room: Room) -> None:
    room.celsius = message.celsius


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda name: Journal(), "Room of 'hall': a Journal was made, not a Room"),
        (lambda name: None, "Room of 'hall': a handler cannot change a NoneType in place"),
        (lambda name: Room, "Room of 'hall' is a class: construct the datum in the call, Room()"),
    ],
)
def test_a_function_that_does_not_keep_its_word_is_found_out_by_the_first_datum(
    make: Callable[[str], Any], says: str
) -> None:
    """It cannot be known earlier; the handler does not see it."""

    class Hub(Dispatcher):
        def setup(self) -> None:
            self.register(note, SelectiveProtector[str, Room](make))

    error = VirtualBackplane(Hub()).call("hub.reading", room="hall").error()
    assert says in str(error)


TWO = [Room(), Room()]
ELSEWHERE = Room()
ELSEWHERE_TOO = DataProtector(ELSEWHERE)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda name: TWO[len(name) % 2],
            "Room of 'abc' is that of another key: two locks would not protect it",
        ),
        (
            lambda name: ELSEWHERE if name == "abc" else Room(),
            "Room of 'abc' is protected already, by <DataProtector Room>",
        ),
    ],
)
def test_what_was_made_is_under_one_lock(make: Callable[[str], Any], says: str) -> None:
    """Whichever datum it is again, and whoever protects it already."""

    class Hub(Dispatcher):
        def setup(self) -> None:
            self.register(note, SelectiveProtector[str, Room](make))

    backplane = VirtualBackplane(Hub())
    for room in ("a", "ab"):
        backplane.call("hub.reading", room=room).result()
    assert says in str(backplane.call("hub.reading", room="abc").error())


@message(category=984, id=77, key="width")
class Sized(Message):
    width: float


def resize(sized: Sized, room: Room) -> None: ...


def test_what_equals_nothing_is_no_key() -> None:
    """Each would make another datum that nobody finds again, until there is no room for any."""

    class Hub(Dispatcher):
        def setup(self) -> None:
            self.register(resize, SelectiveProtector[float, Room](lambda width: Room(), keys_max=2))

    backplane = VirtualBackplane(Hub())
    for _ in range(3):
        error = backplane.call("hub.sized", width=math.nan).error()
        assert isinstance(error, InvalidArgument) and "nan cannot be a key: it does not equal itself" in str(error)
    backplane.call("hub.sized", width=1.0).result()
    backplane.call("hub.sized", width=2.0).result()
    error = backplane.call("hub.sized", width=3.0).error()
    assert isinstance(error, Busy) and "2 keys, its maximum" in str(error)


def test_a_function_that_makes_one_datum_for_all_keys_is_found_out_by_the_second() -> None:
    """Two locks, one datum."""

    class Hub(Dispatcher):
        def setup(self) -> None:
            self.register(note, SelectiveProtector[str, Room](lambda name: SHARED))

    backplane = VirtualBackplane(Hub())
    backplane.call("hub.reading", room="hall").result()
    error = backplane.call("hub.reading", room="attic").error()
    assert "Room of 'attic' is that of another key: two locks would not protect it" in str(error)


# -- nobody gets at it ------------------------------------------------------------------------------------------------


def locked(given: Any) -> None:
    with given:
        pass


WAYS: dict[str, Callable[[Any], object]] = {
    "has no 'celsius'": lambda given: given.celsius,
    "has no 'warm'": lambda given: given.warm(),
    "has no 'colour'": lambda given: setattr(given, "colour", 1),
    "has no ['hall']": lambda given: given["hall"],
    "has no [1]": lambda given: given.__setitem__(1, 2),
    "cannot be iterated": list,
    "has no length": len,
    "contains nothing": lambda given: 3 in given,
    "cannot be called": lambda given: given(),
    "cannot be locked by hand": locked,
}
GIVEN: dict[str, Callable[[], object]] = {
    "DataProtector of Room": lambda: DataProtector(Room()),
    "SelectiveProtector of Room": lambda: SelectiveProtector({"hall": Room()}),
    "Choice of Room": lambda: SelectiveProtector({"hall": Room()}).by("room"),
    "AccessorOf of Room": lambda: DataProtector(Room()).accessor,
    "SelectiveAccessorOf of Room": lambda: SelectiveProtector({"hall": Room()}).accessor,
}


@pytest.mark.parametrize("says", WAYS)
@pytest.mark.parametrize("given", GIVEN)
def test_a_datum_is_not_reached_from_outside(given: str, says: str) -> None:
    """Seed 003, 3.1: "any attempt to access a Data Object outside of the framework control results in a compiler error"."""
    with pytest.raises((AttributeError, TypeError)) as raised:
        WAYS[says](GIVEN[given]())
    assert str(raised.value) == (
        f"{given} {says}: protected data are reached only as arguments of a registered handler; a test passes its own data"
    )


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("given", GIVEN)
def test_nothing_protected_is_copied(given: str, copied: Callable[[object], object]) -> None:
    """The copy would have a lock of its own, and the datum two."""
    with pytest.raises(TypeError, match=f"{given} cannot be copied: the copy would not be under its lock"):
        copied(GIVEN[given]())


def test_a_protector_can_still_be_looked_at() -> None:
    """In a debugger, a log, a condition."""
    room = DataProtector(Room(), name="hall")
    assert repr(room) == "<DataProtector hall>" and bool(room) and room in {room} and not hasattr(room, "celsius")
    half_made: Any = object.__new__(DataProtector)
    with pytest.raises(AttributeError, match="DataProtector has no 'name'"):
        print(half_made.name)


def around(message: Reading) -> None:
    KNOWN.celsius = message.celsius


def around_by_closure(room: Room) -> Callable[[Reading], None]:
    def handler(message: Reading) -> None:
        room.celsius = message.celsius

    return handler


KNOWN = Room()


def test_a_handler_does_not_reach_around_its_protector() -> None:
    """A global or a closure is the way by which a datum is used without its lock."""
    known = DataProtector(KNOWN, name="known")
    for handler, name in ((around, "KNOWN"), (around_by_closure(KNOWN), "room")):
        with pytest.raises(RegistrationError) as raised:
            Dispatcher().register(handler)
        assert f"uses {name}, which is protected by {known!r}: take it as a parameter, and register that" in str(
            raised.value
        )
    del known
    Dispatcher().register(around)
