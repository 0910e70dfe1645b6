"""Quota: whether a CPU limit is held, counted in the kernel's own periods: the answer is the same on a machine of any speed.

A share of wall time says as much of what else the machine does as of the limit. But in each period in which the kernel
throttled the group, it has used all of its quota, however long it waited for a core; and on average no period gives it more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tests.waiting import wait_until

#: Periods in which the group is to be throttled, with no limit for how long that takes but that of a hang: the clocks are not
#: read at one instant, and the periods at either end are not whole, which together is 2 % of so many.
THROTTLED = 100
WITHIN = 0.04


def cpu_s(pid: int) -> float:
    """What a process has used: the CPU clock of another process."""
    return time.clock_gettime((~pid << 3) | 2)


def counts(folder: Path) -> tuple[int, int]:
    """Of a group: the periods so far, and in how many it was throttled."""
    told = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
    return int(told["nr_periods"]), int(told["nr_throttled"])


def period_s(folder: Path) -> float:
    """Of a group."""
    of_v1 = folder / "cpu.cfs_period_us"
    period_us = of_v1.read_text() if of_v1.exists() else (folder / "cpu.max").read_text().split()[1]
    return int(period_us) / 1e6


def assert_held(folder: Path, pid: int, percent: float) -> None:
    """The one busy process of a group gets `percent` of a core: no more in a period, no less in those where it wanted more."""
    (periods, throttled), used_s = counts(folder), cpu_s(pid)
    wait_until(lambda: counts(folder)[1] >= throttled + THROTTLED, lambda: f"it is not throttled: {counts(folder)}")
    used_s = cpu_s(pid) - used_s
    periods, throttled = (now - then for now, then in zip(counts(folder), (periods, throttled), strict=True))
    quota_s = period_s(folder) * percent / 100
    said = f"{used_s:.3f} s in {periods} periods, throttled in {throttled}, with {1e3 * quota_s:.1f} ms for each"
    assert used_s <= quota_s * periods * (1 + WITHIN), said
    assert used_s >= quota_s * throttled * (1 - WITHIN), said


def is_unlimited(folder: Path, pid: int) -> Callable[[], bool]:
    """Whether, from one look to the next, the process has used CPU and the group was not throttled."""
    before: list[tuple[float, int]] = []

    def look() -> bool:
        before.append((cpu_s(pid), counts(folder)[1]))
        (used_s, throttled), (now_s, throttled_now) = before[0], before[-1]
        if throttled_now > throttled:
            before.clear()
            return False
        return now_s - used_s > 0.2

    return look
