"""Event loop: one thread, one handler at a time, in the order of arrival. While one handler awaits, others run.

No lock, as no handler is interrupted between two `await`s. No priority either, and a handler that computes holds up all.
"""

from __future__ import annotations

from appbackplane.runtime import AppObject, Component, operation, pause

from . import work


class Loop(AppObject):
    """The handlers. While one awaits, the next one begins."""

    interleaves = True

    def __init__(self) -> None:
        self.counts = work.Counts()

    @operation(priority=work.ALIKE)
    async def frame(self, camera: str, number: int) -> str:
        verdict = work.inspect(camera, number)
        self.counts.book_frame()
        await pause(work.ARCHIVE_S)
        return verdict

    @operation(priority=work.ALIKE)
    def reading(self, sensor: str, number: int) -> None:
        work.decode(sensor, number)
        self.counts.book_reading(sensor, number)

    @operation(priority=work.ALIKE)
    def command(self, order: str) -> work.State:
        return self.counts.state()


class Station(Component):
    def setup(self) -> None:
        self.add(Loop())
