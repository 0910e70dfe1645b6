"""Quotas: how many actions a priority may run before lower ones get their turn (law 3).

The default rule (seed 002, "Scheduling Algorithm"): the highest priority is unlimited, the next has 100, and each further
one has half of the one above, but at least 12.
"""

from __future__ import annotations

from collections.abc import Sequence

#: The number that stands for "unlimited": no tick is long enough to spend it.
UNLIMITED = 1 << 60
FIRST_LIMITED, SMALLEST = 100, 12


def default_quotas(priorities: int) -> list[int]:
    """The default rule: unlimited, 100, 50, 25, 12, 12, …"""
    quotas = [UNLIMITED]
    following = FIRST_LIMITED
    while len(quotas) < priorities:
        quotas.append(following)
        following = max(SMALLEST, following // 2)
    return quotas


def quotas_from(configured: Sequence[int], priorities: int) -> list[int]:
    """The quotas as configured: 0 is unlimited, the last one repeats, empty gives the default rule. Raises ValueError."""
    if not configured:
        return default_quotas(priorities)
    if len(configured) > priorities:
        raise ValueError(f"quotas: {len(configured)} given for {priorities} priorities")
    if min(configured) < 0:
        raise ValueError(f"quotas: {min(configured)} is below 0 (0 is unlimited)")
    padded = [*configured, *[configured[-1]] * (priorities - len(configured))]
    return [quota or UNLIMITED for quota in padded]


class Quotas:
    """The quota that each priority has left until the next tick, real or virtual."""

    def __init__(self, full: Sequence[int]) -> None:
        self.full = list(full)
        self.left = list(full)

    def reset(self) -> None:
        """Replenish all quotas, at a tick."""
        self.left[:] = self.full

    def change(self, full: Sequence[int]) -> None:
        """Replace the quotas, in force at once. Raises ValueError if their number differs."""
        if len(full) != len(self.full):
            raise ValueError(f"quotas: {len(full)} given for {len(self.full)} priorities")
        self.full = list(full)
        self.reset()
