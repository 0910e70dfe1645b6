"""Calls refused here: objects whose callee is overloaded get `Busy` as from the callee, and nothing is sent."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.runtime import Adaptive, AppObject, BackplaneError, Busy, Component, operation
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.caller_throttle import INTERVAL_MAX_NS


class Asker(AppObject):
    """Asks elsewhere, and says how it went."""

    @operation(priority=5)
    async def ask(self, priority: int | None = 4, retry: bool = False, once: str | None = None) -> Any:
        try:
            return await self.call(
                "oracle.answer", priority=priority, retry=retry, idempotency_key=once, timeout=30.0, question="why"
            )
        except BackplaneError as error:
            return [type(error).__name__, error.message, error.attempts]

    @operation(priority=5)
    def tell(self, priority: int | None = 4) -> str:
        try:
            self.cast("oracle.answer", priority=priority, question="why")
        except Busy as error:
            return error.message
        return "sent"


class Asking(Component):
    def setup(self) -> None:
        for _ in range(4):
            self.add(Asker())


def built() -> VirtualBackplane:
    """The test is the oracle, which refuses as overload control does."""
    return VirtualBackplane(Asking(), outside=("oracle.answer",))


def overloaded(priority: int = 4) -> Busy:
    error = Busy("oracle.answer: it would queue for longer than the 20 ms aimed at", retry_after=0.02)
    error.overloaded_at = priority
    return error


def meet_overload(backplane: VirtualBackplane, priority: int | None = 4, told: int = 4) -> None:
    """The oracle refuses all calls of a priority, until one leaves only now and then; the last of these just has."""
    number = known = len(backplane.outside_calls())
    is_sent = False
    while number < 50 or not is_sent:
        number += 1
        backplane.call("asking.ask", arguments={"priority": priority})
        backplane.advance(0.01)
        sent = backplane.outside_calls()[known:]
        known, is_sent = known + len(sent), bool(sent)
        for call in sent:
            call.fail(overloaded(told), is_refused=True)
        backplane.run_until_idle()


def refused_here(backplane: VirtualBackplane) -> int:
    count: int = backplane.backplane.statistics()["links"]["refused_here"]
    return count


@pytest.fixture
def backplane() -> VirtualBackplane:
    """Its callee is overloaded at priority 4."""
    backplane = built()
    meet_overload(backplane)
    backplane.backplane.engine.outgoing.throttle._random = lambda: 0.99
    return backplane


def test_the_object_gets_busy_and_nothing_is_sent(backplane: VirtualBackplane) -> None:
    """And it is counted, for the operator of the backplane that calls."""
    sent, before = len(backplane.outside_calls()), refused_here(backplane)
    kind, message, attempts = backplane.call("asking.ask").result()
    assert (kind, attempts) == ("Busy", 1) and "oracle.answer: refused here" in message
    assert len(backplane.outside_calls()) == sent
    assert refused_here(backplane) == before + 1


def test_a_more_urgent_call_is_sent(backplane: VirtualBackplane) -> None:
    """The share is that of priority 4."""
    sent = len(backplane.outside_calls())
    for priority in (0, 3):
        backplane.call("asking.ask", arguments={"priority": priority})
    backplane.run_until_idle()
    assert len(backplane.outside_calls()) == sent + 2


def test_a_call_without_a_priority_counts_at_that_of_its_action() -> None:
    """With which it is sent. The action's own is 5."""
    backplane = built()
    meet_overload(backplane, priority=None, told=5)
    backplane.backplane.engine.outgoing.throttle._random = lambda: 0.99
    assert "refused here" in backplane.call("asking.ask", arguments={"priority": 5}).result()[1]
    sent = len(backplane.outside_calls())
    backplane.call("asking.ask", arguments={"priority": 4})
    backplane.run_until_idle()
    assert len(backplane.outside_calls()) == sent + 1


def test_a_retried_call_waits_until_there_is_room(backplane: VirtualBackplane) -> None:
    """Its object is in the wait queue meanwhile, and the retry is taken from the budget."""
    retried = backplane.backplane.statistics()["links"]["retried"]
    asked = backplane.call("asking.ask", arguments={"retry": True})
    backplane.run_until_idle()
    assert not asked.done()
    assert backplane.backplane.statistics()["links"]["retried"] == retried + 1
    backplane.advance(INTERVAL_MAX_NS / 1e9)
    backplane.outside_calls()[-1].reply("because")
    backplane.run_until_idle()
    assert asked.result() == "because"


def test_once_the_callee_takes_calls_again_all_are_sent(backplane: VirtualBackplane) -> None:
    backplane.advance(INTERVAL_MAX_NS / 1e9)
    for _ in range(10):
        asked = backplane.call("asking.ask")
        backplane.run_until_idle()
        backplane.outside_calls()[-1].reply("because")
        backplane.run_until_idle()
        assert asked.result() == "because"
    assert not backplane.backplane.engine.outgoing.throttle.is_used


def test_a_cast_is_refused_at_once(backplane: VirtualBackplane) -> None:
    """An operation learns it, where the callee would tell nobody."""
    assert "refused here" in backplane.call("asking.tell").result()
    assert backplane.call("asking.tell", arguments={"priority": 0}).result() == "sent"


def test_a_dead_callee_is_forgotten(backplane: VirtualBackplane) -> None:
    """Its next generation has an empty queue."""
    backplane.kill_outside()
    assert not backplane.backplane.engine.outgoing.throttle.is_used


class Press(AppObject):
    def __init__(self, shop: Shop) -> None:
        self.shop = shop

    @operation(priority=4, admit=Adaptive(aim_ms=20))
    def print(self) -> None:
        self.shop.sleep(0.005)


class Binder(AppObject):
    @operation(priority=4)
    async def bind(self) -> str:
        try:
            await self.call("shop.print", retry=False)
        except Busy as error:
            return error.message
        return "bound"


class Shop(Component):
    """One press, and many that call it in the same backplane."""

    sleep: Any = None

    def setup(self) -> None:
        self.add(Press(self))
        for _ in range(40):
            self.add(Binder())


def test_calls_to_this_backplane_are_left_to_its_overload_control() -> None:
    """There is nothing to be spared: the refusal is as near as the call."""
    shop = Shop()
    backplane = VirtualBackplane(shop)
    shop.sleep = backplane.clock.sleep
    answers: list[str] = []
    for _ in range(20):
        bound = [backplane.call("shop.bind") for _ in range(40)]
        backplane.run_until_idle()
        answers += [each.result() for each in bound]
    assert any("aimed at" in answer for answer in answers)
    assert not any("refused here" in answer for answer in answers)
    assert not backplane.backplane.engine.outgoing.throttle.is_used
