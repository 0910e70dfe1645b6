"""What the cases have in common: messages, data, protectors, and handlers that are in order."""

from __future__ import annotations

from typing import Annotated

from appbackplane.runtime.dispatcher import (
    READ,
    Accessor,
    ActiveObject,
    DataProtector,
    Dispatcher,
    Message,
    Read,
    SelectiveAccessor,
    SelectiveProtector,
    message,
)


@message(category=990, id=1, key="room")
class Reading(Message):
    room: str
    celsius: float


@message(category=990, id=2)
class Move(Message):
    source: str
    target: str


class Room:
    celsius = 0.0


class Kitchen(Room):
    is_stove_on = False


class Journal:
    def write(self, line: str) -> None: ...


class Limits:
    celsius_max = 30.0


class Outlet(ActiveObject):
    def tell(self, line: str) -> None: ...


class Hub(Dispatcher): ...


hub = Hub()
room = DataProtector(Room())
kitchen = DataProtector(Kitchen())
journal = DataProtector(Journal())
limits = DataProtector(Limits())
rooms = SelectiveProtector({"hall": Room(), "attic": Room()})
by_number = SelectiveProtector({1: Room()})
outlet = Outlet()


def hear(message: Reading) -> None: ...


def ask(message: Reading) -> float:
    return message.celsius


def note(message: Reading, room: Room) -> None: ...


def enter(message: Reading, room: Room, journal: Journal) -> None: ...


def look(message: Reading, room: Read[Room], limits: Annotated[Limits, READ]) -> None: ...


def carry(message: Move, source: Room, target: Room) -> None: ...


def tell(message: Reading, outlet: Outlet) -> None: ...


def perhaps(message: Reading, room: Room | None) -> None: ...


def reach(message: Reading, room: Accessor[Room]) -> None:
    with room.lock() as found:
        found.celsius = message.celsius


def reach_any(message: Move, rooms: SelectiveAccessor[str, Room]) -> None:
    with rooms.lock(message.source) as found:
        found.celsius += 1


def look_up(message: Reading, room: Accessor[Read[Room]]) -> None: ...


def source_of(message: Move) -> str:
    return message.source


def twelve(
    message: Reading, a: Room, b: Journal, c: Limits, d: Room, e: Journal, f: Limits, g: Room, h: Journal, i: Limits,
    j: Room, k: Journal, last: Limits,
) -> None: ...  # fmt: skip
