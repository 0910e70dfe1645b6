"""Dataflow: calls that take each other's results. Each ends exactly once, with the result of a sequential run, in any order of
frames, and whoever dies; and a result travels once, straight to the call that awaits it.

`SIMULATION_SEEDS` (how many, default 20) and `SIMULATION_SEED` (the first) make the simulation longer, or the same again.
"""

from __future__ import annotations

import gc
import os
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from appbackplane.runtime import AppObject, Batch, Component, operation, pause
from appbackplane.runtime.execution.intake import awaiting_calls
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.runtime.testing.virtual_system import CLIENT, VirtualSystem
from appbackplane.transport.envelope import operand
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    Cancelled,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    OperandFailed,
    PeerDown,
)
from appbackplane.transport.handles import PendingCall
from appbackplane.transport.promise import Promise
from tests.profiles import examples

SEEDS = int(os.environ.get("SIMULATION_SEEDS", examples(20)))
FIRST_SEED = int(os.environ.get("SIMULATION_SEED", "0"))
NAMES = ("ada", "bob", "cleo", "dora")
CALLS = 60


class Sleeper(AppObject):
    """Takes a second, which passes only if the test lets it; an object of its own, since it serves nobody else meanwhile."""

    @operation()
    async def slow(self, number: int) -> int:
        await pause(1.0)
        return number


class Shelf(AppObject):
    """One of two, chosen by the number."""

    @operation(digest="shelf_of")
    def store(self, number: int) -> list[Any]:
        return [self.key, number]


class Mixer(Component):
    """Mixes numbers, and notes which operations have run."""

    component_name = "ada"
    max_requests = 1_000

    def __init__(self, ran: list[int] | None = None) -> None:
        self.ran: list[int] = [] if ran is None else ran

    @operation()
    def mix(self, number: int, left: int, right: int = 0) -> int:
        self.ran.append(number)
        return mixed(number, left, right)

    def setup(self) -> None:
        self.add(Sleeper(), key="sleeper")
        for number in range(2):
            self.add(Shelf(), key=f"shelf-{number}")

    def shelf_of(self, number: int) -> str:
        return f"shelf-{number % 2}"

    @operation()
    def fail(self) -> int:
        raise FailedPrecondition("not today")

    @operation()
    def text(self, text: str) -> str:
        return text

    @operation(batch=Batch(max=4))
    def together(self, number: list[int]) -> list[int]:
        return number

    @operation()
    def rows(self, upto: int) -> Iterator[int]:
        yield from range(upto)

    @operation()
    async def total(self, rows: AsyncIterator[int]) -> int:
        return sum([row async for row in rows])


def mixed(number: int, left: int, right: int) -> int:
    return (left * 31 + right * 7 + number) % 1_000_003


def system(*names: str, ran: list[int] | None = None) -> VirtualSystem:
    """A backplane of each name, with a mixer of that name."""
    made = {name: type(name.capitalize(), (Mixer,), {"component_name": name}) for name in names}
    return VirtualSystem({name: (lambda kind=kind: [kind(ran)]) for name, kind in made.items()})


def forwarded(of: VirtualSystem, *names: str) -> int:
    return sum(of.backplane(name).statistics()["operands"]["forwarded"] for name in names)


def carried(of: VirtualSystem) -> int:
    """Operands that the client has sent."""
    return of.session.core.flow.carried_count


# -- the way of a result ----------------------------------------------------------------------------------------------


def test_a_chain_of_ten_calls_takes_eleven_messages() -> None:
    """One there, nine between the two, one back. With a result that makes a round trip through its caller there are twenty."""
    both = system("ada", "bob")
    call = both.submit("ada.mix", number=0, left=1)
    for number in range(1, 10):
        call = both.submit(f"{('ada', 'bob')[number % 2]}.mix", number=number, left=call)
    assert both.run_until_idle() == 11
    assert (forwarded(both, "ada", "bob"), carried(both)) == (9, 0)
    times, result = 0, 1
    for number in range(10):
        each = both.submit(f"{('ada', 'bob')[number % 2]}.mix", number=number, left=result)
        times += both.run_until_idle()
        result = each.result()
    assert (times, result) == (20, call.result())


