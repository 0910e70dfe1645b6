"""Replays: of calls with one idempotency key the work is done once, and each of them gets its end."""

from __future__ import annotations

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
    FailedPrecondition,
    InternalError,
    InvalidArgument,
    Unavailable,
    operation,
    pause,
)
from appbackplane.runtime.execution.intake.idempotency_cache import RECORD_BYTES, WAITERS_MAX, digest_of
from appbackplane.runtime.execution.workers.current import current
from appbackplane.runtime.process_config import ReplayPolicy
from appbackplane.runtime.testing import VirtualBackplane, VirtualCall
from appbackplane.transport import codec
from appbackplane.transport.envelope import BOOST, CALL, CANCEL, Envelope
from tests.sizes import reachable_bytes

ERRORS: dict[str, type[BackplaneError]] = {
    kind.__name__: kind
    for kind in (Busy, Unavailable, DeadlineExceeded, InvalidArgument, FailedPrecondition, InternalError)
}


class Till(AppObject):
    """Counts what it has done."""

    def __init__(self) -> None:
        self.count = 0

    @operation()
    def pay(self, cents: int, note: str = "") -> list[int]:
        self.count += 1
        return [self.count, cents]

    @operation()
    async def transfer(self, cents: int) -> int:
        self.count += 1
        await pause(1.0)
        return self.count

    @operation()
    async def order(self) -> Any:
        self.count += 1
        return await self.call("bank.debit", timeout=10.0)

    @operation()
    def fail(self, kind: str) -> None:
        self.count += 1
        raise ERRORS[kind](f"failed {self.count}")

    @operation()
    def returns_what_cannot_travel(self) -> object:
        self.count += 1
        return object()

    @operation()
    async def twice(self, key: str) -> list[Any]:
        first = await self.call("bench.pay", key="other", cents=1, idempotency_key=key)
        return [first, await self.call("bench.pay", key="other", cents=1, idempotency_key=key)]


@pytest.fixture
def till() -> Till:
    """The object."""
    return Till()


@pytest.fixture
def shop(till: Till) -> VirtualBackplane:
    """The backplane."""
    backplane = VirtualBackplane(outside=("bank.debit",))
    backplane.add(till, key="till")
    backplane.add(Till(), key="other")
    return backplane


def figures(shop: VirtualBackplane) -> dict[str, int]:
    """The statistics of the idempotency cache."""
    found: dict[str, int] = shop.backplane.statistics()["replays"]
    return found


def test_the_first_reply_is_replayed_and_not_the_work(shop: VirtualBackplane, till: Till) -> None:
    """Or who asks again because the answer was lost pays twice."""
    first = shop.call("bench.pay", key="till", cents=5, idempotency_key="k").result()
    again = shop.call("bench.pay", key="till", cents=5, idempotency_key="k").result()
    assert first == again == [1, 5] and till.count == 1
    assert shop.call("bench.pay", key="till", cents=5).result() == [2, 5], "a call without a key is a call of its own"
    assert figures(shop)["kept"] == figures(shop)["replayed"] == 1


def test_a_key_is_one_of_its_operation_and_object(shop: VirtualBackplane) -> None:
    """Programs number their work as they please: two objects, or two operations, know nothing of each other."""
    counts = [
        shop.call(route, key=key, cents=5, idempotency_key="1").result()
        for route, key in (("bench.pay", "till"), ("bench.pay", "other"))
    ]
    assert counts == [[1, 5], [1, 5]]
    transfer = shop.call("bench.transfer", key="till", cents=5, idempotency_key="1")
    shop.advance(1.0)
    assert transfer.result() == 2


def test_one_that_comes_while_the_first_runs_waits_for_the_same_end(shop: VirtualBackplane, till: Till) -> None:
    """Who comes again after a second has most often not lost an answer, but is impatient."""
    first = shop.call("bench.transfer", key="till", cents=5, idempotency_key="k")
    shop.run_until_idle()
    second = shop.call("bench.transfer", key="till", cents=5, idempotency_key="k")
    shop.run_until_idle()
    assert not first.done() and not second.done()
    shop.advance(1.0)
    assert first.result() == second.result() == 1 == till.count


