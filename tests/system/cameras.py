"""A dispatcher in shards, and a desk that asks it. Copied beside the TOML, as components.py is."""

from __future__ import annotations

import os
from pathlib import Path

from appbackplane.runtime import Component, every, operation
from appbackplane.runtime.dispatcher import (
    DataProtector,
    Dispatcher,
    Message,
    SelectiveProtector,
    call_message,
    cast_message,
    message,
)
from appbackplane.runtime.execution.workers.clock import RealClock

#: For whatever should take a fraction of a second.
LIMIT_NS = 30_000_000_000


@message(category=971, id=1, key="camera", topic="frames")
class Frame(Message):
    """Something to be seen."""

    camera: int
    number: int


@message(category=971, id=2, key="camera")
class Spin(Message):
    """Compute until the file is there; `begun` is made at the beginning."""

    camera: int
    begun: str
    until: str


@message(category=971, id=3, key="camera")
class Tick(Message):
    """The clock of one shard, for a camera of any."""

    camera: int
    pid: int


@message(category=971, id=4)
class Count(Message):
    """Without a key: asked of one shard, whichever."""


class Camera:
    """What one camera has seen; by which process, and whose clocks it has heard."""

    def __init__(self, number: int) -> None:
        self.seen: list[int] = []
        self.clocks: set[int] = set()


class Counter:
    """What one shard has done."""

    def __init__(self) -> None:
        self.count = 0


def on_frame(frame: Frame, camera: Camera, counter: Counter) -> tuple[int, list[int]]:
    """Who has it, and all it has seen."""
    counter.count += 1
    camera.seen.append(frame.number)
    return os.getpid(), camera.seen


def on_spin(spin: Spin, camera: Camera) -> int:
    """Who has computed. As a handler that never waits does: nobody else of its process does much meanwhile."""
    Path(spin.begun).touch()
    clock, until = RealClock(), Path(spin.until)
    end_ns = clock.now_ns() + LIMIT_NS
    while not until.exists():
        if clock.now_ns() > end_ns:
            raise TimeoutError(f"{until} did not come")
        sum(range(10_000))
    return os.getpid()


def on_tick(tick: Tick, camera: Camera) -> list[int]:
    """Whose clocks this camera has heard."""
    camera.clocks.add(tick.pid)
    return sorted(camera.clocks)


def on_count(count: Count, counter: Counter) -> tuple[int, int]:
    """How many frames this shard has had."""
    return os.getpid(), counter.count


class Cameras(Dispatcher):
    """In shards."""

    sharded = True

    def setup(self) -> None:
        cameras, counter = SelectiveProtector(Camera), DataProtector(Counter(), per_shard=True)
        self.register(on_frame, cameras, counter)
        self.register(on_spin, cameras)
        self.register(on_tick, cameras)
        self.register(on_count, counter)

    @every(0.05)
    def tick(self) -> None:
        """In each shard, for cameras of both."""
        for camera in range(4):
            self.dispatch(Tick(camera, os.getpid()))


class Desk(Component):
    """Sends messages as any object does."""

    @operation()
    async def look(self, camera: int, number: int) -> list[int]:
        """One cast, one call: both arrive, in order."""
        cast_message(self, "cameras", Frame(camera, number))
        _, seen = await call_message(self, "cameras", Frame(camera, number + 1))
        found: list[int] = seen
        return found
