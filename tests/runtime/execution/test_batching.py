"""Batching: several requests by one call of the method, each with its own answer, in the order of their object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from appbackplane.runtime import (
    Adaptive,
    AppObject,
    Batch,
    Busy,
    Cancelled,
    Component,
    DeadlineExceeded,
    DeclarationError,
    operation,
)
from appbackplane.runtime.execution.actions.batch_action import BatchAction
from appbackplane.runtime.testing import VirtualBackplane, VirtualCall
from appbackplane.transport.envelope import CALL, Envelope
from appbackplane.transport.errors import InternalError, InvalidArgument


class Table(AppObject):
    """Notes the batches that it gets."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.takes_s = 0.0
        self.sleep: Callable[[float], None] = lambda seconds: None
        self.answer: Callable[[list[int]], Any] = lambda rows: [row * 10 for row in rows]

    @operation(batch=Batch(max=4))
    def store(self, row: list[int]) -> list[int]:
        self.batches.append(row)
        self.sleep(self.takes_s)
        result: list[int] = self.answer(row)
        return result

    @operation(batch=Batch(max=3, wait_ms=5))
    def gather_up(self, row: list[int], note: list[str]) -> None:
        self.batches.append(row)
        assert len(note) == len(row)

    @operation(batch=Batch(max=100, wait_ms=5))
    def hoard(self, row: list[int]) -> None:
        self.batches.append(row)

    @operation(batch=Batch(max=100, wait_ms=50))
    def linger(self, row: list[int]) -> None:
        self.batches.append(row)

    @operation(batch=Batch(max=100), reentrant=True)
    def inner(self, row: list[int]) -> None:
        self.batches.append(row)

    @operation()
    async def outer(self, row: int) -> None:
        await self.call("oracle.wait")
        await self.call("store.inner", row=row)

    @operation()
    def count(self) -> int:
        self.batches.append([])
        return len(self.batches)


class Store(Component):
    """One table."""

    def setup(self) -> None:
        self.table = self.add(Table())


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def backplane(store: Store) -> VirtualBackplane:
    backplane = VirtualBackplane(store, outside=("oracle.wait",))
    backplane.run_until_idle()
    assert backplane.backplane is not None
    store.table.sleep = backplane.clock.sleep
    return backplane


def submit(backplane: VirtualBackplane, count: int, operation: str = "store", **more: Any) -> list[VirtualCall]:
    return [backplane.call(f"store.{operation}", row=row, **more) for row in range(count)]


def test_what_is_queued_is_served_together_and_each_gets_its_own_answer(
    backplane: VirtualBackplane, store: Store
) -> None:
    calls = submit(backplane, 10)
    assert [call.result() for call in calls] == [row * 10 for row in range(10)]
    assert store.table.batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_single_request_is_a_batch_of_one(backplane: VirtualBackplane, store: Store) -> None:
    assert backplane.call("store.store", row=7).result() == 70
    assert store.table.batches == [[7]]


def test_another_operation_of_the_object_keeps_its_place(backplane: VirtualBackplane, store: Store) -> None:
    """Law 1. A batch that took requests from behind it would let them pass."""
    first, counted, last = submit(backplane, 2), backplane.call("store.count"), submit(backplane, 2)
    assert counted.result() == 2
    assert [call.result() for call in (*first, *last)] == [0, 10, 0, 10]
    assert store.table.batches == [[0, 1], [], [0, 1]]


def test_a_batch_is_of_one_operation(backplane: VirtualBackplane, store: Store) -> None:
    for name in ("store", "hoard", "store"):
        submit(backplane, 2, name)
    backplane.run_until_idle()
    assert store.table.batches == [[0, 1], [0, 1], [0, 1]]


def test_it_waits_for_more_only_so_long(backplane: VirtualBackplane, store: Store) -> None:
    calls = submit(backplane, 2, "gather_up", note="x")
    backplane.advance(0.004)
    assert store.table.batches == []
    assert "more requests for its batch" in str(backplane.backplane.why("store.gather_up"))
    backplane.advance(0.001)
    assert store.table.batches == [[0, 1]]
    assert all(call.done() for call in calls)


def test_the_wait_ends_when_the_batch_is_full(backplane: VirtualBackplane, store: Store) -> None:
    submit(backplane, 2, "gather_up", note="x")
    backplane.advance(0.001)
    submit(backplane, 2, "gather_up", note="x")
    backplane.run_until_idle()
    assert store.table.batches == [[0, 1, 0]]
    backplane.advance(0.005)
    assert store.table.batches == [[0, 1, 0], [1]]


def test_the_wait_ends_when_other_work_comes_for_the_object(backplane: VirtualBackplane, store: Store) -> None:
    """It would wait for the batch, and the batch would not grow."""
    submit(backplane, 2, "hoard")
    backplane.run_until_idle()
    assert backplane.call("store.count").result() == 2
    assert store.table.batches == [[0, 1], []]


