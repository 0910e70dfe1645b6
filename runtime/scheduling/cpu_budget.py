"""CPU budget: the share of each integration period that a backplane may use (laws 4 and 5).

Charged after each action with the CPU time that its thread used; once spent, nothing runs until the tick. CPU used beyond
the budget becomes a debt of the next period, so that long actions cannot exceed the share. The `exempt` highest priorities
run all the same; by default there are none.
Where the kernel enforces the limit, this account only counts. The kernel has already slowed a long action down to the
share; waiting for its debt as well would charge it twice.
"""

from __future__ import annotations

from .quotas import UNLIMITED


class CpuBudget:
    """The CPU account of one backplane. It only decides: `is_spent` tells the scheduler to stop."""

    def __init__(self, limit_percent: int | None, period_ns: int, exempt: int = 0) -> None:
        self.period_ns = period_ns
        self.exempt = exempt
        self.used_ns = 0
        self.used_total_ns = 0
        #: Whether this period's share is used up. Stored, because it is read before each action.
        self.is_spent = False
        #: Whether the kernel enforces the limit, and this account only counts.
        self.is_left_to_kernel = False
        self.change(limit_percent)

    def change(self, limit_percent: int | None) -> None:
        """Set the limit, in percent of one core, in force at once; None: no limit. Raises ValueError for 0 or less."""
        if limit_percent is not None and limit_percent <= 0:
            raise ValueError(f"cpu_limit: {limit_percent} % would never run anything: expected a number above 0")
        self.limit_percent = limit_percent
        self._set()

    def change_period(self, period_ns: int) -> None:
        """Change the period and keep the share. CPU used so far counts; the excess becomes a debt."""
        self.period_ns = period_ns
        self._set()

    def leave_to_kernel(self, is_left: bool) -> None:
        """Let the kernel enforce the limit, or (False) this account, which then counts the CPU that it has booked."""
        self.is_left_to_kernel = is_left
        self._set()

    @property
    def keeper(self) -> str | None:
        """The enforcer of the limit, as far as this backplane knows: "os", "scheduler"; None: there is no limit."""
        if self.limit_percent is None:
            return None
        return "os" if self.is_left_to_kernel else "scheduler"

    def charge(self, cpu_ns: int) -> None:  # hot: scripts/bench inproc
        """Book the CPU time of an action."""
        self.used_ns = used_ns = self.used_ns + cpu_ns
        self.used_total_ns += cpu_ns
        self.is_spent = used_ns >= self._budget_ns

    def reset(self, periods: int = 1) -> None:
        """Begin a new period at a real tick. Each of the `periods` that have passed pays off one budget of the debt."""
        self.used_ns = max(0, self.used_ns - periods * self._budget_ns)
        self.is_spent = self.used_ns >= self._budget_ns

    def _set(self) -> None:
        percent = None if self.is_left_to_kernel else self.limit_percent
        self._budget_ns = UNLIMITED if percent is None else self.period_ns * percent // 100
        self.is_spent = self.used_ns >= self._budget_ns
