"""Outgoing: what objects await ends exactly once, and carries what it should."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest

from appbackplane.runtime import (
    AppObject,
    BackplaneError,
    Cancelled,
    Component,
    DeadlineExceeded,
    InternalError,
    InvalidArgument,
    PeerDown,
    Unavailable,
    checkpoint,
    operation,
    pause,
    should_yield,
)
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.envelope import CALL, Envelope, reply


class Teller(AppObject):
    """Asks elsewhere."""

    @operation(priority=3)
    async def ask(self, question: str = "?", timeout: float | None = None) -> Any:
        return await self.call("oracle.answer", timeout=timeout, question=question)

    @operation()
    async def try_ask(self) -> str:
        try:
            return str(await self.call("oracle.answer", retry=False))
        except BackplaneError as error:
            return f"{type(error).__name__}"

    @operation()
    async def forward(self) -> Any:
        return await self.call("bank.count", amount="none")

    @operation()
    def count(self, amount: int) -> int:
        return amount

    @operation()
    def tell(self, topic: str) -> None:
        self.cast("oracle.note", text=topic)

    @operation()
    async def misuse(self) -> None:
        import asyncio

        await asyncio.sleep(0)

    @operation()
    def not_a_coroutine(self) -> None:
        self.call("oracle.answer")

    @operation()
    async def rest(self, seconds: float) -> str:
        await pause(seconds)
        return "rested"

    @operation(priority=6)
    async def long(self) -> list[str]:
        seen: list[str] = []
        for _ in range(3):
            seen.append("urgent" if should_yield() else "calm")
            await checkpoint()
        return seen

    @operation(priority=6)
    async def careless(self) -> str:
        try:
            await self.call("oracle.answer")
        except Cancelled:
            raise
        return "answered"


class Bank(Component):
    """One teller at two windows."""

    def setup(self) -> None:
        self.add(Teller(), key="one")
        self.add(Teller(), key="two")


@pytest.fixture
def bank() -> VirtualBackplane:
    return VirtualBackplane(Bank(), outside=("oracle.answer", "oracle.note"))


def test_a_call_carries_priority_deadline_and_chain(bank: VirtualBackplane) -> None:
    """DESIGN 9: urgent work stays urgent in its callees, and nobody works for a caller that has given up."""
    bank.call("bank.ask", key="one", question="why", priority=1, timeout=2.0)
    bank.run_until_idle()
    (asked,) = bank.outside_calls()
    assert asked.envelope.priority == 1
    assert asked.envelope.deadline == -(bank.clock.now_ns() + 2_000_000_000)
    assert asked.envelope.chain == [["virtual/bank.one", "bank.ask"]]
    assert asked.arguments == {"question": "why"}


def test_a_reply_resumes_the_operation(bank: VirtualBackplane) -> None:
    """The plain way."""
    call = bank.call("bank.ask")
    bank.run_until_idle()
    bank.outside_calls()[0].reply(42)
    assert call.result() == 42


def test_a_deadline_ends_the_call_and_takes_it_back(bank: VirtualBackplane) -> None:
    """DESIGN 12.5. The callee is told, so that it does not carry on for nobody; its late answer changes nothing."""
    call = bank.call("bank.ask", timeout=0.5)
    bank.run_until_idle()
    bank.advance(0.6)
    assert isinstance(call.error(), DeadlineExceeded)
    (asked,) = bank.outside_calls()
    assert asked.is_cancelled
    asked.reply("too late")
    bank.run_until_idle()
    assert bank.backplane.statistics()["links"]["late"] == 1
    assert isinstance(call.error(), DeadlineExceeded)


def test_an_own_timeout_ends_the_call(bank: VirtualBackplane) -> None:
    """A callee that does not answer is the operation's own problem, within its own time."""
    call = bank.call("bank.ask", timeout=10.0)
    second = bank.call("bank.ask", timeout=10.0)
    bank.run_until_idle()
    assert not call.done()
    assert not second.done()
    bank.advance(10.1)
    assert isinstance(call.error(), DeadlineExceeded)


def test_the_death_of_a_callee_ends_its_calls(bank: VirtualBackplane) -> None:
    """Every call outstanding on a dead process ends at once; its caller is told that the operation is unavailable."""
    handled, unhandled = bank.call("bank.try_ask", key="one"), bank.call("bank.ask", key="two")
    bank.run_until_idle()
    bank.kill_outside()
    assert handled.result() == PeerDown.__name__
    assert isinstance(unhandled.error(), Unavailable)


def test_a_callee_that_is_down_is_unavailable_at_once(bank: VirtualBackplane) -> None:
    """No call is sent into nothing, and who does not want to wait for the next generation is told."""
    bank.kill_outside()
    assert bank.call("bank.try_ask").result() == "Unavailable"


def test_a_wrong_argument_to_a_callee_is_not_the_callers_fault(bank: VirtualBackplane) -> None:
    """gRPC's advice: INVALID_ARGUMENT of an inner call would tell the outer caller that its own call was wrong."""
    error = bank.call("bank.forward", key="one").error()
    assert isinstance(error, InternalError)
    assert "bank.count: argument 'amount'" in error.message


