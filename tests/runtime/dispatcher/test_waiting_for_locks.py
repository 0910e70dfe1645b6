"""Who waits for a lock: those in its way inherit its priority, and it ends as anything does that has not begun.

In one thread: what another worker does meanwhile is done in the middle of a handler (`meanwhile`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from appbackplane.runtime.dispatcher import Accessor, DataProtector, Dispatcher, Handle, Message, message
from appbackplane.runtime.dispatcher.locking import Lock
from appbackplane.runtime.dispatcher.registrations import Registrations
from appbackplane.runtime.execution.sentinel.draining import Draining
from appbackplane.runtime.execution.services.engine_platform import EnginePlatform
from appbackplane.runtime.execution.workers.current import current
from appbackplane.runtime.objects.action import Action
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.envelope import BOOST, Envelope
from appbackplane.transport.errors import Cancelled, DeadlineExceeded, Unavailable
from tests.waiting import LIMIT_S, wait_until


class Datum:
    def __init__(self, name: str) -> None:
        self.name = name


class One(Datum):
    pass


class Two(Datum):
    pass


class Step(Message):
    name: str


@message(category=70, id=1)
class UseOne(Step):
    pass


@message(category=70, id=2)
class UseTwo(Step):
    pass


@message(category=70, id=3)
class UseBoth(Step):
    pass


@message(category=70, id=4)
class UseNothing(Step):
    pass


@message(category=70, id=5, key="name")
class InOrder(Step):
    pass


@message(category=70, id=6)
class OneThenTwo(Step):
    pass


@message(category=70, id=7, key="name")
class ReachForOne(Step):
    pass


@message(category=70, id=8)
class RegisterLate(Step):
    pass


class House(Dispatcher):
    """What its handlers do is the test's, by the name that a message has."""

    def __init__(self, *, has_accessor: bool = False) -> None:
        self.order: list[str] = []
        self.script: dict[str, Callable[[], None]] = {}
        self.actions: dict[str, Action] = {}
        self.has_accessor = has_accessor
        self.failures: list[BaseException] = []

    def _report(self, action: Action, error: BaseException) -> None:
        """A handler of the test's has found something wrong."""
        self.failures.append(error.__cause__ or error)

    def setup(self) -> None:
        one, two = DataProtector(One("one")), DataProtector(Two("two"))

        def step(message: Step) -> None:
            self.order.append(message.name)
            action = current.action
            assert action is not None
            self.actions[message.name] = action
            self.script.pop(message.name, _nothing)()

        def use_one(message: UseOne, one: One) -> None:
            step(message)

        def use_two(message: UseTwo, two: Two) -> None:
            step(message)

        def use_both(message: UseBoth, one: One, two: Two) -> None:
            step(message)

        def use_nothing(message: UseNothing) -> None:
            step(message)

        def in_order(message: InOrder, one: One) -> None:
            step(message)

        def one_first(message: OneThenTwo, one: One) -> None:
            step(message)

        def then_two(message: OneThenTwo, two: Two) -> None:
            self.order.append(f"{message.name} again")

        def reach_for_one(message: ReachForOne, one: Accessor[One]) -> None:
            with one.lock():
                step(message)

        for handler in (use_one, one_first, in_order):
            self.register(handler, one)
        for handler in (use_two, then_two):
            self.register(handler, two)
        self.register(use_both, one, two)
        self.register(use_nothing)
        if self.has_accessor:
            self.register(reach_for_one, one.accessor)


def _nothing() -> None:
    """The script of a message without one."""


@pytest.fixture
def house() -> Iterator[House]:
    house = House()
    yield house
    for failure in house.failures:
        raise failure


@pytest.fixture
def backplane(house: House) -> VirtualBackplane:
    backplane = VirtualBackplane(house)
    _ = backplane.backplane
    return backplane