def test_other_arguments_are_refused(shop: VirtualBackplane, till: Till) -> None:
    """A key that is used for two things is a mistake, which the reply of the first would hide."""
    shop.call("bench.pay", key="till", cents=5, note="a", idempotency_key="k").result()
    error = shop.call("bench.pay", key="till", cents=6, note="a", idempotency_key="k").error()
    assert isinstance(error, InvalidArgument)
    assert str(error) == "bench.pay: idempotency_key 'k' was used with other arguments: take a new one"
    assert shop.call("bench.pay", key="till", note="a", cents=5, idempotency_key="k").result() == [1, 5]
    assert till.count == 1


@pytest.mark.parametrize("nest", [lambda value: [value], lambda value: {"a": value}], ids=["lists", "maps"])
def test_a_call_with_a_key_and_very_deep_arguments_is_refused_and_keeps_no_place(
    shop: VirtualBackplane, till: Till, nest: Callable[[Any], Any]
) -> None:
    """They cannot be compared. It was found out after the call had been counted: each such call took one of the places of its
    component for good, until all callers got `Busy`.
    """
    note: Any = "a"
    for _ in range(480):
        note = nest(note)
    for number in range(3):
        error = shop.call("bench.pay", key="till", cents=5, note=note, idempotency_key=f"k{number}").error()
        assert type(error) is InvalidArgument
    assert not len(shop.backplane.engine.accepted)
    assert shop.backplane.statistics()["components"]["bench"]["outstanding"] == 0
    assert till.count == 0


def test_the_order_of_arguments_does_not_matter_and_all_else_does() -> None:
    """Two programs, or two versions of one, name them in another order."""
    one, other = {"a": {"x": 1, "y": [1, 2]}, "b": 2}, {"b": 2, "a": {"y": [1, 2], "x": 1}}
    assert digest_of("bench.pay", one) == digest_of("bench.pay", other)
    different = [
        {}, {"a": 1}, {"a": "1"}, {"a": b"1"}, {"a": [1]}, {"a": {}}, {"a": []}, {"a": None}, {"b": 1},
        {"a": {"b": 1}}, {"a": [["b", 1]]}, {"a": [True, [b"\xa1b", 1]]}, {"a": [1, 2]}, {"a": [2, 1]}, {"a": 1.5},
    ]  # fmt: skip
    assert len({digest_of("bench.pay", each) for each in different}) == len(different)


@pytest.mark.parametrize("kind", ["InvalidArgument", "FailedPrecondition", "InternalError"])
def test_an_error_that_ends_the_matter_is_replayed(shop: VirtualBackplane, till: Till, kind: str) -> None:
    """The work has been tried, and may be half done."""
    errors = [shop.call("bench.fail", key="till", kind=kind, idempotency_key="k").error() for _ in range(2)]
    assert [str(error) for error in errors] == ["failed 1"] * 2 and till.count == 1
    assert {type(error).__name__ for error in errors} == {kind}


@pytest.mark.parametrize("kind", ["Busy", "Unavailable", "DeadlineExceeded"])
def test_an_error_that_says_not_now_is_not_kept(shop: VirtualBackplane, till: Till, kind: str) -> None:
    """Who is told to come again, and comes, wants it done."""
    errors = [shop.call("bench.fail", key="till", kind=kind, idempotency_key="k").error() for _ in range(2)]
    assert [str(error) for error in errors] == ["failed 1", "failed 2"]
    assert not errors[0].is_refused, "it had begun"
    assert figures(shop)["kept"] == 0


def test_what_cannot_be_sent_is_not_done_again(shop: VirtualBackplane, till: Till) -> None:
    """It would fail as often as it is called, and do its work each time."""
    for _ in range(2):
        error = shop.call("bench.returns_what_cannot_travel", key="till", idempotency_key="k").error()
        assert isinstance(error, InternalError) and "cannot be sent" in str(error)
    assert till.count == 1


