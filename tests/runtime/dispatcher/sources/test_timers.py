"""Timers: messages at a later time, and the cancellation that leaves no trace (seed 003, section 3.2)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from appbackplane.runtime.backplane import Backplane
from appbackplane.runtime.dispatcher import DataProtector, Dispatcher, Message, NoHandler, message
from appbackplane.runtime.dispatcher.sources import TimerSource
from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import Busy, InvalidArgument, Unavailable


@message(category=960, id=1)
class Ask(Message):
    server: str
    patience: float = 2.0


@message(category=960, id=2, priority=0)
class Answer(Message):
    server: str


@message(category=960, id=3)
class TimedOut(Message):
    server: str
    transaction: int = 0


@message(category=960, id=4)
class Tick(Message):
    pass


@message(category=960, id=5)
class Unheard(Message):
    pass


class Open:
    """Requests that are under way."""

    def __init__(self) -> None:
        self.timers: dict[str, int] = {}
        self.lines: list[str] = []


def ask(message: Ask, open: Open, timers: TimerSource) -> None:
    open.timers[message.server] = timers.begin(message.patience, TimedOut(message.server))


def answered(message: Answer, open: Open, timers: TimerSource) -> bool:
    return timers.cancel(open.timers.pop(message.server))


def timed_out(message: TimedOut, open: Open) -> None:
    assert open.timers.pop(message.server) == message.transaction
    open.lines.append(f"{message.server} is silent")


def ticked(message: Tick, open: Open) -> None:
    open.lines.append("tick")


class Hub(Dispatcher):
    def __init__(self) -> None:
        self.open, self.timers = Open(), TimerSource()

    def setup(self) -> None:
        open = DataProtector(self.open)
        self.register(ask, open, self.timers)
        self.register(answered, open, self.timers)
        self.register(timed_out, open)
        self.register(ticked, open)


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
def backplane(hub: Hub) -> VirtualBackplane:
    return VirtualBackplane(hub)


def test_a_handler_is_tested_with_timers_of_its_own() -> None:
    """Nothing fires there; what was begun can be looked at."""
    open, timers = Open(), TimerSource()
    ask(Ask("a"), open, timers)
    [(id, begun)] = timers.begun.items()
    assert (begun.seconds, begun.message, begun.every) == (2.0, TimedOut("a", transaction=id), None)
    assert answered(Answer("a"), open, timers) is True
    assert timers.begun == {}


def test_a_message_comes_when_its_time_has_come(hub: Hub, backplane: VirtualBackplane) -> None:
    """Law 8. With the id under which it was begun, so that who began it knows it again."""
    backplane.call("hub.ask", server="a").result()
    assert backplane.advance(1.999) == []
    assert backplane.advance(0.001) == ["timed_out"]
    assert hub.open.lines == ["a is silent"]
    assert hub.timers.begun == {}, "it is over"


def test_a_cancelled_timer_leaves_no_trace(hub: Hub, backplane: VirtualBackplane) -> None:
    """Before it has fired, nothing happens at all."""
    backplane.call("hub.ask", server="a").result()
    backplane.advance(1.0)
    assert backplane.call("hub.answer", server="a").result() is True
    assert backplane.advance(10.0) == []
    assert hub.open.lines == [] and hub.vanished_count == 0


def test_a_timer_that_has_fired_can_still_be_cancelled(hub: Hub, backplane: VirtualBackplane) -> None:
    """The point of handles: the time-out is in the queue already, behind the answer that takes it back."""
    backplane.call("hub.ask", server="a").result()
    backplane.clock.move(backplane.clock.now_ns() + 2_000_000_000)
    backplane.cast("hub.answer", server="a")
    assert backplane.run_until_idle() == ["answer", "timed_out"], "both were due, the answer more urgent"
    assert hub.open.lines == [], "its handler was not called"
    assert hub.vanished_count == 1
    assert hub.timers.cancel(12345) is False


def test_who_is_too_late_is_told(hub: Hub, backplane: VirtualBackplane) -> None:
    """`cancel` says whether it took it back."""
    backplane.run_until_idle()
    id = hub.timers.begin(1.0, Tick())
    backplane.advance(1.0)
    assert hub.timers.cancel(id) is False
    assert hub.open.lines == ["tick"]


def test_a_repeating_timer_stays_in_step(hub: Hub, backplane: VirtualBackplane) -> None:
    """First after `seconds`, then each `every`; and none any more once it is cancelled."""
    backplane.run_until_idle()
    id = hub.timers.begin(0.5, Tick(), every=2.0)
    ran = [len(backplane.advance(seconds)) for seconds in (0.4, 0.1, 1.9, 0.1, 4.0)]
    assert ran == [0, 1, 0, 1, 2]
    assert hub.timers.cancel(id) is True
    assert backplane.advance(10.0) == []


def test_a_repeating_timer_does_not_fill_the_queue(hub: Hub, backplane: VirtualBackplane) -> None:
    """While its last message has not been handled, the next is left out, and counted."""
    backplane.run_until_idle()
    hub.timers.begin(1.0, Tick(), every=1.0)
    backplane.clock.move(backplane.clock.now_ns() + 10_500_000_000)
    assert backplane.run_until_idle() == ["tick"]
    assert hub.timers.skipped_count == 9
    assert backplane.advance(0.5) == ["tick"], "in step with the first"


def test_what_is_begun_before_it_serves_begins_when_it_does(hub: Hub) -> None:
    """`setup` is the natural place for what runs all the time; and there is no clock yet."""
    hub.timers.begin(1.0, Tick(), every=1.0)
    backplane = VirtualBackplane(hub, role=None)
    backplane.move("initializing")
    assert backplane.advance(3.0) == []
    backplane.move("primary")
    assert backplane.advance(1.0) == ["tick"]


def test_nothing_begins_once_it_is_down(hub: Hub, backplane: VirtualBackplane) -> None:
    """And a timer that did not fire does not fire later, when the component is up again."""
    backplane.run_until_idle()
    hub.timers.begin(1.0, Tick(), every=1.0)
    backplane.move("down")
    assert backplane.advance(5.0) == []
    with pytest.raises(Unavailable, match="TimerSource of virtual/hub has stopped"):
        hub.timers.begin(1.0, Tick())
    backplane.move("initializing")
    id = hub.timers.begin(1.0, Tick())
    backplane.move("primary")
    assert backplane.advance(5.0) == ["tick"]
    assert hub.timers.cancel(id) is False


@pytest.mark.parametrize("every", [None, 1.0])
@pytest.mark.parametrize("ends", ["down", "drained"])
def test_what_has_fired_can_be_cancelled_although_its_source_has_stopped(
    hub: Hub, backplane: VirtualBackplane, every: float | None, ends: str
) -> None:
    """It is still to be handled. Who cancels it would be told that there is no such timer, and it would come after that."""
    backplane.run_until_idle()
    engine = backplane.backplane.engine
    cancelled, handled = (hub.timers.begin(1.0, Tick(), every=every) for _ in range(2))
    engine.drain(engine.now_ns() + 1_000_000_000)  # both fire, and are queued
    if ends == "down":
        hub.timers._stop()
    else:
        hub.timers._drain()
    assert hub.timers.cancel(cancelled) is True
    backplane.run_until_idle()
    assert hub.open.lines == ["tick"] and hub.vanished_count == 1
    assert hub.timers.cancel(handled) is False and not hub.timers.begun
    assert backplane.advance(5.0) == []


def test_what_was_begun_may_end_while_it_is_drained(hub: Hub, backplane: VirtualBackplane) -> None:
    """As with `after` and `@every`: a time-out belongs to its request, a repeating timer to nobody."""
    backplane.run_until_idle()
    hub.timers.begin(1.0, Tick(), every=1.0)
    hub.timers.begin(3.0, Tick())
    backplane.backplane.engine.lifecycle.suspend_timers()
    assert backplane.advance(5.0) == ["tick"]


@pytest.mark.parametrize(
    ("seconds", "every", "said"),
    [
        (-1, None, "in -1 s"),
        (float("nan"), None, "in nan s"),
        (1e12, None, "at most"),
        (1, 0, "every 0 s"),
        (1, -2, "every -2 s"),
        ("1", None, "in '1' s"),
        (1, "2", "every '2' s"),
    ],
)
def test_a_wrong_time_is_refused(hub: Hub, seconds: Any, every: Any, said: str) -> None:
    """At once, not when it is due."""
    with pytest.raises(InvalidArgument, match=said):
        hub.timers.begin(seconds, Tick(), every=every)


@pytest.mark.parametrize("what", [5, None, "text", Tick])
def test_what_is_no_message_is_refused_in_a_test_of_a_handler_too(what: Any) -> None:
    """A test that passes while the system fails is worth nothing."""
    timers = TimerSource()
    with pytest.raises(InvalidArgument, match=r"is not a message: (declare|construct)"):
        timers.begin(1.0, what)
    with pytest.raises(InvalidArgument, match=r"is not a message: (declare|construct)"):
        timers.emit(what)


def test_a_message_without_a_handler_is_refused(hub: Hub, backplane: VirtualBackplane) -> None:
    """When it is begun: whoever began it is to hear it, not the log, an hour later."""
    backplane.run_until_idle()
    with pytest.raises(NoHandler, match="Unheard has no handler in virtual/hub"):
        hub.timers.begin(1.0, Unheard())
    with pytest.raises(InvalidArgument, match="is not a message"):
        hub.timers.begin(1.0, "tick")  # type: ignore[arg-type]


def test_timers_count_as_what_a_component_gives_itself_to_do() -> None:
    """A loop that begins them would fill any memory. What ends, or is taken back, gives its place back."""

    class Small(Hub):
        max_posted = 3

    hub = Small()
    backplane = VirtualBackplane(hub)
    backplane.run_until_idle()
    ids = [hub.timers.begin(1.0, Tick()) for _ in range(2)]
    ids.append(hub.timers.begin(1.0, Tick(), every=1.0))
    with pytest.raises(Busy):
        hub.timers.begin(1.0, Tick())
    hub.timers.cancel(ids[0])
    hub.timers.begin(1.0, Tick())
    assert sorted(backplane.advance(1.0)) == ["tick"] * 3
    for _ in range(2):
        hub.timers.begin(1.0, Tick())
    with pytest.raises(Busy):
        hub.timers.begin(1.0, Tick())
    assert len(hub.timers.begun) == 3, "what was refused is not kept"


def late(message: Ask, open: Open, timers: TimerSource) -> None:
    timers.begin(1.0, Answer(message.server))


def test_its_message_has_its_own_priority(hub: Hub, backplane: VirtualBackplane) -> None:
    """Not that of the handler that began it: an urgent alarm is set by dull work."""

    class Alarm(Dispatcher):
        def setup(self) -> None:
            open = DataProtector(Open())
            self.register(late, open, TimerSource())
            self.register(answered, open, TimerSource())

    backplane = VirtualBackplane(Alarm())
    backplane.call("alarm.ask", server="a", priority=7).result()
    backplane.clock.move(backplane.clock.now_ns() + 1_000_000_000)
    backplane.cast("alarm.ask", server="b", priority=1)
    assert backplane.run_until_idle() == ["answer", "ask"]


class Holding(Dispatcher):
    """Its handler holds the datum until the time-out waits for it, and only then takes it back."""

    def __init__(self) -> None:
        self.open, self.timers = Open(), TimerSource()
        self.is_waited_for: Callable[[], bool] = lambda: False
        self.done = threading.Event()

    def setup(self) -> None:
        def hold(message: Ask, open: Open) -> None:
            id = self.timers.begin(0.0, TimedOut(message.server))
            tick = threading.Event()
            for _ in range(10_000):
                if self.is_waited_for():
                    break
                tick.wait(0.002)
            open.lines.append(f"cancelled: {self.timers.cancel(id)}")

        def finish(message: Tick, open: Open) -> None:
            self.done.set()

        open = DataProtector(self.open)
        self.register(hold, open)
        self.register(timed_out, open)
        self.register(finish, open)
        self.attach(self.timers)


def test_a_message_that_waits_for_its_lock_can_still_be_cancelled(running: Callable[..., Backplane], wait: Any) -> None:
    """It has been resolved, and waits behind the very handler that takes it back: it is looked at again with the lock."""
    holding = Holding()
    backplane = running(holding, threads=2)
    with backplane.engine.lead:
        for state in (ModuleState.INITIALIZING, ModuleState.PRIMARY):
            backplane.engine.lifecycle.move("holding", state, lambda error: None)
    holding.is_waited_for = lambda: backplane.engine.scheduler.waiting_count == 2
    holding.dispatch(Ask("a"))
    holding.dispatch(Tick(), priority=7)
    wait.until(holding.done, "the end")
    assert holding.open.lines == ["cancelled: True"]
    assert [entry.calls_count for entry in holding.entries] == [1, 0, 1]


def test_a_timer_that_falls_due_while_it_is_cancelled_does_not_fire(hub: Hub, backplane: VirtualBackplane) -> None:
    """By another thread, without the lead: the scheduler has it in its hand already."""
    backplane.run_until_idle()
    id = hub.timers.begin(1.0, Tick())
    timer = hub.timers._timers[id]
    hub.timers.cancel(id)
    assert timer.fire() is None


TIMERS = 400


class Ledger:
    """How each of many timers ended."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.cancelled: set[int] = set()
        self.handled: list[int] = []
        self.done = threading.Event()

    def check(self) -> None:
        if len(self.cancelled) + len(self.handled) == TIMERS:
            self.done.set()


