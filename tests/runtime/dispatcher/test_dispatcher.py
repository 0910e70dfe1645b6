"""Dispatcher: messages come in by routes, topics and from inside, and handlers are called with what they are to be given."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from appbackplane.runtime.dispatcher import (
    DataProtector,
    Dispatcher,
    Handle,
    Message,
    NoHandler,
    Read,
    SelectiveProtector,
    message,
)
from appbackplane.runtime.dispatcher.dispatcher_base import DispatcherBase
from appbackplane.runtime.objects.component import Component
from appbackplane.runtime.objects.operation import operation
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import InternalError, InvalidArgument, NotFound, UnknownRoute
from tests.waiting import LIMIT_S


@message(category=900, id=1, key="room", topic="readings")
class Reading(Message):
    """What a device has measured."""

    room: str
    celsius: float
    unit: str = "C"


@message(category=900, id=2)
class Ask(Message):
    what: str


@message(category=900, id=3)
class Nobody(Message):
    pass


class Room:
    def __init__(self, name: str) -> None:
        self.name, self.celsius = name, 0.0


class Journal:
    def __init__(self) -> None:
        self.lines: list[str] = []


def note(reading: Reading, room: Room, journal: Journal) -> None:
    room.celsius = reading.celsius
    journal.lines.append(f"{room.name} {reading.celsius}")


def stumble(reading: Reading, room: Room) -> None:
    room.celsius += 100
    if reading.celsius > 1000:
        raise ValueError("that is not a room")


def answer(reading: Reading, journal: Read[Journal]) -> int:
    return len(journal.lines)


class Hub(Dispatcher):
    def setup(self) -> None:
        rooms = SelectiveProtector(Room)
        self.journal = Journal()
        journal = DataProtector(self.journal)
        for handler in (note,):
            self.register(handler, rooms, journal)
        self.register(stumble, rooms)
        self.register(answer, journal)


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
def backplane(hub: Hub) -> VirtualBackplane:
    return VirtualBackplane(hub)


def test_a_message_arrives_by_its_route_and_its_caller_gets_what_the_handler_returns(
    backplane: VirtualBackplane, hub: Hub
) -> None:
    """Fields as arguments, defaults and checks as those of an operation."""
    assert backplane.call("hub.reading", room="attic", celsius=18.5).result() == 1
    assert hub.journal.lines == ["attic 18.5"]
    error = backplane.call("hub.reading", room="attic", celsius="warm").error()
    assert isinstance(error, InvalidArgument)
    assert str(error) == (
        "hub.reading: argument 'celsius': expected `float`, got `str`; expected (room: str, celsius: float, unit: str = 'C')"
    )
    assert "unknown argument 'colour'" in str(backplane.call("hub.reading", room="a", celsius=1, colour=1).error())


def test_a_message_arrives_by_its_topic(backplane: VirtualBackplane, hub: Hub) -> None:
    """Nobody waits for an answer; what cannot be read is reported, and harms nothing."""
    backplane.publish("readings", room="attic", celsius=1.0)
    backplane.publish("readings", room="attic")
    backplane.publish("readings", room="cellar", celsius=2.0)
    assert backplane.run_until_idle() == ["reading", "reading"]
    assert hub.journal.lines == ["attic 1.0", "cellar 2.0"]


def test_what_others_see_of_a_message(backplane: VirtualBackplane) -> None:
    """`appbackplane routes` says what it takes and what is answered, and the directory that its topic is heard here."""
    entry = next(entry for entry in backplane.backplane.entries() if entry.name == "hub")
    operation = next(each for each in entry.operations if each.route == "hub.reading")
    assert operation.signature == "(room: str, celsius: float, unit: str = 'C') -> int"
    assert operation.summary == "What a device has measured."
    assert entry.topics == ("readings",)


def test_a_handler_that_raises_stops_no_other_and_what_it_changed_stays(
    backplane: VirtualBackplane, hub: Hub, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody can say what half a change means but who wrote the handler: the error names the data that it had."""
    with caplog.at_level(logging.ERROR):
        error = backplane.call("hub.reading", room="attic", celsius=2000.0).error()
    assert isinstance(error, InternalError)
    assert str(error) == (
        "hub.reading: handler stumble raised ValueError: that is not a room; its changes to Room 'attic' remain"
    )
    assert "that is not a room" in caplog.text and "Traceback" in caplog.text
    assert hub.journal.lines == ["attic 2000.0"], "the handler before it"
    figures = {each["handler"]: each for each in backplane.call("hub.handlers").result()}
    assert figures["answer"]["calls"] == 1, "and the one behind it"
    assert figures["stumble"]["failures"] == 1
    assert figures["stumble"]["backplane"] == "virtual", "of replicas each tells its own"


