"""Unseen: whether a worker keeps others waiting, or is itself kept from its processor.

Between two looks of an action time passes on the wall. Where there is more to do than there are cores much of that is not the
action's: its thread waits for a core. It holds the interpreter's lock meanwhile, so that a relief could only wait with it,
and be woken in vain: beside saturated cores each look of the sentinel found an "overrun", and what that cost (4,000 looks
and 2,500 relieves in three seconds) was a tenth of all the work (scripts/bench_cases/requests_indexing.py). Hence the thread's
CPU clock is asked, too. A thread that has used none may also block, without the lock: the kernel tells which.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from .watch import QUANTUM_NS

if TYPE_CHECKING:
    from .worker import Worker


class _Seen(NamedTuple):
    """One worker at the last look."""

    at_ns: int
    #: Of the stretch that went on then: when it began, and the CPU time it had used.
    looked_ns: int
    used_ns: int
    #: What the thread's CPU clock said.
    cpu_ns: int


class Unseen:
    """All workers, as the sentinel sees them."""

    def __init__(self, cpu_ns_of: Callable[[int], int], is_runnable: Callable[[Worker], bool] | None = None) -> None:
        """`cpu_ns_of`: the CPU clock of a thread, by `Thread.ident`. `is_runnable`: whether it runs, or waits for a core;
        by default the kernel says so.
        """
        self._cpu_ns_of = cpu_ns_of
        self._is_runnable = is_runnable or proc_runnable
        self._seen: dict[int, _Seen] = {}

    def overruns(self, worker: Worker, now_ns: int) -> bool:  # hot: scripts/bench urgent_long
        """Whether `worker`, which runs something, has kept the link from being looked after for longer than the quantum."""
        looked_ns = worker.looked_ns
        try:
            cpu_ns = self._cpu_ns_of(worker.ident)
        except OSError:  # its thread has ended since: it keeps nobody waiting
            return False
        seen = self._seen.get(worker.number)
        passed_ns = now_ns - looked_ns
        if seen is None:
            used_ns = passed_ns
        elif seen.looked_ns == looked_ns:
            used_ns = seen.used_ns + cpu_ns - seen.cpu_ns
        else:  # it began since: its part of what was used since
            used_ns = (cpu_ns - seen.cpu_ns) * passed_ns // max(1, now_ns - seen.at_ns)
        self._seen[worker.number] = _Seen(now_ns, looked_ns, used_ns, cpu_ns)
        return passed_ns >= QUANTUM_NS and (used_ns >= QUANTUM_NS or not self._is_runnable(worker))


def proc_runnable(worker: Worker) -> bool:
    """Whether the kernel says that its thread runs, or waits for a core; False also where it says nothing."""
    # Not by a file object: that lets go of the interpreter's lock twice as often, and waits for it each time.
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
    return stat[stat.rfind(b")") + 2 :].startswith(b"R")  # its name, in brackets, may hold anything