def meanwhile(backplane: VirtualBackplane, before_it_is_put_aside: Callable[[], object] = lambda: None) -> None:
    """What another worker does while this handler is in the middle of something: all there is."""
    engine = backplane.backplane.engine
    other, outer = backplane.backplane.stand_in_worker(99), current.worker
    current.worker = other
    try:
        engine.drain(backplane.clock.now_ns())
        while (action := engine.choose(other)) is not None:
            ended = engine.execute(other, action)
            before_it_is_put_aside()
            engine.drain(backplane.clock.now_ns())
            engine.complete(action, *ended)
    finally:
        current.worker = outer


def test_who_holds_it_inherits_from_who_waits_for_it(house: House, backplane: VirtualBackplane) -> None:
    """Law 10. Else whatever is of middle priority keeps the holder, and with him the most urgent, from going on."""

    def low() -> None:
        house.dispatch(UseOne("urgent"), priority=0)
        meanwhile(backplane)
        assert house.actions["low"].priority == 0
        house.dispatch(UseNothing("middle"), priority=3)

    house.script["low"] = low
    house.dispatch(UseOne("low"), priority=7)
    backplane.run_until_idle()
    assert house.order == ["low", "urgent", "middle"]


def test_all_who_stand_in_its_way_inherit_one_after_the_other(house: House, backplane: VirtualBackplane) -> None:
    """Law 10. The urgent waits for one who is parked, who waits for one who runs: his end is what it waits for."""
    seen: list[int] = []

    def holds_two() -> None:
        house.dispatch(UseBoth("has one"), priority=5)
        meanwhile(backplane)
        seen.append(house.actions["holds two"].priority)
        house.dispatch(UseOne("urgent"), priority=0)
        meanwhile(backplane)
        seen.append(house.actions["holds two"].priority)
        house.dispatch(UseNothing("middle"), priority=3)

    house.script["holds two"] = holds_two
    house.dispatch(UseTwo("holds two"), priority=7)
    backplane.run_until_idle()
    assert seen == [5, 0]
    assert house.order == ["holds two", "has one", "urgent", "middle"], "and once it is resumed, it goes first"


def test_one_who_has_been_let_in_and_is_queued_inherits(house: House, backplane: VirtualBackplane) -> None:
    """Law 10. It has what the urgent waits for, and no worker: it must not queue behind what is of middle priority."""

    def bulk() -> None:
        assert "low" not in house.order, "it has both locks, and is queued behind"
        house.dispatch(UseOne("urgent"), priority=0)
        meanwhile(backplane)
        assert house.order == ["holds two", "bulk", "low", "urgent", "more bulk"]

    def holds_two() -> None:
        house.dispatch(UseBoth("low"), priority=5)
        meanwhile(backplane)
        house.dispatch(UseNothing("bulk"), priority=3)
        house.dispatch(UseNothing("more bulk"), priority=3)

    house.script["holds two"], house.script["bulk"] = holds_two, bulk
    house.dispatch(UseTwo("holds two"), priority=7)
    backplane.run_until_idle()
    assert house.order == ["holds two", "bulk", "low", "urgent", "more bulk"]


def test_who_gets_one_lock_and_waits_for_the_next_is_inherited_from_there(
    house: House, backplane: VirtualBackplane
) -> None:
    """Law 10. It is let in by another's end, while it is parked: nobody but he who let it in can see whom it waits for now."""

    def holds_one() -> None:
        house.dispatch(UseBoth("waits"), priority=2)
        meanwhile(backplane)
        assert house.actions["holds one"].priority == 2
        assert house.actions["holds two"].priority == 7

    def holds_two() -> None:
        house.dispatch(UseOne("holds one"), priority=6)
        meanwhile(backplane)
        assert house.actions["holds two"].priority == 2

    house.script["holds one"], house.script["holds two"] = holds_one, holds_two
    house.dispatch(UseTwo("holds two"), priority=7)
    backplane.run_until_idle()
    assert house.order == ["holds two", "holds one", "waits"]


