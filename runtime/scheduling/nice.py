"""Nice: which nice a priority has on this machine, and which cgroup weight says the same (DESIGN section 5).

The kernel gives each nice a weight, and CPU time in proportion to it; a cgroup's weight competes in the same currency.
So a backplane in a cgroup of its own, at the weight of a nice, is treated as a thread of that nice would be (measured:
nice -10 against a nested group of weight 110 is 98.8 : 1.2, as against a thread of nice 10). Pure; a lookup each.
"""

from __future__ import annotations

from collections.abc import Sequence

#: What the kernel has for nice -20 … 19 (`sched_prio_to_weight`, kernel/sched/core.c): 25 % more or less a step.
WEIGHTS = (
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
    9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277,
    1024, 820, 655, 526, 423, 335, 272, 215, 172, 137,
    110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
)  # fmt: skip
NICE_MIN, NICE_MAX = -20, 19
#: `cpu.weight` (cgroup v2) calls 100 what `cpu.shares` (v1) and the kernel's table call 1024.
_V2_DEFAULT, _V1_DEFAULT = 100, 1024


class NiceTable:
    """The nice of each priority, as far as this process may have it."""

    def __init__(self, wanted: Sequence[int], lowest: int | None, resting: int = 0) -> None:
        """`wanted`: of priority 0, 1, …, the last repeats; empty: nice is left alone. `lowest`: the most urgent nice that
        may be set, and returned to; None when none may, because what is lowered could never be raised again.
        `resting`: what the process has now.
        """
        self.wanted = tuple(wanted)
        self.lowest, self.resting = lowest, resting
        self.granted = granted(self.wanted, lowest, resting)
        #: By how much everything was lowered so that the order could be kept.
        self.shift = self.granted[0] - self.wanted[0] if self.wanted and lowest is not None else 0

    @property
    def is_in_force(self) -> bool:
        """Whether priorities differ in nice at all."""
        return bool(self.wanted) and self.lowest is not None

    def nice_of(self, priority: int) -> int:  # hot: scripts/bench call_rtt
        """The nice of a priority; without a table, the resting one."""
        table = self.granted
        if not table:
            return self.resting
        return table[priority] if priority < len(table) else table[-1]

    def weight_of(self, priority: int, *, version: int) -> int:
        """The weight of a group whose most urgent work has this priority. Not bound to the privilege: a weight that may be
        written may be written back, too.
        """
        table = self.wanted
        nice = (table[priority] if priority < len(table) else table[-1]) if table else 0
        return weight_of_nice(nice, version=version)


def granted(wanted: Sequence[int], lowest: int | None, resting: int) -> tuple[int, ...]:
    """What of `wanted` can be had: all of it; or all of it moved down, so that the order is kept; or nothing."""
    if not wanted:
        return ()
    if lowest is None:
        return (resting,) * len(wanted)
    shift = max(0, lowest - min(wanted))
    return tuple(min(NICE_MAX, nice + shift) for nice in wanted)


def weight_of_nice(nice: int, *, version: int) -> int:
    """The weight that treats a group as a thread of this nice. `version` of cgroups: 1 (`cpu.shares`) or 2 (`cpu.weight`)."""
    assert NICE_MIN <= nice <= NICE_MAX
    weight = WEIGHTS[nice - NICE_MIN]
    return weight if version == 1 else max(1, round(weight * _V2_DEFAULT / _V1_DEFAULT))
