"""Handles: things as a mashup names them, `lamp = thing("house", "hall")`, and the triggers of its rules, `lamp.burnt_out`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, overload

from ...objects.app_object import AppObject
from ...objects.operation import DeclarationError
from ...permissions.thing_ids import id_of
from .rule import EVENT, PROPERTY, Trigger


class TriggerSource:
    """Makes triggers of the things with one id, or with ids of one pattern: `lamp.burnt_out`, `lamp.change("brightness")`."""

    def __init__(self, id: str, component: str | None, key: str | None) -> None:
        self._id = id
        self._component = component
        self._key = key

    def event(self, name: str) -> Trigger:
        """The event of this name, whatever the name is. As a rule `lamp.burnt_out` is shorter."""
        return Trigger(self._id, EVENT, name, self._component, self._key)

    def change(self, name: str) -> Trigger:
        """A new value of an observable property. The first value that a mashup hears of is none."""
        return Trigger(self._id, PROPERTY, name, self._component, self._key)

    def __getattr__(self, name: str) -> Trigger:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.event(name)


class ThingHandle(TriggerSource):
    """One thing. In the body of the class it makes triggers; of a mashup's object, it is a `BoundThing`."""

    def __init__(self, component: str, key: str | None) -> None:
        super().__init__(id_of(component, key), component, key)

    @overload
    def __get__(self, mashup: None, owner: type) -> ThingHandle: ...
    @overload
    def __get__(self, mashup: Any, owner: type) -> BoundThing: ...
    def __get__(self, mashup: Any, owner: type) -> ThingHandle | BoundThing:
        return self if mashup is None else BoundThing(mashup, self._component or "", self._key)


class BoundThing:
    """A thing that the rules of a mashup use: `await self.lamp.fade(to=80)`, `await self.lamp.read("brightness")`."""

    def __init__(self, mashup: Any, component: str, key: str | None) -> None:
        self._mashup = mashup
        self._component = component
        self._key = key

    def invoke(self, action: str, /, **input: Any) -> Awaitable[Any]:
        """Invoke an action, whatever its name is. As a rule `self.lamp.fade(to=80)` is shorter."""
        return AppObject.request(self._mashup, f"{self._component}.{action}", input, key=self._key)

    def read(self, name: str) -> Awaitable[Any]:
        """The value of a property."""
        return AppObject.request(self._mashup, f"{self._component}.{name}", {}, key=self._key)

    def write(self, name: str, value: Any) -> Awaitable[None]:
        """Write a property. Raises `FailedPrecondition` if it is read only."""
        written: Awaitable[None] = self._mashup.write_property(self._component, self._key, name, value)
        return written

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name.startswith("_"):
            raise AttributeError(name)

        def invoke(**input: Any) -> Awaitable[Any]:
            return self.invoke(name, **input)

        return invoke


def thing(component: str, key: str | None = None) -> ThingHandle:
    """A thing by its component and key, as a class attribute of a mashup: `lamp = thing("house", "hall")`."""
    if not isinstance(component, str) or not component:
        raise DeclarationError(f"thing({component!r}): expected the name of a component, as in thing('house', 'hall')")
    if key is not None and not isinstance(key, str):
        raise DeclarationError(f"thing({component!r}, {key!r}): expected the key as text")
    return ThingHandle(component, key)


def things(pattern: str) -> TriggerSource:
    """All things whose ids fit a pattern, for triggers: `things("urn:appbackplane:house:*").burnt_out`."""
    if not isinstance(pattern, str) or not pattern:
        raise DeclarationError(f"things({pattern!r}): expected a pattern of ids, as in 'urn:appbackplane:house:*'")
    return TriggerSource(pattern, None, None)
