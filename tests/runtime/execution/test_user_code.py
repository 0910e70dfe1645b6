"""User code: whatever it raises, returns or hands over, it ends its own call and nothing else.

An error that came out of a worker's turn ended the process, with all that it served; each of these did.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable
from typing import Any

import pytest

from appbackplane.runtime import (
    Action,
    AppObject,
    BackplaneError,
    Busy,
    Cancelled,
    Component,
    DeadlineExceeded,
    Endpoint,
    InternalError,
    NotFound,
    Outcome,
    Request,
    every,
    operation,
    pause,
    subscribe,
)
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.envelope import CALL, Envelope


class Unspeakable(Exception):
    """Cannot be told."""

    def __str__(self) -> str:
        raise KeyError("what")

    __repr__ = __str__


class Silent(Busy):
    """Does not call its base."""

    def __init__(self) -> None:
        pass


class Unlisted(Busy):
    """A status that is none."""

    status = []  # type: ignore[assignment]


class Locked(Busy):
    """Its message cannot be read."""

    def __init__(self) -> None: ...

    @property
    def message(self) -> str:  # type: ignore[override]
        raise KeyError("what")


class Hostile(dict):  # type: ignore[type-arg]
    """A mapping whose code fails."""

    def items(self) -> Any:
        raise KeyError("gone")


@dataclasses.dataclass
class Checked:
    """Raises what msgspec does not expect."""

    value: int

    def __post_init__(self) -> None:
        if self.value < 0:
            raise KeyError(self.value)


def raised(error: BaseException) -> Any:
    raise error


#: What an operation does, and what its caller gets: an error and its words, or a result.
DEEDS: dict[str, tuple[Callable[[], Any], type[BackplaneError], str]] = {
    "text that is none": (lambda: raised(ValueError("\udcff")), InternalError, "ValueError: "),
    "an error without words": (lambda: raised(Unspeakable()), InternalError, "no message: KeyError"),
    "an error for a message": (lambda: raised(NotFound(KeyError("x"))), NotFound, "'x'"),  # type: ignore[arg-type]
    "an error that is nothing": (lambda: raised(Silent()), Busy, "Silent"),
    "a hint that is no number": (lambda: raised(Busy("x", retry_after="soon")), Busy, "x"),  # type: ignore[arg-type]
    "a status that is none": (lambda: raised(Unlisted("x")), InternalError, "x"),
    "a message that cannot be read": (lambda: raised(Locked()), Busy, "Locked"),
    "an error as long as a book": (lambda: raised(ValueError("x" * (17 << 20))), InternalError, "ValueError: xxx"),
    "a hostile result": (lambda: Hostile(a=1), InternalError, "returned what cannot be sent"),
    "sys.exit": (lambda: sys.exit(3), InternalError, "SystemExit: 3"),
}


class Doer(AppObject):
    """Does what it is told."""

    @operation()
    def do(self, deed: str) -> Any:
        return DEEDS[deed][0]()

    @operation()
    async def pass_on(self, deed: str) -> Any:
        return await self.call("doers.do", key="1", deed=deed)

    @operation()
    def check(self, what: Checked) -> int:
        return what.value

    @operation()
    async def ask(self, options: str) -> Any:
        return await self.request("doers.check", {"what": {"value": 1}}, **OPTIONS[options])

    @operation()
    async def ask_strangely(self) -> Any:
        return await self.request("doers.check", {"what": {"value": -1}}, key="1")

    @operation()
    async def ask_nobody(self) -> Any:
        return await self.request(5, {})  # type: ignore[arg-type]

    @operation()
    async def ask_with_a_list(self) -> Any:
        return await self.request("elsewhere.do", [1])  # type: ignore[arg-type]

    @operation()
    async def knock(self) -> Any:
        return await self.call("gate.go")

    @operation()
    def fine(self) -> str:
        return "fine"

    @subscribe("deep")
    def hear(self, body: Any) -> None:
        pass

    @subscribe("checked")
    def hear_checked(self, what: Checked) -> None:
        pass


OPTIONS: dict[str, dict[str, Any]] = {
    "endless": {"timeout": math.inf},
    "not a number": {"timeout": math.nan},
    "too long": {"timeout": 1e300},
    "text": {"timeout": "5s"},
    "numbered": {"key": 5},
    "listed": {"key": []},
    "urgent": {"priority": "high"},
    "halfway": {"priority": 1.5},
}


class Doers(Component):
    """Two."""

    def setup(self) -> None:
        for number in range(2):
            self.add(Doer(), key=str(number))


@pytest.fixture
def backplane() -> VirtualBackplane:
    backplane = VirtualBackplane(Doers(), outside=("elsewhere.do",))
    _ = backplane.backplane
    return backplane


@pytest.mark.parametrize("idempotency_key", [None, "once"])
@pytest.mark.parametrize("operation", ["do", "pass_on"])
@pytest.mark.parametrize("deed", DEEDS)
def test_an_operation_ends_its_own_call(
    backplane: VirtualBackplane, deed: str, operation: str, idempotency_key: str | None
) -> None:
    """Called from outside, and from an object beside it."""
    call = backplane.call(f"doers.{operation}", key="0", deed=deed, idempotency_key=idempotency_key)
    backplane.run_until_idle()
    error = call.error()
    assert DEEDS[deed][2] in error.message
    assert isinstance(error, DEEDS[deed][1] if operation == "do" else BackplaneError)
    assert backplane.call("doers.fine").result() == "fine"


@pytest.mark.parametrize("options", OPTIONS)
def test_options_of_the_wrong_type_are_an_error_of_the_caller(backplane: VirtualBackplane, options: str) -> None:
    """Where the call is made, and with what was expected."""
    call = backplane.call("doers.ask", key="0", options=options)
    backplane.run_until_idle()
    assert " must be " in call.error().message and "got " in call.error().message


@pytest.mark.parametrize("operation", ["ask_strangely", "ask_nobody", "ask_with_a_list"])
def test_a_strange_call_ends_for_who_made_it(backplane: VirtualBackplane, operation: str) -> None:
    """Its arguments' own code raises, its route is no name, its arguments are no map."""
    call = backplane.call(f"doers.{operation}", key="0")
    backplane.run_until_idle()
    assert isinstance(call.error(), InternalError)
    assert backplane.call("doers.fine").result() == "fine"


