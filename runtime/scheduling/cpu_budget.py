"""CPU budget: the share of each integration period that a backplane may use (laws 4 and 5).

Charged after each action with the CPU time its thread used; once spent, nothing runs until the tick. What one action uses
beyond the budget is carried into the next period as a debt, so that long actions cannot stretch the share. Priorities
below `exempt` (a count from the top) run all the same where the configuration says so; by default none do.
"""

from __future__ import annotations

from .quotas import UNLIMITED


class CpuBudget:
    """The account of one backplane."""

    def __init__(self, limit_percent: int | None, period_ns: int, exempt: int = 0) -> None:
        self.period_ns = period_ns
        self.exempt = exempt
        self.used_ns = 0
        self.used_total_ns = 0
        #: Whether this period's share is used up. Kept up to date, because it is asked before each action.
        self.is_spent = False
        self.change(limit_percent)

    def change(self, limit_percent: int | None) -> None:
        """A new limit, percent of one core, in force at once; None lifts it."""
        if limit_percent is not None and limit_percent <= 0:
            raise ValueError(f"cpu_limit: {limit_percent} % would never run anything: expected a number above 0")
        self.limit_percent = limit_percent
        self._budget_ns = UNLIMITED if limit_percent is None else self.period_ns * limit_percent // 100
        self.is_spent = self.used_ns >= self._budget_ns

    def charge(self, cpu_ns: int) -> None:  # hot: scripts/bench inproc
        """Book what an action used."""
        self.used_ns = used_ns = self.used_ns + cpu_ns
        self.used_total_ns += cpu_ns
        self.is_spent = used_ns >= self._budget_ns

    def reset(self, periods: int = 1) -> None:
        """A real tick: a new period, less the debt of the last. Each period that has passed pays off its share."""
        self.used_ns = max(0, self.used_ns - periods * self._budget_ns)
        self.is_spent = self.used_ns >= self._budget_ns