def test_a_caller_that_goes_away_does_not_stop_what_has_begun(shop: VirtualBackplane, till: Till) -> None:
    """Its connection is cut, it comes again by another one, and the work must not have been left half done."""
    first = shop.call("bench.transfer", key="till", cents=5, timeout=0.5, idempotency_key="k")
    shop.run_until_idle()
    first.cancel()
    shop.advance(0.6)  # its deadline, too, is past
    second = shop.call("bench.transfer", key="till", cents=5, idempotency_key="k")
    shop.advance(1.0)
    assert second.result() == 1 == till.count
    assert isinstance(first.error(), Cancelled)


def test_the_calls_of_what_is_carried_through_go_on(shop: VirtualBackplane) -> None:
    """What it awaits elsewhere is not taken back either."""
    first = shop.call("bench.order", key="till", idempotency_key="k")
    shop.run_until_idle()
    first.cancel()
    shop.run_until_idle()
    (debit,) = shop.outside_calls()
    assert not debit.is_cancelled
    debit.reply("done")
    shop.run_until_idle()
    assert shop.call("bench.order", key="till", idempotency_key="k").result() == "done"


def test_what_has_not_begun_is_taken_back_like_any_call(shop: VirtualBackplane, till: Till) -> None:
    """Nobody waits for it, and nothing has been done."""
    call = shop.call("bench.pay", key="till", cents=5, idempotency_key="k")
    call.cancel()
    assert isinstance(call.error(), Cancelled) and till.count == 0
    assert shop.call("bench.pay", key="till", cents=5, idempotency_key="k").result() == [1, 5]


def test_the_work_passes_to_the_next_who_wants_it(shop: VirtualBackplane, till: Till) -> None:
    """The first caller's cancellation is not the second's."""
    first = shop.call("bench.pay", key="till", cents=5, idempotency_key="k")
    second = shop.call("bench.pay", key="till", cents=5, idempotency_key="k")
    first.cancel()
    assert second.result() == [1, 5] and till.count == 1
    assert isinstance(first.error(), Cancelled)


def test_who_waits_for_what_never_began_is_told_to_ask_again(shop: VirtualBackplane, till: Till) -> None:
    """Its own deadline may be far away."""
    first = shop.call("bench.transfer", key="till", cents=5)
    shop.run_until_idle()
    queued = shop.hear_call(  # of a caller that does not take it back at its deadline
        Envelope(CALL, 999, None, "bench.pay", "till", 500_000_000, None, {"cents": 5}, None, "k")
    )
    waits = shop.call("bench.pay", key="till", cents=5, timeout=9.0, idempotency_key="k")
    shop.advance(1.0)
    assert first.result() == 1 == till.count
    assert isinstance(queued.error(), DeadlineExceeded)
    error = waits.error()
    assert isinstance(error, Unavailable) and error.is_refused


def test_work_that_passes_to_the_next_call_has_its_deadline(shop: VirtualBackplane, till: Till) -> None:
    """It kept that of the call that had gone, and the next one was told that its deadline had passed."""
    first = shop.call("bench.transfer", key="till", cents=5)
    shop.run_until_idle()
    gone = shop.call("bench.pay", key="till", cents=5, timeout=0.5, idempotency_key="k")
    waits = shop.call("bench.pay", key="till", cents=5, timeout=9.0, idempotency_key="k")
    shop.advance(1.0)
    assert isinstance(gone.error(), DeadlineExceeded)
    assert (first.result(), waits.result()) == (1, [2, 5])


def test_those_who_wait_for_one_end_are_bounded(shop: VirtualBackplane, till: Till) -> None:
    """Or a client in a loop would fill any memory."""
    calls = [shop.call("bench.transfer", key="till", cents=5, idempotency_key="k") for _ in range(WAITERS_MAX + 2)]
    shop.advance(1.0)
    assert [call.result() for call in calls[:-1]] == [1] * (WAITERS_MAX + 1) and till.count == 1
    assert isinstance(calls[-1].error(), Busy)