def test_a_failure_that_nobody_waits_for_is_in_the_log(
    backplane: VirtualBackplane, caplog: pytest.LogCaptureFixture
) -> None:
    """Or it would be nowhere."""
    with caplog.at_level(logging.ERROR):
        backplane.publish("readings", room="attic", celsius=2000.0)
        backplane.run_until_idle()
    assert "handler stumble raised ValueError" in caplog.text


def refuse(ask: Ask) -> None:
    raise NotFound(f"there is no {ask.what}")


def choose(ask: Ask, room: Read[Room]) -> None: ...


def test_an_answer_that_cannot_travel_is_the_handlers_mistake(caplog: pytest.LogCaptureFixture) -> None:
    """Not its caller's, who has asked for nothing wrong; and it is named, and in the log."""

    def give(_: Ask) -> Any:
        return {"room": Room("attic")}

    class Giver(Dispatcher):
        def setup(self) -> None:
            self.register(give)

    error = VirtualBackplane(Giver()).call("giver.ask", what="x").error()
    assert isinstance(error, InternalError) and "give raised TypeError: its result cannot be encoded" in str(error)
    assert "its result cannot be encoded" in caplog.text


def test_an_error_of_ours_that_a_handler_raises_is_what_its_caller_gets() -> None:
    """As from an operation; and an unknown key of a selective protector is the caller's mistake, too."""

    class Porter(Dispatcher):
        def setup(self) -> None:
            self.register(refuse)

    class Guide(Dispatcher):
        def setup(self) -> None:
            self.register(choose, SelectiveProtector({"hall": Room("hall")}, by="what"))

    backplane = VirtualBackplane(Porter(), Guide())
    error = backplane.call("porter.ask", what="unicorn").error()
    assert isinstance(error, NotFound) and str(error) == "there is no unicorn"
    error = backplane.call("guide.ask", what="attic").error()
    assert isinstance(error, NotFound) and "no Room 'attic'" in str(error)
    assert backplane.call("guide.ask", what="hall").result() is None


def leave(reading: Reading, room: Room) -> None:
    sys.exit(3)


def test_what_a_handler_or_a_selector_raises_ends_nothing_else(backplane: VirtualBackplane) -> None:
    """Not even sys.exit(): its locks go back, and the next message finds the data free."""

    class Odd(Dispatcher):
        def setup(self) -> None:
            self.register(leave, SelectiveProtector(Room, by=lambda reading: reading.room.upper()[2]))

    backplane = VirtualBackplane(Odd())
    for _ in range(2):
        error = backplane.call("odd.reading", room="attic", celsius=1.0).error()
        assert "handler leave raised SystemExit: 3; its changes to Room 'T' remain" in str(error)
    error = backplane.call("odd.reading", room="a", celsius=1.0).error()
    assert "choosing the data of handler leave raised IndexError: string index out of range" in str(error)


def test_a_message_without_a_handler_is_refused_where_it_is_sent(backplane: VirtualBackplane, hub: Hub) -> None:
    """By `dispatch` at once; by a route, because there is none."""
    _ = backplane.backplane
    with pytest.raises(NoHandler, match=r"Nobody has no handler in virtual/hub: register one in setup\(\)"):
        hub.dispatch(Nobody())
    with pytest.raises(TypeError, match="dispatch\\(42\\): expected a message"):
        hub.dispatch(42)  # type: ignore[arg-type]
    with pytest.raises(UnknownRoute, match=r"no route 'hub\.nobody'"):
        backplane.call("hub.nobody")


def test_an_idempotency_key_replays_the_answer(backplane: VirtualBackplane, hub: Hub) -> None:
    """Messages are calls like any others."""
    first = backplane.call("hub.reading", room="attic", celsius=1.0, idempotency_key="once").result()
    again = backplane.call("hub.reading", room="attic", celsius=1.0, idempotency_key="once").result()
    assert first == again == 1 and len(hub.journal.lines) == 1


