"""Multiple actors: one for each kind of work, each with a queue and a thread. So a command never waits behind a frame.

Within one kind all is in order. Between two kinds there is no order, and data that the actors share need a lock.
"""

from __future__ import annotations

import threading

from appbackplane.runtime import AppObject, Component, operation

from . import work


class Shared:
    """The data of all three."""

    def __init__(self) -> None:
        self.counts, self.lock = work.Counts(), threading.Lock()


class Cameras(AppObject):
    def __init__(self, shared: Shared) -> None:
        self.shared = shared

    @operation(priority=work.FRAME)
    def frame(self, camera: str, number: int) -> str:
        verdict = work.inspect(camera, number)
        with self.shared.lock:
            self.shared.counts.book_frame()
        work.archive()
        return verdict


class Sensors(AppObject):
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
        for actor in (Cameras(shared), Sensors(shared), Operators(shared)):
            self.add(actor)
