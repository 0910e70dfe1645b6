"""Affordances: the interactions that a class of things offers, derived from its declarations (W3C TD 1.1, section 5.3.1)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, get_type_hints

import msgspec

from ..objects.hints import hints_of
from ..objects.operation import DeclarationError
from .declaring import AFFORDANCE, AffordanceMark
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
        if mark.kind == "property":
            found.properties[mark.name] = _property(mark, function, hints, where, description)
        elif mark.kind == "action":
            found.actions[mark.name] = _action(mark, function, hints, where, description)
        else:
            found.events[mark.name] = _event(mark, hints, where, description)
    return found


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


def share_type(getter: Callable[..., Any], setter: Callable[..., Any]) -> None:
    """Give the parameter of a setter the annotation of its property, with its bounds, so that a write is checked against it.

    Raises `DeclarationError` if the setter names another type, or the property names none.
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
                f"{setter.__qualname__} takes {inspect.formatannotation(written)}, and the property is"
                f" {inspect.formatannotation(kind)}: both have the same type"
            )
    setter.__annotations__[parameter] = read


def _property(
    mark: AffordanceMark, function: Callable[..., Any], hints: dict[str, Any], where: str, description: str | None
) -> PropertyAffordance:
    if "return" not in hints:
        raise DeclarationError(f"{where}: name its type: def {function.__name__}(self) -> TYPE")
    if hints["return"] in (None, NoneType):
        raise DeclarationError(f"{where}: a property has a value: def {function.__name__}(self) -> TYPE")
    return PropertyAffordance(
        name=mark.name,
        schema=schema_of(hints["return"], where),
        read=function,
        setter=None if mark.setter is None else mark.setter.__name__,
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
            fields[each.name]["default"] = msgspec.to_builtins(each.default)
    required = [each.name for each in parameters if each.default is each.empty]
    return {"type": "object", "properties": fields} | ({"required": required} if required else {})


def _event(mark: AffordanceMark, hints: dict[str, Any], where: str, description: str | None) -> EventAffordance:
    if "return" not in hints:
        raise DeclarationError(f"{where}: name the type of its data: `-> TYPE`, or `-> None`")
    kind = NoneType if hints["return"] is None else hints["return"]
    data = None if kind is NoneType else schema_of(kind, where)
    return EventAffordance(name=mark.name, kind=kind, data=data, title=mark.title, description=description)