@message(category=902, id=1, internal=True)
class TimedOut(Message):
    pass


def test_nobody_outside_sends_what_is_internal(backplane: VirtualBackplane) -> None:
    """A time-out that any client could send is no time-out."""

    happened: list[str] = []

    def on_time_out(_: TimedOut) -> None:
        happened.append("timed out")

    class Patient(Dispatcher):
        def setup(self) -> None:
            self.register(on_time_out)

    patient = Patient()
    backplane = VirtualBackplane(patient)
    with pytest.raises(UnknownRoute, match=r"no route 'patient\.timed_out'"):
        backplane.call("patient.timed_out")
    patient.dispatch(TimedOut())
    backplane.run_until_idle()
    assert happened == ["timed out"]
    assert [each["message"] for each in backplane.call("patient.handlers").result()] == ["timed_out"]


@message(category=902, id=2, topic="abroad", export=True)
class Known(Message):
    pass


@message(category=902, id=3, topic="home")
class Kept(Message):
    pass


def test_other_nodes_send_what_is_exported() -> None:
    """On its route and on its topic; no other."""

    def know(_: Known) -> None: ...

    def keep(_: Kept) -> None: ...

    class Open(Dispatcher):
        def setup(self) -> None:
            self.register(know)
            self.register(keep)

    (entry,) = VirtualBackplane(Open()).backplane.entries()
    assert {each.route for each in entry.operations if each.export} == {"open.known"}
    assert (entry.exported_topics, entry.topics) == (("abroad",), ("abroad", "home"))


def test_urgent_messages_go_first(backplane: VirtualBackplane, hub: Hub) -> None:
    """They wait in the scheduler's queues, and in no other."""
    _ = backplane.backplane
    for celsius in (1.0, 2.0):
        hub.dispatch(Reading("attic", celsius))
    hub.dispatch(Reading("cellar", 3.0), priority=0)
    backplane.run_until_idle()
    assert hub.journal.lines == ["cellar 3.0", "attic 1.0", "attic 2.0"]


class Ticket(Handle):
    """A message that is made when its turn has come."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        super().__init__(Reading.__message__)
        self.calls: list[str] = []

    def resolve(self) -> Message | None:
        self.calls.append("resolve")
        return Reading("attic", 5.0)

    def release(self) -> None:
        self.calls.append("release")


def test_a_handle_becomes_its_message_at_dispatch_and_is_released_after_the_last_handler(
    backplane: VirtualBackplane, hub: Hub
) -> None:
    """Seed 003, 3.2: what is queued is not the message."""
    _ = backplane.backplane
    ticket = Ticket()
    hub.dispatch(ticket)
    assert ticket.calls == []
    backplane.run_until_idle()
    assert ticket.calls == ["resolve", "release"] and hub.journal.lines == ["attic 5.0"]


def test_a_cancelled_handle_leaves_no_trace(backplane: VirtualBackplane, hub: Hub) -> None:
    """The paper's event cancellation: nobody is called, nothing is resolved."""
    _ = backplane.backplane
    ticket = Ticket()
    hub.dispatch(ticket)
    ticket.cancel()
    backplane.run_until_idle()
    assert ticket.calls == ["release"] and hub.journal.lines == [] and hub.vanished_count == 1


class Odd(Handle):
    """Written in a hurry."""

    __slots__ = ("released_count", "resolved")

    def __init__(self, resolved: Any, ordering_key: Any = None) -> None:
        super().__init__(Reading.__message__, ordering_key=ordering_key)
        self.resolved, self.released_count = resolved, 0

    def resolve(self) -> Message | None:
        if isinstance(self.resolved, BaseException):
            raise self.resolved
        return self.resolved  # type: ignore[no-any-return]

    def release(self) -> None:
        self.released_count += 1