def test_an_error_is_that_of_all_and_an_error_among_the_results_that_of_one(
    backplane: VirtualBackplane, store: Store
) -> None:
    store.table.answer = lambda rows: [Busy("no room for 1") if row == 1 else row for row in rows]
    assert str(backplane.call("store.store", row=1).error()) == "no room for 1"
    calls = submit(backplane, 3)
    assert str(calls[1].error()) == "no room for 1"
    assert (calls[0].result(), calls[2].result()) == (0, 2)

    def fail(rows: list[int]) -> Any:
        raise InvalidArgument("not these")

    store.table.answer = fail
    assert [str(call.error()) for call in submit(backplane, 3)] == ["not these"] * 3


@pytest.mark.parametrize(
    ("returned", "says"),
    [([1], "returned 1 results for a batch of 3"), (5, "returned a int for a batch of 3"), ("abc", "returned a str")],
)
def test_another_number_of_results_fails_all(
    backplane: VirtualBackplane, store: Store, returned: Any, says: str
) -> None:
    """Whose answer is missing cannot be known."""
    store.table.answer = lambda rows: returned
    for call in submit(backplane, 3):
        error = call.error()
        assert isinstance(error, InternalError) and says in error.message


def test_an_exit_in_the_method_is_answered_too(backplane: VirtualBackplane, store: Store) -> None:
    def leave(rows: list[int]) -> Any:
        raise SystemExit(3)

    store.table.answer = leave
    assert all(isinstance(call.error(), InternalError) for call in submit(backplane, 3))
    store.table.answer = lambda rows: rows
    assert backplane.call("store.store", row=1).result() == 1


def test_a_cancelled_request_is_not_served_and_the_others_are(backplane: VirtualBackplane, store: Store) -> None:
    calls = submit(backplane, 3)
    calls[0].cancel()
    calls[2].cancel()
    backplane.run_until_idle()
    assert store.table.batches == [[1]]
    assert calls[1].result() == 10


def test_the_first_is_cancelled_while_it_waits_for_more(backplane: VirtualBackplane, store: Store) -> None:
    """The others keep their wait."""
    calls = submit(backplane, 2, "hoard")
    backplane.advance(0.001)
    calls[0].cancel()
    backplane.advance(0.01)
    assert isinstance(calls[0].error(), Cancelled)
    assert store.table.batches == [[1]]
    assert calls[1].result() is None


def test_deadlines_are_those_of_each(backplane: VirtualBackplane, store: Store) -> None:
    store.table.takes_s = 1.0
    blocker = backplane.call("store.store", row=9)
    backplane.call("store.count")
    patient, late = (backplane.call("store.store", row=row, timeout=timeout) for row, timeout in ((2, 5.0), (1, 0.5)))
    backplane.run_until_idle()
    assert isinstance(late.error(), DeadlineExceeded)
    assert patient.result() == 20
    assert blocker.result() == 90
    assert store.table.batches == [[9], [], [2]]


def test_a_late_request_is_left_out_although_its_caller_has_not_cancelled_it(
    backplane: VirtualBackplane, store: Store
) -> None:
    """Its caller may have died, or its cancellation be on the way."""
    store.table.takes_s = 1.0
    backplane.call("store.store", row=9)
    backplane.call("store.count")
    patient = backplane.call("store.store", row=2, timeout=5.0)
    backplane.hear(Envelope(CALL, 77, None, "store.store", deadline=500_000_000, body={"row": 1}), b"other")
    assert patient.result() == 20
    assert store.table.batches == [[9], [], [2]]


def test_each_is_counted(backplane: VirtualBackplane, store: Store) -> None:
    store.table.takes_s = 0.4
    submit(backplane, 4)
    backplane.run_until_idle()
    account = backplane.backplane.engine.statistics.of("store.store")
    assert account.run.count == account.wait.count == 4
    assert account.run.summary()["p50_us"] == pytest.approx(400_000, rel=0.1)
    assert backplane.backplane.engine.limits.requests["store"].outstanding == 0
    assert store.table._load == 0


def test_a_call_with_an_idempotency_key_is_served_by_itself(backplane: VirtualBackplane, store: Store) -> None:
    """It may be one of an earlier call, and then it is not served at all."""
    calls = [backplane.call("store.store", row=1, idempotency_key="one") for _ in range(2)]
    assert [call.result() for call in calls] == [10, 10]
    assert store.table.batches == [[1]]


def test_the_caller_sees_the_signature_of_one_request(backplane: VirtualBackplane) -> None:
    with pytest.raises(
        InvalidArgument, match=r"store.store: argument 'row': expected `int`, got `str`.*\(row: int\) -> int"
    ):
        backplane.call("store.store", row="seven").result()


def test_the_batch_runs_at_the_priority_of_its_most_urgent_request(backplane: VirtualBackplane, store: Store) -> None:
    seen: list[int] = []
    worker = backplane.backplane.engine.poll_leader.team

    def look(rows: list[int]) -> list[int]:
        seen.extend(one.action.priority for one in worker if one.action is not None)
        return rows

    store.table.answer = look
    for priority in (6, 1, 3):
        backplane.call("store.store", row=priority, priority=priority)
    backplane.run_until_idle()
    assert seen == [1]


