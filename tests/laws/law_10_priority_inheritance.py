"""Law 10. What stands in the way of higher-priority work runs at that priority until it is out of the way.

Same object, same workers, or a callee of it, in any backplane; an object may lend a minimum priority to whoever calls it.
`should_yield()` tells a long loop that higher-priority work is present; `await checkpoint()` lets it run. Without it the
most urgent caller waits at the priority of the least urgent thing it depends on.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from appbackplane.runtime import AppObject, Component, checkpoint, operation, should_yield
from appbackplane.runtime.execution.urgency.board import Board, OwnSlot
from appbackplane.runtime.execution.workers.current import current
from appbackplane.runtime.testing import VirtualBackplane


class Worker(AppObject):
    def __init__(self) -> None:
        self.backplane: VirtualBackplane | None = None
        self.seen: list[str | bool] = []

    @operation(priority=5)
    async def long(self, steps: int = 3, arrives: str = "") -> None:
        for step in range(steps):
            self.seen.append(f"step {step}")
            if arrives and step == 0:
                assert self.backplane is not None
                self.backplane.call(f"worker_component.{arrives}", key="other")
                self.backplane.clock.sleep(0.001)
            await checkpoint()

    @operation(priority=5)
    def looks(self) -> bool:
        return should_yield()

    @operation(priority=5)
    async def delegates(self) -> None:
        await self.call("helper.help")

    @operation(priority=5)
    async def goes_outside(self) -> None:
        await self.call("other.value")

    @operation(priority=0)
    def urgent(self) -> None:
        self.seen.append("urgent")

    @operation(priority=5)
    def equal(self) -> None: ...

    @operation(priority=3)
    def middle(self) -> None: ...


class WorkerComponent(Component):
    def setup(self) -> None:
        self.one, self.other = Worker(), Worker()
        self.add(self.one, key="one")
        self.add(self.other, key="other")


class Helper(Component):
    @operation(priority=7)
    def help(self) -> None: ...


@pytest.fixture
def workers() -> WorkerComponent:
    return WorkerComponent()


@pytest.fixture
def backplane(workers: WorkerComponent) -> VirtualBackplane:
    backplane = VirtualBackplane(workers, Helper(), outside=("other.value",))
    _ = backplane.backplane  # sets the components up
    workers.one.backplane = workers.other.backplane = backplane
    return backplane


@pytest.fixture
def board() -> Iterator[Board]:
    board = Board.create(2)
    yield board
    board.close()


def test_a_checkpoint_lets_higher_priority_work_run(backplane: VirtualBackplane, workers: WorkerComponent) -> None:
    """Law 10. A long operation that cannot be interrupted makes the urgent wait for all of it."""
    backplane.post(workers.one, "long", arrives="urgent")
    assert backplane.run_until_idle() == ["long", "urgent", "long"]
    assert workers.one.seen == ["step 0", "step 1", "step 2"]


def test_a_checkpoint_costs_nothing_where_nothing_is_more_urgent(
    backplane: VirtualBackplane, workers: WorkerComponent
) -> None:
    """Law 10. Equal work does not make it step aside, or two bulk loops would swap at every step."""
    backplane.post(workers.one, "long", arrives="equal")
    assert backplane.run_until_idle() == ["long", "equal"]


def test_who_steps_aside_goes_on_before_anything_else_of_its_object(
    backplane: VirtualBackplane, workers: WorkerComponent
) -> None:
    """Law 10 with law 1. Its object is in the middle of something: order holds although it does not hold a worker."""
    backplane.post(workers.one, "long", arrives="urgent")
    backplane.post(workers.one, "urgent")
    backplane.run_until_idle()
    assert workers.one.seen == ["step 0", "step 1", "step 2", "urgent"]


def test_should_yield_says_whether_more_urgent_work_is_present_here(
    backplane: VirtualBackplane, workers: WorkerComponent
) -> None:
    """Law 10. Wrong in one direction it starves the urgent, in the other it stops bulk work for nothing."""
    for present, priority, expected in (
        (None, 5, False),
        ("urgent", 5, True),
        ("equal", 5, False),
        ("middle", 1, False),
    ):
        action = backplane.post(workers.one, "looks", priority=priority)
        engine = backplane.backplane.engine
        virtual_worker = backplane._worker
        assert virtual_worker is not None
        assert engine.choose(virtual_worker) is action
        if present is not None:
            backplane.post(workers.other, present)
        current.worker = virtual_worker
        engine.complete(action, *engine.execute(virtual_worker, action))
        current.worker = None
        assert action.result is expected, f"{present} present, running at {priority}"
        backplane.run_until_idle()


@pytest.mark.parametrize(("elsewhere", "expected"), [(0, True), (4, True), (5, False), (7, False), (None, False)])
def test_should_yield_knows_of_every_backplane(
    backplane: VirtualBackplane, workers: WorkerComponent, board: Board, elsewhere: int | None, expected: bool
) -> None:
    """Law 10, "in any backplane". The board is how bulk work here learns of urgent work there."""
    mine, theirs = OwnSlot(board, 0, 1), OwnSlot(board, 1, 1)
    backplane.backplane.engine.priority_publisher._slot = mine
    theirs.present(elsewhere)
    action = backplane.post(workers.one, "looks")
    backplane.run_until_idle()
    assert action.result is expected


def test_what_has_run_is_no_longer_present(backplane: VirtualBackplane, workers: WorkerComponent, board: Board) -> None:
    """Law 10, "until it is out of the way". A flag that stays would slow all others down for good."""
    backplane.backplane.engine.priority_publisher._slot = OwnSlot(board, 0, 1)
    for name, shown in (("urgent", 0), ("looks", 5)):
        action = backplane.post(workers.one, name)
        engine, worker = backplane.backplane.engine, backplane._worker
        assert worker is not None
        engine.choose(worker)
        assert board.most_urgent() == shown, "running work is present"
        engine.complete(action, *engine.execute(worker, action))
    backplane.run_until_idle()
    assert board.most_urgent() is None


def test_a_callee_runs_at_its_callers_priority(backplane: VirtualBackplane, workers: WorkerComponent) -> None:
    """Law 10. An urgent caller whose helper is queued at bulk priority waits as long as bulk work does."""
    backplane.post(workers.one, "delegates", priority=0)
    backplane.post(workers.other, "middle")
    assert backplane.run_until_idle() == ["delegates", "help", "delegates", "middle"]


def test_a_call_to_another_backplane_carries_the_priority(
    backplane: VirtualBackplane, workers: WorkerComponent
) -> None:
    """Law 10, "a callee of it, in any backplane"."""
    backplane.post(workers.one, "goes_outside", priority=2)
    backplane.run_until_idle()
    (call,) = backplane.outside_calls()
    assert call.envelope.priority == 2


def test_an_object_lends_its_minimum_priority_to_whoever_calls_it(
    backplane: VirtualBackplane, workers: WorkerComponent
) -> None:
    """Law 10, as Android's Binder does: a lock holder everybody needs must not be held up by whoever asked first."""
    workers.one.lends = 1
    backplane.call("worker_component.middle", key="other", priority=2)
    backplane.call("worker_component.equal", key="one", priority=7)
    assert backplane.run_until_idle() == ["equal", "middle"]
    backplane.call("worker_component.middle", key="other", priority=0)
    backplane.call("worker_component.equal", key="one", priority=0)
    assert backplane.run_until_idle() == ["middle", "equal"], "and takes nothing from who has more"


