"""Out of memory: whether the kernel killed a process for its use of memory.

Its exit code is that of any SIGKILL. The kernel counts OOM kills in each memory cgroup, and in /proc/vmstat where there is
none. A SIGKILL counts as an OOM kill if the count has risen since the reading before the last, about half a second ago. Each
rise explains one death. A read takes 20 us.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path

from .cgroup_layout import hierarchies

_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_FILE = {1: "memory.oom_control", 2: "memory.events"}
_OF_MACHINE = Path("/proc/vmstat")


class OutOfMemory:
    """Reads one counter of OOM kills."""

    def __init__(self, counter: Path) -> None:
        self._counter = counter
        self._before = self._last = self._read()

    def look(self) -> None:
        """Read the counter. Kills counted before the last reading explain no later death."""
        self._before, self._last = self._last, self._read()

    def has_killed(self, code: int) -> bool:
        """Whether a process that has just ended with this exit code (below 0: a signal) was killed for its memory."""
        if code != -signal.SIGKILL or self._read() <= self._before:
            return False
        self._before += 1
        self._last = max(self._last, self._before)
        return True

    def _read(self) -> int:
        try:
            found = _COUNT.search(self._counter.read_text())
        except OSError:  # the group is gone: no kill is reported
            found = None
        return 0 if found is None else int(found[1])


def counter_of(proc: Path = Path("/proc/self")) -> Path:
    """The nearest counter that covers this process and its children."""
    for found in hierarchies((proc / "cgroup").read_text(), (proc / "mountinfo").read_text(), "memory"):
        own, mount = Path(found.own), Path(found.mount)
        for folder in (own, *own.parents):
            if (folder / _FILE[found.version]).is_file():
                return folder / _FILE[found.version]
            if folder == mount:
                break
    return _OF_MACHINE