def test_calls_of_objects_bear_keys_too(shop: VirtualBackplane) -> None:
    """To objects of the same backplane as to any others."""
    assert shop.call("bench.twice", key="till", idempotency_key=None, arguments={}).error()
    assert twice(shop, "k", priority=4).result() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_key_that_is_none_is_refused(shop: VirtualBackplane, key: str) -> None:
    """Also here, where strangers call."""
    call = shop.hear_call(Envelope(CALL, 999, None, "bench.pay", "till", None, None, {"cents": 5}, None, key))
    error = call.error()
    assert isinstance(error, InvalidArgument) and "1 to 255 characters" in str(error)


def test_a_digest_finds_the_object_first(till: Till) -> None:
    """The key that it finds is the object's, whoever has worked it out."""

    class Tills(Component):
        def setup(self) -> None:
            self.add(Digested(), key="a")

        def which(self, cents: int) -> str:
            return "a"

    class Digested(AppObject):
        def __init__(self) -> None:
            self.count = 0

        @operation(digest="which")
        def pay(self, cents: int) -> int:
            self.count += 1
            return self.count

    shop = VirtualBackplane(Tills())
    assert [shop.call("tills.pay", cents=5, idempotency_key="k").result() for _ in range(2)] == [1, 1]
    assert shop.call("tills.pay", key="a", cents=5, idempotency_key="k").result() == 1


# -- bounds -----------------------------------------------------------------------------------------------------------


def bounded(shop: VirtualBackplane, **bounds: int) -> None:
    """Set them."""
    shop.backplane.engine.replays.policy = ReplayPolicy(**bounds)


def pay(shop: VirtualBackplane, key: str, note: str = "") -> int:
    """How often it has been done by then."""
    result: list[int] = shop.call("bench.pay", key="till", cents=5, note=note, idempotency_key=key).result()
    return result[0]


def test_after_its_time_a_key_is_forgotten(shop: VirtualBackplane) -> None:
    """As the page says: no sooner."""
    bounded(shop, keep_ns=10_000_000_000)
    assert pay(shop, "k") == 1
    shop.advance(9.9)
    assert pay(shop, "k") == 1
    shop.advance(0.2)
    assert pay(shop, "k") == 2
    assert figures(shop)["forgotten"] == 0, "its time was over"


def test_beyond_the_count_the_oldest_is_forgotten_and_counted(shop: VirtualBackplane) -> None:
    """Nothing is dropped without a counter."""
    bounded(shop, count=3)
    for key in "abcd":
        pay(shop, key)
    assert (figures(shop)["kept"], figures(shop)["forgotten"]) == (3, 1)
    assert pay(shop, "b") == 2 and pay(shop, "d") == 4, "these are still known"
    assert pay(shop, "a") == 5


def test_the_bytes_of_all_are_bounded(shop: VirtualBackplane) -> None:
    """Ten thousand replies of 16 MiB each would be the end of the machine."""
    bounded(shop, size=5 * (RECORD_BYTES + 30))
    for number in range(100):
        pay(shop, f"{number}")
        assert figures(shop)["bytes"] <= 5 * (RECORD_BYTES + 30)
    assert 4 <= figures(shop)["kept"] <= 5
    bounded(shop, keep_ns=1)
    shop.advance(1.0)
    pay(shop, "last")
    assert figures(shop)["kept"] == 1
    shop.advance(1.0)
    pay(shop, "last")
    assert figures(shop)["bytes"] == RECORD_BYTES + figures(shop)["bytes"] % RECORD_BYTES


def test_a_record_takes_what_it_is_said_to_take(shop: VirtualBackplane) -> None:
    """The page promises a memory, and `size` counts with it."""
    bounded(shop, count=2_000)
    engine = shop.backplane.engine
    replays = engine.replays

    def keep(number: int) -> None:
        envelope = Envelope(CALL, 1, None, "bench.pay", "till", None, None, {"cents": 5}, None, f"{number:036}")
        action = Action(engine.registry.components["bench"], "bench.pay", 4)
        action.account = engine.statistics.of("bench.pay")
        received = codec.decode(codec.batch([codec.Encoder().encode(envelope)]))[0]
        digest = digest_of("bench.pay", received.body)
        assert replays.find(received, digest, 1) is None
        replays.began(action, received, digest)
        replays.ended(action, 1)

    keep(0)
    before = reachable_bytes(replays)
    for number in range(1, 1_501):
        keep(number)
    taken = (reachable_bytes(replays) - before) / 1_500
    # Tables that have just grown have room for as many again.
    assert RECORD_BYTES * 0.5 < taken < RECORD_BYTES * 1.2, taken