def test_cancelling_reaches_the_callee(bank: VirtualBackplane) -> None:
    """DESIGN: cancellation end to end. Otherwise the callee carries on, and the object stays in the wait queue."""
    call = bank.call("bank.careless")
    bank.run_until_idle()
    call.cancel()
    assert isinstance(call.error(), Cancelled)
    bank.run_until_idle()
    assert bank.outside_calls()[0].is_cancelled


def test_cancelling_ends_a_pause(bank: VirtualBackplane) -> None:
    """A pause is an await like any other."""
    call = bank.call("bank.rest", seconds=10.0)
    bank.run_until_idle()
    call.cancel()
    assert isinstance(call.error(), Cancelled)


class Stubborn(AppObject):
    """Does not hear that it is too late."""

    @operation()
    async def poll(self) -> None:
        while True:
            with suppress(DeadlineExceeded):
                await pause(10.0)


def test_a_pause_after_the_deadline_is_a_pause(bank: VirtualBackplane) -> None:
    """Its end at the deadline is for telling it once. What goes on all the same must not go round at full speed."""
    backplane = VirtualBackplane()
    backplane.add(Stubborn())
    backplane.hear_call(Envelope(CALL, 1, None, "bench.poll", None, 1_000_000_000, None, {}))  # it is not taken back
    assert len(backplane.advance(35.0)) == 5


def test_a_pause_lets_time_pass_and_others_run(bank: VirtualBackplane) -> None:
    """A pausing operation holds its object, not the worker."""
    resting = bank.call("bank.rest", seconds=1.0, key="one")
    assert bank.call("bank.count", amount=1, key="two").result() == 1
    assert not resting.done()
    bank.advance(1.0)
    assert resting.result() == "rested"


def test_a_checkpoint_lets_urgent_work_run_first(bank: VirtualBackplane) -> None:
    """Law 10. Between two steps of a long operation, what is more urgent runs; without any, it just goes on."""
    long = bank.call("bank.long", key="one")
    bank.run_until_idle()
    assert long.result() == ["calm", "calm", "calm"]


def test_awaiting_asyncio_is_explained(bank: VirtualBackplane) -> None:
    """The likely mistake gets the remedy, not a hang."""
    assert "pause(...)" in bank.call("bank.misuse").error().message


def test_calling_from_a_plain_operation_is_explained(bank: VirtualBackplane) -> None:
    """A call that is never awaited would be lost without a word."""
    assert "async def" in bank.call("bank.not_a_coroutine").error().message


def test_a_cast_leaves_and_nobody_waits(bank: VirtualBackplane) -> None:
    """One-way means one way."""
    bank.call("bank.tell", topic="t").result()
    bank.collect()
    assert bank.casts == [("oracle.note", {"text": "t"})]


def test_local_results_are_copies() -> None:
    """Where an object lives must not decide whether two objects share a list."""

    class Keeper(AppObject):
        def __init__(self) -> None:
            self.items = [1]

        @operation()
        def items_now(self) -> list[int]:
            return self.items

    class Thief(AppObject):
        @operation()
        async def take(self) -> list[int]:
            items: list[int] = await self.call("vault.items_now")
            items.append(2)
            return list(await self.call("vault.items_now"))

    class Vault(Component):
        def setup(self) -> None:
            self.add(Keeper())
            self.add(Thief())

    assert VirtualBackplane(Vault()).call("vault.take").result() == [1]


def test_an_argument_that_cannot_travel_is_named() -> None:
    """The error comes where the mistake is: in the caller."""

    class Odd(AppObject):
        @operation()
        async def send(self) -> str:
            try:
                await self.call("oracle.answer", question=object())
            except InvalidArgument as error:
                return error.message
            return "sent"

    class Sender(Component):
        def setup(self) -> None:
            self.add(Odd())

    assert "cannot be serialised" in VirtualBackplane(Sender(), outside=("oracle.answer",)).call("sender.send").result()


def test_a_pause_ends_at_the_deadline(bank: VirtualBackplane) -> None:
    """Nobody waits for it any more; sleeping on would keep its object from everybody else."""
    call = bank.call("bank.rest", seconds=60.0, timeout=1.0, key="one")
    bank.advance(1.1)
    assert isinstance(call.error(), DeadlineExceeded)
    assert bank.call("bank.count", amount=1, key="one").result() == 1


def test_a_place_that_is_drained_is_told_once_that_nothing_more_comes(bank: VirtualBackplane) -> None:
    """Behind all that was asked there: it closes when all who call have said so."""
    bank.call("bank.ask", key="one")
    bank.run_until_idle()
    engine = bank.backplane.engine
    for _ in range(2):
        known = engine.routing.directory
        drained = {
            **known.backplanes,
            "outside": msgspec.structs.replace(known.backplanes["outside"], is_draining=True),
        }
        new = msgspec.structs.replace(known, version=known.version + 1, backplanes=drained)
        engine.update(new, bank.clock.now_ns())
        bank.run_until_idle()
    assert bank.casts == [("backplane.outside.farewell", {})]