def test_a_topics_message_that_cannot_be_taken_in_is_counted(backplane: VirtualBackplane) -> None:
    """Too deep to be copied for the second object; refused by an argument's own code."""
    body: Any = 1
    for _ in range(500):
        body = [body]
    backplane.publish("deep", body=body)
    backplane.publish("checked", what={"value": -1})
    backplane.run_until_idle()
    operations = backplane.backplane.statistics()["operations"]
    assert operations["doers.hear_checked"]["refused"] == 2
    assert operations["doers.hear"]["refused"] + operations["doers.hear"]["count"] == 2


class Custom(Action):
    """A user's own kind of work."""

    __slots__ = ("on_refuse",)

    def __init__(self, object: AppObject, **options: Any) -> None:
        super().__init__(object, options.get("name", "gate.go"), options.get("priority", 3), options.get("deadline_ns"))
        self.on_refuse: Callable[[], None] = options.get("on_refuse", lambda: None)

    def run(self) -> Outcome:
        self.result = "ran"
        return Outcome.DONE

    def refuse(self, error: BackplaneError) -> None:
        self.on_refuse()


class Door(Endpoint):
    """Makes what the test wants."""

    def create_action(self, request: Request) -> Action:
        return makes(self.object, request)

    object: AppObject


makes: Callable[[AppObject, Request], Action]


class Knockers(Component):
    """One object, which calls the endpoint."""

    def setup(self) -> None:
        self.add(Doer())


