"""Sentinel: how it waits, and when it sleeps."""

from __future__ import annotations

import fcntl
import os
import resource
from collections.abc import Iterator

import pytest

from appbackplane.runtime.execution.sentinel import waiting

#: Above what select() knows.
FD_HIGH = 1_500


@pytest.fixture
def high_fd() -> Iterator[int]:
    """A descriptor such as a process has that opened a thousand files before us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= FD_HIGH:
        pytest.skip(f"no more than {hard} descriptors here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FD_HIGH + 100), hard))
    low = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    high = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, FD_HIGH)
    yield high
    os.close(low)
    os.close(high)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("pause_ns", [100_000, 1_000_000])
def test_it_waits_for_any_descriptor(high_fd: int, pause_ns: int) -> None:
    """select() raises for numbers above 1023, and that would have been the end of the process."""
    low_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    try:
        for fds in ([low_fd], [low_fd, high_fd]):
            wait = waiting(fds)
            assert wait(pause_ns) == []
            os.eventfd_write(fds[-1], 1)
            assert wait(pause_ns) == [fds[-1]]
            os.eventfd_read(fds[-1])
    finally:
        os.close(low_fd)