@pytest.mark.parametrize(
    ("resolved", "says"),
    [
        (Ask("what"), "Odd.resolve() gave a Ask: expected a Reading, or None"),
        (5, "Odd.resolve() gave a int: expected a Reading, or None"),
        (SystemExit("enough"), "enough"),
        (NotFound("the body has gone"), "the body has gone"),
    ],
)
def test_a_handle_that_keeps_not_its_word_calls_nobody_and_is_released(
    backplane: VirtualBackplane, hub: Hub, caplog: pytest.LogCaptureFixture, resolved: Any, says: str
) -> None:
    """A source counts what it has given out: one handle that is never released stops it some time. And somebody is told."""
    _ = backplane.backplane
    odd = Odd(resolved)
    hub.dispatch(odd)
    backplane.run_until_idle()
    assert odd.released_count == 1 and hub.journal.lines == [] and says in caplog.text


def test_a_handle_that_cannot_be_released_undoes_nothing(
    backplane: VirtualBackplane, hub: Hub, caplog: pytest.LogCaptureFixture
) -> None:
    """Its handlers have done what they did; the source's fault is in the log."""
    _ = backplane.backplane

    class Stuck(Odd):
        __slots__ = ()

        def release(self) -> None:
            raise SystemExit("it does not come off")

    ended: list[BaseException | None] = []
    action = hub._action_of(Stuck(Reading("attic", 1.0)), None, None)
    on_end = action.on_end
    assert on_end is not None
    action.on_end = lambda action: (ended.append(action.error), on_end(action))  # type: ignore[func-returns-value]
    hub.post(action)
    backplane.run_until_idle()
    assert hub.journal.lines == ["attic 1.0"] and ended == [None] and "it does not come off" in caplog.text


class Unmade(Handle):
    def __init__(self) -> None:
        pass


def test_what_is_no_handle_yet_or_no_more_is_refused(backplane: VirtualBackplane, hub: Hub) -> None:
    """Where it is dispatched, in words; a handle that is dispatched twice would be released twice."""
    _ = backplane.backplane
    with pytest.raises(TypeError, match="Unmade has no message: super"):
        hub.dispatch(Unmade())
    with pytest.raises(
        TypeError, match="a message's key and a handle's ordering key, which keep messages in order, must be hashable"
    ):
        hub.dispatch(Odd(None, ordering_key=[]))
    with pytest.raises(TypeError, match="which keep messages in order"):
        hub.dispatch(Reading(["attic"], 1.0))  # type: ignore[arg-type]
    once = Odd(Reading("attic", 1.0))
    hub.dispatch(once)
    with pytest.raises(ValueError, match="this Odd was dispatched before: make a new one"):
        hub.dispatch(once)
    backplane.run_until_idle()
    assert once.released_count == 1 and hub.journal.lines == ["attic 1.0"] and not hub._queues.shared


# -- at the same time -----------------------------------------------------------------------------------------------------


@message(category=901, id=1, key="who")
class Step(Message):
    who: str
    number: int


@message(category=901, id=2)
class Meet(Message):
    pass


class Diary:
    def __init__(self) -> None:
        self.numbers: list[int] = []


def test_messages_of_one_key_keep_their_order_whoever_runs_them(running: Callable[..., Any], wait: Any) -> None:
    """Law 1, for messages: readings of one device out of order are a fault that nobody finds."""
    diaries = {who: Diary() for who in "abc"}
    count, done = 300, threading.Event()
    left = [3 * count]

    def write(step: Step, diary: Diary) -> None:
        diary.numbers.append(step.number)

    def tell(step: Step, total: Total) -> None:
        left[0] -= 1
        if not left[0]:
            done.set()

    class Book(Dispatcher):
        def setup(self) -> None:
            self.register(write, SelectiveProtector(diaries))
            self.register(tell, DataProtector(Total()))

    book = Book()
    running(book, threads=4)
    for number in range(count):
        for who in diaries:
            book.dispatch(Step(who, number))
    wait.until(done, "all steps")
    assert all(diary.numbers == list(range(count)) for diary in diaries.values())


class Total:
    pass


def test_messages_without_a_key_are_handled_side_by_side(running: Callable[..., Any], wait: Any) -> None:
    """Two of one message, by one handler, at once: they meet at a barrier, which one alone would never pass."""
    barrier, done = threading.Barrier(2), threading.Event()

    def meet(_: Meet) -> None:
        barrier.wait(LIMIT_S)
        done.set()

    class Place(Dispatcher):
        def setup(self) -> None:
            self.register(meet)

    place = Place()
    running(place, threads=2)
    place.dispatch(Meet())
    place.dispatch(Meet())
    wait.until(done, "both have met")


