"""Sensors: the host as devices of the house. CPU, memory, disk, and temperatures where there are any."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import psutil

from appbackplane.runtime import Component, every


class Reading(NamedTuple):
    """What one sensor says; the fields of `hub.measured`."""

    device: str
    quantity: str
    value: float


class Sensors(Component):
    """The host, seen through psutil. `disk`: a path on the file system whose space is told."""

    depends_on = ("hub",)

    def __init__(self, disk: str = "/") -> None:
        self._disk = disk
        psutil.cpu_percent()  # each look tells of the time since the one before; the first has nothing to tell

    @every(1.0)
    def tell(self) -> None:
        """Look, and tell the hub."""
        for reading in readings(self._disk):
            self.cast("hub.measured", **reading._asdict())


def readings(disk: str) -> Iterator[Reading]:
    """What the host's sensors say now."""
    yield Reading("host-cpu", "cpu", psutil.cpu_percent())
    yield Reading("host-memory", "memory", psutil.virtual_memory().percent)
    yield Reading("host-disk", "disk", psutil.disk_usage(disk).percent)
    for chip, sensors in psutil.sensors_temperatures().items():  # empty in most containers and virtual machines
        for number, sensor in enumerate(sensors):
            yield Reading(f"host-{chip}-{number}", "core", sensor.current)
