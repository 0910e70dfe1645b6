"""Message: what is wrong with one is said where it is declared."""

from __future__ import annotations

import dataclasses
import enum
import sys
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

import msgspec
import pytest

from appbackplane.runtime.dispatcher import DataProtector, Dispatcher, Message, message
from appbackplane.runtime.dispatcher.message import MESSAGES, Messages, MessageSpec, spec_of
from appbackplane.runtime.dispatcher.sending import addressed
from appbackplane.runtime.objects.operation import DeclarationError
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import InvalidArgument


class Room: ...


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass(frozen=True)
class Point:
    x: int


@dataclasses.dataclass(frozen=True)
class Points:
    points: list[Point]


@dataclasses.dataclass
class Loose:
    x: int


class Open(msgspec.Struct):
    x: int


def made(
    fields: dict[str, Any], name: str = "Made", bases: tuple[Any, ...] = (Message,), **config: Any
) -> type[Message]:
    """A message class with these fields."""
    body = {"__annotations__": fields, "__module__": __name__}
    cls: type[Message] = types.new_class(name, bases, config, lambda namespace: namespace.update(body))
    return cls


def declared(cls: Any, **keywords: Any) -> MessageSpec:
    """As `@message` does it, among no others."""
    message(**({"category": 1, "id": 1, "among": Messages()} | keywords))(cls)
    spec = spec_of(cls)
    assert spec is not None
    return spec


# -- what @message says -----------------------------------------------------------------------------------------------

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"category": "1"}, "category='1': expected a number, 0 or more"),
    ({"category": -1}, "category=-1: expected a number"),
    ({"category": True}, "category=True: expected a number"),
    ({"id": 1.5}, "id=1.5: expected a number"),
    ({"id": None}, "id=None: expected a number"),
    ({"priority": -1}, "priority=-1: expected a number, 0 (the highest) or more"),
    ({"priority": "high"}, "priority='high': expected a number"),
    ({"priority": True}, "priority=True: expected a number"),
    ({"rate": 0}, "rate=0: expected how often it comes a second, above 0"),
    ({"rate": float("nan")}, "rate=nan: expected how often"),
    ({"rate": float("inf")}, "rate=inf: expected how often"),
    ({"rate": "5 Hz"}, "rate='5 Hz': expected how often"),
    ({"name": ""}, "name='': expected the last word of a route, such as 'reading'"),
    ({"name": "a.b"}, "name='a.b': expected the last word"),
    ({"name": 3}, "name=3: expected the last word"),
    ({"topic": ""}, "topic: subscribe to a topic such as 'files.changed'"),
    ({"topic": "a b"}, "topic: subscribe to a topic"),
    ({"export": 1}, "export=1: expected True, and not internal, for what other nodes send"),
    ({"export": True, "internal": True}, "export=True: expected True, and not internal"),
    ({"key": "room"}, "has no field 'room' to be its key: it has number, numbers, anything"),
    ({"key": "numbers"}, "key='numbers': Sequence[int] cannot be hashed: choose a str, a number or an Enum"),
    ({"key": "anything"}, "key='anything': Any cannot be hashed"),
]


@pytest.mark.parametrize(("keywords", "says"), WRONG, ids=[each[1][:50] for each in WRONG])
def test_what_is_said_of_a_message_is_checked(keywords: dict[str, Any], says: str) -> None:
    """A key that has no hash would fail with the first message, a priority that there is not with the first start."""
    with pytest.raises(DeclarationError) as raised:
        declared(made({"number": int, "numbers": Sequence[int], "anything": Any}), **keywords)
    assert says in str(raised.value) and f"{__name__}.Made" in str(raised.value)


def test_an_identity_may_be_of_an_enumeration() -> None:
    """Categories have names in programs that are read."""

    class Category(enum.IntEnum):
        INCOMING = 3

    assert declared(made({}), category=Category.INCOMING).category == 3


@pytest.mark.parametrize("kind", [str, int, Colour, Point, tuple[int, str], str | None, Literal["a", "b"]], ids=str)
def test_what_has_a_hash_may_be_a_key(kind: Any) -> None:
    """Alone or together."""
    assert declared(made({"number": kind}), key="number").key == "number"


# -- fields -----------------------------------------------------------------------------------------------------------

FIELDS: list[tuple[Any, str]] = [
    (list[int], "list[int] can be changed: write Sequence[int]"),
    (dict[str, int], "dict[str, int] can be changed: write Mapping[str, int]"),
    (set[int], "set[int] can be changed: write frozenset[int]"),
    (bytearray, "bytearray can be changed: write bytes"),
    (list[int] | None, "list[int] can be changed"),
    (Mapping[str, list[int]], "list[int] can be changed"),
    (tuple[list[int], ...], "list[int] can be changed"),
    (Loose, "Loose can be changed: declare it with frozen=True"),
    (Open, "Open can be changed: declare it with frozen=True"),
    (Points, "list[Point] can be changed: write Sequence[Point]"),
    (Room, "a Room cannot be sent: send its parts"),
    (object, "an object cannot be sent"),
    (threading.Thread, "a Thread cannot be sent"),
    (Callable[[int], int], "a Callable cannot be sent"),
    (
        "Unknown",
        "name 'Unknown' is not defined: define the types of its fields above it, and import them outside `if TYPE_CHECK",
    ),
    (dict[str, int] | Point, "Type unions may not contain more than one dict-like type"),
]


