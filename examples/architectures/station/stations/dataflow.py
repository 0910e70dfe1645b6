"""Dataflow: a frame is a small graph of calls. Each begins as soon as its values are there, from whichever object.

Inspection and archive do not need each other, so they run at the same time. Values are assigned once and sent, never shared:
no lock. Independent steps overlap by themselves. But where values meet they are taken one after the other: a frame waits at
the register for all readings before it.
"""

from __future__ import annotations

from appbackplane.runtime import AppObject, Component, operation, pause

from . import work


class Graph(AppObject):
    """Builds the graph of each frame, and awaits its last value."""

    interleaves = True

    @operation(priority=work.FRAME)
    async def frame(self, camera: str, number: int) -> str:
        verdict = self.call("station.inspect", camera=camera, number=number)
        archived = self.call("station.archive", camera=camera, number=number)
        booked: str = await self.call("station.book", verdict=verdict, archived=archived, priority=work.READING)
        return booked


class Inspector(AppObject):
    @operation(priority=work.FRAME)
    def inspect(self, camera: str, number: int) -> str:
        return work.inspect(camera, number)


class Archive(AppObject):
    interleaves = True

    @operation(priority=work.FRAME)
    async def archive(self, camera: str, number: int) -> bool:
        await pause(work.ARCHIVE_S)
        return True


class Register(AppObject):
    """The end of all graphs: it alone has the counts. It takes commands first, and all else in the order of arrival."""

    interleaves = True

    def __init__(self) -> None:
        self.counts = work.Counts()

    @operation(priority=work.READING)
    def book(self, verdict: str, archived: bool) -> str:
        self.counts.book_frame()
        return verdict

    @operation(priority=work.READING)
    def reading(self, sensor: str, number: int) -> None:
        work.decode(sensor, number)
        self.counts.book_reading(sensor, number)

    @operation(priority=work.COMMAND)
    def command(self, order: str) -> work.State:
        return self.counts.state()


class Station(Component):
    def setup(self) -> None:
        for each in (Graph(), Inspector(), Inspector(), Archive(), Register()):
            self.add(each)
