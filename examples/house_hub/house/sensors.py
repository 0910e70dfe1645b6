"""Sensors: the host as devices of the house. CPU, memory, disk, and temperatures where there are any."""

from __future__ import annotations

from collections.abc import Iterator

import psutil

from appbackplane.runtime import Component, every
from appbackplane.runtime.dispatcher import cast_message

from .messages import Measured


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
            cast_message(self, "hub", reading)


def readings(disk: str) -> Iterator[Measured]:
    """What the host's sensors say now."""
    yield Measured("host-cpu", "cpu", psutil.cpu_percent())
    yield Measured("host-memory", "memory", psutil.virtual_memory().percent)
    yield Measured("host-disk", "disk", psutil.disk_usage(disk).percent)
    for chip, sensors in psutil.sensors_temperatures().items():  # empty in most containers and virtual machines
        for number, sensor in enumerate(sensors):
            yield Measured(f"host-{chip}-{number}", "core", sensor.current)
