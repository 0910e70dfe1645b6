"""Actor, 1-1: the station is one object with one queue and one thread. It serves one request from start to end, then the next.

The simplest code there is: no lock, all in order, and it may block. The price is that a command waits for all that is queued,
and that nothing happens while a picture is archived. The priority of a command moves the whole queue up, and changes no order.
"""

from __future__ import annotations

from appbackplane.runtime import Component, operation

from . import work


class Station(Component):
    """The component itself is the actor."""

    def __init__(self) -> None:
        self.counts = work.Counts()

    @operation(priority=work.FRAME)
    def frame(self, camera: str, number: int) -> str:
        verdict = work.inspect(camera, number)
        self.counts.book_frame()
        work.archive()
        return verdict

    @operation(priority=work.READING)
    def reading(self, sensor: str, number: int) -> None:
        work.decode(sensor, number)
        self.counts.book_reading(sensor, number)

    @operation(priority=work.COMMAND)
    def command(self, order: str) -> work.State:
        return self.counts.state()
