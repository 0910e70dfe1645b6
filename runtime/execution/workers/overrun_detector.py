"""Overrun detector: tells an action that overruns its quantum from one whose thread waits for a CPU.

On saturated cores much of an action's wall time is its thread's wait for a core. The thread may hold the GIL meanwhile, so a
relief worker would wake in vain. With wall time alone each check of the sentinel found an "overrun" there: 4,000 checks and
2,500 reliefs in three seconds cost a tenth of all the work (scripts/bench_cases/requests_indexing.py). Hence the thread's
CPU clock is read, too. A thread that has used no CPU may also block without the GIL; the kernel's thread state decides.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from .poll_leader import QUANTUM_NS
from .worker import Worker


class _Seen(NamedTuple):
    """One worker at the sentinel's last check."""

    at_ns: int
    #: The stretch without a check for more urgent work: when it began, and the CPU time used in it.
    looked_ns: int
    used_ns: int
    #: The thread's CPU clock.
    cpu_ns: int


class OverrunDetector:
    """Detects overruns of all workers, from one check of the sentinel to the next."""

    def __init__(self, cpu_ns_of: Callable[[int], int], is_runnable: Callable[[Worker], bool] | None = None) -> None:
        """`cpu_ns_of`: the CPU clock of a thread, by `Thread.ident`. `is_runnable`: whether a worker's thread runs or waits
        for a core; default: `proc_runnable`.
        """
        self._cpu_ns_of = cpu_ns_of
        self._is_runnable = is_runnable or proc_runnable
        self._seen: dict[int, _Seen] = {}

    def overruns(self, worker: Worker, now_ns: int) -> bool:  # hot: scripts/bench urgent_long
        """Whether a busy `worker` has kept more urgent work from being noticed for longer than the quantum."""
        looked_ns = worker.looked_ns
        try:
            cpu_ns = self._cpu_ns_of(worker.ident)
        except OSError:  # its thread has ended since
            return False
        seen = self._seen.get(worker.number)
        passed_ns = now_ns - looked_ns
        if seen is None:
            used_ns = passed_ns
        elif seen.looked_ns == looked_ns:
            used_ns = seen.used_ns + cpu_ns - seen.cpu_ns
        else:  # the stretch began since: its share of the CPU used since
            used_ns = (cpu_ns - seen.cpu_ns) * passed_ns // max(1, now_ns - seen.at_ns)
        self._seen[worker.number] = _Seen(now_ns, looked_ns, used_ns, cpu_ns)
        return passed_ns >= QUANTUM_NS and (used_ns >= QUANTUM_NS or not self._is_runnable(worker))


def proc_runnable(worker: Worker) -> bool:
    """Whether the worker's thread runs or waits for a core, by /proc; False also if /proc cannot be read."""
    # Not by a file object: that releases the GIL twice as often, and waits for it each time.
    try:
        file = os.open(f"/proc/self/task/{worker.tid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        stat = os.read(file, 512)
    except OSError:  # it ended meanwhile
        return False
    finally:
        os.close(file)
    return stat[stat.rfind(b")") + 2 :].startswith(b"R")  # the thread's name, in brackets, may hold any character