def test_a_backplane_that_stops_tells_those_who_wait(shop: VirtualBackplane) -> None:
    """They would wait for their deadlines."""
    calls = [shop.call("bench.pay", key="till", cents=5, idempotency_key="k") for _ in range(2)]
    engine = shop.backplane.engine
    engine.drain(shop.clock.now_ns())
    engine.stop()
    shop.collect()
    for call in calls:
        error = call.error()
        assert isinstance(error, Unavailable) and error.is_refused


def test_a_cancellation_of_one_that_waits_leaves_the_rest(shop: VirtualBackplane) -> None:
    """Its late answer is the caller's to drop."""
    first, second = (shop.call("bench.transfer", key="till", cents=5, idempotency_key="k") for _ in range(2))
    shop.run_until_idle()
    shop.hear(Envelope(CANCEL, second._id))
    shop.advance(1.0)
    assert first.result() == 1


# -- priorities -----------------------------------------------------------------------------------------------------------


LENT, NOT_LENT = ["pay", "fail"], ["fail", "pay"]


@pytest.mark.parametrize(
    ("happens", "expected"),
    [
        ("nothing", LENT),
        ("the first is taken back", LENT),
        ("the urgent is taken back", NOT_LENT),
        ("the urgent is less so now", NOT_LENT),
        ("the bulk is urgent now", LENT),
    ],
)
def test_an_urgent_call_lends_its_priority_to_the_work_that_it_waits_for(
    shop: VirtualBackplane, happens: str, expected: list[str]
) -> None:
    """Law 10. Else it waits as long as bulk work does; and the work is as urgent as those that still wait for it."""
    first = shop.call("bench.pay", key="till", priority=6, cents=5, idempotency_key="k")
    shop.call("bench.fail", key="other", priority=3, kind="Busy")
    urgent = shop.call("bench.pay", key="till", priority=0, cents=5, idempotency_key="k")
    if happens == "the first is taken back":
        first.cancel()
    elif happens == "the bulk is urgent now":
        urgent.cancel()
        shop.hear(Envelope(BOOST, first._id, 1))
    elif happens == "the urgent is taken back":
        urgent.cancel()
    elif happens == "the urgent is less so now":
        shop.hear(Envelope(BOOST, urgent._id, 5))
    shop.backplane.engine.drain(shop.clock.now_ns())
    assert shop.run_until_idle() == expected
    waits = urgent if happens == "the first is taken back" else first
    assert waits.result() == [1, 5]
    assert not shop.backplane.engine.accepted


def test_one_that_waits_inherits_for_the_work_of_another(shop: VirtualBackplane) -> None:
    """The call of an object waits for work with its key that is queued, and something urgent queues behind the object."""
    shop.call("bench.pay", key="other", priority=7, cents=1, idempotency_key="k")
    twice(shop, "k", priority=6)
    engine, worker = shop.backplane.engine, shop._worker
    assert worker is not None
    engine.drain(shop.clock.now_ns())
    (work,) = engine.replays.running
    priorities = [work.priority]
    running = engine.choose(worker)
    assert running is not None and running.name == "bench.twice"
    current.worker = worker
    engine.complete(running, *engine.execute(worker, running))
    current.worker = None
    priorities.append(work.priority)
    urgent = shop.call("bench.pay", key="till", priority=0, cents=5)
    engine.drain(shop.clock.now_ns())
    priorities.append(work.priority)
    urgent.cancel()
    engine.drain(shop.clock.now_ns())
    priorities.append(work.priority)
    assert priorities == [7, 6, 0, 6]


def twice(shop: VirtualBackplane, key: str, priority: int) -> VirtualCall:
    """`bench.twice` of the till; `key` is its argument."""
    return shop.hear_call(Envelope(CALL, 999, priority, "bench.twice", "till", None, None, {"key": key}))
