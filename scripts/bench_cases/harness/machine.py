"""Machine: what a process has used of it, and who runs on which core."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / (1 << 20)


@contextmanager
def one_core() -> Iterator[int]:
    """This thread, and all that it starts meanwhile, on one core: the last of those we may use."""
    before = os.sched_getaffinity(0)
    core = max(before)
    os.sched_setaffinity(0, {core})
    try:
        yield core
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def apart() -> Iterator[Callable[[], None]]:
    """What is started meanwhile runs on the last core; this process, all its threads, on another once it calls what it got.

    For round trips: where the kernel puts two processes that wait for each other is chance, and decides more than they do.
    """
    others = os.sched_getaffinity(0)
    with one_core() as core:
        here = others - {core} or {core}

        def step_aside() -> None:
            for task in Path("/proc/self/task").iterdir():
                os.sched_setaffinity(int(task.name), here)

        yield step_aside


def cpu_s(pids: Iterable[int]) -> float:
    """CPU seconds that these processes have used, to the nanosecond: `ps` and psutil count hundredths."""
    used_ns = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError):  # a thread that has just ended
                used_ns += int((task / "schedstat").read_text().split()[0])
    return used_ns / 1e9


def rss_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_MIB
