"""OS priority: the sole owner of nice and cgroup weight in a backplane (DESIGN section 5, TRAPS 24-25).

Nice counts only within one scheduling group. In the shared group it orders the threads of all backplanes; a backplane in
a cgroup of its own (it has a `cpu_limit`) is, to the others, as urgent as the weight of that group, and nice orders its
threads only. Which nice and which weight: scheduling/nice.py. The engine says when. Nothing here raises: a boost that is
refused is counted; what a machine does not allow is shown by `describe`, and said once by the supervisor.
Cost: nothing when nothing changes, 0.3 us for a thread, 1.3 us for a weight, 6-9 us for another backplane.
"""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..scheduling.nice import NICE_MAX, NiceTable

#: The weight files, and the version of cgroups they belong to.
WEIGHT_FILES = {"cpu.shares": 1, "cpu.weight": 2}
#: A thread's nice counts in the kernel's scale for RLIMIT_NICE from here downwards.
_RLIMIT_ZERO = 20
#: Groups whose weight file is held open: as many as a board has slots (board.SLOTS_MAX).
_GROUPS_MAX = 256


class OsPriority:
    """What this backplane may do about the priority of threads, its own and others'. Needs the lead, or one thread."""

    def __init__(self, table: NiceTable, cgroup: str | None = None) -> None:
        """`table`: the nice of each priority (`allowed` makes one). `cgroup`: the folder of its own group, None in the
        shared one.
        """
        self.table = table
        self._threads: dict[int, int] = {}
        self._helpers: tuple[int, ...] = ()
        self._groups: dict[str, _Group | None] = {}
        self._own: _Group | None = None
        #: Boosts given and refused, and threads of ours that somebody else had moved.
        self.boosts_count = self.refused_count = self.moved_count = 0
        self.cgroup: str | None = None
        self.moved_to(cgroup)

    # -- this backplane -----------------------------------------------------------------------------------------------

    def nice_of(self, priority: int) -> int:
        """The OS nice of a priority."""
        return self.table.nice_of(priority)

    def set_thread(self, tid: int, priority: int) -> None:  # hot: scripts/bench call_rtt
        """Give one of our threads (native id) the nice of a priority. A system call only when that is a change."""
        nice = self.table.nice_of(priority)
        if self._threads.get(tid) != nice and self.table.is_in_force:
            with suppress(ProcessLookupError):  # it has ended
                os.setpriority(os.PRIO_PROCESS, tid, nice)
            self._threads[tid] = nice

    def set_helpers(self, tids: Sequence[int]) -> None:
        """Threads that serve all priorities (the sentinel, ZeroMQ's): as urgent as the most urgent, now and ever."""
        self._helpers = tuple(tids)
        for tid in tids:
            self.set_thread(tid, 0)

    def set_group(self, priority: int | None) -> None:  # hot: scripts/bench call_rtt
        """The most urgent work here, running or ready, has this priority (None: there is none): move the group's weight,
        if this backplane has a group of its own. A write only when that is a change. Call it where the board is told.
        """
        if self._own is not None and priority is not None:
            self._own.write(self.table.weight_of(priority, version=self._own.version))

    def forget_thread(self, tid: int) -> None:
        """It has ended; its number may be given to another."""
        self._threads.pop(tid, None)

    def distrust(self) -> None:
        """Others may have boosted us: the next `set_thread` and `set_group` are done whatever is remembered."""
        self._threads.clear()
        self.set_helpers(self._helpers)
        if self._own is not None:
            self._own.written = 0

    def look(self) -> int:
        """Forget those of our threads that others have moved, and their number. 0.2 us a thread: for the sentinel."""
        moved = 0
        for tid, nice in list(self._threads.items()):
            now = _nice_of(tid)
            if now != nice:
                moved += now is not None
                self._threads.pop(tid, None)
        if moved:
            self.moved_count += moved
            self.set_helpers(self._helpers)
        return moved

    def moved_to(self, cgroup: str | None) -> None:
        """The supervisor has moved this backplane: to a group of its own, or (None) to the shared one."""
        self.cgroup = cgroup
        self._own = None if cgroup is None else self._group(cgroup)

    # -- another backplane --------------------------------------------------------------------------------------------

    def boost(self, pid: int, cgroup: str | None, priority: int) -> bool:
        """Make another backplane (`Directory.Place.pid` and `.cgroup`) at least as urgent as a priority. False: refused.

        Never makes a thread of it less urgent. It stays so until that backplane sets its threads again, or `restore`.
        """
        if cgroup is not None:
            group = self._group(cgroup)
            is_done = group is not None and group.raise_to(self.table.weight_of(priority, version=group.version))
        else:
            is_done = self.table.is_in_force and _raise_threads(pid, self.table.nice_of(priority))
        if is_done:
            self.boosts_count += 1
        else:
            self.refused_count += 1
        return is_done

    def restore(self, pid: int, cgroup: str | None, priority: int) -> bool:
        """Take a boost back: from now on no more urgent than a priority, which is the highest that the board shows there.

        Its main thread, which is its sentinel, is left where it is.
        """
        if cgroup is not None:
            group = self._group(cgroup)
            return group is not None and group.lower_to(self.table.weight_of(priority, version=group.version))
        return self.table.is_in_force and _lower_threads(pid, self.table.nice_of(priority))

    # -- shown --------------------------------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """For status and statistics: what is in force, why nothing more is, and how often others were boosted."""
        table = self.table
        return {
            "mechanism": self.mechanism(),
            "because": because(table, self.cgroup, self._own is not None),
            "nice": list(table.granted),
            "cgroup": self.cgroup,
            "boosts": self.boosts_count,
            "refused": self.refused_count,
            "moved": self.moved_count,
        }

    def mechanism(self) -> str:
        """How the others see how urgent this backplane is: "nice", "weight" or "none"."""
        if self.cgroup is not None:
            return "weight" if self._own is not None and self.table.wanted else "none"
        return "nice" if self.table.is_in_force else "none"

    def close(self) -> None:
        """Let go of the descriptors."""
        for group in self._groups.values():
            if group is not None:
                group.close()
        self._groups.clear()
        self._own = None

    def _group(self, cgroup: str) -> _Group | None:
        if cgroup not in self._groups:
            if len(self._groups) >= _GROUPS_MAX:
                self.close()
            self._groups[cgroup] = _Group.open(cgroup)
        return self._groups[cgroup]


