"""Registrations that are right: no checker has anything to say about them."""

from __future__ import annotations

from appbackplane.runtime.dispatcher import (
    Accessor,
    DataProtector,
    Dispatcher,
    Message,
    Registrations,
    SelectiveAccessor,
    SelectiveProtector,
    message,
)

from . import house
from .house import by_number, hub, journal, kitchen, limits, outlet, room, rooms

hub.register(house.hear)
hub.register(house.ask)
hub.register(house.note, room)
hub.register(house.note, rooms)
hub.register(house.note, kitchen)
hub.register(house.enter, room, journal)
hub.register(house.look, room, limits)
hub.register(house.carry, rooms.by("source"), rooms.by("target"))
hub.register(house.carry, rooms.by(house.source_of), rooms.by(lambda message: str(message.target)))
hub.register(house.tell, outlet)
hub.register(house.perhaps, room)
hub.register(house.reach, room.accessor)
hub.register(house.reach, kitchen.accessor)
hub.register(house.look_up, room.accessor)
hub.register(house.reach_any, rooms.accessor)
hub.register(
    house.twelve, room, journal, limits, room, journal, limits, room, journal, limits, kitchen, journal, limits
)  # fmt: skip


class Plant(Dispatcher):
    def __init__(self) -> None:
        self.made = SelectiveProtector(made, by="number")
        self.named = SelectiveProtector[str, house.Room](lambda name: house.Room())

    def setup(self) -> None:
        self.register(house.note, self.named)
        self.register(numbered, self.made)
        self.register(with_default, room)
        self.register(change, self.registrations)


@message(category=990, id=3, priority=1, rate=10.0, topic="numbers", name="number")
class Numbered(Message):
    number: int


def made(number: int) -> house.Room:
    return house.Room()


def numbered(message: Numbered, room: house.Room) -> None: ...


def with_default(message: Numbered, room: house.Room, factor: float = 1.0) -> None: ...


def change(message: Numbered, registrations: Registrations) -> None:
    registrations.register(house.enter, room, journal)
    registrations.unregister(house.enter)


def in_a_test() -> None:
    """Handlers are plain functions, accessors can be had of plain data."""
    own, reading = house.Room(), house.Reading("hall", 21.0)
    house.note(reading, own)
    house.look(reading, own, house.Limits())
    house.reach(reading, Accessor.of(own))
    house.reach_any(house.Move("hall", "attic"), SelectiveAccessor.of({"hall": own}))


DataProtector[house.Room](house.Kitchen(), order=3, name="stove")
SelectiveProtector({"a": house.Room()}, by=house.source_of, keys_max=10)
by_number.by("number")
hub.dispatch(house.Reading("hall", 21.0), priority=0)
