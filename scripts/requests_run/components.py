"""The kernel under load, its runnables, and who posts the roots. Each execution writes down what it does (records.py).

What is to be checked is checked where it is known: an owner knows how many it has posted and how many have rejoined, so it sees
at once whether one rejoins twice, with the wrong result, or whether NONE_EXIST is said while one exists.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

import msgspec

from appbackplane.runtime import AppObject, operation, pause
from appbackplane.runtime.requests import Context, Element, Rejoin, RequestKernel, Runnable

from .plan import Fate, below, fate_of, is_async, name_of, result_of
from .records import SEED, write

#: Roots outstanding at a time.
WINDOW = 24
#: Between two looks whether the last root may be posted.
HELD_LOOK_S = 0.05


class Failed(Exception):
    """As it was to be."""


class Children:
    """What an owner has posted, and what of it has rejoined."""

    def __init__(self, name: str, paths: Iterable[list[int]]) -> None:
        self.name = name
        self.outstanding = {name_of(path) for path in paths}
        self.rejoined = self.good = self.failed = self.lost = 0

    def post(self, path: list[int]) -> None:
        self.outstanding.add(name_of(path))

    def take(self, found: Rejoin, element: Element | None) -> bool:
        """What `rejoin` has given; False: nothing exists any more."""
        if found is Rejoin.NONE_EXIST:
            if self.outstanding:
                write(f"V {self.name}: NONE_EXIST while {len(self.outstanding)} exist, {min(self.outstanding)} for one")
            return False
        if found is Rejoin.RETURNED:
            assert element is not None
            self._take(element)
        return True

    def _take(self, element: Element) -> None:
        path = element.request
        name = name_of(path)
        if name not in self.outstanding:
            write(f"V {self.name}: {name} rejoined, and was not outstanding: twice, or another's")
            return
        self.outstanding.remove(name)
        self.rejoined += 1
        fate = fate_of(seed(), path)
        is_to_be_good = fate in (Fate.GOOD, Fate.LEAVES_EARLY)
        if element.error is None:
            self.good += 1
            if not is_to_be_good or element.result != result_of(path):
                write(f"V {self.name}: {name} ({fate}) rejoined with {element.result!r}")
        elif element.is_lost:
            self.lost += 1
        else:
            self.failed += 1
            expected = "Failed: " if fate in (Fate.RAISES, Fate.RAISES_EARLY) else "SystemExit: "
            if is_to_be_good or not element.error.startswith(expected):
                write(f"V {self.name}: {name} ({fate}) rejoined with {element.error!r}")

    def close(self) -> None:
        """Nothing of it exists any more."""
        write(f"O {self.name} {self.rejoined} {self.good} {self.failed} {self.lost}")


def seed() -> int:
    return int(os.environ[SEED])


def runnable_of(path: list[int]) -> type[Runnable]:
    if len(path) == 3:
        return Chunk
    return AsyncFile if is_async(path) else File if len(path) == 2 else Root


def end(path: list[int]) -> int:
    fate = fate_of(seed(), path)
    write(f"E {name_of(path)}")
    if fate in (Fate.RAISES, Fate.RAISES_EARLY):
        raise Failed(f"{name_of(path)} {fate}")
    if fate is Fate.EXITS:
        sys.exit(f"{name_of(path)} {fate}")
    return result_of(path)


def split(path: list[int], kernel: Context) -> Children:
    """The paths below it are about to be posted."""
    name = name_of(path)
    write(f"B {name}")
    paths = list(below(path))
    write(f"P {name} {len(paths)}")
    return Children(name, paths)


class Root(Runnable):
    """A feeder."""

    def execute(self, request: list[int], kernel: Context) -> int:
        children = split(request, kernel)
        for path in below(request):
            kernel.post(path, runnable_of(path), lane=2, priority=90)
            children.take(*_not_none(kernel, children))
        if fate_of(seed(), request) in (Fate.RAISES_EARLY, Fate.LEAVES_EARLY):
            return end(request)
        while children.take(*kernel.rejoin(wait=True)):
            pass
        children.close()
        return end(request)


def _not_none(kernel: Context, children: Children) -> tuple[Rejoin, Element | None]:
    """Ask without waiting, amid posting: some of it may have come already; that none exists can only be if all has."""
    found, element = kernel.rejoin()
    return (Rejoin.NONE_READY, None) if found is Rejoin.NONE_EXIST else (found, element)


class File(Runnable):
    """A transaction."""

    def execute(self, request: list[int], kernel: Context) -> int:
        children = split(request, kernel)
        kernel.post_all(below(request), Chunk, priority=80)
        if fate_of(seed(), request) in (Fate.RAISES_EARLY, Fate.LEAVES_EARLY):
            return end(request)
        while children.take(*kernel.rejoin(wait=request[1] % 4 == 0)):
            if request[1] % 4:
                children.take(*kernel.rejoin(wait=True))
                if not children.outstanding:
                    break
        children.close()
        return end(request)


class AsyncFile(Runnable):
    """The same, waiting in a coroutine."""

    async def execute(self, request: list[int], kernel: Context) -> int:
        children = split(request, kernel)
        await kernel.apost_all(below(request), Chunk, priority=80)
        if fate_of(seed(), request) in (Fate.RAISES_EARLY, Fate.LEAVES_EARLY):
            return end(request)
        while children.take(*await kernel.arejoin(wait=True)):
            pass
        children.close()
        return end(request)


class Chunk(Runnable):
    """A part of one."""

    def execute(self, request: list[int], kernel: Context) -> int:
        write(f"B {name_of(request)}")
        return end(request)


class Feeder(AppObject):
    """Posts the roots, as many as there are to be outstanding."""

    def __init__(self, kernel: Load) -> None:
        self._kernel = kernel

    @operation(priority=3, is_long=True)
    async def feed(self, roots: int, is_last_held: bool = False) -> int:
        """All of them; how many have rejoined. `is_last_held`: the last one not before `release`."""
        kernel = self._kernel.kernel
        children = Children("all", ())
        write(f"P all {roots}")
        posted = 0
        while posted < roots or children.outstanding:
            free = roots - (is_last_held and not self._kernel.is_released)
            if posted >= free and not children.outstanding and free < roots:
                await pause(HELD_LOOK_S)
                continue
            while posted < free and len(children.outstanding) < WINDOW:
                children.post([posted])
                await kernel.apost([posted], Root, owner="roots", lane=1)
                posted += 1
            if not children.take(*await kernel.arejoin("roots", wait=True)):
                break
        found, _ = kernel.rejoin("roots")
        if found is not Rejoin.NONE_EXIST:
            write(f"V all: all have rejoined, and there is one more: {found}")
        children.close()
        return children.rejoined


class Load(RequestKernel):
    runnables = (Root, File, AsyncFile, Chunk)
    is_released = False

    def setup(self) -> None:
        self.add(Feeder(self), key="feeder")

    @operation(priority=1)
    def release(self) -> None:
        """The last root may be posted."""
        self.is_released = True

    @operation(priority=2)
    def told(self) -> dict[str, Any]:
        figures: dict[str, Any] = msgspec.to_builtins(self.figures())
        return figures