def test_what_an_object_awaits_inherits_from_what_queues_behind_it(
    backplane: VirtualBackplane, workers: WorkerComponent
) -> None:
    """Law 10, "a callee of it, in any backplane". The urgent request waits for that reply and for nothing else."""
    backplane.call("worker_component.goes_outside", key="one")
    backplane.run_until_idle()
    backplane.call("worker_component.middle", key="one")
    backplane.run_until_idle()
    (call,) = backplane.outside_calls()
    assert (call.envelope.priority, call.boosted_to) == (5, 3)


def test_who_runs_inherits_from_what_queues_behind_it(
    backplane: VirtualBackplane, workers: WorkerComponent, board: Board
) -> None:
    """Law 10, "same object". Everybody sees, and the kernel is told, how urgent it has become to be done with it."""
    engine, worker = backplane.backplane.engine, backplane._worker
    engine.priority_publisher._slot = OwnSlot(board, 0, 1)
    assert worker is not None
    backplane.post(workers.one, "looks")
    running = engine.choose(worker)
    assert running is not None
    assert board.most_urgent() == 5
    backplane.post(workers.one, "urgent")
    engine.priority_publisher.show(worker)
    assert board.most_urgent() == 0
    engine.complete(running, *engine.execute(worker, running))
    assert backplane.run_until_idle() == ["urgent"]
