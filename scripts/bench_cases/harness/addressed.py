"""Addressed: components that spawn light objects, and one that is told of their ends, with the time by the host's clock."""

from __future__ import annotations

import time

from appbackplane.runtime import Address, AppObject, Component, EndNotice, operation

from .parts import numbered


class Account(AppObject):
    __slots__ = ("cents",)

    def __init__(self) -> None:
        self.cents = 0

    @operation(export=True)
    def close(self) -> float:
        """End it; when, by the clock that all processes of a host share."""
        self.end_self("closed")
        return time.monotonic()


class Accounts(Component):
    declares = (Account,)

    @operation(export=True)
    def open(self) -> Address:
        return self.spawn(Account())


class Watcher(Component):
    def __init__(self) -> None:
        self.told_s: dict[str, tuple[str, float]] = {}

    @operation()
    def watch(self, target: str) -> None:
        self.monitor(target, self.on_end, priority=0)

    def on_end(self, notice: EndNotice) -> None:
        self.told_s[notice.of] = notice.reason, time.monotonic()

    @operation()
    def told(self, target: str) -> list[object] | None:
        """[reason, when], once it was told."""
        told = self.told_s.get(target)
        return None if told is None else [*told]


COUNT = 8
globals().update(numbered(Accounts, COUNT))


def backplanes(count: int) -> dict[str, str]:
    """So many that have accounts, and one that watches: name to the lines of its table."""
    held = {f"b{n}": f'components = ["{__name__}:Accounts{n}"]' for n in range(count)}
    return {**held, "watch": f'components = ["{__name__}:Watcher"]'}
