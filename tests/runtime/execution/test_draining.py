"""Draining: what has been asked is finished before a backplane goes down, and who cannot be served is told, each once."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from appbackplane.runtime import (
    AppObject,
    Component,
    FailedPrecondition,
    PeerDown,
    StateMachine,
    Unavailable,
    every,
    operation,
    pause,
    subscribe,
)
from appbackplane.runtime.execution.actions.method_action import MethodAction
from appbackplane.runtime.execution.sentinel import draining
from appbackplane.runtime.execution.sentinel.draining import FAREWELL_NS, GRACE_NS, LOOK_NS, RECENT_NS, Draining
from appbackplane.runtime.testing import VirtualBackplane, VirtualCall

LIMIT_S, STOP_LIMIT_S = 10.0, 5.0
GRACE_S = GRACE_NS / 1e9


class Lamp(enum.Enum):
    """Of the one that defers."""

    OFF = enum.auto()
    ON = enum.auto()


class Bulb(StateMachine):
    """Keeps what it cannot do yet."""

    initial = Lamp.OFF

    @operation(accepted_in=[Lamp.ON], otherwise="defer")
    def glow(self) -> str:
        return "glows"

    @operation()
    def switch_on(self) -> None:
        self.become(Lamp.ON)


class Clerk(AppObject):
    """Works alone, or with others."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.ticks = 0

    @operation()
    def note(self, text: str) -> str:
        self.done.append(text)
        return text

    @operation()
    async def ask(self, route: str) -> Any:
        answer = await self.call(route)
        self.done.append(f"asked {route}")
        return answer

    @operation()
    async def rest(self, seconds: float) -> str:
        await pause(seconds)
        self.done.append("rested")
        return "rested"

    @operation()
    def remind(self, seconds: float) -> None:
        self.after(seconds, self.wake)

    def wake(self) -> None:
        self.done.append("woken")

    @every(0.01)
    def tick(self) -> None:
        self.ticks += 1

    @subscribe("news")
    def hear(self, text: str) -> None:
        self.done.append(text)


class Office(Component):
    """Has one clerk, and a bulb."""

    def setup(self) -> None:
        self.clerk = self.add(Clerk())
        self.bulb = self.add(Bulb())

    @operation(digest="sort")
    def file(self, text: str) -> str:
        return text

    def sort(self, text: str) -> str:
        return text


class Archive(Component):
    """The other component of the backplane."""

    @operation()
    def fetch(self) -> str:
        return "fetched"

    @operation()
    async def dig(self) -> Any:
        return await self.call("mine.dig")