@pytest.mark.parametrize(("kind", "says"), FIELDS, ids=[each[1][:50] for each in FIELDS])
def test_a_field_travels_and_cannot_be_changed(kind: Any, says: str) -> None:
    """All handlers of a message see the same one; what one of them changes, the next one would take for what was sent."""
    with pytest.raises(DeclarationError) as raised:
        declared(made({"field": kind}))
    assert says in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "kind",
    [Sequence[int], Mapping[str, tuple[int, ...]], frozenset[int], bytes, memoryview, Point, Colour, Any, Point | None],
    ids=str,
)
def test_what_is_only_read_is_a_field(kind: Any) -> None:
    """A type checker refuses to change it."""
    declared(made({"field": kind}))


# -- the class --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "says"),
    [
        (Room, "expected a class derived from Message"),
        (Message, "expected a class derived from Message"),
        (3, "expected a class derived from Message"),
        (
            made({"x": int}, frozen=False),
            "is not frozen, and its handlers all get the same one: leave frozen=False out",
        ),
        (made({"x": int}, array_like=True), "is array_like, but its fields arrive by name: leave array_like out"),
        (
            made({}, bases=(Message, Generic[TypeVar("T")])),
            "is generic: declare a message for each kind that it may be of",
        ),
    ],
)
def test_what_is_no_message_is_refused(cls: Any, says: str) -> None:
    """Before it has a handler."""
    with pytest.raises(DeclarationError) as raised:
        declared(cls)
    assert says in str(raised.value)


def test_a_message_has_one_identity_and_no_two_have_the_same() -> None:
    """A foreign frame that says (3, 7) is one message."""
    among = Messages()
    first, second = made({}, "First"), made({}, "Second")
    declared(first, category=3, id=7, among=among)
    with pytest.raises(DeclarationError, match=r"Second: category 3, id 7 is \S+First: give it another id"):
        declared(second, category=3, id=7, among=among)
    assert spec_of(second) is None and among.find(3, 7) is spec_of(first)
    with pytest.raises(DeclarationError, match="First has an identity already: one @message is enough"):
        declared(first, category=3, id=8, among=among)
    again = made({}, "First")
    declared(again, category=3, id=7, among=among)
    assert among.find(3, 7) is spec_of(again), "its module was loaded anew"


@message(category=985, id=1)
class Reading(Message):
    room: str


class Derived(Reading):
    unit: str = "C"


class Plain(Message):
    number: int


def note(message: Reading, heard: list[str]) -> None:
    heard.append(message.room)


class Hub(Dispatcher):
    def setup(self) -> None:
        self.heard: list[str] = []
        self.register(note, DataProtector(self.heard))


@pytest.mark.parametrize("sent", [Derived("hall"), Plain(1)], ids=["Derived", "Plain"])
def test_what_was_not_declared_is_not_sent(sent: Message) -> None:
    """A derived class is another message, whose other fields no handler of its base would see."""
    hub = Hub()
    _ = VirtualBackplane(hub).backplane
    says = f"{type(sent).__name__} has no identity: declare it with @message"
    with pytest.raises(DeclarationError, match=says):
        hub.dispatch(sent)
    with pytest.raises(DeclarationError, match=says):
        addressed("hub", sent)


# -- how it comes -----------------------------------------------------------------------------------------------------


@message(category=985, id=2)
class Named(Message, kw_only=True):
    number: int
    unit: str = "C"


@message(category=985, id=3)
class Positive(Message):
    number: int

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError("number must not be negative")


@message(category=985, id=4)
class Ask(Message): ...


def tell(message: Named) -> str:
    return f"{message.number} {message.unit}"


def check(message: Positive) -> int:
    return message.number


class Desk(Dispatcher):
    def setup(self) -> None:
        self.register(tell)
        self.register(check)


def test_fields_by_keyword_alone_arrive_by_name() -> None:
    """As all do."""
    assert VirtualBackplane(Desk()).call("desk.named", number=3).result() == "3 C"


def test_what_a_message_refuses_itself_is_the_callers_mistake() -> None:
    """`__post_init__` says what types cannot."""
    backplane = VirtualBackplane(Desk())
    assert backplane.call("desk.positive", number=1).result() == 1
    error = backplane.call("desk.positive", number=-1).error()
    assert isinstance(error, InvalidArgument) and "desk.positive: number must not be negative" in str(error)


def test_all_that_this_process_has_declared_are_found() -> None:
    """By their pair."""
    assert MESSAGES.find(985, 1) is Reading.__message__ and MESSAGES.find(985, sys.maxsize) is None
