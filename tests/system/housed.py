"""Things of a house, for test_things.py."""

from __future__ import annotations

from itertools import count
from typing import Annotated

import msgspec

from appbackplane.runtime import AppObject, Component, Replies, current, operation
from appbackplane.runtime.things import Thing, action, event, prop


class Lamp(Thing):
    """A lamp."""

    types = ("saref:LightSwitch",)

    def __init__(self) -> None:
        self.level, self.picture_bytes = 7, b"\x00\xff"

    @prop(observable=True, priority=0, unit="percent")
    def brightness(self) -> Annotated[int, msgspec.Meta(ge=0, le=100)]:
        return self.level

    @brightness.write
    def set_brightness(self, value: int) -> None:
        self.level = value

    @prop
    def picture(self) -> bytes:
        return self.picture_bytes

    @picture.write
    def set_picture(self, value: bytes) -> None:
        self.picture_bytes = value

    @prop
    def user(self) -> str:
        """Who reads it."""
        return f"{current().principal} by {current().source}"

    @action
    async def hold(self, seconds: float) -> str:
        """Wait for a release that comes from another object."""
        await self.call("gates.wait", timeout=seconds)
        return "held"

    @action(safe=True)
    def double(self, number: int) -> int:
        return 2 * number

    @prop
    def range(self) -> tuple[int, str] | None:
        return (1, "step")

    @action
    def burst(self, count: int) -> None:
        for number in range(count):
            self.overheated.emit(float(number))

    @action(is_long=True)
    async def fade(self, to: int) -> int:
        await self.call("gates.wait")
        self.level = to
        return to

    overheated = event(float)


class Gate(AppObject):
    """Its `wait` ends with the next `release`."""

    interleaves = True

    def __init__(self) -> None:
        self.replies = Replies(self)
        self.numbers = count()

    @operation()
    async def wait(self) -> None:
        await self.replies.wait(next(self.numbers), timeout=600.0)

    @operation(priority=0)
    def release(self) -> int:
        """How many waited."""
        waiting = list(self.replies)
        for number in waiting:
            self.replies.put(number)
        return len(waiting)

    @operation(priority=0)
    def waiting(self) -> int:
        return len(self.replies)


class Gates(Component):
    def setup(self) -> None:
        self.add(Gate())


class House(Component):
    def setup(self) -> None:
        self.add(Lamp(), key="urn:dev:lamp-1")
        self.add(Lamp(), key="hall/2")
