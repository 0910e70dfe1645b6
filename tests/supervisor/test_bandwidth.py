"""What is written to the kernel when a limit begins, changes and ends; the kernel is played, with what it refuses."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.supervisor.processes import cgroups
from appbackplane.supervisor.processes.cgroup_layout import BURST_FILE, SHARED, Bandwidth, bandwidth_us
from appbackplane.supervisor.processes.cgroups import Groups

NO_LIMIT = -1
#: What a new group has.
BORN = Bandwidth(NO_LIMIT, 100_000)


class Kernel:
    """One group, as tg_set_cfs_bandwidth of Linux 6 checks it."""

    def __init__(self) -> None:
        self.limit = BORN

    def write(self, path: Path, text: str) -> None:
        """A write to one of its files. Raises OSError, as the kernel would."""
        quota, period, burst = self.limit.quota, self.limit.period, self.limit.burst
        match path.name:
            case "cpu.cfs_quota_us":
                quota = int(text)
            case "cpu.cfs_period_us":
                period = int(text)
            case "cpu.max":
                words = text.split()
                quota, period = NO_LIMIT if words[0] == "max" else int(words[0]), int(words[1])
            case "cpu.cfs_burst_us" | "cpu.max.burst":
                burst = int(text)
            case name:
                raise FileNotFoundError(errno.ENOENT, "no such file", name)
        is_allowed = 1_000 <= period <= 1_000_000
        if quota != NO_LIMIT:
            is_allowed = is_allowed and quota >= 1_000 and burst <= quota
        if not is_allowed:
            raise OSError(errno.EINVAL, "refused", path.name)
        self.limit = Bandwidth(quota, period, burst)


LIMITS = st.lists(st.none() | st.integers(1, 25_600), min_size=1, max_size=8)


@given(limits=LIMITS, version=st.sampled_from([1, 2]), may_burst=st.booleans())
def test_any_limit_may_follow_any_other(limits: Sequence[int | None], version: int, may_burst: bool) -> None:
    """The kernel refuses what does not go with the rest, so the order counts: a refused change would leave the old limit."""
    kernel = Kernel()
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(cgroups, "_write", kernel.write)
        group = Path(folder) / SHARED / "index"
        group.mkdir(parents=True)
        if may_burst:
            (group / BURST_FILE[version]).touch()
        groups = Groups(version, Path(folder))
        for percent in limits:
            groups.limit("index", percent)
            assert kernel.limit == bandwidth_us(percent, may_burst=may_burst)
