"""Law 1. Work belongs to objects.

Each object has its own FIFO queue; its actions run one at a time, in order. Different objects run at the same time when
there are workers for them. Without it users need locks in their objects, which is what they came here to be rid of.
"""

from __future__ import annotations

from appbackplane.runtime import AppObject, operation
from appbackplane.runtime.objects.action import Action, Outcome
from appbackplane.runtime.scheduling.scheduler import Policy, Scheduler
from appbackplane.runtime.testing import VirtualBackplane


class Account(AppObject):
    @operation()
    def deposit(self) -> None: ...

    @operation()
    def withdraw(self) -> None: ...

    @operation(priority=0)
    def close(self) -> None: ...


def test_the_actions_of_an_object_run_in_the_order_they_came(backplane: VirtualBackplane) -> None:
    """Law 1. Even a more urgent one: an account that is closed before the money has arrived is wrong, not fast."""
    account = backplane.add(Account())
    for name in ("deposit", "withdraw", "deposit", "close", "deposit"):
        backplane.post(account, name)
    assert backplane.run_until_idle() == ["deposit", "withdraw", "deposit", "close", "deposit"]


def test_an_object_runs_one_action_at_a_time() -> None:
    """Law 1. Two workers in one object at once is the data race that objects are there to prevent."""
    scheduler = Scheduler(Policy(), 0)
    object = AppObject()
    first, second = Action(object, "first", 4), Action(object, "second", 0)
    scheduler.post(first, 0)
    assert scheduler.next(0) is first
    scheduler.post(second, 0)
    assert scheduler.next(0) is None, "a second worker gets nothing of an object that is running"
    scheduler.finished(first, Outcome.DONE, 0)
    assert scheduler.next(0) is second


def test_different_objects_run_at_the_same_time() -> None:
    """Law 1. If one object's action held up all others, a second worker would be of no use."""
    scheduler = Scheduler(Policy(), 0)
    actions = [Action(AppObject(), f"work-{number}", 4) for number in range(3)]
    for action in actions:
        scheduler.post(action, 0)
        scheduler.post(Action(action.object, "later", 4), 0)
    assert [scheduler.next(0) for _ in range(4)] == [*actions, None]


def test_objects_of_equal_rank_take_turns(backplane: VirtualBackplane) -> None:
    """Law 1. An object with a long queue goes to the end after each action, or it would starve its equals."""
    busy, other = backplane.add(Account()), backplane.add(Account())
    for _ in range(3):
        backplane.post(busy, "deposit")
    backplane.post(other, "withdraw")
    assert backplane.run_until_idle() == ["deposit", "withdraw", "deposit", "deposit"]