def tell(bank: VirtualBackplane, *, here: bool = False, outside: bool = False) -> None:
    """Who is draining, says the supervisor."""
    engine = bank.backplane.engine
    old = engine.routing.directory
    places = {
        "virtual": msgspec.structs.replace(old.backplanes["virtual"], is_draining=here),
        "outside": msgspec.structs.replace(old.backplanes["outside"], is_draining=outside),
    }
    new = msgspec.structs.replace(old, version=old.version + 1, backplanes=places)
    engine.update(new, bank.clock.now_ns())


def draining_bank() -> VirtualBackplane:
    """Asks an oracle, which is drained."""
    bank = VirtualBackplane(outside=("oracle.answer",), topics=("news",))
    bank.add(Teller())
    tell(bank, outside=True)
    return bank


def test_one_that_is_drained_is_not_asked_by_strangers() -> None:
    """It would not come to an end while anybody works; who asks waits until it is back, within his deadline."""
    bank = draining_bank()
    call = bank.call("bench.ask")
    bank.advance(5.0)
    assert not call.done()
    assert bank.outside_calls() == []
    tell(bank)
    bank.advance(0.1)
    bank.outside_calls("oracle.answer")[0].reply("yes")
    assert call.result() == "yes"


def test_one_that_is_drained_is_asked_by_others_that_are() -> None:
    """Both go down, and need each other to finish what they have."""
    bank = draining_bank()
    tell(bank, here=True, outside=True)
    call = bank.call("bench.ask")
    bank.run_until_idle()
    bank.outside_calls("oracle.answer")[0].reply("yes")
    assert call.result() == "yes"


def test_one_that_is_drained_is_asked_for_work_that_it_waits_for() -> None:
    """Its own work has come by here: refused, that could not be finished, though everybody is there."""
    bank = draining_bank()
    chain = (("outside/oracle", "oracle.answer"),)
    bank.hear(Envelope(CALL, 77, None, "bench.ask", None, None, None, {}, chain), b"outside-1")
    bank.run_until_idle()
    assert [call.envelope.route for call in bank.outside_calls()] == ["oracle.answer"]


def test_calls_that_one_holds_that_is_drained_are_not_given_up() -> None:
    """It will answer them: that is what it is drained for."""
    bank = VirtualBackplane(outside=("oracle.answer",))
    bank.add(Teller())
    call = bank.call("bench.ask")
    bank.run_until_idle()
    tell(bank, outside=True)
    bank.run_until_idle()
    assert not call.done()
    bank.outside_calls()[0].reply("yes")
    assert call.result() == "yes"


class Abroad(Component):
    """Asks for what it is told to."""

    @operation()
    async def ask(self, route: str) -> Any:
        return await self.call(route)

    @operation(reentrant=True)
    def here(self) -> str:
        return "here"


def with_node(node: str) -> VirtualBackplane:
    """`Abroad`, in a system whose backplane of this name knows other nodes."""
    backplane = VirtualBackplane(Abroad(), outside=("oracle.answer",))
    engine = backplane.backplane.engine
    directory = engine.routing.directory
    version = directory.version + 1
    engine.update(msgspec.structs.replace(directory, version=version, node=node), backplane.clock.now_ns())
    return backplane


def test_what_is_on_other_nodes_goes_by_the_one_that_knows_them() -> None:
    """As it was asked for: which node it is, is read there. What is here stays here."""
    backplane = with_node("outside")
    for route in ("b/abroad.here", "somewhere.answer"):
        asked = backplane.call("abroad.ask", route=route)
        backplane.run_until_idle()
        (call,) = backplane.outside_calls(route)
        call.reply(7)
        assert asked.result() == 7
    assert backplane.call("abroad.ask", route="abroad.here").result() == "here"


def test_without_other_nodes_it_is_said_what_to_do() -> None:
    """And what is like it here would be no help: another node was meant."""
    error = with_node("").call("abroad.ask", route="b/abroad.here").error()
    assert "no route 'b/abroad.here': one with a / is of another node" in str(error) and "[node]" in str(error)


def test_the_one_that_knows_them_asks_nobody_when_it_does_not() -> None:
    """It would ask itself for ever."""
    error = with_node("virtual").call("abroad.ask", route="abroad.hre").error()
    assert "no route 'abroad.hre' (did you mean 'abroad.here'?)" in str(error)


def test_nobody_ends_a_pause_by_an_answer() -> None:
    """A process chooses the identity that it connects under. Answers of "the clock" would leave an object waiting."""

    class Sleeper(AppObject):
        @operation()
        async def nap(self) -> str:
            await pause(1.0)
            return "awake"

    backplane = VirtualBackplane()
    backplane.add(Sleeper())
    asked = backplane.call("bench.nap")
    backplane.run_until_idle()
    for id in range(1, 20):
        backplane.hear(reply(id, "forged"), b"\x00clock")
    backplane.advance(1.0)
    assert asked.result() == "awake"
