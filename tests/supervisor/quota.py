"""Quota: whether a CPU limit is held, counted in the kernel's own periods: the answer is the same on a machine of any speed.

A share of wall time says as much of what else the machine does as of the limit. But the kernel says what it was told, in how
many periods it throttled the group, and how many there were; and on average no period gives the group more than its quota.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from tests.figures import IS_LONG, judge
from tests.waiting import wait_until

#: Periods in which the group is to be throttled, with no limit for how long that takes but that of a hang.
THROTTLED = 50 if IS_LONG else 20
#: Beyond its quota for all of these: each core may keep a slice of 5 ms from before, and a tick of 4 ms is borrowed from after.
BEYOND_S = 0.005 * (os.cpu_count() or 1) + 0.004


def cpu_s(pid: int) -> float:
    """What a process has used: the CPU clock of another process."""
    return time.clock_gettime((~pid << 3) | 2)


def counts(folder: Path) -> tuple[int, int]:
    """Of a group: the periods so far, and in how many it was throttled."""
    told = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
    return int(told["nr_periods"]), int(told["nr_throttled"])


def quota_of(folder: Path) -> tuple[int, int]:
    """Of a group: the CPU that it may use in a period, and the period, in microseconds."""
    if (told := folder / "cpu.max").exists():
        quota_us, period_us = told.read_text().split()
    else:
        quota_us, period_us = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
    return int(quota_us), int(period_us)


def assert_held(folder: Path, pid: int, percent: float) -> None:
    """The one busy process of a group gets `percent` of a core: the kernel knows it, throttles for it, and gives no more.

    That it gives no less only `scripts/long` can judge: a group that waits for a core loses what it has not used of a period.
    """
    quota_us, period_us = quota_of(folder)
    assert quota_us == round(period_us * percent / 100)
    (periods, throttled), used_s = counts(folder), cpu_s(pid)
    wait_until(lambda: counts(folder)[1] >= throttled + THROTTLED, lambda: f"it is not throttled: {counts(folder)}")
    used_s = cpu_s(pid) - used_s
    periods, throttled = (now - then for now, then in zip(counts(folder), (periods, throttled), strict=True))
    # The kernel counts a period when the next one begins: the one in which this began had been counted before.
    allowed_s = quota_us * (periods + 1) / 1e6
    assert used_s <= allowed_s + BEYOND_S, f"{used_s:.3f} s in {periods + 1} periods, which allow {allowed_s:.3f} s"
    judge(
        "share of its quota that a throttled group loses", 1 - used_s * 1e6 / (quota_us * throttled), 0.05, unit="of 1"
    )


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
