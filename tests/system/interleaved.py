"""An object that interleaves, on several threads, and the archive that it asks."""

from __future__ import annotations

import os

from appbackplane.runtime import AppObject, Component, PeerDown, Replies, operation


class Belt(AppObject):
    interleaves = True

    def __init__(self) -> None:
        self.inside_count = self.most_inside_count = self.done_count = self.lost_count = 0

    @operation(priority=3)
    async def inspect(self, number: int) -> None:
        self.works()
        try:
            await self.call("archive.look", number=number, timeout=300.0, retry=False)
        except PeerDown:
            self.lost_count += 1
        self.works()
        self.done_count += 1

    @operation(priority=0)
    def told(self) -> dict[str, int]:
        return {"done": self.done_count, "lost": self.lost_count, "most_inside": self.most_inside_count}

    def works(self) -> None:
        """So long that another thread would come in, if it could."""
        self.inside_count += 1
        for _ in range(300):
            self.most_inside_count = max(self.most_inside_count, self.inside_count)
        self.inside_count -= 1


class Station(Component):
    def setup(self) -> None:
        self.add(Belt())


class Shelves(AppObject):
    interleaves = True

    def __init__(self) -> None:
        self.replies = Replies(self)

    @operation()
    async def look(self, number: int) -> int:
        await self.replies.wait(number, timeout=300.0)
        return number

    @operation(priority=0)
    def asked_count(self) -> int:
        return len(self.replies)

    @operation(priority=0)
    def answer(self) -> None:
        for number in self.replies:
            self.replies.put(number)

    @operation(priority=0)
    def pid(self) -> int:
        return os.getpid()


class Archive(Component):
    def setup(self) -> None:
        self.add(Shelves())