def test_a_result_that_has_replied_already_is_sent_by_the_caller() -> None:
    """The wish comes too late, and nobody has kept anything for it: the reply said so."""
    both = system("ada", "bob")
    first = both.submit("ada.mix", number=1, left=1)
    both.deliver(CLIENT, "ada")  # it has run, and its reply is under way
    second = both.submit("bob.mix", number=2, left=first)
    assert second.result() == mixed(2, mixed(1, 1, 0), 0)
    assert (forwarded(both, "ada"), carried(both)) == (0, 1)


def test_a_reply_counts_the_wishes_of_calls_that_have_ended_since() -> None:
    """Else the caller takes a later wish, which came too late, for the one that was carried out, and its call never ends."""
    both = system("ada", "bob")
    first = both.submit("ada.slow", number=1)
    early = both.submit("bob.mix", number=2, left=first)
    both.run_until_idle()
    both.clock.sleep(1.0)
    both.deliver(CLIENT, "ada")  # nothing but the time: it replies, and sends its result on
    both.deliver("ada", "bob")
    both.deliver("bob", CLIENT)
    assert early.done() and not first.is_ready
    late = both.submit("bob.mix", number=3, left=first)
    assert late.result() == mixed(3, 1, 0)


def test_one_call_may_be_several_arguments_of_many_calls() -> None:
    both = system("ada", "bob")
    first = both.submit("ada.slow", number=3)
    calls = [both.submit(f"{name}.mix", number=n, left=first, right=first) for n in range(5) for name in ("ada", "bob")]
    both.advance(1.0)
    assert [call.result() for call in calls] == [mixed(n, 3, 3) for n in range(5) for _ in range(2)]
    assert (forwarded(both, "ada"), carried(both)) == (20, 0)


def test_a_result_that_is_there_is_an_argument_like_any_other() -> None:
    both = system("ada", "bob")
    first = both.submit("ada.mix", number=1, left=1)
    first.result()
    assert both.submit("bob.mix", number=2, left=first).result() == mixed(2, first.result(), 0)
    assert (forwarded(both, "ada"), carried(both)) == (0, 0)


def test_a_call_is_admitted_when_its_last_operand_comes() -> None:
    """Its place in the order of its object is that of the moment when it became complete; until then it occupies nothing."""
    ran: list[int] = []
    one = system("ada", ran=ran)
    first = one.submit("ada.slow", number=1)
    waiting = one.submit("ada.mix", number=2, left=first)
    later = one.submit("ada.mix", number=3, left=0)
    assert later.result() == 3
    one.advance(1.0)
    assert waiting.done() and ran == [3, 2]


def test_work_with_an_idempotency_key_is_done_once_for_all_operands_that_agree() -> None:
    """The key is looked at when the arguments are there; and a digest computes the object's key then."""
    ran: list[int] = []
    one = system("ada", ran=ran)
    first = one.submit("ada.slow", number=1)
    calls = [one.submit("ada.mix", number=2, left=first, idempotency_key="k") for _ in range(3)]
    other = one.submit("ada.mix", number=2, left=one.submit("ada.slow", number=7), idempotency_key="k")
    behind = one.submit("ada.mix", number=3, left=calls[1])
    stored = one.submit("ada.store", number=first)
    one.advance(3.0)
    assert [call.result() for call in calls] == [mixed(2, 1, 0)] * 3
    assert behind.result() == mixed(3, mixed(2, 1, 0), 0)
    assert "was used with other arguments" in str(other.exception())
    assert ran == [2, 3]
    assert stored.result() == ["shelf-1", 1]
    assert not one.backplane("ada").engine.forwarding.wanted


# -- operands that come before their calls ----------------------------------------------------------------------------


def test_an_operand_may_come_before_its_call() -> None:
    """They take different connections."""
    both = system("ada", "bob")
    first = both.submit("ada.slow", number=1)
    second = both.submit("bob.mix", number=2, left=first)
    both.deliver(CLIENT, "ada")
    both.clock.sleep(1.0)
    both.deliver(CLIENT, "ada")
    assert both.deliver("ada", "bob") == 1
    assert both.backplane("bob").statistics()["operands"]["early"] == 1
    both.deliver(CLIENT, "bob")
    both.run_until_idle()
    assert second.result() == mixed(2, 1, 0)
    assert both.backplane("bob").statistics()["operands"]["early"] == 0


