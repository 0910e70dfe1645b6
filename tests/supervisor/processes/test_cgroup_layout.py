"""Where groups may be made, how they are named, and what a limit is in kernel terms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.supervisor.processes.cgroup_layout import (
    PERIOD_US_MAX,
    PERIOD_US_MIN,
    QUOTA_US_WANTED,
    Bandwidth,
    Hierarchy,
    bandwidth_us,
    folder_name,
    folder_weight,
    hierarchies,
    is_ours,
    with_own_group,
)

#: Of real machines: both versions side by side, systemd's v2, a container's v1 below its own root, and one without.
MACHINES = {
    "v1 and v2": (
        "2:cpu,cpuacct:/user\n1:memory:/m\n0::/init.scope\n",
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpuacct,cpu\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw shared:5 - cgroup2 cgroup2 rw\n",
        [
            Hierarchy(1, "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/user"),
            Hierarchy(2, "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/init.scope"),
        ],
    ),
    "v2": (
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app.scope\n",
        "24 20 0:21 / /sys rw - sysfs sysfs rw\n30 24 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
        [
            Hierarchy(
                2,
                "/sys/fs/cgroup",
                "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/app.scope",
            )
        ],
    ),
    "a container without a namespace": (
        "4:cpu:/docker/abc\n",
        "32 31 0:29 /docker/abc /sys/fs/cgroup/cp\\040u ro - cgroup cgroup rw,cpu\n",
        [Hierarchy(1, "/sys/fs/cgroup/cp u", "/sys/fs/cgroup/cp u")],
    ),
    "mounted elsewhere": ("4:cpu:/docker/abc\n", "32 31 0:29 /other /sys/cpu ro - cgroup cgroup rw,cpu\n", []),
    "none": ("1:name=systemd:/\n", "24 20 0:21 / /sys rw - sysfs sysfs rw\n", []),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_cpu_controller_is_found(machine: str) -> None:
    """In the wrong place a group limits nothing, and says nothing."""
    cgroup, mountinfo, found = MACHINES[machine]
    assert hierarchies(cgroup, mountinfo) == found


def test_a_system_has_the_same_folder_each_time_and_no_other_has_it() -> None:
    """What a killed supervisor left is found by its name; what another system has must never be."""
    assert folder_name("demo", "/run/a") == folder_name("demo", "/run/a") != folder_name("demo", "/run/b")
    assert is_ours("/sys/fs/cgroup/cpu/" + folder_name("demo", "/run/a"))
    assert not any(map(is_ours, ("/sys/fs/cgroup/cpu", "appbackplane-x", "/sys/../appbackplane-x", "")))


@given(percent=st.integers(1, 25_600), may_burst=st.booleans())
def test_a_limit_is_what_it_says(percent: int, may_burst: bool) -> None:
    """And the kernel takes it: it refuses a quota below a millisecond, and a burst above the quota."""
    limit = bandwidth_us(percent, may_burst=may_burst)
    assert limit.quota >= 1_000
    assert PERIOD_US_MIN <= limit.period <= PERIOD_US_MAX
    assert limit.quota / limit.period == pytest.approx(percent / 100, rel=0.001)
    assert limit.burst == (limit.quota if may_burst else 0)


@given(percent=st.integers(1, 25_600))
def test_what_a_cpu_hands_back_is_kept(percent: int) -> None:
    """Threads that wait for each other have CPUs hand back up to a slice: 30 % was 28 % with less quota, 25 without a burst."""
    limit = bandwidth_us(percent)
    assert min(limit.quota, limit.burst) >= QUOTA_US_WANTED or limit.period == PERIOD_US_MAX
    is_short = limit.period == PERIOD_US_MIN or (limit.period - 1) * percent < QUOTA_US_WANTED * 100
    assert is_short, "the period is how long a throttled group stands still: longer only where it must be"
    without = bandwidth_us(percent, may_burst=False)
    assert without.period == PERIOD_US_MAX, "what is lost a period is least with the fewest periods"


def test_no_limit_is_no_quota() -> None:
    """As v1 writes it."""
    assert bandwidth_us(None) == Bandwidth(-1, PERIOD_US_MIN, 0)


def test_who_has_a_group_of_its_own() -> None:
    """In a group of its own nice is void against the others: only where a limit needs it, or where nice is not to be had."""
    limits = {"query": None, "index": 30}
    assert with_own_group(limits, may_nice=True) == {"index"}
    assert with_own_group(limits, may_nice=False) == {"query", "index"}


def test_a_system_weighs_like_ordinary_processes() -> None:
    """With the default weight, spread over 64 CPUs, a whole system would be a 64th of a shell loop."""
    assert (folder_weight(1, 4), folder_weight(2, 4), folder_weight(2, 1000)) == (4096, 400, 10_000)
