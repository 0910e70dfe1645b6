"""OS priority: the only module of a backplane that sets nice and cgroup weight (DESIGN section 5, TRAPS 24-25).

Nice counts only within one scheduling group. In the shared group it orders the threads of all backplanes. A backplane with
a `cpu_limit` has its own cgroup: the group's weight ranks it among the others, and nice orders only its own threads.
scheduling/nice.py computes nice and weight; the engine decides when they change. No method raises: refused boosts are
counted. Missing permissions are shown by `describe`, and logged once by the supervisor.
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

from ...scheduling.nice import NICE_MAX, NiceTable

#: The weight file of each version of cgroups.
WEIGHT_FILES = {"cpu.shares": 1, "cpu.weight": 2}
#: The lowest permitted nice is this minus the kernel's RLIMIT_NICE.
_RLIMIT_ZERO = 20
#: Groups whose weight file is held open: as many as a board has slots (board.SLOTS_MAX).
_GROUPS_MAX = 256


class OsPriority:
    """Sets the OS priority of threads of this backplane and of others. Used under the lead, or by a single thread."""

    def __init__(self, table: NiceTable, cgroup: str | None = None) -> None:
        """`table`: the nice of each priority (`allowed` makes one). `cgroup`: folder of its own group; None: the shared one."""
        self.table = table
        self._threads: dict[int, int] = {}
        self._helpers: tuple[int, ...] = ()
        self._groups: dict[str, _Group | None] = {}
        self._own: _Group | None = None
        #: Boosts given and refused, and threads of ours whose nice another process had changed.
        self.boosts_count = self.refused_count = self.moved_count = 0
        self.cgroup: str | None = None
        self.moved_to(cgroup)

    # -- this backplane -----------------------------------------------------------------------------------------------

    def set_thread(self, tid: int, priority: int) -> None:  # hot: scripts/bench call_rtt
        """Give one of our threads (native id) the nice of a priority. Makes a system call only if that is a change."""
        nice = self.table.nice_of(priority)
        if self._threads.get(tid) != nice and self.table.is_in_force:
            with suppress(ProcessLookupError):  # it has ended
                os.setpriority(os.PRIO_PROCESS, tid, nice)
            self._threads[tid] = nice

    def set_helpers(self, tids: Sequence[int]) -> None:
        """Give threads that serve all priorities (the sentinel, ZeroMQ's) the nice of priority 0, permanently."""
        self._helpers = tuple(tids)
        for tid in tids:
            self.set_thread(tid, 0)

    def set_group(self, priority: int | None) -> None:  # hot: scripts/bench call_rtt
        """Set the weight of this backplane's own group, if any, for its most urgent running or ready work (None: no work).

        Writes only if that is a change. Call it together with the update of the board.
        """
        if self._own is not None and priority is not None:
            self._own.write(self.table.weight_of(priority, version=self._own.version))

    def forget_thread(self, tid: int) -> None:
        """A thread has ended; the kernel may reuse its id."""
        self._threads.pop(tid, None)

    def distrust(self) -> None:
        """Another backplane may have boosted us: the next `set_thread` and `set_group` ignore the remembered values."""
        self._threads.clear()
        self.set_helpers(self._helpers)
        if self._own is not None:
            self._own.written = 0

    def look(self) -> int:
        """Forget the remembered nice of threads that others have changed; returns their number. 0.2 us a thread."""
        moved = 0
        for tid, nice in list(self._threads.items()):
            now: int | None = None
            with suppress(ProcessLookupError):  # it has ended
                now = os.getpriority(os.PRIO_PROCESS, tid)
            if now != nice:
                moved += now is not None
                self._threads.pop(tid, None)
        if moved:
            self.moved_count += moved
            self.set_helpers(self._helpers)
        return moved

    def moved_to(self, cgroup: str | None) -> None:
        """The supervisor has moved this backplane to a group of its own, or (None) to the shared one."""
        self.cgroup = cgroup
        self._own = None if cgroup is None else self._group(cgroup)

    # -- another backplane --------------------------------------------------------------------------------------------

    def boost(self, pid: int, cgroup: str | None, priority: int) -> bool:
        """Make another backplane (`Place.pid` and `Place.cgroup`) at least as urgent as a priority. False: refused.

        Never makes one of its threads less urgent. Holds until that backplane sets its threads again.
        """
        if cgroup is not None:
            group = self._group(cgroup)
            is_done = group is not None and group.raise_to(self.table.weight_of(priority, version=group.version))
        else:
            is_done = self.table.is_in_force and _raise_threads(pid, self.table.nice_of(priority))
        self.boosts_count += is_done
        self.refused_count += not is_done
        return is_done

    # -- shown --------------------------------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """For status and statistics: the mechanism in force, the reason if it is restricted, and counts of boosts."""
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
        """How the kernel ranks this backplane among the others: "nice", "weight" or "none"."""
        if self.cgroup is not None:
            return "weight" if self._own is not None and self.table.wanted else "none"
        return "nice" if self.table.is_in_force else "none"

    def close(self) -> None:
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
        #: The weight written last; 0: none, or another process may have changed it.
        self.written = 0

    @classmethod
    def open(cls, folder: str) -> _Group | None:
        """Open the weight file of a cgroup; None: there is no writable one."""
        for name, version in WEIGHT_FILES.items():
            with suppress(OSError):
                return cls(os.open(Path(folder, name), os.O_RDWR | os.O_CLOEXEC), version)
        return None

    def write(self, weight: int) -> bool:
        if weight == self.written:
            return True
        try:
            os.pwrite(self._fd, b"%d\n" % weight, 0)
        except OSError:  # the group is gone, and its processes with it
            return False
        self.written = weight
        return True

    def raise_to(self, weight: int) -> bool:
        self.written = 0
        return weight <= self._read() or self.write(weight)

    def _read(self) -> int:
        try:
            return int(os.pread(self._fd, 16, 0).split()[0])
        except (OSError, ValueError, IndexError):
            return 0

    def close(self) -> None:
        os.close(self._fd)


def allowed(nice: Sequence[int]) -> NiceTable:
    """The part of `[system] nice` that this process may use. The supervisor asks for its children, which may do the same."""
    lowest = probe(min(nice)) if nice else None
    return NiceTable(nice, lowest, os.getpriority(os.PRIO_PROCESS, 0))


def probe(lowest: int) -> int | None:
    """The most urgent nice, not below `lowest`, that may be set repeatedly; None: none may. Has no lasting effect.

    Tried in a thread that ends at once: a capability may be void in a user namespace, and a system-call filter may refuse.
    """
    found: list[int] = []

    def attempt() -> None:
        limit = _RLIMIT_ZERO - resource.getrlimit(resource.RLIMIT_NICE)[0]
        for nice in (lowest, max(lowest, limit)):
            if nice <= NICE_MAX:
                with suppress(PermissionError):
                    os.setpriority(os.PRIO_PROCESS, 0, nice)
                    # A thread made less urgent must be able to become urgent again.
                    os.setpriority(os.PRIO_PROCESS, 0, NICE_MAX)
                    os.setpriority(os.PRIO_PROCESS, 0, nice)
                    found.append(nice)
                    return

    thread = threading.Thread(target=attempt, name="nice-probe")
    thread.start()
    thread.join()
    return found[0] if found else None


def because(table: NiceTable, cgroup: str | None, has_weight: bool) -> str:
    """Why `[system] nice` is not fully in force; empty when it is."""
    if not table.wanted:
        return ""
    if cgroup is not None and not has_weight:
        return f"the CPU weight of {cgroup} may not be written: its share does not follow the urgency of its work"
    if table.lowest is None and cgroup is None:
        return (
            "nice may not be raised (CAP_SYS_NICE or RLIMIT_NICE is needed): all threads stay at nice"
            f" {table.resting}; priorities hold within the backplane, and by the board's should_yield()"
        )
    if table.lowest is None:
        return "nice may not be raised: the CPU weight of its cgroup follows its work, but all its threads have the same nice"
    if table.shift:
        return f"nice below {table.lowest} is not allowed: all nice values are {table.shift} higher, in the same order"
    return ""


def _raise_threads(pid: int, nice: int) -> bool:
    try:
        if os.getpriority(os.PRIO_PGRP, pid) >= nice:  # no thread there is more urgent: set all in one call
            os.setpriority(os.PRIO_PGRP, pid, nice)
        else:
            for tid in map(int, os.listdir(f"/proc/{pid}/task")):
                with suppress(ProcessLookupError):
                    if os.getpriority(os.PRIO_PROCESS, tid) > nice:
                        os.setpriority(os.PRIO_PROCESS, tid, nice)
    except OSError:
        return False
    return True