def test_what_queues_behind_it_counts_for_it(house: House, backplane: VirtualBackplane) -> None:
    """Laws 1, 2 and 10. Messages of one key wait for the first of them, so the urgent one hurries what that waits for."""

    def holds_one() -> None:
        house.dispatch(InOrder("key"), priority=5)
        meanwhile(backplane)
        assert house.actions["holds one"].priority == 5
        house.dispatch(InOrder("key"), priority=1)
        assert house.actions["holds one"].priority == 1

    house.script["holds one"] = holds_one
    house.dispatch(UseOne("holds one"), priority=7)
    backplane.run_until_idle()
    assert house.order == ["holds one", "key", "key"]


def test_what_becomes_urgent_behind_it_counts_for_it(house: House, backplane: VirtualBackplane) -> None:
    """The same, when something urgent has come to wait for the caller of one that is queued already."""

    def holds_one() -> None:
        backplane.call("house.in_order", name="key", priority=5)
        call = backplane.call("house.in_order", name="key", priority=5)
        meanwhile(backplane)
        assert house.actions["holds one"].priority == 5
        backplane.hear(Envelope(BOOST, call._id, 0))
        meanwhile(backplane)
        assert house.actions["holds one"].priority == 0

    house.script["holds one"] = holds_one
    house.dispatch(UseOne("holds one"), priority=7)
    backplane.run_until_idle()


@pytest.mark.parametrize("kind", ["waits for the lock", "queues behind one that does", "is less urgent now"])
def test_who_holds_it_falls_back_when_the_urgent_is_taken_back(
    house: House, backplane: VirtualBackplane, kind: str
) -> None:
    """Law 10, "until it is out of the way". To the most urgent of the others that wait, and not further."""
    seen: list[int] = []

    def holds_one() -> None:
        route = "house.in_order" if kind == "queues behind one that does" else "house.use_one"
        backplane.call(route, name="bulk", priority=5)
        meanwhile(backplane)
        urgent = backplane.call(route, name="bulk", priority=0)
        meanwhile(backplane)
        seen.append(house.actions["holds one"].priority)
        if kind == "is less urgent now":
            backplane.hear(Envelope(BOOST, urgent._id, 6))
        else:
            urgent.cancel()
        meanwhile(backplane)
        seen.append(house.actions["holds one"].priority)

    house.script["holds one"] = holds_one
    house.dispatch(UseOne("holds one"), priority=7)
    backplane.run_until_idle()
    assert seen == [0, 5]
    assert_nothing_is_left(house, backplane)


# -- ends that are none ---------------------------------------------------------------------------------------------------


def test_who_waits_can_be_taken_back(house: House, backplane: VirtualBackplane) -> None:
    """Nothing of it has begun. Else its caller, who has gone, keeps its place in the throttle and its turn at the lock."""

    def holds_one() -> None:
        call = backplane.call("house.use_one", name="taken back")
        house.dispatch(UseOne("next"))
        meanwhile(backplane)
        call.cancel()
        meanwhile(backplane)
        backplane.backplane.engine.flush(backplane.clock.now_ns())
        errors.append(call.error())

    errors: list[Exception] = []
    house.script["holds one"] = holds_one
    house.dispatch(UseOne("holds one"))
    backplane.run_until_idle()
    assert isinstance(errors[0], Cancelled)
    assert house.order == ["holds one", "next"]
    assert_nothing_is_left(house, backplane)


def test_who_is_about_to_wait_is_taken_back_as_well(house: House, backplane: VirtualBackplane) -> None:
    """It has asked for the lock and is not put aside yet: its handler need not begin, for nobody wants the answer."""
    calls: list[Any] = []

    def holds_one() -> None:
        calls.append(backplane.call("house.use_one", name="waits"))
        meanwhile(backplane, calls[0].cancel)

    house.script["holds one"] = holds_one
    house.dispatch(UseOne("holds one"))
    backplane.run_until_idle()
    house.dispatch(UseOne("next"))
    backplane.run_until_idle()
    assert house.order == ["holds one", "next"]
    assert isinstance(calls[0].error(), Cancelled)
    assert_nothing_is_left(house, backplane)