def test_who_waits_for_a_lock_takes_no_thread(running: Callable[..., Any], wait: Any) -> None:
    """With two workers, one of which holds the datum, ten that want it too leave the other one free."""
    holding, let_go, passed = threading.Event(), threading.Event(), threading.Event()
    seen: list[int] = []

    def hold(step: Step, diary: Diary) -> None:
        if step.number == 0:
            holding.set()
            let_go.wait(LIMIT_S)
        diary.numbers.append(step.number)
        seen.append(step.number)
        if len(seen) == 11:
            all_done.set()

    def go_past(_: Meet) -> None:
        passed.set()

    class House(Dispatcher):
        def setup(self) -> None:
            self.register(hold, DataProtector(Diary()))
            self.register(go_past)

    all_done = threading.Event()
    house = House()
    backplane = running(house, threads=2)
    house.dispatch(Step("0", 0))
    wait.until(holding, "the first holds the datum")
    for number in range(1, 11):
        house.dispatch(Step(str(number), number))
    house.dispatch(Meet())
    wait.until(passed, "somebody who needs no lock")
    why = backplane.why("real/house.queue-1")["steps"][0]["reasons"]
    assert "waits for the lock of Diary, held by house.step on real/house.queue-0" in why[0]["text"]
    assert why[0]["because"] == "locked"
    (of_all,) = backplane.why("real/house")["steps"]  # who asks knows the dispatcher, not its queues
    assert (of_all["route"], of_all["object"], of_all["count"]) == ("house.step", "real/house.queue-0", 11)
    assert of_all["reasons"][0]["because"] == "running"
    (of_route,) = backplane.why("house.step")["steps"]  # nobody waits for these: they are no calls
    assert (of_route["object"], of_route["count"]) == ("real/house.queue-0", 11)
    let_go.set()
    wait.until(all_done, "all others")
    assert seen == list(range(11)), "the oldest first"


def test_a_handler_that_blocks_is_reported_with_what_it_keeps_from_others(
    running: Callable[..., Any], wait: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Law 11: with its stack, taken while it runs; and with its name and its data, since those say who will wait."""
    holding, let_go = threading.Event(), threading.Event()

    def block(step: Step, diary: Diary) -> None:
        holding.set()
        let_go.wait(LIMIT_S)

    class Slow(Dispatcher):
        def setup(self) -> None:
            self.register(block, DataProtector(Diary()))

    slow = Slow()
    engine = running(slow, threads=1).engine
    slow.dispatch(Step("a", 1))
    wait.until(holding, "the handler runs")
    with caplog.at_level(logging.WARNING), engine.lead:
        worker = engine.poll_leader.workers[0]
        engine.reports.runs_slowly(worker.action, 60_000_000, engine.clock.now_ns(), None)
    let_go.set()
    assert "slow action: slow.step on real/slow.queue-0, in handler" in caplog.text
    assert "block with Diary locked, has been running for 60.0 ms" in caplog.text


class Clinic(Hub):
    """Names its own things as it likes."""

    def setup(self) -> None:
        super().setup()
        self.shards = self.queues = self.inner = self.mutex = "mine"

    @operation()
    def report(self) -> str:
        return self.mutex

    @operation()
    def ended(self) -> str:
        return self.inner


def test_names_that_are_not_said_to_be_the_dispatchers_are_its_users() -> None:
    """An operation called `report` would be told what went wrong, and no message would end."""
    own = {
        name
        for name in (*dir(Dispatcher), *Dispatcher.__annotations__, *DispatcherBase.__annotations__)
        if not name.startswith("_")
    }
    assert own - {*dir(Component), *Component.__annotations__} == {
        "attach", "dispatch", "eavesdrop", "eavesdroppers", "entries", "frozen", "handlers", "home_of",
        "priorities", "register", "registrations", "sharded", "vanished_count",
    }  # fmt: skip
    backplane = VirtualBackplane(Clinic())
    assert "that is not a room" in backplane.call("clinic.reading", room="attic", celsius=2000.0).error().args[0]
    assert backplane.call("clinic.report").result() == backplane.call("clinic.ended").result() == "mine"
