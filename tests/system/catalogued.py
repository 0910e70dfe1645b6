"""Rooms that come and go, for test_directory.py."""

from __future__ import annotations

from appbackplane.runtime import AppObject, Component, operation
from appbackplane.runtime.things import Thing, prop


class Room(Thing):
    """A room with a thermometer."""

    types = ("brick:Room",)

    def __init__(self, place: str = "") -> None:
        self.degrees = 20.0
        self.place = place

    @prop(observable=True, unit="celsius")
    def temperature(self) -> float:
        return self.degrees

    @temperature.write
    def set_temperature(self, value: float) -> None:
        self.degrees = value


class Porter(AppObject):
    """Adds and removes rooms."""

    @operation()
    def furnish(self, name: str) -> None:
        assert self._component is not None
        self._component.add(Room(), key=name)

    @operation()
    def move(self, name: str, place: str) -> None:
        assert self._component is not None
        for each in self._component.objects:
            if isinstance(each, Room) and each.key == name:
                each.place = place

    @operation()
    def clear(self, name: str) -> None:
        assert self._component is not None
        for each in self._component.objects:
            if each.key == name:
                self._component.remove(each)


class Rooms(Component):
    def setup(self) -> None:
        self.add(Porter())
        self.add(Room("ground floor, hall"), key="urn:dev:room-1")
        self.add(Room("first floor"), key="urn:dev:room-2")
