"""Affordances: the interactions that a class of things offers, derived from its declarations (W3C TD 1.1, section 5.3.1)."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Final, get_type_hints

import msgspec

from ..objects.hints import has_bounds, hints_of
from ..objects.operation import DeclarationError
from ..objects.operation_spec import converted
from .declaring import AFFORDANCE, AffordanceMark, Event, name_of
from .schemas import Schema, schema_of


@dataclass(frozen=True, slots=True)
class PropertyAffordance:
    """A value that can be read. `setter`: the operation that writes it; None: it is read only."""

    name: str
    schema: Schema
    read: Callable[[Any], Any]
    setter: str | None
    is_observable: bool
    unit: str | None
    title: str | None
    description: str | None


@dataclass(frozen=True, slots=True)
class ActionAffordance:
    """A function that can be invoked. `input`: the schema of an object with its parameters; None: it has none."""

    name: str
    input: Schema | None
    output: Schema | None
    is_safe: bool
    is_idempotent: bool
    is_synchronous: bool
    title: str | None
    description: str | None


@dataclass(frozen=True, slots=True)
class EventAffordance:
    """A source of messages. `kind`: the type of their data; NoneType: they have none."""

    name: str
    kind: Any
    data: Schema | None
    title: str | None
    description: str | None


#: The event by which streams tell that messages are missing: what they tell of an affordance has its name.
LOST: Final = "lost"


@dataclass(frozen=True, slots=True)
class Affordances:
    """All affordances of a class, by kind and name."""

    properties: dict[str, PropertyAffordance] = field(default_factory=dict)
    actions: dict[str, ActionAffordance] = field(default_factory=dict)
    events: dict[str, EventAffordance] = field(default_factory=dict)


def affordances_of(cls: type) -> Affordances:
    """The affordances of a class, those of its base classes included. Raises `DeclarationError`."""
    found, seen = Affordances(), set[tuple[str, str]]()
    for attribute, mark in marked(cls):
        function, where = inspect.getattr_static(cls, attribute), f"{cls.__qualname__}.{attribute}"
        description = inspect.cleandoc(function.__doc__) if function.__doc__ else None
        try:
            hints = hints_of(function)
        except NameError as error:
            raise DeclarationError(f"{where}: annotation cannot be resolved: {error}") from error
        if (mark.kind, mark.name) in seen:
            raise DeclarationError(f"{where}: the class has another {mark.kind} {mark.name!r}: give one another name")
        seen.add((mark.kind, mark.name))
        if mark.is_observable:
            _expect_streamable(mark.name, where)
        if mark.kind == "property":
            found.properties[mark.name] = _property(cls, mark, function, hints, where, description)
        else:
            found.actions[mark.name] = _action(mark, function, hints, where, description)
    for attribute, event in _events(cls):
        where = f"{cls.__qualname__}.{attribute}"
        name = name_of(event.name, attribute, where)
        if name in found.events:
            raise DeclarationError(f"{where}: the class has another event {name!r}: give one another name")
        _expect_streamable(name, where)
        data = None if event.kind is NoneType else schema_of(event.kind, where)
        found.events[name] = EventAffordance(name, event.kind, data, event.title, event.description)
    return found


def _expect_streamable(name: str, where: str) -> None:
    if name == LOST:
        raise DeclarationError(f"{where}: streams tell by {LOST!r} that messages are missing: give it another name")


def marked(cls: type) -> Iterator[tuple[str, AffordanceMark]]:
    """The marks of a class by attribute, in the order of declaration, those of base classes last."""
    seen: set[str] = set()
    for base in cls.__mro__:
        for attribute, declared in vars(base).items():
            mark = getattr(declared, AFFORDANCE, None)
            if attribute not in seen and isinstance(mark, AffordanceMark):
                seen.add(attribute)
                if inspect.getattr_static(cls, attribute) is not None:
                    yield attribute, mark


def _events(cls: type) -> Iterator[tuple[str, Event[Any]]]:
    seen: set[str] = set()
    for base in cls.__mro__:
        for attribute, declared in vars(base).items():
            if attribute not in seen:
                seen.add(attribute)
                if isinstance(declared, Event):
                    yield attribute, declared


def share_type(getter: Callable[..., Any], setter: Callable[..., Any]) -> None:
    """Replace the annotation of a setter's parameter by that of its property, so that the property's bounds apply to writes.

    Raises `DeclarationError` if the setter has another type or bounds of its own, or if the property has no annotation.
    """
    read = getter.__annotations__.get("return")
    if read is None:
        raise DeclarationError(f"{getter.__qualname__}: name its type: def {getter.__name__}(self) -> TYPE")
    parameter = list(inspect.signature(setter).parameters)[1]
    if parameter in setter.__annotations__:
        try:
            kind, written = get_type_hints(getter)["return"], get_type_hints(setter)[parameter]
        except NameError as error:
            raise DeclarationError(f"{setter.__qualname__}: annotation cannot be resolved: {error}") from error
        if kind != written:
            raise DeclarationError(
                f"{setter.__qualname__} takes {inspect.formatannotation(written)}, but the property is"
                f" {inspect.formatannotation(kind)}: use the same type for both"
            )
        own = get_type_hints(setter, include_extras=True)[parameter]
        if has_bounds(own) and own != get_type_hints(getter, include_extras=True)["return"]:
            raise DeclarationError(
                f"{setter.__qualname__} has bounds of its own: set them in the annotation of the property"
            )
    setter.__annotations__[parameter] = read


def _property(
    cls: type,
    mark: AffordanceMark,
    function: Callable[..., Any],
    hints: dict[str, Any],
    where: str,
    description: str | None,
) -> PropertyAffordance:
    if "return" not in hints:
        raise DeclarationError(f"{where}: name its type: def {function.__name__}(self) -> TYPE")
    if hints["return"] in (None, NoneType):
        raise DeclarationError(f"{where}: a property has a value: def {function.__name__}(self) -> TYPE")
    return PropertyAffordance(
        name=mark.name,
        schema=schema_of(hints["return"], where),
        read=function,
        # A subclass may write a property of its base class: then other subclasses have no such method.
        setter=mark.setter.__name__ if mark.setter is not None and hasattr(cls, mark.setter.__name__) else None,
        is_observable=mark.is_observable,
        unit=mark.unit,
        title=mark.title,
        description=description,
    )


def _action(
    mark: AffordanceMark, function: Callable[..., Any], hints: dict[str, Any], where: str, description: str | None
) -> ActionAffordance:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    result = hints.get("return")
    return ActionAffordance(
        name=mark.name,
        input=_input(parameters, hints, where) if parameters else None,
        output=None if result in (None, NoneType) else schema_of(result, f"{where}, result"),
        is_safe=mark.is_safe,
        is_idempotent=mark.is_idempotent,
        is_synchronous=mark.is_synchronous,
        title=mark.title,
        description=description,
    )


def _input(parameters: list[inspect.Parameter], hints: dict[str, Any], where: str) -> Schema:
    fields: dict[str, Schema] = {}
    for each in parameters:
        place = f"{where}, parameter {each.name!r}"
        if each.name not in hints:
            raise DeclarationError(f"{place}: name its type")
        fields[each.name] = schema_of(hints[each.name], place)
        if each.default is not each.empty:
            fields[each.name]["default"] = _default(hints[each.name], each.default, place)
    required = [each.name for each in parameters if each.default is each.empty]
    return {"type": "object", "properties": fields} | ({"required": required} if required else {})


def _default(kind: Any, default: Any, place: str) -> Any:
    """The default as JSON has it. Raises `DeclarationError` for one that is not of its type."""
    try:
        written = msgspec.to_builtins(default)
        converted(kind, written)
        msgspec.json.encode(written)
        msgspec.msgpack.encode(written)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise DeclarationError(f"{place}: default {default!r}: {error}") from None
    if isinstance(written, float) and not math.isfinite(written):
        raise DeclarationError(f"{place}: default {default!r}: JSON has no such number")
    return written
