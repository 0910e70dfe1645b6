"""CPU budget: the share of a period, the debt of long actions, and limits that change while running."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.objects.action import Action
from appbackplane.runtime.objects.app_object import AppObject
from appbackplane.runtime.scheduling.cpu_budget import CpuBudget
from appbackplane.runtime.scheduling.scheduler import Policy, Scheduler
from appbackplane.runtime.scheduling.timers import Timer

PERIOD_NS = 1000


def test_no_limit_is_never_spent() -> None:
    """A backplane without cpu_limit may use what the machine has."""
    budget = CpuBudget(None, PERIOD_NS)
    budget.charge(10**12)
    assert not budget.is_spent
    budget.reset()
    assert (budget.used_ns, budget.used_total_ns) == (0, 10**12)


def test_it_is_spent_at_the_limit_and_not_before() -> None:
    """Law 5. Off by one action a period is what a limit of 1 % is made of."""
    budget = CpuBudget(30, PERIOD_NS)
    budget.charge(299)
    assert not budget.is_spent
    budget.charge(1)
    assert budget.is_spent
    budget.reset()
    assert not budget.is_spent


@given(limit=st.integers(1, 400), actions=st.lists(st.integers(0, 5000), max_size=30), skipped=st.integers(1, 200))
def test_debts_are_paid_before_anything_runs_again(limit: int, actions: list[int], skipped: int) -> None:
    """Law 5. Actions longer than the budget would otherwise stretch the share without end."""
    budget = CpuBudget(limit, PERIOD_NS)
    share_ns = PERIOD_NS * limit // 100
    for cpu_ns in actions:
        budget.charge(cpu_ns)
        used_ns = budget.used_ns
        budget.reset(skipped)
        assert budget.used_ns == max(0, used_ns - skipped * share_ns)
    assert budget.used_total_ns == sum(actions)


def test_a_debt_of_many_periods_is_not_forgiven() -> None:
    """A process that overdrew by 100 periods and was looked at after 99 still owes one."""
    budget = CpuBudget(10, PERIOD_NS)
    budget.charge(10_100)
    budget.reset(99)
    assert budget.is_spent
    budget.reset(2)
    assert not budget.is_spent


def test_what_the_kernel_holds_is_counted_and_stops_nothing() -> None:
    """One limit has one keeper. With two, long actions paid twice, and a limit of 30 % was one of 20."""
    budget = CpuBudget(10, PERIOD_NS)
    budget.charge(500)
    assert budget.is_spent
    assert budget.keeper == "scheduler"
    budget.leave_to_kernel(True)
    assert (budget.is_spent, budget.keeper) == (False, "os"), "at once"
    budget.charge(10**12)
    assert not budget.is_spent
    budget.change(5)
    assert not budget.is_spent, "the kernel holds the old limit until it has the new one"
    budget.reset()
    assert (budget.used_ns, budget.used_total_ns, budget.limit_percent) == (0, 10**12 + 500, 5)


def test_what_the_kernel_holds_no_longer_is_held_here() -> None:
    """A change that the kernel refuses must not leave a backplane without a limit; and it owes this period's work only."""
    budget = CpuBudget(10, PERIOD_NS)
    budget.leave_to_kernel(True)
    budget.charge(10**12)
    budget.reset()
    budget.charge(100)
    budget.leave_to_kernel(False)
    assert budget.is_spent
    budget.reset()
    assert not budget.is_spent


@pytest.mark.parametrize("limit", [0, -10])
def test_a_limit_that_runs_nothing_is_refused(limit: int) -> None:
    """It would look like a hang; and nobody means it."""
    with pytest.raises(ValueError, match="would never run anything"):
        CpuBudget(limit, PERIOD_NS)


def test_a_new_limit_is_in_force_at_once() -> None:
    """An operator who lifts a limit because the system stands still must not wait."""
    budget = CpuBudget(10, PERIOD_NS)
    budget.charge(100)
    assert budget.is_spent
    budget.change(20)
    assert not budget.is_spent
    budget.change(5)
    assert budget.is_spent
    budget.change(None)
    assert not budget.is_spent


def test_another_period_has_the_same_share_and_forgives_nothing() -> None:
    """Law 5. A limit could be got rid of by changing the tick."""
    budget = CpuBudget(30, PERIOD_NS)
    budget.charge(300)
    budget.change_period(10 * PERIOD_NS)
    assert not budget.is_spent, "3000 a period now"
    budget.charge(2_700)
    assert budget.is_spent
    budget.change_period(PERIOD_NS)
    assert budget.is_spent
    budget.reset(9)
    assert budget.is_spent, "nine periods of 300 have paid 2700 of 3000"
    budget.reset()
    assert not budget.is_spent


@pytest.mark.parametrize(("timer_ns", "wakes_ns"), [(PERIOD_NS // 2, PERIOD_NS // 2), (5 * PERIOD_NS, PERIOD_NS)])
def test_the_tick_that_frees_a_spent_budget_is_not_missed_for_a_later_timer(timer_ns: int, wakes_ns: int) -> None:
    """Law 5. Work that is ready would wait for a timer of somebody else, perhaps for hours."""
    scheduler = Scheduler(Policy(tick_ns=PERIOD_NS, cpu_limit=10), 0)
    object = AppObject()
    scheduler.timers.set(Timer(object, "later", lambda: None, (), 3, 0), timer_ns)
    scheduler.post(Action(object, "work", 3), 0)
    scheduler.budget.charge(PERIOD_NS)
    assert scheduler.next(1) is None
    assert scheduler.next_wake_ns() == wakes_ns
