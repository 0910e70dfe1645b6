"""Registrations that are wrong, each in a line of its own: every line with a mark is refused, and no other."""

from __future__ import annotations

from appbackplane.runtime.dispatcher import Accessor, DataProtector, Registrations, SelectiveProtector, message

from . import house
from .house import by_number, hub, journal, limits, outlet, room, rooms


def of_int(message: int, room: house.Room) -> None: ...


def of_room(room: house.Room) -> None: ...


def nothing() -> None: ...


def of_kitchen(message: house.Reading, kitchen: house.Kitchen) -> None: ...


def keyword(message: house.Reading, *, room: house.Room) -> None: ...


def number_of(message: house.Move) -> int:
    return len(message.source)


def two_of(message: house.Move, also: str) -> str:
    return message.source + also


class Plain:
    pass


hub.register(house.note, journal)  # wrong: another datum
hub.register(house.enter, journal, room)  # wrong: swapped data
hub.register(house.note)  # wrong: a datum is missing
hub.register(house.enter, room)  # wrong: the second datum is missing
hub.register(house.note, room, journal)  # wrong: a datum too many
hub.register(house.hear, room)  # wrong: a datum for a handler that has none
hub.register(of_int, room)  # wrong: the first parameter is no message
hub.register(of_room)  # wrong: the first parameter is a datum
hub.register(nothing)  # wrong: no parameters
hub.register(of_kitchen, room)  # wrong: a base class where a derived one is wanted
hub.register(keyword, room)  # wrong: a datum by keyword
hub.register(house.note, house.Room())  # wrong: a datum without a protector
hub.register(house.note, house.Room)  # wrong: a class
hub.register(house.note, DataProtector(house.Room))  # wrong: a protected class
hub.register(house.note, None)  # wrong: None
hub.register(house.look, limits, room)  # wrong: swapped data that are only read
hub.register(house.carry, rooms.by("source"), journal)  # wrong: another datum beside a choice
hub.register(house.tell, room)  # wrong: a datum where an active object is wanted
hub.register(house.note, outlet)  # wrong: an active object where a datum is wanted
hub.register(house.reach, room)  # wrong: a datum where an accessor is wanted
hub.register(house.note, room.accessor)  # wrong: an accessor where a datum is wanted
hub.register(house.reach, journal.accessor)  # wrong: an accessor of another datum
hub.register(house.reach_any, room.accessor)  # wrong: an accessor of one where that of many is wanted
hub.register(house.reach_any, by_number.accessor)  # wrong: an accessor of other keys
hub.register(room, house.note)  # wrong: the protector first
hub.register("note", room)  # wrong: a name
r, j, n = room, journal, limits
hub.register(house.twelve, r, j, n, r, j, n, r, j, n, r, j, r)  # wrong: the twelfth
hub.register(house.twelve, r, j, n, r, j, n, r, j, n, r, j)  # wrong: eleven of twelve

rooms.by(number_of)  # wrong: a selector of other keys
rooms.by(two_of)  # wrong: a selector that takes more than the message
SelectiveProtector({"hall": house.Room()}, by=number_of)  # wrong: keys of another type
SelectiveProtector([house.Room()])  # wrong: a list
SelectiveProtector[str, house.Room](lambda: house.Room())  # wrong: made without the key
DataProtector[house.Journal](house.Room())  # wrong: said to be another
DataProtector(house.Room(), order="first")  # wrong: an order that is no number
SelectiveProtector({"hall": house.Room()}, keys_max="many")  # wrong: a number that is none

_ = room.celsius  # wrong: a datum's attribute
room.celsius = 3.0  # wrong: a datum's attribute is set
room.lock()  # wrong: a protector is locked
_ = rooms["hall"]  # wrong: a datum by its key
with room as inside:  # wrong: a protector as a context
    pass
house.enter(house.Reading("hall", 1.0), room, house.Journal())  # wrong: a protector as an argument


def reach(message: house.Reading, room: Accessor[house.Room]) -> None:
    room.celsius = 2.0  # wrong: an accessor that is not locked
    with room.lock() as found:
        found.write("")  # wrong: what is not of the datum


def assign(message: house.Reading) -> None:
    message.celsius = 1.0  # wrong: a message is changed


def change(message: house.Reading, registrations: Registrations) -> None:
    registrations.register(house.enter, journal, room)  # wrong: swapped data, while it runs


hub.dispatch(42)  # wrong: no message is dispatched
hub.dispatch(house.Reading)  # wrong: a class is dispatched
house.Reading("hall", "warm")  # wrong: a field of another type
house.Reading("hall")  # wrong: a field is missing
message(category="9", id=1)  # wrong: a category that is no number
message(category=9)  # wrong: no id
message(category=9, id=1)(Plain)  # wrong: not derived from Message
