"""What the systems of these tests run. Copied beside each system's TOML, as a user's module would lie there."""

from __future__ import annotations

from appbackplane.runtime import Component, operation


class Ledger(Component):
    """Books each number once."""

    def __init__(self) -> None:
        self.booked: set[int] = set()
        self.twice = 0

    @operation()
    def book(self, number: int) -> int:
        """Return what came."""
        if number in self.booked:
            self.twice += 1
        self.booked.add(number)
        return number

    @operation()
    def total(self) -> list[int]:
        """How many different numbers came, and how many came again."""
        return [len(self.booked), self.twice]


class Left(Ledger):
    """One."""


class Right(Ledger):
    """Another."""