def test_who_has_begun_is_not_taken_back(house: House, backplane: VirtualBackplane) -> None:
    """A message that some of its handlers have seen and others never see is worse than an answer nobody wants."""

    def holds_two() -> None:
        call = backplane.call("house.one_then_two", name="both")
        meanwhile(backplane)
        call.cancel()
        meanwhile(backplane)
        assert house.order == ["holds two", "both"]

    house.script["holds two"] = holds_two
    house.dispatch(UseTwo("holds two"))
    backplane.run_until_idle()
    assert house.order == ["holds two", "both", "both again"]
    assert_nothing_is_left(house, backplane)


def test_nor_is_who_has_begun_and_is_queued_again(house: House, backplane: VirtualBackplane) -> None:
    """It has its locks, and waits for a worker alone."""

    def bulk() -> None:
        calls[0].cancel()
        meanwhile(backplane)

    def holds_two() -> None:
        calls.append(backplane.call("house.one_then_two", name="both", priority=5))
        meanwhile(backplane)
        house.dispatch(UseNothing("bulk"), priority=1)

    calls: list[Any] = []
    house.script["holds two"], house.script["bulk"] = holds_two, bulk
    house.dispatch(UseTwo("holds two"), priority=7)
    backplane.run_until_idle()
    assert house.order == ["holds two", "both", "bulk", "both again"]
    assert_nothing_is_left(house, backplane)


def test_a_lock_that_comes_too_late_goes_to_the_next(house: House, backplane: VirtualBackplane) -> None:
    """Nobody waits for it any more, and it must not keep what it was given."""

    def holds_one() -> None:
        calls.append(backplane.call("house.use_one", name="too late", timeout=1.0))
        meanwhile(backplane)
        house.dispatch(UseOne("next"))
        meanwhile(backplane)
        backplane.clock.sleep(2.0)

    calls: list[Any] = []
    house.script["holds one"] = holds_one
    house.dispatch(UseOne("holds one"))
    backplane.run_until_idle()
    assert isinstance(calls[0].error(), DeadlineExceeded)
    assert house.order == ["holds one", "next"]
    assert_nothing_is_left(house, backplane)


def test_at_the_limit_of_a_drain_who_waits_is_refused(house: House, backplane: VirtualBackplane) -> None:
    """It has not begun, so it can safely be asked again; who has begun is waited for, and named."""
    answers: list[Any] = []

    def holds_two() -> None:
        house.dispatch(OneThenTwo("begun"))
        waits = backplane.call("house.use_two", name="waits")
        meanwhile(backplane)
        engine, now_ns = backplane.backplane.engine, backplane.clock.now_ns()
        draining = Draining(
            engine, limit_ns=0, stop_limit_ns=0, because="is being restarted",
            answer=lambda result, error: answers.append(result), now_ns=now_ns,
        )  # fmt: skip
        while not draining.is_over:
            draining.look(now_ns)
        engine.flush(now_ns)
        assert isinstance(waits.error(), Unavailable)

    house.script["holds two"] = holds_two
    house.dispatch(UseTwo("holds two"))
    backplane.run_until_idle()
    assert answers == [{"refused": 1, "running": ["house.one_then_two", "house.use_two"], "unread": 0}]
    assert house.order == ["holds two", "begun", "begun again"]
    assert_nothing_is_left(house, backplane)


def test_a_handle_that_cannot_be_let_go_of_leaves_no_ghost(house: House, backplane: VirtualBackplane) -> None:
    """A source's fault; the lock would be given to a message that has ended, and to nobody after it."""

    class Broken(Handle):
        def resolve(self) -> Message:
            return UseOne("never")

        def release(self) -> None:
            raise OSError("it is gone")

    def holds_one() -> None:
        house.dispatch(Broken(UseOne.__message__))
        meanwhile(backplane)
        [parked] = backplane.backplane.engine.parking.parked.values()
        assert backplane.backplane.engine.parking.take_back(parked, Cancelled("not any more"), 0)
        house.dispatch(UseOne("next"))

    house.script["holds one"] = holds_one
    house.dispatch(UseOne("holds one"))
    backplane.run_until_idle()
    assert house.order == ["holds one", "next"]
    assert [str(house.failures.pop())] == ["it is gone"], "somebody is told"
    assert_nothing_is_left(house, backplane)