class Drained:
    """A backplane that is drained, looked at as the sentinel does."""

    def __init__(self) -> None:
        self.office = Office()
        self.virtual = VirtualBackplane(self.office, Archive(), outside=("mine.dig",))
        self.answers: list[Any] = []
        self.draining: Draining | None = None
        #: Callers say at once that they know.
        self.all_know = True

    @property
    def clerk(self) -> Clerk:
        """The one that works."""
        clerk: Clerk = self.office.clerk
        return clerk

    def begin(self) -> None:
        """What `control.drain` does."""
        self.draining = Draining(
            self.virtual.backplane.engine,
            limit_ns=round(LIMIT_S * 1e9),
            stop_limit_ns=round(STOP_LIMIT_S * 1e9),
            because="is being restarted",
            answer=lambda result, error: self.answers.append(result),
            now_ns=self.virtual.clock.now_ns(),
        )

    def look(self) -> None:
        """Once."""
        assert self.draining is not None
        if self.all_know:
            callers = self.virtual.backplane.engine.callers
            callers.farewells |= set(callers.heard_ns)
        if not self.draining.is_over:
            self.draining.look(self.virtual.clock.now_ns())

    def pass_time(self, seconds: float) -> None:
        """Looking as often as the sentinel does."""
        steps = max(1, round(seconds * 1e9) // LOOK_NS)
        for _ in range(steps):
            self.look()
            self.virtual.advance(seconds / steps)
        self.look()

    def let_come(self) -> None:
        """Take in what has been sent, and run nothing of it."""
        engine = self.virtual.backplane.engine
        engine.drain(self.virtual.clock.now_ns())

    def wait_out(self) -> None:
        """To the limit, with nothing run: all its workers are busy elsewhere."""
        self.look()
        self.virtual.clock.move(self.virtual.clock.now_ns() + round(LIMIT_S * 1e9))
        for _ in range(100):
            self.look()
        self.virtual.backplane.engine.flush(self.virtual.clock.now_ns())


@pytest.fixture
def drained() -> Drained:
    return Drained()


def assert_not_begun(call: VirtualCall) -> None:
    """It was refused so that its caller may ask again."""
    error = call.error()
    assert type(error) is Unavailable
    assert error.message.endswith("backplane virtual is being restarted; not begun")
    assert error.retry_after


def test_what_is_queued_is_finished_first(drained: Drained) -> None:
    """A restart that loses what has been accepted cannot be used while there is work."""
    calls = [drained.virtual.call("office.note", text=str(n)) for n in range(3)]
    drained.let_come()
    drained.begin()
    drained.look()
    assert drained.answers == []
    drained.virtual.run_until_idle()
    drained.pass_time(GRACE_S + 0.02)
    assert [call.result() for call in calls] == ["0", "1", "2"]
    assert drained.answers == [{"refused": 0, "running": [], "unread": 0}]


def test_who_has_not_heard_of_it_is_served(drained: Drained) -> None:
    """Its call was sent before the directory came. It also begins the wait anew: where one is, there may be more."""
    drained.begin()
    drained.pass_time(GRACE_S * 0.8)
    late = drained.virtual.call("office.note", text="late")
    drained.virtual.run_until_idle()
    drained.pass_time(GRACE_S * 0.8)
    assert drained.answers == [], "nothing has come for less than the grace"
    drained.pass_time(GRACE_S * 0.4)
    assert late.result() == "late"
    assert drained.answers == [{"refused": 0, "running": [], "unread": 0}]


def test_a_caller_that_does_not_know_yet_is_waited_for(drained: Drained) -> None:
    """It has no time to read the directory, and more calls on their way: they would meet a closing socket."""
    drained.all_know = False
    first = drained.virtual.call("office.note", text="first")
    drained.virtual.run_until_idle()
    drained.begin()
    drained.pass_time(GRACE_S * 4)
    second = drained.virtual.call("office.note", text="second")
    drained.virtual.run_until_idle()
    drained.pass_time(GRACE_S * 4)
    assert drained.answers == []
    drained.virtual.call("backplane.virtual.farewell")  # it comes after all that its caller has sent
    drained.virtual.run_until_idle()
    drained.pass_time(GRACE_S + 0.02)
    assert (first.result(), second.result()) == ("first", "second")
    assert drained.answers == [{"refused": 0, "running": [], "unread": 0}]


@pytest.mark.parametrize("has_gone", [True, False])
def test_who_says_no_farewell_is_not_waited_for_long(drained: Drained, has_gone: bool) -> None:
    """He is not there any more, as the next frame to him tells; or he was stopped."""
    drained.all_know = False
    drained.virtual.call("office.note", text="first")
    drained.virtual.run_until_idle()
    if has_gone:
        drained.virtual.link.gone |= set(drained.virtual.backplane.engine.callers.heard_ns)
    drained.begin()
    drained.pass_time(GRACE_S * 3)
    assert (drained.answers != []) is has_gone
    drained.pass_time(FAREWELL_NS / 1e9)
    assert drained.answers == [{"refused": 0, "running": [], "unread": 0}]


def test_a_caller_that_goes_on_calling_is_waited_for(drained: Drained) -> None:
    """It has too little of a core to read the directory. The call that it had just sent went to nobody, and was lost."""
    drained.all_know = False
    drained.virtual.call("office.note", text="first")
    drained.virtual.run_until_idle()
    drained.begin()
    calls = []
    for _ in range(4):
        drained.pass_time(FAREWELL_NS * 0.9 / 1e9)
        assert drained.answers == []
        calls.append(drained.virtual.call("office.note", text="again"))
        drained.virtual.run_until_idle()
    assert [call.result() for call in calls] == ["again"] * 4
    drained.pass_time(FAREWELL_NS * 1.1 / 1e9)
    assert drained.answers == [{"refused": 0, "running": [], "unread": 0}]


def test_who_has_not_called_of_late_is_not_waited_for(drained: Drained) -> None:
    """Before he calls again he reads what has come meanwhile."""
    drained.all_know = False
    drained.virtual.call("office.note", text="first")
    drained.virtual.run_until_idle()
    drained.virtual.advance(RECENT_NS / 1e9 + 0.1)
    drained.begin()
    drained.pass_time(GRACE_S + 0.02)
    assert drained.answers == [{"refused": 0, "running": [], "unread": 0}]


def test_what_comes_after_it_was_quiet_is_refused_with_a_hint(drained: Drained) -> None:
    """It would be lost with the process; refused at once, it is asked again in a moment, where somebody can answer."""
    drained.begin()
    drained.pass_time(GRACE_S + 0.02)
    assert_not_begun(drained.virtual.call("office.note", text="too late"))
    assert drained.clerk.done == []


def test_its_own_operations_are_served_throughout(drained: Drained) -> None:
    """Who wants to know why it does not come to an end needs them then, and they do not keep it from ending."""
    drained.begin()
    for _ in range(30):
        assert drained.virtual.call("backplane.virtual.statistics").result()["backplane"] == "virtual"
        drained.pass_time(0.005)
    assert drained.answers == [{"refused": 0, "running": [], "unread": 0}]
    assert drained.virtual.call("backplane.virtual.statistics").result()["backplane"] == "virtual"


def test_who_awaits_a_reply_gets_it(drained: Drained) -> None:
    """Work that has begun elsewhere, too, is thrown away if its caller does not stay for the answer."""
    asking = drained.virtual.call("archive.dig")
    drained.virtual.run_until_idle()
    drained.begin()
    drained.pass_time(2.0)
    assert drained.answers == []
    drained.virtual.outside_calls("mine.dig")[0].reply("coal")
    drained.virtual.run_until_idle()
    drained.pass_time(GRACE_S + 0.02)
    assert asking.result() == "coal"
    assert drained.answers == [{"refused": 0, "running": [], "unread": 0}]


def test_a_pause_is_waited_for(drained: Drained) -> None:
    """It is in the middle of its work."""
    resting = drained.virtual.call("office.rest", seconds=1.0)
    drained.virtual.run_until_idle()
    drained.begin()
    drained.pass_time(0.9)
    assert drained.answers == []
    drained.pass_time(0.3)
    assert resting.result() == "rested"
    assert drained.answers == [{"refused": 0, "running": [], "unread": 0}]


def test_at_the_limit_what_has_not_begun_is_refused(drained: Drained) -> None:
    """Else a queue of an hour would hold up a restart for an hour, and whoever waits learns it at his deadline."""
    begun = drained.virtual.call("office.ask", route="mine.dig")
    drained.virtual.run_until_idle()
    queued = [drained.virtual.call("office.note", text=str(n)) for n in range(5)]
    drained.virtual.cast("office.note", text="cast")
    drained.let_come()
    drained.begin()
    drained.wait_out()
    for call in queued:
        assert_not_begun(call)
    assert drained.answers == [], "what has begun may end"
    drained.virtual.outside_calls("mine.dig")[0].reply("coal")
    drained.virtual.run_until_idle()
    drained.look()
    assert begun.result() == "coal"
    assert drained.clerk.done == ["asked mine.dig"]
    assert drained.answers == [{"refused": 6, "running": [], "unread": 0}]


def test_refusing_many_lets_go_of_the_lead(drained: Drained) -> None:
    """Ten thousand refusals at one go would stop everything for 100 ms; all are told all the same."""
    count = draining.REFUSED_MAX * 2 + 7
    blocked = drained.virtual.call("office.ask", route="mine.dig")
    drained.virtual.run_until_idle()
    calls = [drained.virtual.call("office.note", text="x") for _ in range(count)]
    for _ in range(4):
        drained.let_come()
    drained.begin()
    drained.wait_out()
    for call in calls:
        assert_not_begun(call)
    drained.virtual.outside_calls("mine.dig")[0].reply("coal")
    assert blocked.result() == "coal"
    drained.look()
    assert drained.answers == [{"refused": count, "running": [], "unread": 0}]


def test_what_has_begun_may_call_inside_after_the_limit(drained: Drained) -> None:
    """It could not end otherwise, though all it needs is here."""
    begun = drained.virtual.call("office.rest", seconds=LIMIT_S + 1.0)
    asking = drained.virtual.call("archive.dig")
    drained.virtual.run_until_idle()
    inner = drained.virtual.call("office.ask", route="archive.fetch")  # behind the one that rests: not begun
    drained.let_come()
    drained.begin()
    drained.wait_out()
    assert_not_begun(inner)
    drained.virtual.outside_calls("mine.dig")[0].reply("coal")
    assert asking.result() == "coal"
    drained.virtual.advance(1.5)
    assert begun.result() == "rested"
    drained.look()
    assert drained.answers == [{"refused": 1, "running": [], "unread": 0}]


class Chain(Component):
    """Asks two others of its backplane, one after the other."""

    @operation()
    async def both(self) -> list[Any]:
        first = await self.call("archive.dig")
        return [first, await self.call("archive.fetch")]


def test_a_call_inside_that_is_queued_at_the_limit_is_served() -> None:
    """Its caller has begun, and waits for it: refused, that work would fail, which was promised time to end."""
    drained = Drained()
    drained.virtual = VirtualBackplane(Chain(), Archive(), outside=("mine.dig",))
    first = drained.virtual.call("archive.dig")
    drained.virtual.run_until_idle()
    both = drained.virtual.call("chain.both")
    drained.virtual.run_until_idle()  # queued at the archive, which awaits something
    drained.begin()
    drained.wait_out()
    drained.virtual.outside_calls()[0].reply(1)
    drained.virtual.run_until_idle()
    drained.virtual.outside_calls()[1].reply(2)
    assert (first.result(), both.result()) == (1, [2, "fetched"])
    drained.look()
    assert drained.answers == [{"refused": 0, "running": [], "unread": 0}]


def test_timers_neither_begin_nor_hold_it_up(drained: Drained) -> None:
    """What runs every 10 ms would keep it from being quiet for ever; what is set for tomorrow, until tomorrow."""
    drained.virtual.call("office.remind", seconds=0.03).result()
    drained.virtual.call("office.remind", seconds=3600.0).result()
    drained.virtual.advance(0.02)
    ticks = drained.clerk.ticks
    assert ticks > 0
    drained.begin()
    drained.pass_time(GRACE_S + 0.02)
    assert drained.clerk.ticks == ticks
    assert drained.clerk.done == ["woken"], "what falls due while it drains is done: somebody may wait for it"
    assert drained.answers == [{"refused": 0, "running": [], "unread": 0}]


def test_an_object_that_is_added_begins_no_timers(drained: Drained) -> None:
    """They would begin anew what was ended."""
    _ = drained.virtual.backplane
    drained.begin()
    late = drained.office.add(Clerk())
    drained.virtual.advance(1.0)
    assert late.ticks == 0


def test_what_a_state_machine_keeps_is_refused_at_the_limit(drained: Drained) -> None:
    """Nothing will change its state any more, and its caller waits."""
    kept = drained.virtual.call("office.glow", timeout=60.0)
    drained.virtual.run_until_idle()
    drained.begin()
    drained.pass_time(LIMIT_S + 0.1)
    assert_not_begun(kept)
    assert drained.answers == [{"refused": 1, "running": [], "unread": 0}]


def test_what_is_with_a_digester_is_refused_as_what_it_is(drained: Drained) -> None:
    """It has not even been given to its object."""
    digested = drained.virtual.call("office.file", text="a")
    drained.let_come()
    drained.begin()
    drained.wait_out()
    error = digested.error()
    assert_not_begun(digested)
    assert error.message.startswith("office.file: ")


def test_who_does_not_end_is_named(drained: Drained) -> None:
    """The supervisor goes on without it, and a person wants to know what it was."""
    asking = drained.virtual.call("archive.dig", timeout=3600.0)
    drained.virtual.run_until_idle()
    drained.begin()
    drained.pass_time(LIMIT_S + STOP_LIMIT_S - 1.0)
    assert drained.answers == []
    drained.pass_time(2.0)
    assert drained.answers == [{"refused": 0, "running": ["archive.dig"], "unread": 0}]
    drained.virtual.backplane.engine.stop()
    error = asking.error()
    assert isinstance(error, PeerDown), "it had begun: nobody knows how far it came"
    assert "stopped before it ended" in error.message


def test_an_action_that_runs_is_waited_for(drained: Drained) -> None:
    """A worker has it: it is in no queue, and nobody may have called it."""
    engine = drained.virtual.backplane.engine
    drained.virtual.cast("office.note", text="cast")
    worker = engine.poll_leader.team[0]
    drained.let_come()
    action = engine.choose(worker)
    assert isinstance(action, MethodAction)
    drained.begin()
    drained.look()
    drained.virtual.clock.move(drained.virtual.clock.now_ns() + 5 * GRACE_NS)
    drained.look()
    assert drained.answers == []
    engine.complete(action, *engine.execute(worker, action))
    drained.virtual.run_until_idle()
    drained.pass_time(GRACE_S + 0.02)
    assert drained.answers == [{"refused": 0, "running": [], "unread": 0}]


def test_topics_are_finished_too(drained: Drained) -> None:
    """Nobody waits for them, and they are work that was taken in."""
    drained.virtual.publish("news", text="rain")
    drained.let_come()
    drained.begin()
    drained.look()
    assert drained.answers == []
    drained.virtual.run_until_idle()
    drained.pass_time(GRACE_S + 0.02)
    assert drained.clerk.done == ["rain"]
    assert drained.answers == [{"refused": 0, "running": [], "unread": 0}]


def test_components_go_down_after_it_as_ever(drained: Drained) -> None:
    """Their last hooks are not taken for something new."""
    drained.begin()
    drained.pass_time(GRACE_S + 0.02)
    assert "on_down" in drained.virtual.move("down")
    error = drained.virtual.call("office.note", text="x").error()
    assert "is being restarted; not begun" in error.message
    with pytest.raises(FailedPrecondition):
        drained.virtual.move("primary")
