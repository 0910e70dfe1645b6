"""CPU budget: the share of each integration period that a backplane may use (laws 4 and 5).

Charged after each action with the CPU time its thread used; once spent, nothing runs until the tick. What one action uses
beyond the budget is carried into the next period as a debt, so that long actions cannot stretch the share. Priorities
below `exempt` (a count from the top) run all the same where the configuration says so; by default none do.
Where the kernel holds the limit this account counts and stops nothing: one limit has one keeper. The kernel has already
slowed a long action down to the share; to have its debt waited for as well would make it pay twice.
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
        #: Whether the kernel holds the limit, and all here is counted only.
        self.is_left_to_kernel = False
        self.change(limit_percent)

    def change(self, limit_percent: int | None) -> None:
        """A new limit, percent of one core, in force at once; None lifts it."""
        if limit_percent is not None and limit_percent <= 0:
            raise ValueError(f"cpu_limit: {limit_percent} % would never run anything: expected a number above 0")
        self.limit_percent = limit_percent
        self._set()

    def change_period(self, period_ns: int) -> None:
        """Another period, with the same share of it. What has been used counts; what of it is too much is a debt."""
        self.period_ns = period_ns
        self._set()

    def leave_to_kernel(self, is_left: bool) -> None:
        """From now on the kernel holds the limit, or (False) this account does; what it has booked counts at once."""
        self.is_left_to_kernel = is_left
        self._set()

    @property
    def keeper(self) -> str | None:
        """Who holds the limit, as far as this backplane knows: "os", "scheduler"; None: there is none."""
        if self.limit_percent is None:
            return None
        return "os" if self.is_left_to_kernel else "scheduler"

    def charge(self, cpu_ns: int) -> None:  # hot: scripts/bench inproc
        """Book what an action used."""
        self.used_ns = used_ns = self.used_ns + cpu_ns
        self.used_total_ns += cpu_ns
        self.is_spent = used_ns >= self._budget_ns

    def reset(self, periods: int = 1) -> None:
        """A real tick: a new period, less the debt of the last. Each period that has passed pays off its share."""
        self.used_ns = max(0, self.used_ns - periods * self._budget_ns)
        self.is_spent = self.used_ns >= self._budget_ns

    def _set(self) -> None:
        percent = None if self.is_left_to_kernel else self.limit_percent
        self._budget_ns = UNLIMITED if percent is None else self.period_ns * percent // 100
        self.is_spent = self.used_ns >= self._budget_ns
