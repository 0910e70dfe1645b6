"""Law 4. Tick: every integration period quotas are replenished and the CPU account is reset. Virtual tick: all queues with
work have spent their quota and CPU budget is left, so quotas only are reset.

Without the tick, quotas spent in a rush are gone when the rush is over; without the virtual one, the process idles with
work in its queues.
"""

from __future__ import annotations

from appbackplane.runtime.objects.action import Action, Outcome
from appbackplane.runtime.objects.app_object import AppObject
from appbackplane.runtime.scheduling.scheduler import Policy, Scheduler

PERIOD_NS = 1_000_000_000


def scheduler_with(quotas: list[int], counts: list[int], cpu_limit: int | None = None) -> Scheduler:
    scheduler = Scheduler(Policy(priorities=len(quotas), quotas=quotas, cpu_limit=cpu_limit), 0)
    for priority, count in enumerate(counts):
        for _ in range(count):
            scheduler.post(Action(AppObject(), "work", priority), 0)
    return scheduler


def run(scheduler: Scheduler, count: int, now_ns: int, cpu_ns: int = 0) -> list[int]:
    order: list[int] = []
    while len(order) < count and (action := scheduler.next(now_ns)) is not None:
        order.append(action.priority)
        scheduler.budget.charge(cpu_ns)
        scheduler.finished(action, Outcome.DONE, now_ns)
    return order


def test_a_tick_replenishes_the_quotas() -> None:
    """Law 4. After a second the highest priority has its full quota again, although lower ones have some left."""
    scheduler = scheduler_with([2, 5], [9, 9])
    assert run(scheduler, 3, 0) == [0, 0, 1]
    assert run(scheduler, 1, PERIOD_NS - 1) == [1]
    assert run(scheduler, 3, PERIOD_NS) == [0, 0, 1]
    assert (scheduler.tick_count, scheduler.virtual_tick_count) == (1, 0)


def test_a_virtual_tick_comes_when_all_queues_with_work_have_spent_their_quota() -> None:
    """Law 4. Quotas share out what is scarce; nothing is scarce while the process would idle."""
    scheduler = scheduler_with([1, 1, 5], [4, 4, 0])
    assert run(scheduler, 8, 0) == [0, 1] * 4
    assert (scheduler.tick_count, scheduler.virtual_tick_count) == (0, 3)


def test_a_virtual_tick_resets_quotas_only() -> None:
    """Law 4. If it reset the CPU account, a busy backplane would never reach its limit."""
    scheduler = scheduler_with([1], [9], cpu_limit=10)
    share_ns = PERIOD_NS // 10
    assert run(scheduler, 9, 0, cpu_ns=share_ns // 4) == [0] * 4
    assert scheduler.virtual_tick_count == 3
    assert scheduler.budget.is_spent
    assert scheduler.ticks.next_ns == PERIOD_NS, "the real tick comes when it was to come"


def test_a_tick_resets_the_cpu_account() -> None:
    """Law 4. Otherwise the first period would be the last."""
    scheduler = scheduler_with([0], [9], cpu_limit=10)
    assert run(scheduler, 9, 0, cpu_ns=PERIOD_NS // 10) == [0]
    assert run(scheduler, 9, PERIOD_NS, cpu_ns=PERIOD_NS // 10) == [0]


def test_there_is_no_virtual_tick_without_budget() -> None:
    """Law 4. It would hand out quotas that nobody may use, and the tick would find them spent."""
    scheduler = scheduler_with([1], [9], cpu_limit=10)
    run(scheduler, 9, 0, cpu_ns=PERIOD_NS)
    assert scheduler.next(1) is None
    assert scheduler.virtual_tick_count == 0
    exempt = Scheduler(Policy(priorities=1, quotas=[1], cpu_limit=10, cpu_exempt=1), 0)
    for _ in range(2):
        exempt.post(Action(AppObject(), "work", 0), 0)
    assert run(exempt, 2, 0, cpu_ns=PERIOD_NS) == [0], "what is exempt from the budget is not exempt from its quota"
    assert run(exempt, 2, PERIOD_NS) == [0]


def test_there_is_no_virtual_tick_while_any_queue_with_work_has_quota() -> None:
    """Law 4. A worker that may run only urgent work must not reset what lower priorities have been promised."""
    scheduler = scheduler_with([1, 5], [3, 3])
    assert run(scheduler, 1, 0) == [0]
    assert scheduler.next(0, below=1) is None
    assert scheduler.virtual_tick_count == 0
    assert run(scheduler, 4, 0) == [1, 1, 1, 0]
