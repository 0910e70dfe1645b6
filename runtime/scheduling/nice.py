"""Nice: maps a priority to its nice value on this machine, and to the equivalent cgroup weight (DESIGN section 5).

The kernel gives each nice a weight, and CPU time in proportion to it; a cgroup's weight is of the same scale. So a
backplane in a cgroup of its own, with the weight of a nice, is treated like a thread of that nice (measured: nice -10
against a nested group of weight 110 is 98.8 : 1.2, as against a thread of nice 10). Pure; a lookup each.
"""

from __future__ import annotations

from collections.abc import Sequence

#: The kernel's weights of nice -20 … 19 (`sched_prio_to_weight`, kernel/sched/core.c): a step is 25 % more or less.
WEIGHTS = (
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
    9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277,
    1024, 820, 655, 526, 423, 335, 272, 215, 172, 137,
    110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
)  # fmt: skip
NICE_MIN, NICE_MAX = -20, 19
#: The default weight, that of nice 0: 100 in `cpu.weight` (cgroup v2), 1024 in `cpu.shares` (v1) and the kernel's table.
_V2_DEFAULT, _V1_DEFAULT = 100, 1024


class NiceTable:
    """The nice of each priority, within the limits of this process's privileges."""

    def __init__(self, wanted: Sequence[int], lowest: int | None, resting: int = 0) -> None:
        """`wanted`: the nice of priority 0, 1, …, the last repeats; empty: nice is never changed. `lowest`: the most urgent
        nice that may be set, also to return to it; None: none may be set, because it could never be raised again.
        `resting`: the nice that the process has now.
        """
        self.wanted = tuple(wanted)
        self.lowest, self.resting = lowest, resting
        self.granted = granted(self.wanted, lowest, resting)
        #: How much was added to each wanted nice, so that the order is kept above `lowest`.
        self.shift = self.granted[0] - self.wanted[0] if self.wanted and lowest is not None else 0

    @property
    def is_in_force(self) -> bool:
        """Whether the nice of a thread follows its priority."""
        return bool(self.wanted) and self.lowest is not None

    def nice_of(self, priority: int) -> int:  # hot: scripts/bench call_rtt
        """The nice of a priority; without a table, the resting one."""
        table = self.granted
        if not table:
            return self.resting
        return table[priority] if priority < len(table) else table[-1]

    def weight_of(self, priority: int, *, version: int) -> int:
        """The weight of a group whose most urgent work has this priority.

        The floor `lowest` is not needed: unlike nice, a weight that was lowered may be raised again.
        """
        table = self.wanted
        nice = (table[priority] if priority < len(table) else table[-1]) if table else 0
        return weight_of_nice(nice, version=version)


def granted(wanted: Sequence[int], lowest: int | None, resting: int) -> tuple[int, ...]:
    """The nice values that can be set: `wanted`; all of it shifted above `lowest`, in the same order; or only `resting`."""
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