class Gate(Component):
    """Has a door, and little room."""

    max_requests = 1

    def setup(self) -> None:
        door = Door("go", priority=3)
        door.object = self.add(Doer())
        self.expose(door)

    def make_room(self, request: Action) -> bool:
        sys.exit(4)


def through_the_door(make: Callable[[AppObject, Request], Action], *, timeout: float | None = None) -> Any:
    global makes
    makes = make
    backplane = VirtualBackplane(Gate())
    _ = backplane.backplane
    call = backplane.call("gate.go", timeout=timeout)
    if timeout is not None:  # it arrives in time, and is chosen too late
        backplane.backplane.engine.drain(backplane.clock.now_ns())
        backplane.clock.sleep(2 * timeout)
    backplane.run_until_idle()
    assert backplane.call("gate.fine").result() == "fine"  # the object serves, and the throttle has its place back
    return call


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda object, request: sys.exit(3), "SystemExit: 3"),
        (lambda object, request: raised(Unspeakable()), "no message: KeyError"),
        (lambda object, request: Custom(object, priority=99), "priority 99, expected 0..7"),
        (lambda object, request: Custom(object, priority=1.5), "priority 1.5, expected an integer"),
        (lambda object, request: Custom(object, deadline_ns=1e20), "expected whole nanoseconds"),
        (lambda object, request: Custom(object, name=[]), "expected a string"),
        (lambda object, request: None, "must return an Action"),
    ],
)  # fmt: skip
def test_an_endpoint_that_fails_ends_its_own_call(make: Callable[..., Any], words: str) -> None:
    """Also where what it made would have broken a queue: with an impossible priority its object never ran again."""
    message = through_the_door(make).error().message
    assert words in message


@pytest.mark.parametrize("error", [Unlisted("x"), Locked(), Busy("x", retry_after="soon")])  # type: ignore[arg-type]
def test_an_endpoint_that_refuses_in_strange_words_ends_the_call_of_an_object(error: Busy) -> None:
    """A call within the backplane gets the error unpacked, and decides by its fields whether to try again."""
    global makes
    makes = lambda object, request: raised(error)  # noqa: E731
    backplane = VirtualBackplane(Knockers(), Gate())
    call = backplane.call("knockers.knock")
    backplane.advance(60.0)  # it is tried again
    assert isinstance(call.error(), BackplaneError)
    assert backplane.call("knockers.fine").result() == "fine"


def test_an_action_that_cannot_let_go_is_refused_all_the_same() -> None:
    """`refuse` is for users to override; it need not call ours, and it may fail."""
    for on_refuse in (lambda: None, lambda: raised(KeyError("refuse"))):

        def make(object: AppObject, request: Request, on_refuse: Any = on_refuse) -> Action:
            return Custom(object, deadline_ns=request.deadline_ns, on_refuse=on_refuse)

        assert isinstance(through_the_door(make, timeout=1.0).error(), DeadlineExceeded)


def test_what_is_called_at_the_end_may_fail() -> None:
    """The action has ended all the same, and its caller has been told."""

    def make(object: AppObject, request: Request) -> Action:
        action = Custom(object)
        action.on_end = lambda ended: raised(KeyError("on_end"))
        return action

    assert through_the_door(make).result() == "ran"


def test_a_component_that_fails_to_make_room_refuses_the_request() -> None:
    """The caller is told what failed; nobody else notices."""
    backplane = VirtualBackplane(Gate())
    _ = backplane.backplane
    calls = [backplane.call("gate.fine") for _ in range(2)]
    backplane.run_until_idle()
    assert calls[0].result() == "fine"
    assert "make_room: SystemExit: 4" in calls[1].error().message


def test_an_action_is_in_one_queue_at_a_time() -> None:
    """Posted twice it made a ring of its object's queue, and the worker went round in it for ever."""
    gate = Gate()
    backplane = VirtualBackplane(gate)
    _ = backplane.backplane
    action = Custom(gate.objects[0])
    gate.post(action)
    with pytest.raises(ValueError, match="this action object is posted already"):
        gate.post(action)
    with pytest.raises(ValueError, match=r"go: Doer is not in a component of this backplane"):
        gate.post(Custom(Doer()))
    with pytest.raises(ValueError, match="priority -1, expected"):
        gate.post(Custom(gate.objects[0], priority=-1))
    assert backplane.run_until_idle() == ["go"]
    gate.post(action)
    assert backplane.run_until_idle() == ["go"]