def start_many(message: Ask, ledger: Ledger, timers: TimerSource) -> None:
    ledger.begun += [timers.begin(0.0005 * n, TimedOut("x")) for n in range(TIMERS)]
    timers.begin(0.05, Answer("x"))


def take_back_all(message: Answer, ledger: Ledger, timers: TimerSource) -> None:
    ledger.cancelled.update(id for id in ledger.begun if timers.cancel(id))
    ledger.check()


def count(message: TimedOut, ledger: Ledger) -> None:
    assert message.transaction not in ledger.cancelled
    ledger.handled.append(message.transaction)
    ledger.check()


class Racing(Dispatcher):
    def __init__(self) -> None:
        self.ledger = Ledger()

    def setup(self) -> None:
        timers, ledger = TimerSource(), DataProtector(self.ledger)
        self.register(start_many, ledger, timers)
        self.register(take_back_all, ledger, timers)
        self.register(count, ledger)


def test_who_shares_a_datum_with_the_handler_is_sure(running: Callable[..., Backplane], wait: Any) -> None:
    """Seed 003, section 5: a cancel that holds a datum which the handler shares is never followed by the handler.

    Real threads: many timers fall due while they are being taken back. Each ends once, cancelled or handled.
    """
    racing = Racing()
    backplane = running(racing, threads=4)
    with backplane.engine.lead:
        for state in (ModuleState.INITIALIZING, ModuleState.PRIMARY):
            backplane.engine.lifecycle.move("racing", state, lambda error: None)
    racing.dispatch(Ask("x"))
    wait.until(racing.ledger.done, "an end for each")
    assert racing.ledger.cancelled.isdisjoint(racing.ledger.handled)
    assert [entry.failures_count for entry in racing.entries] == [0, 0, 0]
