"""Law 3. N ready queues with quotas; after each action the search starts again at the highest priority with quota left.

Defaults: unlimited, 100, 50, 25, 12, 12, … Without the search from the top, an urgent arrival waits for a batch; without
the quotas, one busy priority starves everything below it.
"""

from __future__ import annotations

from collections import Counter

from appbackplane.runtime.objects.action import Action, Outcome
from appbackplane.runtime.objects.app_object import AppObject
from appbackplane.runtime.scheduling.scheduler import Policy, Scheduler


def backlog(scheduler: Scheduler, priority: int, count: int) -> None:
    for _ in range(count):
        scheduler.post(Action(AppObject(), f"p{priority}", priority), 0)


def run(scheduler: Scheduler, count: int, now_ns: int = 0) -> list[int]:
    """Priorities of the next `count` actions, each run to its end."""
    order: list[int] = []
    while len(order) < count and (action := scheduler.next(now_ns)) is not None:
        order.append(action.priority)
        scheduler.finished(action, Outcome.DONE, now_ns)
    return order


def test_the_search_starts_again_at_the_top_after_each_action() -> None:
    """Law 3. Whatever comes while bulk work runs goes next, not after the batch."""
    scheduler = Scheduler(Policy(), 0)
    backlog(scheduler, 5, 10)
    assert run(scheduler, 3) == [5, 5, 5]
    backlog(scheduler, 0, 1)
    backlog(scheduler, 3, 1)
    assert run(scheduler, 4) == [0, 3, 5, 5]


def test_each_priority_gets_its_default_quota_and_then_lets_the_next_run() -> None:
    """Law 3. The shares under overload are the promise that bulk work never quite stands still."""
    scheduler = Scheduler(Policy(), 0)
    for priority in range(1, 8):
        backlog(scheduler, priority, 200)
    full = [100, 50, 25, 12, 12, 12, 12]
    order = run(scheduler, sum(full))
    assert order == [priority for priority, quota in enumerate(full, 1) for _ in range(quota)]
    assert scheduler.virtual_tick_count == 0
    assert run(scheduler, 1) == [1], "and then from the top again"
    assert scheduler.virtual_tick_count == 1


def test_priority_zero_is_unlimited_by_default() -> None:
    """Law 3. It is for what may never wait; whoever wants it limited says so."""
    scheduler = Scheduler(Policy(), 0)
    backlog(scheduler, 0, 5000)
    backlog(scheduler, 1, 1)
    assert Counter(run(scheduler, 5001)) == {0: 5000, 1: 1}
    assert scheduler.virtual_tick_count == 0


def test_a_priority_without_quota_waits_while_lower_ones_have_some() -> None:
    """Law 3. A quota that is only advice would starve the lower ones as if there were none."""
    scheduler = Scheduler(Policy(priorities=3, quotas=[2, 1, 3]), 0)
    for priority in range(3):
        backlog(scheduler, priority, 10)
    assert run(scheduler, 12) == [0, 0, 1, 2, 2, 2] * 2


def test_the_number_of_priorities_is_configurable() -> None:
    """Law 3, N configurable."""
    scheduler = Scheduler(Policy(priorities=32), 0)
    for priority in reversed(range(32)):
        backlog(scheduler, priority, 1)
    assert run(scheduler, 32) == list(range(32))