@dataclasses.dataclass
class Alike(AppObject):
    """Equal to all others of its kind, and unhashable."""

    count: int = 0

    @every(1.0)
    def tick(self) -> None:
        self.count += 1

    @operation()
    async def rest(self) -> str:
        await pause(0.1)
        return "rested"


class Twins(Component):
    """Two that are equal."""

    def setup(self) -> None:
        for _ in range(2):
            self.add(Alike())


def test_objects_may_be_equal_and_unhashable() -> None:
    """A dataclass is both; each has its own timer."""
    backplane = VirtualBackplane(Twins())
    _ = backplane.backplane
    backplane.advance(1.5)
    calls = [backplane.call("twins.rest", priority=priority) for priority in (5, 5, 1, 1)]
    backplane.advance(0.5)
    assert [call.result() for call in calls] == ["rested"] * 4
    assert [object.count for object in backplane.backplane.engine.registry.components["twins"].objects] == [2, 2]  # type: ignore[attr-defined]


class Link(AppObject):
    """Calls the next."""

    def __init__(self, next: int) -> None:
        self.next = next

    @operation()
    async def go(self) -> None:
        if self.next:
            await self.call("chain.go", key=str(self.next))
        await pause(100.0)


class Chain(Component):
    """Longer than Python's stack would allow for."""

    def setup(self) -> None:
        for number in range(LENGTH):
            self.add(Link((number + 1) % LENGTH), key=str(number))


LENGTH = 400


def test_a_long_chain_of_calls_can_be_cancelled() -> None:
    """Each call that is taken back takes back the next; by recursion this ended the process."""
    backplane = VirtualBackplane(Chain())
    _ = backplane.backplane
    call = backplane.call("chain.go", key="0")
    backplane.run_until_idle()
    call.cancel()
    backplane.run_until_idle()
    assert isinstance(call.error(), Cancelled)
    backplane.advance(0.0)
    assert not backplane.backplane.engine.accepted
    assert not backplane.backplane.engine.scheduler.waiting_count


def test_a_long_chain_of_calls_can_be_hurried() -> None:
    """Law 10. What is urgent and waits for the first waits for all of them, and each is told, one after the other."""
    backplane = VirtualBackplane(Chain())
    _ = backplane.backplane
    backplane.call("chain.go", key="0", priority=6)
    backplane.run_until_idle()
    backplane.call("chain.go", key="0", priority=1)
    backplane.run_until_idle()
    accepted = [*backplane.backplane.engine.accepted.values()]
    assert len(accepted) == LENGTH + 1
    assert {action.priority for action in accepted} == {1}


def test_an_unknown_kind_of_outcome_is_an_error() -> None:
    """And its `repr` may fail."""

    class Odd(Custom):
        __slots__ = ()

        def run(self) -> Any:
            return Unspeakable()

    assert "returned Unspeakable: expected" in through_the_door(lambda object, request: Odd(object)).error().message


def test_a_remote_call_needs_the_right_types_too(backplane: VirtualBackplane) -> None:
    """What the far end could not read would have spoilt the batch for all that travel with it."""
    call = backplane.call("doers.ask_with_a_list", key="0")
    backplane.run_until_idle()
    assert "expected a map" in call.error().message
    assert not backplane.outside_calls()


def test_a_call_of_an_argument_whose_code_fails(backplane: VirtualBackplane) -> None:
    """From outside it is an internal error of the operation."""
    call = backplane.hear_call(Envelope(CALL, 77, None, "doers.check", None, None, None, {"what": {"value": -1}}))
    assert call.error().message == "doers.check: KeyError: -1"
