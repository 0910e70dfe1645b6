"""Actor and parallel state machine: one thread, a queue for each priority, and any number of frames that wait for the archive.

Almost as simple as an actor, but it never stands still while a picture is archived, and a command waits for the step that runs
and for nothing else. No lock, as one thread does it all; so a step that computes is not interrupted, and uses one core.
"""

from __future__ import annotations

from appbackplane.runtime import AppObject, Component, operation, pause

from . import work


class Frames(AppObject):
    """Each frame is a machine: its local variables are the data, the `await` where it stands is the state."""

    interleaves = True

    def __init__(self, counts: work.Counts) -> None:
        self.counts = counts

    @operation(priority=work.FRAME)
    async def frame(self, camera: str, number: int) -> str:
        verdict = work.inspect(camera, number)
        self.counts.book_frame()
        await pause(work.ARCHIVE_S)
        return verdict


class Readings(AppObject):
    def __init__(self, counts: work.Counts) -> None:
        self.counts = counts

    @operation(priority=work.READING)
    def reading(self, sensor: str, number: int) -> None:
        work.decode(sensor, number)
        self.counts.book_reading(sensor, number)


class Commands(AppObject):
    def __init__(self, counts: work.Counts) -> None:
        self.counts = counts

    @operation(priority=work.COMMAND)
    def command(self, order: str) -> work.State:
        return self.counts.state()


class Station(Component):
    """The actor. Its queues are objects: within one object the most urgent request always goes first, and may starve others."""

    def setup(self) -> None:
        counts = work.Counts()
        for queue in (Frames(counts), Readings(counts), Commands(counts)):
            self.add(queue)
