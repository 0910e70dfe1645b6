"""Actor with a pool, 1-N: one application, four desks, four threads. Each request goes to the least busy desk.

For work items that do not depend on each other. A command passes the queues of the other desks, and waits in that of its own.
Data that the desks share need a lock, which no other application ever takes.
"""

from __future__ import annotations

import threading

from appbackplane.runtime import AppObject, Component, operation

from . import work


class Desk(AppObject):
    """Any desk serves any request, one at a time."""

    def __init__(self, counts: work.Counts, lock: threading.Lock) -> None:
        self.counts, self.lock = counts, lock

    @operation(priority=work.FRAME)
    def frame(self, camera: str, number: int) -> str:
        verdict = work.inspect(camera, number)
        with self.lock:
            self.counts.book_frame()
        work.archive()
        return verdict

    @operation(priority=work.READING)
    def reading(self, sensor: str, number: int) -> None:
        work.decode(sensor, number)
        with self.lock:
            self.counts.book_reading(sensor, number)

    @operation(priority=work.COMMAND)
    def command(self, order: str) -> work.State:
        with self.lock:
            return self.counts.state()


class Station(Component):
    def setup(self) -> None:
        counts, lock = work.Counts(), threading.Lock()
        for _ in range(4):
            self.add(Desk(counts, lock))
