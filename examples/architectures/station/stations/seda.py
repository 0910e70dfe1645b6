"""SEDA, staged events: intake, inspection, archive. Each stage has a bounded queue and threads of its own, here a process, too.

A full stage refuses, so no queue grows, and accepted requests are served soon. Stages share nothing: no lock. The intake serves
the commands, and never inspects anything itself.
"""

from __future__ import annotations

from appbackplane.runtime import AppObject, Component, operation

from . import work


class Intake(AppObject):
    """The first stage: it passes frames on, and books what comes back."""

    interleaves = True

    def __init__(self) -> None:
        self.counts = work.Counts()

    @operation(priority=work.COMMAND + 1)  # to pass a frame on is little work, and a full queue makes room for it
    async def frame(self, camera: str, number: int) -> str:
        verdict: str = await self.call("inspection.inspect", camera=camera, number=number, retry=False)
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
    max_requests = 1_000

    def setup(self) -> None:
        self.add(Intake())


class Inspection(Component):
    """The second stage: 20 frames are queued, and those that come then are refused."""

    max_requests = 20

    @operation(priority=work.FRAME)
    def inspect(self, camera: str, number: int) -> str:
        verdict = work.inspect(camera, number)
        self.cast("archive.keep", camera=camera, number=number)
        return verdict


class Archive(Component):
    """The third: its threads block."""

    max_requests = 100

    def setup(self) -> None:
        for _ in range(4):
            self.add(Shelf())


class Shelf(AppObject):
    @operation(priority=work.FRAME)
    def keep(self, camera: str, number: int) -> None:
        work.archive()
