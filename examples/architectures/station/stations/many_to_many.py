"""M-N: two applications, with an object for each camera and sensor, over four threads that belong to none of them.

The scheduler knows how urgent each request is. The most urgent goes first, and passes a long action that runs; quotas let the
least urgent go on; each object keeps its order. It is also the architecture with the most to set: priorities, quotas, threads,
and a lock for shared data.
"""

from __future__ import annotations

import threading

from appbackplane.runtime import AppObject, Component, operation, pause

from . import work


class Shared:
    """The data of all objects of the station."""

    def __init__(self) -> None:
        self.counts, self.lock = work.Counts(), threading.Lock()


class Camera(AppObject):
    def __init__(self, shared: Shared) -> None:
        self.shared = shared

    @operation(priority=work.FRAME)
    async def frame(self, camera: str, number: int) -> str:
        verdict = work.inspect(camera, number)
        with self.shared.lock:
            self.shared.counts.book_frame()
        await self.call("archive.keep", camera=camera, number=number)
        return verdict


class Sensor(AppObject):
    def __init__(self, shared: Shared) -> None:
        self.shared = shared

    @operation(priority=work.READING)
    def reading(self, sensor: str, number: int) -> None:
        work.decode(sensor, number)
        with self.shared.lock:
            self.shared.counts.book_reading(sensor, number)


class Operators(AppObject):
    def __init__(self, shared: Shared) -> None:
        self.shared = shared

    @operation(priority=work.COMMAND)
    def command(self, order: str) -> work.State:
        with self.shared.lock:
            return self.shared.counts.state()


class Station(Component):
    def setup(self) -> None:
        shared = Shared()
        for camera in work.CAMERAS:
            self.add(Camera(shared), key=camera)
        for sensor in work.SENSORS:
            self.add(Sensor(shared), key=sensor)
        self.add(Operators(shared))


class Shelves(AppObject):
    interleaves = True

    @operation(priority=work.FRAME)
    async def keep(self, camera: str, number: int) -> None:
        await pause(work.ARCHIVE_S)


class Archive(Component):
    """The other application of the pool."""

    def setup(self) -> None:
        self.add(Shelves())
