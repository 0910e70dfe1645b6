"""Threads: each request is served from start to end by one thread of a pool, as web servers do. All threads are alike.

Simple code, and blocking costs only the thread that blocks. But all state is shared, so each use of it needs the lock, and
nothing says in which order two requests run: not even two readings of one sensor.
"""

from __future__ import annotations

import threading

from appbackplane.runtime import AppObject, Component, operation

from . import work


class Handlers(AppObject):
    """Serves as many requests at a time as there are threads."""

    concurrency = 4

    def __init__(self) -> None:
        self.counts, self.lock = work.Counts(), threading.Lock()

    @operation(priority=work.ALIKE)
    def frame(self, camera: str, number: int) -> str:
        verdict = work.inspect(camera, number)
        with self.lock:
            self.counts.book_frame()
        work.archive()
        return verdict

    @operation(priority=work.ALIKE)
    def reading(self, sensor: str, number: int) -> None:
        work.decode(sensor, number)
        with self.lock:
            self.counts.book_reading(sensor, number)

    @operation(priority=work.ALIKE)
    def command(self, order: str) -> work.State:
        with self.lock:
            return self.counts.state()


class Station(Component):
    def setup(self) -> None:
        self.add(Handlers())
