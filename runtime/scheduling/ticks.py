"""Ticks: the end of each integration period (law 4)."""

from __future__ import annotations


class Ticks:
    """The time of the next tick. `advance` counts the periods that passed unnoticed (in an idle or a stopped process)."""

    def __init__(self, period_ns: int, now_ns: int) -> None:
        self.next_ns = now_ns + period_ns
        self.change(period_ns, now_ns)

    def change(self, period_ns: int, now_ns: int) -> None:
        """Change the period. The next tick stays, unless the new period ends earlier. Raises ValueError for 0 or less."""
        if period_ns <= 0:
            raise ValueError(f"tick: {period_ns} ns is no period: expected a time above 0")
        self.period_ns = period_ns
        self.next_ns = min(self.next_ns, now_ns + period_ns)

    def advance(self, now_ns: int) -> int:
        """How many ticks are due. The next one is set after `now_ns`, in step with the first."""
        if now_ns < self.next_ns:
            return 0
        passed = (now_ns - self.next_ns) // self.period_ns + 1
        self.next_ns += passed * self.period_ns
        return passed