class LateHouse(House):
    """A handler with an accessor is registered by a message."""

    def setup(self) -> None:
        super().setup()

        def reach(message: UseNothing, one: Accessor[One]) -> None:
            self.order.append(f"{message.name} has reached")

        def register_late(message: RegisterLate, registrations: Registrations) -> None:
            registrations.register(reach, DataProtector(One("another")).accessor)

        self.register(register_late, self.registrations)


def test_the_lock_of_a_source_is_kept_though_a_handler_with_an_accessor_is_registered_meanwhile() -> None:
    """Another message of the source came in between, which may reuse the memory that this one lies in."""
    house = LateHouse()
    backplane = VirtualBackplane(house)
    source = Lock((-1, 0, 0), "the source")

    class Made(Handle):
        def __init__(self, name: str, then: Callable[[], None] = _nothing) -> None:
            super().__init__(UseNothing.__message__, lock=source)
            self.name, self.then = name, then

        def resolve(self) -> Message:
            house.order.append(f"{self.name} is resolved")
            self.then()
            return UseNothing(self.name)

        def release(self) -> None:
            house.order.append(f"{self.name} is released")

    def while_it_is_resolved() -> None:
        house.dispatch(Made("second"))
        house.dispatch(RegisterLate("reach"))
        meanwhile(backplane)

    _ = backplane.backplane
    house.dispatch(Made("first", while_it_is_resolved))
    backplane.run_until_idle()
    steps = ("{} is resolved", "{}", "{} has reached", "{} is released")
    assert house.order == [step.format(name) for name in ("first", "second") for step in steps]
    assert house.failures == []


def assert_nothing_is_left(house: House, backplane: VirtualBackplane) -> None:
    """All locks are free, and nothing waits."""
    engine = backplane.backplane.engine
    assert not engine.parking.parked
    assert not engine.inheritance._awaiting
    assert engine.scheduler.waiting_count == 0
    for entry in house.entries:
        claims, _ = entry.prepare(None, None)  # type: ignore[arg-type]
        assert not any(claim.lock.holders or claim.lock.waiting for claim in claims)


# -- in threads -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def blocking(monkeypatch: pytest.MonkeyPatch, replaceable: None) -> threading.Semaphore:
    """Counts up whenever a thread is about to wait for a lock, and whoever is in its way has been told."""
    count = threading.Semaphore(0)
    begins_to_block = EnginePlatform.begins_to_block

    def watched(self: EnginePlatform, action: Any) -> None:
        begins_to_block(self, action)
        count.release()

    monkeypatch.setattr(EnginePlatform, "begins_to_block", watched)
    return count


def test_who_waits_in_its_thread_is_inherited_from_as_well(
    running: Callable[..., Any], wait: Any, blocking: threading.Semaphore
) -> None:
    """Law 10. In an accessor, and with what comes to wait behind it later."""
    house = House(has_accessor=True)
    holding, let_go, done = threading.Event(), threading.Event(), threading.Event()

    def holds_one() -> None:
        holding.set()
        wait.until(let_go, "the test")

    house.script["holds one"] = holds_one
    running(house, threads=2)
    house.dispatch(UseOne("holds one"), priority=7)
    wait.until(holding, "it holds one")
    holder = house.actions["holds one"]
    house.dispatch(ReachForOne("key"), priority=5)
    assert blocking.acquire(timeout=LIMIT_S)
    assert holder.priority == 5
    house.script["key"] = lambda: house.script.update(key=done.set)
    house.dispatch(ReachForOne("key"), priority=1)
    assert holder.priority == 1
    let_go.set()
    wait.until(done, "both")
    assert house.order == ["holds one", "key", "key"]
    assert not house.failures