def test_a_call_whose_early_operand_was_dropped_gets_its_values_from_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The room for early operands has a bound; beyond it the call is refused at once, and does not wait for ever."""
    monkeypatch.setattr(awaiting_calls, "EARLY_MAX", 1)
    both = system("ada", "bob")
    first = both.submit("ada.slow", number=1)
    calls = [both.submit("bob.mix", number=n, left=first) for n in range(3)]
    both.deliver(CLIENT, "ada")
    both.clock.sleep(1.0)
    both.deliver(CLIENT, "ada")
    both.deliver("ada", "bob")
    assert both.backplane("bob").statistics()["operands"]["late"] == 2
    both.advance(5.0)
    assert [call.result() for call in calls] == [mixed(n, 1, 0) for n in range(3)]


def test_early_operands_whose_calls_never_come_are_forgotten() -> None:
    both = system("ada", "bob")
    first = both.submit("ada.slow", number=1, timeout=2.0)
    both.submit("bob.mix", number=2, left=first)
    both.deliver(CLIENT, "ada")
    both.flying.pop((CLIENT, "bob"))
    both.advance(1.0)
    assert both.backplane("bob").statistics()["operands"]["early"] == 1
    both.advance(31.0)
    assert both.backplane("bob").statistics()["operands"]["early"] == 0


def test_only_the_first_value_counts_and_only_with_the_token() -> None:
    """Whoever may send to a backplane must not be able to fill the calls of others."""
    one = VirtualBackplane(Mixer())
    first = one.call("ada.slow", number=1)
    promise = one.promise()
    second = one.call("ada.mix", number=2, left=first, right=promise)
    one.run_until_idle()
    (waiting,) = one.backplane.engine.awaiting
    token = waiting.asked.token
    one.hear(operand(token + 1, "left", 66), b"stranger")
    one.hear(operand(token, "up", 66), b"stranger")
    one.hear(operand(token, "left", 5), b"stranger")
    one.hear(operand(token, "left", 77), b"stranger")
    one.hear(operand(token, "right", 7), b"stranger")
    assert second.result() == mixed(2, 5, 7)
    assert one.backplane.statistics()["operands"]["late"] == 3
    assert one.backplane.statistics()["operands"]["early"] == 0, "of a client, nothing is kept"


# -- promises ---------------------------------------------------------------------------------------------------------


def test_a_promise_is_assigned_once() -> None:
    one = VirtualBackplane(Mixer())
    promise = one.promise("width")
    before = one.call("ada.mix", number=1, left=promise)
    promise.set(4)
    after = one.call("ada.mix", number=2, left=promise)
    assert (before.result(), after.result()) == (mixed(1, 4, 0), mixed(2, 4, 0))
    with pytest.raises(FailedPrecondition, match="promise 'width' is assigned once, and it has its value already"):
        promise.set(5)
    with pytest.raises(FailedPrecondition, match="assigned once"):
        promise.follows(before)
    with pytest.raises(InvalidArgument, match="cannot be serialised"):
        one.promise().set(object())


def test_a_promise_follows_a_call_or_another_promise() -> None:
    both = system("ada", "bob")
    outer, inner = both.promise("outer"), both.promise("inner")
    calls = [both.submit("bob.mix", number=n, left=outer, right=inner) for n in range(2)]
    outer.follows(inner)
    first = both.submit("ada.slow", number=3)
    inner.follows(first)
    with pytest.raises(FailedPrecondition, match=r"it follows ada\.slow already"):
        inner.set(1)
    calls.append(both.submit("bob.mix", number=2, left=outer, right=inner))
    both.advance(1.0)
    assert [call.result() for call in calls] == [mixed(n, 3, 3) for n in range(3)]
    assert (forwarded(both, "ada"), carried(both)) == (6, 0), "they go straight there"
    assert outer.done() and both.submit("ada.mix", number=9, left=outer).result() == mixed(9, 3, 0)
    done = both.promise()
    done.follows(first)
    assert both.submit("ada.mix", number=9, left=done).result() == mixed(9, 3, 0)


def test_a_circle_is_refused_and_spelled_out() -> None:
    """It would wait until the deadlines of all its calls, and nobody would know why."""
    both = system("ada", "bob")
    seed, other = both.promise("seed"), both.promise("other")
    first = both.submit("ada.mix", number=1, left=seed, right=other)
    second = both.submit("bob.mix", number=2, left=0, right=first)
    both.run_until_idle()
    with pytest.raises(FailedPrecondition) as caught:
        seed.follows(second)
    assert str(caught.value) == (
        "a circle that nobody can ever fill: promise 'seed' would follow bob.mix, bob.mix awaits 'right' of ada.mix, "
        "ada.mix awaits 'left' of promise 'seed'"
    )
    other.follows(seed)
    with pytest.raises(FailedPrecondition, match="would follow itself"):
        seed.follows(other)
    seed.set(1)
    assert second.result() == mixed(2, 0, mixed(1, 1, 1))


def test_a_promise_that_nobody_can_assign_any_more_ends_its_calls() -> None:
    one = VirtualBackplane(Mixer())
    promise = one.promise("lost")
    call = one.call("ada.mix", number=1, left=promise)
    one.run_until_idle()
    del promise
    gc.collect()
    assert str(call.error()) == (
        "ada.mix: operand 'left', promise 'lost', has failed: FailedPrecondition: promise 'lost' was dropped before it was "
        "assigned, so nobody can fill it any more"
    )
    one.run_until_idle()
    assert not one.backplane.engine.accepted, "its callee is told"


# -- failures ---------------------------------------------------------------------------------------------------------


def test_a_failed_operand_ends_all_that_need_it_and_names_the_root() -> None:
    """However long the chain: without recursion."""
    one = VirtualBackplane(Mixer())
    failing = call = one.call("ada.fail")
    calls = []
    for number in range(500):
        call = one.call("ada.mix", number=number, left=call)
        calls.append(call)
    one.run_until_idle()
    for each, source in zip(calls, ("ada.fail", *["ada.mix"] * 499), strict=True):
        error = each.error()
        assert isinstance(error, OperandFailed) and isinstance(error, FailedPrecondition)
        assert error.argument == "left" and error.__cause__ is not None
        assert str(error) == f"ada.mix: operand 'left', {source}, has failed: FailedPrecondition: not today"
    with pytest.raises(OperandFailed, match="not today"):
        one.call("ada.mix", number=0, left=failing)
    promise = one.promise()
    promise.follows(failing)
    with pytest.raises(OperandFailed, match="not today"):
        one.call("ada.mix", number=0, left=promise)
    while one.link.has_input():  # one drain takes 64 frames
        one.run_until_idle()
    engine = one.backplane.engine
    assert not engine.accepted and not engine.forwarding.wanted and not len(engine.awaiting)


def test_a_call_that_awaits_operands_can_be_cancelled_and_expires() -> None:
    one = VirtualBackplane(Mixer())
    promise = one.promise("late")
    cancelled = one.call("ada.mix", number=1, left=promise)
    expiring = one.call("ada.mix", number=2, left=promise, timeout=1.0)
    behind = one.call("ada.mix", number=3, left=cancelled)
    one.run_until_idle()
    assert cancelled.cancel()
    assert isinstance(cancelled.error(), Cancelled)
    assert "Cancelled" in str(behind.error())
    one.run_until_idle()
    assert one.backplane.statistics()["operands"]["awaiting"] == 1
    one.advance(2.0)
    assert isinstance(expiring.error(), DeadlineExceeded)
    assert "'left' of promise 'late'" in str(expiring.error())
    assert not one.backplane.engine.accepted
    promise.set(1)
    one.run_until_idle()
    assert one.backplane.statistics()["operations"]["ada.mix"]["cancelled"] == 2


def test_a_refused_call_is_kept_by_its_caller_until_its_operands_are_there() -> None:
    """It has not begun, so it is sent again: with all values, when they are there."""

    class Narrow(Mixer):
        component_name = "ada"
        max_requests = 1

    one = VirtualBackplane(Narrow())
    promise = one.promise()
    first = one.call("ada.mix", number=1, left=promise)
    refused = one.call("ada.mix", number=2, left=promise)
    kept = one.call("ada.mix", number=3, left=promise, retry=True)
    one.run_until_idle()
    assert isinstance(refused.error(), Busy)
    assert not kept.is_ready
    promise.set(1)
    one.advance(10.0)
    assert (first.result(), kept.result()) == (mixed(1, 1, 0), mixed(3, 1, 0))


def test_more_urgent_work_takes_the_place_of_a_call_that_waits() -> None:
    """`max_requests` counts it, so it can be refused like any other that has not begun."""

    class Narrow(Mixer):
        component_name = "ada"
        max_requests = 2

    one = VirtualBackplane(Narrow())
    promise = one.promise()
    first = one.call("ada.mix", number=1, left=promise, priority=6)
    one.run_until_idle()
    second = one.call("ada.mix", number=2, left=promise, priority=6)
    one.run_until_idle()
    assert one.call("ada.mix", number=3, left=0, priority=0).result() == 3
    assert sum(isinstance(call._error, Busy) for call in (first, second)) == 1


def test_why_names_the_operand() -> None:
    one = VirtualBackplane(Mixer())
    one.call("ada.mix", number=1, left=one.call("ada.slow", number=1), right=(promise := one.promise("p")))
    one.run_until_idle()
    (step,) = one.backplane.why("ada.mix")["steps"]
    assert step["reasons"][0]["text"] == "it awaits operand 'left' of ada.slow, operand 'right' of promise 'p'"
    assert step["reasons"][0]["because"] == "operands"
    assert promise.done() is False


def test_what_takes_no_promise_says_so() -> None:
    """One clear error each, at once where the caller can know it."""
    one, other = VirtualBackplane(Mixer()), VirtualBackplane(Mixer())
    promise = one.promise("p")

    def error(**arguments: Any) -> str:
        route = arguments.pop("route", "ada.mix")
        try:
            return str(one.call(route, **arguments).error())
        except BackplaneError as problem:
            return str(problem)

    assert error(route="ada.together", number=promise) == (
        "ada.together: argument 'number' is a promise: an operation that takes a batch takes none; wait for its value and pass "
        "that"
    )
    assert "ada.total: argument 'rows' is a promise: the operation reads a stream there" in error(
        route="ada.total", rows=promise
    )
    with pytest.raises(InvalidArgument, match="'upto' is promise 'p': a call with a stream takes no promises"):
        one.stream("ada.rows", upto=promise)
    with pytest.raises(InvalidArgument, match=r"cast\(\) takes no promises; use submit"):
        one.cast("ada.mix", number=1, left=promise)
    assert "not inside another value" in error(number=1, left=[promise])
    assert error(number=1, left=other.promise("q")) == (
        "ada.mix: argument 'left' is promise 'q' of another client, which alone can fill it; wait for its result and pass that"
    )
    assert "of another client" in error(number=1, left=other.call("ada.slow", number=1))
    with pytest.raises(InvalidArgument, match="cannot follow promise 'q', which is of another client"):
        promise.follows(other.promise("q"))
    with pytest.raises(InvalidArgument, match="follows a submitted call or a promise, got 3"):
        promise.follows(3)  # type: ignore[arg-type]
    assert "unknown argument 'lft'" in error(number=1, lft=promise)
    assert "argument 'left'" in error(number=1, left=_set(one, "no number"))


def _set(of: VirtualBackplane, value: object) -> Any:
    promise = of.promise()
    promise.set(value)
    return promise


# -- whoever dies -----------------------------------------------------------------------------------------------------


def test_a_result_that_was_lost_with_its_callee_is_sent_again() -> None:
    """Its reply has arrived, and says that the result was sent on; but that frame died with the process."""
    both = system("ada", "bob")
    first = both.submit("ada.slow", number=1)
    second = both.submit("bob.mix", number=2, left=first)
    both.run_until_idle()
    both.clock.sleep(1.0)
    both.deliver(CLIENT, "ada")
    assert both.flying[("ada", "bob")] and both.flying[("ada", CLIENT)]
    both.deliver("ada", CLIENT)
    assert first.is_ready
    both.kill("ada")
    both.run_until_idle()
    assert second.result() == mixed(2, 1, 0)


def test_a_call_whose_operand_died_with_its_callee_ends() -> None:
    both = system("ada", "bob")
    first = both.submit("ada.slow", number=1)
    second = both.submit("bob.mix", number=2, left=first)
    both.run_until_idle()
    both.kill("ada")
    both.run_until_idle()
    assert isinstance(first._error, PeerDown)
    assert "PeerDown" in str(second._error) and isinstance(second._error, OperandFailed)
    assert not both.backplane("bob").engine.accepted


def test_a_call_that_waited_at_a_dead_backplane_waits_here_for_the_next_generation() -> None:
    """It cannot have begun: one of its operands comes from its caller, and was not there."""
    both = system("ada", "bob")
    promise = both.promise()
    first = both.submit("ada.slow", number=1)
    second = both.submit("bob.mix", number=2, left=first, right=promise)
    both.run_until_idle()
    both.kill("bob")
    both.advance(1.0)
    assert not second.is_ready
    both.restart("bob")
    promise.set(5)
    both.run_until_idle()
    assert second.result() == mixed(2, 1, 5)


def test_a_result_is_not_sent_to_the_next_generation() -> None:
    """Nobody there awaits it."""
    both = system("ada", "bob")
    first = both.submit("ada.slow", number=1)
    second = both.submit("bob.mix", number=2, left=first)
    both.run_until_idle()
    both.kill("bob")
    both.restart("bob")
    both.advance(1.0)
    assert first.is_ready and isinstance(second._error, PeerDown)
    assert forwarded(both, "ada") == 0


def test_a_call_that_may_have_begun_is_not_repeated() -> None:
    """All that it missed may have been sent there by another backplane."""
    both = system("ada", "bob")
    first = both.submit("ada.slow", number=1)
    second = both.submit("bob.mix", number=2, left=first)
    both.run_until_idle()
    both.kill("bob")
    both.run_until_idle()
    assert isinstance(second._error, PeerDown)


@pytest.mark.parametrize("kills", [False, True])
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_simulation(seed: int, kills: bool) -> None:
    """Frames arrive in any order, and backplanes die with what they have sent: each call ends once, with the right result, or
    in an error; none runs twice; and nothing is left anywhere.
    """
    chance, ran = random.Random(seed), list[int]()
    four = system(*NAMES, ran=ran)
    dead: set[str] = set()
    calls: list[PendingCall] = []
    expected: list[int] = []
    promises: list[tuple[Promise, Any]] = []

    def operand_of(number: int) -> tuple[Any, int]:
        if calls and chance.random() < 0.8:
            chosen = chance.randrange(max(0, len(calls) - 8), len(calls))
            if chance.random() < 0.8:
                return calls[chosen], expected[chosen]
            promises.append((four.promise(), calls[chosen]))  # it will follow that call, some time
            return promises[-1][0], expected[chosen]
        value = chance.randrange(100)
        if chance.random() < 0.8:
            return value, value
        promises.append((four.promise(), value))
        return promises[-1][0], value

    def keep_promise() -> None:
        promise, of = promises.pop(chance.randrange(len(promises)))
        if isinstance(of, PendingCall):
            promise.follows(of)
        else:
            promise.set(of)

    for number in range(CALLS):
        (left, left_value), (right, right_value) = operand_of(number), operand_of(number)
        route, is_retried = f"{chance.choice(NAMES)}.mix", chance.random() < 0.7
        try:
            call = four.submit(route, number=number, left=left, right=right, retry=is_retried)
        except BackplaneError:
            assert kills
            continue
        calls.append(call)
        expected.append(mixed(number, left_value, right_value))
        for _ in range(chance.randrange(6)):
            four.deliver_one(chance)
        if promises and chance.random() < 0.3:
            keep_promise()
        if kills:
            if chance.random() < 0.06 and len(dead) < len(NAMES):
                name = chance.choice(sorted({*NAMES} - dead))
                dead.add(name)
                four.kill(name, keeps=lambda: chance.random() < 0.5)
            if chance.random() < 0.1:
                for name in sorted(dead):
                    four.restart(name)
                dead.clear()
            if chance.random() < 0.05:
                calls[chance.randrange(len(calls))].cancel()
    for name in sorted(dead):
        four.restart(name)
    while promises:
        keep_promise()
        four.deliver_one(chance)
    while four.deliver_one(chance):
        pass
    four.advance(40.0)
    for call, value in zip(calls, expected, strict=True):
        assert call.is_ready, call
        assert call._error is not None or call._result == value
        assert kills or call._error is None
        assert not isinstance(call._error, DeadlineExceeded), "an operand was lost"
    assert len(ran) == len({*ran}), "one has run twice"
    assert not four.session.core.flow.is_used and four.session.core._outstanding_bytes == 0
    for name in NAMES:
        engine = four.backplane(name).engine
        assert not engine.accepted and not engine.forwarding.wanted and not len(engine.awaiting)
        assert (
            engine.forwarding._count == 0
            and engine.awaiting._early_bytes == 0
            and engine.awaiting._deadlines._calls == {}
        )
