"""Signature: what cannot be a handler is refused when it is registered, whatever it is to be given."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest

from appbackplane.runtime.dispatcher import (
    ActiveObject,
    DataProtector,
    Dispatcher,
    Message,
    RegistrationError,
    message,
)


@message(category=982, id=1, key="room")
class Reading(Message):
    room: str
    celsius: float


@message(category=982, id=2)
class Move(Message):
    source: str
    target: str


class Undeclared(Message):
    number: int


class Derived(Reading):
    unit: str = "C"


class Room:
    celsius = 0.0


class Outlet(ActiveObject):
    def tell(self, message: Reading) -> None: ...


def note(message: Reading, room: Room) -> None: ...


#: Handlers, with how many protectors of a room they are registered with; and what is said of them.
RIGHT: list[tuple[Callable[..., Any], int]] = []
WRONG: list[tuple[Any, int, str]] = []
Handler = TypeVar("Handler", bound=Callable[..., Any])


def right(rooms: int) -> Callable[[Handler], Handler]:
    return lambda handler: RIGHT.append((handler, rooms)) or handler  # type: ignore[func-returns-value]


def wrong(rooms: int, says: str) -> Callable[[Handler], Handler]:
    return lambda handler: WRONG.append((handler, rooms, says)) or handler  # type: ignore[func-returns-value]


# -- the message ------------------------------------------------------------------------------------------------------


@wrong(0, "has no parameters: the first is the message that it handles")
def no_message() -> None: ...


@wrong(0, "parameter 'message' has no annotation: write the message that it handles")
def bare_message(message) -> None: ...  # type: ignore[no-untyped-def]


@wrong(0, "parameter 'number' has type int; the first parameter must be the message")
def of_int(number: int) -> None: ...


@wrong(0, "parameter 'message': Undeclared has no identity: declare it with @message(category=…, id=…)")
def undeclared(message: Undeclared) -> None: ...


@wrong(0, "parameter 'message': Derived has no identity: declare it with @message(category=…, id=…)")
def derived(message: Derived) -> None: ...


@wrong(
    0,
    "is annotated with Message itself: name the message class that it handles, or use eavesdrop(…) for a whole category",
)
def any_message(message: Message) -> None: ...


@wrong(0, "parameter 'message' is a Reading | Move: a handler is for one message: register one for each")
def one_of_two(message: Reading | Move) -> None: ...


@wrong(1, "parameter 'move' is a Move: a handler is for one message, its first parameter")
def two_messages(message: Reading, move: Move) -> None: ...


# -- parameters -------------------------------------------------------------------------------------------------------


@wrong(1, "parameter 'room' cannot be given by position: make it a plain one")
def by_keyword(message: Reading, *, room: Room) -> None: ...


@wrong(1, "*rooms accepts unknown arguments: name each parameter")
def any_number(message: Reading, *rooms: Room) -> None: ...


def _logged(function: Callable[..., None]) -> Callable[..., None]:
    def call(*arguments: Any) -> None:
        function(*arguments)

    return call


@wrong(1, "(use functools.wraps on the wrapper of a decorator)")
@_logged
def wrapped(message: Reading, room: Room) -> None: ...


@right(1)
def with_defaults(message: Reading, room: Room, factor: float = 1.0, *, is_loud: bool = False) -> None: ...


@wrong(0, "parameter 'room' has a protector as its default: register it, register(protector_by_default, …, <Data")
def protector_by_default(message: Reading, room: Any = DataProtector(Room())) -> None: ...  # noqa: B008


@wrong(0, "parameter 'seen' has a list as its default, which all calls would share without a lock: register a Data")
def shared_by_default(message: Reading, seen: list[str] = []) -> None: ...  # noqa: B006


# -- what is no handler -----------------------------------------------------------------------------------------------


@wrong(0, "is a coroutine or a generator, but a handler must be a plain function")
async def coroutine(message: Reading) -> None: ...


@wrong(0, "is a coroutine or a generator, but a handler must be a plain function")
def generator(message: Reading) -> Iterator[int]:
    yield 1


@wrong(0, "is a coroutine or a generator, but a handler must be a plain function")
@contextlib.contextmanager
def context(message: Reading) -> Iterator[None]:
    yield


@wrong(0, "returns an Awaitable[None], but a handler is a plain function")
def returns_coroutine(message: Reading) -> Awaitable[None]:
    return coroutine(message)


@wrong(0, "returns a Room, which cannot be sent to its caller: a Room cannot be sent: send its parts")
def returns_room(message: Reading) -> Room:
    return Room()


@wrong(0, "returns a value without a return annotation: write `-> int` to send it to the caller, or `-> None`")
def returns_silently(message: Reading):  # type: ignore[no-untyped-def]
    return message.celsius


@right(0)
def returns_nothing(message: Reading):  # type: ignore[no-untyped-def]
    if message.celsius > 0:
        return
    with contextlib.suppress(ValueError):
        return None


def drops_the_rest(function: Callable[..., None]) -> Callable[[Any], None]:
    @functools.wraps(function)
    def wrapper(message: Any) -> None:
        function(message)

    return wrapper


@wrong(1, "its decorator does not pass its parameters on: too many positional arguments")
@drops_the_rest
def decorated(message: Reading, room: Room) -> None: ...


class Porter:
    def hear(self, message: Reading) -> None: ...

    @staticmethod
    def listen(message: Reading) -> None: ...


RIGHT += [(Porter.listen, 0), (Outlet().tell, 0)]
WRONG += [
    (
        Porter().hear,
        0,
        "is bound to a Porter, which all its calls would share without a lock: write a plain function",
    ),
    (Porter.hear, 0, "parameter 'self': it is a method: write a plain function"),
    (
        functools.partial(note, room=Room()),
        0,
        "its bound arguments would be shared without a lock: write a plain function",
    ),
    (functools.lru_cache(note), 1, "expected a plain function as the handler"),
    (Room, 0, "expected a plain function as the handler"),
    ("note", 1, "register('note'): expected a plain function as the handler"),
    (DataProtector(Room()), 1, "the handler comes first, then its arguments"),
    (lambda message: None, 0, "parameter 'message' has no annotation: write the message that it handles"),
    (print, 0, "*args accepts unknown arguments"),
]


def named(handler: Any) -> str:
    return str(getattr(handler, "__name__", type(handler).__name__))


@pytest.mark.parametrize(("handler", "rooms"), RIGHT, ids=[named(each[0]) for each in RIGHT])
def test_what_can_be_a_handler(handler: Callable[..., Any], rooms: int) -> None:
    """What is allowed to be a handler."""
    Dispatcher().register(handler, *[DataProtector(Room()) for _ in range(rooms)])


@pytest.mark.parametrize(
    ("handler", "rooms", "says"), WRONG, ids=[f"{named(each[0])}: {each[2]}"[:70] for each in WRONG]
)
def test_what_cannot_be_a_handler_is_refused_with_the_remedy(handler: Any, rooms: int, says: str) -> None:
    """Each would be called in vain, wait for something that never comes, or answer nobody."""
    dispatcher = Dispatcher()
    with pytest.raises(RegistrationError) as raised:
        dispatcher.register(handler, *[DataProtector(Room()) for _ in range(rooms)])
    text = str(raised.value)
    assert says in text
    assert "\n" not in text and getattr(handler, "__name__", "") in text
    assert dispatcher.entries == ()