class _Group:
    """The weight file of one cgroup."""

    def __init__(self, fd: int, version: int) -> None:
        self._fd, self.version = fd, version
        #: What we wrote last; 0: nothing, or it is not to be relied on.
        self.written = 0

    @classmethod
    def open(cls, folder: str) -> _Group | None:
        """None: there is none that may be written."""
        for name, version in WEIGHT_FILES.items():
            with suppress(OSError):
                return cls(os.open(Path(folder, name), os.O_RDWR | os.O_CLOEXEC), version)
        return None

    def write(self, weight: int) -> bool:
        if weight == self.written:
            return True
        try:
            os.pwrite(self._fd, b"%d\n" % weight, 0)
        except OSError:  # the group is gone, and with it those whom it concerned
            return False
        self.written = weight
        return True

    def raise_to(self, weight: int) -> bool:
        self.written = 0
        return weight <= self._read() or self.write(weight)

    def lower_to(self, weight: int) -> bool:
        self.written = 0
        return weight >= self._read() or self.write(weight)

    def _read(self) -> int:
        try:
            return int(os.pread(self._fd, 16, 0).split()[0])
        except (OSError, ValueError, IndexError):
            return 0

    def close(self) -> None:
        os.close(self._fd)


def allowed(nice: Sequence[int]) -> NiceTable:
    """What this process may have of `[system] nice`. Also for the supervisor: its children may do what it may."""
    lowest = probe(min(nice)) if nice else None
    return NiceTable(nice, lowest, os.getpriority(os.PRIO_PROCESS, 0))


def probe(lowest: int) -> int | None:
    """The most urgent nice, `lowest` at most, that may be set and returned to; None: none may. Leaves no trace.

    Tried in a thread that ends at once: a capability in a user namespace counts for nothing here, and a filter may refuse.
    """
    found: list[int] = []

    def attempt() -> None:
        limit = _RLIMIT_ZERO - resource.getrlimit(resource.RLIMIT_NICE)[0]
        for nice in (lowest, max(lowest, limit)):
            if nice <= NICE_MAX:
                with suppress(PermissionError):
                    os.setpriority(os.PRIO_PROCESS, 0, nice)
                    # What was lowered must be raised again.
                    os.setpriority(os.PRIO_PROCESS, 0, NICE_MAX)
                    os.setpriority(os.PRIO_PROCESS, 0, nice)
                    found.append(nice)
                    return

    thread = threading.Thread(target=attempt, name="nice-probe")
    thread.start()
    thread.join()
    return found[0] if found else None


def because(table: NiceTable, cgroup: str | None, has_weight: bool) -> str:
    """Why not all that was asked for is in force; empty when it is."""
    if not table.wanted:
        return ""
    if cgroup is not None and not has_weight:
        return f"the weight of {cgroup} may not be written: to other backplanes all its work is equally urgent"
    if table.lowest is None and cgroup is None:
        return (
            "nice may not be raised (CAP_SYS_NICE or RLIMIT_NICE is needed): all threads stay at nice"
            f" {table.resting}; priorities hold within the backplane, and by the board's should_yield()"
        )
    if table.lowest is None:
        return (
            "nice may not be raised: the weight of its group follows its work, its threads are alike among themselves"
        )
    if table.shift:
        return f"nice below {table.lowest} is not allowed: everything is {table.shift} less urgent, in the same order"
    return ""


def _raise_threads(pid: int, nice: int) -> bool:
    try:
        if os.getpriority(os.PRIO_PGRP, pid) >= nice:  # nobody there is more urgent: all of them in one call
            os.setpriority(os.PRIO_PGRP, pid, nice)
        else:
            for tid in _threads(pid):
                with suppress(ProcessLookupError):
                    if os.getpriority(os.PRIO_PROCESS, tid) > nice:
                        os.setpriority(os.PRIO_PROCESS, tid, nice)
    except OSError:
        return False
    return True


def _lower_threads(pid: int, nice: int) -> bool:
    try:
        for tid in _threads(pid):
            with suppress(ProcessLookupError):
                if tid != pid and os.getpriority(os.PRIO_PROCESS, tid) < nice:
                    os.setpriority(os.PRIO_PROCESS, tid, nice)
    except OSError:
        return False
    return True


def _nice_of(tid: int) -> int | None:
    """None: there is no such thread (any more)."""
    try:
        return os.getpriority(os.PRIO_PROCESS, tid)
    except ProcessLookupError:
        return None


def _threads(pid: int) -> list[int]:
    return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
