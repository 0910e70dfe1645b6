"""Things and mashups of a house, for test_mashups.py."""

from __future__ import annotations

from collections import Counter

from appbackplane.runtime import Component, current, operation
from appbackplane.runtime.things import Thing, action, event, prop
from appbackplane.runtime.things.mashups import Cause, Mashup, thing, when


class Door(Thing):
    """It says who comes, again and again."""

    came = event(dict[str, str])

    @operation()
    def open(self, ids: list[str]) -> None:
        for id in ids:
            self.came.emit({"id": id})


class Bell(Thing):
    """It counts who rings."""

    def __init__(self) -> None:
        self.rings, self.notes = Counter[str](), Counter[str]()

    @action
    def ring(self, id: str) -> None:
        self.rings[f"{current().principal} {id}"] += 1

    @action
    def note(self, id: str) -> None:
        self.notes[f"{current().principal} {id}"] += 1

    @operation()
    def counts(self) -> list[dict[str, int]]:
        return [dict(self.rings), dict(self.notes)]


class Dimmer(Thing):
    def __init__(self) -> None:
        self.value = 0

    @prop(observable=True)
    def level(self) -> int:
        return self.value

    @level.write
    def set_level(self, value: int) -> None:
        self.value = value


class House(Component):
    def setup(self) -> None:
        self.add(Door(), key="door")
        self.add(Bell(), key="bell")
        self.add(Dimmer(), key="left")
        self.add(Dimmer(), key="right")


class Answer(Mashup):
    """Half of a loop, whose other half is in the TOML."""

    left, right = thing("house", "left"), thing("house", "right")

    @when(right.change("level"), mode="queued")
    async def answer(self, event: Cause) -> None:
        await self.left.write("level", event.data + 1)


class Answers(Component):
    def setup(self) -> None:
        self.add(Answer())
