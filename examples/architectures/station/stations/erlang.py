"""As in Erlang: a light process for each camera and each sensor, spawned when it is first heard of; they share nothing.

No lock, order from each sender to each receiver, and one slow camera holds up no other. All processes take turns, so nothing
starves. Nothing is urgent either: a command waits for its turn, and longer the more others have something to do.
"""

from __future__ import annotations

from appbackplane.runtime import Address, AppObject, Component, operation, pause

from . import work


class Camera(AppObject):
    @operation(priority=work.ALIKE)
    async def look(self, camera: str, number: int) -> str:
        verdict = work.inspect(camera, number)
        self.cast("station.book_frame")
        await pause(work.ARCHIVE_S)
        return verdict


class Sensor(AppObject):
    @operation(priority=work.ALIKE)
    def take(self, sensor: str, number: int) -> None:
        work.decode(sensor, number)
        self.cast("station.book_reading", sensor=sensor, number=number)


class Register(AppObject):
    """A process that everybody knows by its name: it has the counts, and answers operators."""

    def __init__(self) -> None:
        self.counts = work.Counts()

    @operation(priority=work.ALIKE)
    def book_frame(self) -> None:
        self.counts.book_frame()

    @operation(priority=work.ALIKE)
    def book_reading(self, sensor: str, number: int) -> None:
        self.counts.book_reading(sensor, number)

    @operation(priority=work.ALIKE)
    def command(self, order: str) -> work.State:
        return self.counts.state()


class Gate(AppObject):
    """The other process with a name: it spawns one for each new camera and sensor, and passes messages on."""

    interleaves = True

    def __init__(self) -> None:
        self.addresses: dict[str, Address] = {}

    def address(self, name: str, kind: type[Camera | Sensor]) -> Address:
        if name not in self.addresses:
            self.addresses[name] = self.spawn(kind())
        return self.addresses[name]

    @operation(priority=work.ALIKE)
    async def frame(self, camera: str, number: int) -> str:
        verdict: str = await self.call(self.address(camera, Camera).to("look"), camera=camera, number=number)
        return verdict

    @operation(priority=work.ALIKE)
    def reading(self, sensor: str, number: int) -> None:
        self.cast(self.address(sensor, Sensor).to("take"), sensor=sensor, number=number)


class Station(Component):
    declares = (Camera, Sensor)

    def setup(self) -> None:
        self.add(Gate())
        self.add(Register())
