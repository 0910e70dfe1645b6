"""Quotas: how many actions a priority may run before lower ones get their turn (law 3).

The default rule is the source's (seed 002, "Scheduling Algorithm"): the highest priority unlimited, the next 100, every
one below half of the one above, down to 12.
"""

from __future__ import annotations

from collections.abc import Sequence

#: Stands for "unlimited" where arithmetic is done: no tick is long enough to spend it.
UNLIMITED = 1 << 60
FIRST_LIMITED, SMALLEST = 100, 12


def default_quotas(priorities: int) -> list[int]:
    """Unlimited, 100, 50, 25, 12, 12, …"""
    quotas = [UNLIMITED]
    following = FIRST_LIMITED
    while len(quotas) < priorities:
        quotas.append(following)
        following = max(SMALLEST, following // 2)
    return quotas


def quotas_from(configured: Sequence[int], priorities: int) -> list[int]:
    """As configured: 0 is unlimited, the last repeats; nothing configured gives the default rule."""
    if not configured:
        return default_quotas(priorities)
    if len(configured) > priorities:
        raise ValueError(f"quotas: {len(configured)} given for {priorities} priorities")
    if min(configured) < 0:
        raise ValueError(f"quotas: {min(configured)} is below 0 (0 is unlimited)")
    padded = [*configured, *[configured[-1]] * (priorities - len(configured))]
    return [quota or UNLIMITED for quota in padded]


class Quotas:
    """What each priority has left until the next tick, real or virtual."""

    def __init__(self, full: Sequence[int]) -> None:
        self.full = list(full)
        self.left = list(full)

    def reset(self) -> None:
        """Replenish all."""
        self.left[:] = self.full

    def change(self, full: Sequence[int]) -> None:
        """New quotas, in force at once."""
        if len(full) != len(self.full):
            raise ValueError(f"quotas: {len(full)} given for {len(self.full)} priorities")
        self.full = list(full)
        self.reset()