BAD = {
    "no list": (lambda self, row: None, {"row": int}, r"annotate 'row' as list\[int\], not as int"),
    "no annotation": (lambda self, row: None, {}, r"annotate 'row' as list\["),
    "no parameter": (lambda self: None, {}, "has no parameter"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_method_that_takes_no_lists_is_refused(case: str) -> None:
    method, annotations, says = BAD[case]
    method.__annotations__ = annotations
    method.__name__ = method.__qualname__ = "store"
    with pytest.raises(DeclarationError, match=f"store serves batches.*{says}"):
        VirtualBackplane().add(type("Odd", (AppObject,), {"store": operation(batch=Batch(max=2))(method)})())


def test_a_coroutine_is_refused() -> None:
    with pytest.raises(DeclarationError, match="cannot await or yield: make it a plain `def`"):

        class Odd(AppObject):
            @operation(batch=Batch(max=2))
            async def store(self, row: list[int]) -> None: ...


@pytest.mark.parametrize(
    ("batch", "says"),
    [
        (5, "expected a bound, as in batch=Batch"), (Batch(max=0), "max=0: expected a whole number, 1 to 10,000"),
        (Batch(max=2, wait_ms=-1), "wait_ms=-1: expected milliseconds, 0 to 1,000"),
        (Batch(max=True), "max=True"), (Batch(max=2, wait_ms=float("nan")), "wait_ms=nan"),
    ],
)  # fmt: skip
def test_a_bad_bound_is_refused_where_it_is_written(batch: Any, says: str) -> None:
    with pytest.raises(DeclarationError, match=says):

        @operation(batch=batch)
        def store(self: Any, row: list[int]) -> None: ...


def test_the_first_is_cancelled_when_its_batch_has_been_taken(backplane: VirtualBackplane, store: Store) -> None:
    """By another worker, between the choice and the run. The others were told that they were served, and were not."""
    calls = submit(backplane, 3)
    engine = backplane.backplane.engine
    worker = backplane.backplane.stand_in_worker(99)
    engine.drain(backplane.clock.now_ns())
    action = engine.choose(worker)
    assert isinstance(action, BatchAction) and len(action.companions) == 2
    action.cancel()
    engine.complete(action, *engine.execute(worker, action))
    worker.action = None
    backplane.run_until_idle()
    assert store.table.batches == [[0, 1, 2]]
    assert [call.result() for call in calls[1:]] == [10, 20]


def test_the_end_of_the_process_is_told_to_all_of_a_batch_alike(backplane: VirtualBackplane, store: Store) -> None:
    """As work that may have been done: a caller that is told that it never began does it again."""
    calls = submit(backplane, 3)
    engine = backplane.backplane.engine
    begun: list[bool] = []

    def look(rows: list[int]) -> list[int]:
        running = [worker.action for worker in engine.poll_leader.team]
        begun.extend(action.has_begun or action in running for action in engine.accepted.values())
        return rows

    store.table.answer = look
    assert [call.result() for call in calls] == [0, 1, 2]
    assert begun == [True] * 3


def test_an_exactly_full_batch_does_not_wait(backplane: VirtualBackplane, store: Store) -> None:
    calls = submit(backplane, 3, "gather_up", note="x")
    backplane.run_until_idle()
    assert store.table.batches == [[0, 1, 2]]
    assert all(call.done() for call in calls)


def test_a_deadline_ends_the_wait(backplane: VirtualBackplane, store: Store) -> None:
    """Of the first, or of one that joins it."""
    assert backplane.call("store.linger", row=1, timeout=0.02).result(timeout=1.0) is None
    first = backplane.call("store.linger", row=2)
    backplane.advance(0.01)
    second = backplane.call("store.linger", row=3, timeout=0.02)
    assert second.result(timeout=1.0) is None
    assert first.result() is None
    assert store.table.batches == [[1], [2, 3]]


def test_a_reentrant_request_takes_nobody_along(backplane: VirtualBackplane, store: Store) -> None:
    """Law 6: the others wait for the reply that their object awaits."""
    outer = backplane.call("store.outer", row=0)
    backplane.run_until_idle()
    others = [backplane.call("store.inner", row=row) for row in (1, 2)]
    backplane.run_until_idle()
    assert store.table.batches == []
    backplane.outside_calls()[0].reply(None)
    assert outer.result() is None
    assert [call.result() for call in others] == [None, None]
    assert store.table.batches == [[0], [1, 2]]


def test_a_wait_beyond_the_aim_is_refused_where_it_is_written() -> None:
    with pytest.raises(DeclarationError, match=r"batch waits for 50 ms, and admit refuses what has queued for 20 ms"):

        @operation(batch=Batch(max=10, wait_ms=50), admit=Adaptive(aim_ms=20))
        def store(self: Any, row: list[int]) -> None: ...
