"""Host: what the machine is doing, published four times a second on the topic `host.sample`.

`@every` makes a timer that is work like any other: it runs in the scheduler of its backplane, is timed, and an overrun
skips instead of piling up.
"""

from __future__ import annotations

from typing import TypedDict

import psutil

from appbackplane.runtime import Component, every, operation


class Sample(TypedDict):
    """One look at the machine. Disk counters are of all disks, since boot; rates are their differences."""

    cpu_percent: float
    cpus: int
    memory_used: int
    memory_total: int
    disk_used: int
    disk_total: int
    disk_read: int
    disk_written: int


class Host(Component):
    """The machine, seen through psutil. `disk`: a path on the file system whose space is told."""

    def __init__(self, disk: str = "/") -> None:
        self._disk = disk
        psutil.cpu_percent()  # each look tells of the time since the one before; the first has nothing to tell
        self._last = self._look()

    @every(0.25, priority=3)
    def sample(self) -> None:
        """Look and publish."""
        self._last = self._look()
        self.publish("host.sample", **self._last)

    @operation(priority=1)
    def latest(self) -> Sample:
        """The last sample, at most a quarter of a second old."""
        return self._last

    def _look(self) -> Sample:
        memory, disk = psutil.virtual_memory(), psutil.disk_usage(self._disk)
        traffic = psutil.disk_io_counters()  # None where there is no disk to be seen, as in some containers
        return Sample(
            cpu_percent=psutil.cpu_percent(),
            cpus=psutil.cpu_count() or 1,
            memory_used=memory.total - memory.available,
            memory_total=memory.total,
            disk_used=disk.used,
            disk_total=disk.total,
            disk_read=traffic.read_bytes if traffic else 0,
            disk_written=traffic.write_bytes if traffic else 0,
        )
