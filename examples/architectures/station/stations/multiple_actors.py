"""Multiple actors: one for each kind of work, each with a queue and a worker. So a command never waits behind a frame.

Within one kind all is in order. Between two kinds there is no order, and data that the actors share need a lock.
"""

from __future__ import annotations

from appbackplane.runtime import Actors, Component, ComponentLock, operation

from . import work

#: By their most urgent priority.
ACTORS = Actors(by="priority", workers={work.COMMAND: 1, work.READING: 1, work.FRAME: 1})


class Station(Component):
    def __init__(self) -> None:
        self.counts, self.lock = work.Counts(), ComponentLock(self, "counts")

    @operation(priority=work.FRAME, actors=ACTORS)
    def frame(self, camera: str, number: int) -> str:
        verdict = work.inspect(camera, number)
        with self.lock:
            self.counts.book_frame()
        work.archive()
        return verdict

    @operation(priority=work.READING, actors=ACTORS)
    def reading(self, sensor: str, number: int) -> None:
        work.decode(sensor, number)
        with self.lock:
            self.counts.book_reading(sensor, number)

    @operation(priority=work.COMMAND, actors=ACTORS)
    def command(self, order: str) -> work.State:
        with self.lock:
            return self.counts.state()
