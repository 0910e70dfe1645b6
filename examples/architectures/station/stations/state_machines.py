"""Parallel state machines: each camera and each sensor is an object in some state; two threads run whichever has an event.

Nothing ever waits in a thread: a camera that archives is in the state ARCHIVING, and its next frame is deferred. The events of
one machine are in order, and the most urgent machine goes first. For work whose steps are all short. Shared data need a lock.
"""

from __future__ import annotations

import threading
from enum import Enum

from appbackplane.runtime import AppObject, Component, StateMachine, operation

from . import work


class Shared:
    """The data of all machines."""

    def __init__(self) -> None:
        self.counts, self.lock = work.Counts(), threading.Lock()


class Stage(Enum):
    WATCHING = "watching"
    ARCHIVING = "archiving"


class Camera(StateMachine):
    initial = Stage.WATCHING

    def __init__(self, shared: Shared) -> None:
        self.shared = shared

    @operation(priority=work.FRAME, accepted_in=(Stage.WATCHING,), otherwise="defer")
    def frame(self, camera: str, number: int) -> str:
        verdict = work.inspect(camera, number)
        with self.shared.lock:
            self.shared.counts.book_frame()
        self.become(Stage.ARCHIVING)
        self.after(work.ARCHIVE_S, self.on_archived)
        return verdict

    def on_archived(self) -> None:
        self.become(Stage.WATCHING)


class Sensor(AppObject):
    """A machine of one state."""

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