def test_who_waits_for_its_data_holds_no_thread_though_others_have_accessors(
    running: Callable[..., Any], wait: Any
) -> None:
    """One accessor in a dispatcher once made all messages wait in their threads: a few for one datum stopped the others."""
    house = House(has_accessor=True)
    holding, let_go, free, done = threading.Event(), threading.Event(), threading.Event(), threading.Event()

    def holds_one() -> None:
        holding.set()
        wait.until(let_go, "the test")

    house.script |= {"holds one": holds_one, "free": free.set, "last": done.set}
    backplane = running(house, threads=2)
    house.dispatch(UseOne("holds one"))
    wait.until(holding, "it holds one")
    for number in range(3):
        house.dispatch(UseOne(f"waits {number}"))
    house.dispatch(UseNothing("free"))
    wait.until(free, "what needs no data")
    assert backplane.engine.parking.spares == 0
    let_go.set()
    house.dispatch(UseOne("last"))
    wait.until(done, "all of them")
    assert house.order == ["holds one", "free", "waits 0", "waits 1", "waits 2", "last"]


def test_when_all_threads_wait_in_accessors_a_spare_one_runs_who_they_wait_for(
    running: Callable[..., Any], wait: Any, blocking: threading.Semaphore
) -> None:
    """Who was put aside may get its locks when no other thread is left; without a spare one all would wait for ever."""
    house = House(has_accessor=True)
    holding, let_go, done = threading.Event(), threading.Event(), threading.Event()

    def holds_two() -> None:
        holding.set()
        wait.until(let_go, "the test")

    house.script |= {"holds two": holds_two, "last": done.set}
    backplane = running(house, threads=2)
    house.dispatch(UseTwo("holds two"))
    wait.until(holding, "it holds two")
    both = house._action_of(UseBoth("has one, waits for two"), None, None)
    house.post(both)
    wait_until(lambda: id(both) in backplane.engine.parking.parked, "it is not put aside")
    house.dispatch(ReachForOne("first"))
    assert blocking.acquire(timeout=LIMIT_S)
    house.dispatch(ReachForOne("last"), priority=0)  # before what two is handed to
    assert blocking.acquire(timeout=LIMIT_S)
    let_go.set()
    wait.until(done, "all of them")
    assert backplane.engine.parking.spares == 2


def test_so_many_messages_at_a_time_may_wait_in_accessors(
    running: Callable[..., Any], wait: Any, blocking: threading.Semaphore
) -> None:
    """Each has a spare thread. The others are put aside until one has ended; what has no accessor goes on."""
    house = House(has_accessor=True)
    house._places.readers_max = 1
    holding, let_go, free, done = threading.Event(), threading.Event(), threading.Event(), threading.Event()

    def holds_one() -> None:
        holding.set()
        wait.until(let_go, "the test")

    house.script |= {"holds one": holds_one, "free": free.set, "last": done.set}
    backplane = running(house, threads=2)
    house.dispatch(UseOne("holds one"))
    wait.until(holding, "it holds one")
    house.dispatch(ReachForOne("first"))
    assert blocking.acquire(timeout=LIMIT_S)
    last = house._action_of(ReachForOne("last"), None, None)
    house.post(last)
    wait_until(lambda: id(last) in backplane.engine.parking.parked, "it is not put aside")
    assert last.waits_because() == "the lock of accessors (32 messages at a time)"
    house.dispatch(UseNothing("free"))
    wait.until(free, "what has no accessor")
    assert backplane.engine.parking.spares == 1
    let_go.set()
    wait.until(done, "all of them")
    assert house.order == ["holds one", "free", "first", "last"]


def test_a_thread_that_waits_leaves_its_work_to_others(
    running: Callable[..., Any], wait: Any, blocking: threading.Semaphore
) -> None:
    """What it would have done next is done by whoever is free, and the link is looked after."""
    house = House(has_accessor=True)
    holding, let_go, done = threading.Event(), threading.Event(), threading.Event()

    def holds_one() -> None:
        holding.set()
        wait.until(let_go, "the test")

    house.script |= {"holds one": holds_one, "free": done.set}
    running(house, threads=3)
    house.dispatch(UseOne("holds one"))
    wait.until(holding, "it holds one")
    house.dispatch(ReachForOne("key"))
    assert blocking.acquire(timeout=LIMIT_S)
    house.dispatch(UseNothing("free"))
    wait.until(done, "the third worker")
    let_go.set()
