"""Declaring: `prop` and `action`, which decorate methods of a `Thing`, and `event`, which declares an attribute.

Properties and actions are operations, so callers need no gateway: `client.call("house.level", key=…)`. The return annotation
of a property is its type, bounds included. Writes are checked against the same annotation. Most wrong declarations raise
`DeclarationError` when the class is made; a priority out of range is refused when the backplane is assembled.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from types import NoneType
from typing import Any, Final, Generic, Never, Protocol, TypeVar, cast, overload

import msgspec

from appbackplane.transport.directory import nearest

from ..objects.operation import PRIORITY_DEFAULT, DeclarationError, operation

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*")
#: The attribute of a function that holds its `AffordanceMark`.
AFFORDANCE: Final = "__appbackplane_affordance__"

Value = TypeVar("Value", covariant=True)
Data = TypeVar("Data")
Setter = TypeVar("Setter", bound=Callable[..., Any])
Method = TypeVar("Method", bound=Callable[..., Any])


class AffordanceMark(msgspec.Struct, kw_only=True):
    """The declaration of a property or action, noted on its method. `PropertyMethod.write` sets `setter`."""

    kind: str
    name: str
    title: str | None = None
    unit: str | None = None
    is_observable: bool = False
    is_synchronous: bool = True
    is_safe: bool = False
    is_idempotent: bool = False
    setter: Callable[..., Any] | None = None


class PropertyMethod(Protocol[Value]):
    """A method that `prop` has decorated: it is called as before, and `write` decorates the method that sets the property."""

    def __get__(self, instance: Any, owner: type | None = None) -> Callable[[], Value]: ...
    def write(self, setter: Setter) -> Setter: ...


@overload
def prop(written: Callable[[Any], Value], /) -> PropertyMethod[Value]: ...
@overload
def prop(
    *,
    name: str | None = ...,
    observable: bool = ...,
    priority: int = ...,
    title: str | None = ...,
    unit: str | None = ...,
) -> Callable[[Callable[[Any], Value]], PropertyMethod[Value]]: ...
def prop(
    written: Callable[[Any], Any] | None = None,
    /,
    *,
    name: str | None = None,
    observable: bool = False,
    priority: int = PRIORITY_DEFAULT,
    title: str | None = None,
    unit: str | None = None,
    **unknown: Never,
) -> Any:
    """Declare a property of a thing: the method returns its value, and the annotation gives its type and bounds.

    name: in routes and in the description, default the method's. observable: subscribers are told each new value. priority: of
    a read or write, 0 is the highest. unit: such as "percent" or "celsius". title: for people.

    `@brightness.write` decorates the method that sets it: `def set_brightness(self, value: int) -> None`. Without it the
    property is read only. Raises `DeclarationError`.
    """
    _check_options("prop", unknown, prop)

    def declare(function: Callable[[Any], Any]) -> Any:
        _expect_function("prop", function)
        where = function.__qualname__
        if len(inspect.signature(function).parameters) != 1:
            raise DeclarationError(f"property {where}: expected `def {function.__name__}(self) -> TYPE`")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise DeclarationError(f"property {where} is a generator: return the value")
        if observable and inspect.iscoroutinefunction(function):
            raise DeclarationError(
                f"property {where} is observable, so it is read after each action: make it `def`, and return a known value"
            )
        mark = AffordanceMark(
            kind="property",
            name=name_of(name, function.__name__, where),
            title=title,
            unit=unit,
            is_observable=observable,
        )
        operation(name=mark.name, priority=priority, idempotent=True)(function)
        setattr(function, AFFORDANCE, mark)

        def write(setter: Setter) -> Setter:
            return _declare_setter(function, mark, setter, priority)

        function.write = write  # type: ignore[attr-defined]
        return function

    return declare if written is None else declare(written)


def _declare_setter(getter: Callable[..., Any], mark: AffordanceMark, setter: Setter, priority: int) -> Setter:
    where = setter.__qualname__
    parameters = list(inspect.signature(setter).parameters)
    if parameters[1:] != ["value"]:
        raise DeclarationError(f"{where}: expected `def {setter.__name__}(self, value: TYPE) -> None`")
    if setter.__name__ == getter.__name__:
        raise DeclarationError(
            f"{where} would replace the method that reads the property: name it set_{setter.__name__}"
        )
    if mark.setter is not None:
        raise DeclarationError(f"{where}: property {mark.name!r} is written by {mark.setter.__name__} already")
    mark.setter = setter
    return operation(priority=priority, idempotent=True)(setter)


@overload
def action(written: Method, /) -> Method: ...
@overload
def action(
    *, name: str | None = ..., priority: int = ..., title: str | None = ..., is_long: bool = ..., safe: bool = ...,
    idempotent: bool = ...,
) -> Callable[[Method], Method]: ...  # fmt: skip
def action(
    written: Method | None = None,
    /,
    *,
    name: str | None = None,
    priority: int = PRIORITY_DEFAULT,
    title: str | None = None,
    is_long: bool = False,
    safe: bool = False,
    idempotent: bool = False,
    **unknown: Never,
) -> Any:
    """Declare an action of a thing: an operation, whose parameters and result are described by their annotations.

    is_long: a gateway answers 201 at once, and tells the result in an ActionStatus (`synchronous: false`). safe: it changes
    nothing. idempotent: as of `operation`. The rest as in `prop`. Raises `DeclarationError`.
    """
    _check_options("action", unknown, action)

    def declare(function: Method) -> Method:
        _expect_function("action", function)
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise DeclarationError(
                f"action {function.__qualname__} is a generator, and an action has one result: make it an event, or a stream"
                " by @operation"
            )
        mark = AffordanceMark(
            kind="action", name=name_of(name, function.__name__, function.__qualname__), title=title,
            is_synchronous=not is_long, is_safe=safe, is_idempotent=idempotent,
        )  # fmt: skip
        setattr(function, AFFORDANCE, mark)
        return operation(name=mark.name, priority=priority, is_long=is_long, idempotent=idempotent)(function)

    return declare if written is None else declare(written)


class Event(Generic[Data]):
    """An event of a thing, as `event` declares it. Of an object of the class: `self.overheated.emit(91.5)`."""

    def __init__(self, kind: Any, name: str | None, title: str | None, description: str | None) -> None:
        self.kind = kind
        self.name = name
        self.title = title
        self.description = description

    def __set_name__(self, owner: type, attribute: str) -> None:
        if self.name is None:
            self.name = attribute

    @overload
    def __get__(self, thing: None, owner: type) -> Event[Data]: ...
    @overload
    def __get__(self, thing: Any, owner: type) -> BoundEvent[Data]: ...
    def __get__(self, thing: Any, owner: type) -> Event[Data] | BoundEvent[Data]:
        return self if thing is None else BoundEvent(self, thing)


class BoundEvent(Generic[Data]):
    """An event of one thing."""

    def __init__(self, event: Event[Data], thing: Any) -> None:
        self._event = event
        self._thing = thing

    def emit(self, data: Data = cast(Any, None)) -> None:  # noqa: B008
        """Publish the event to its subscribers. Raises TypeError for data of another type."""
        self._thing._emit(self._event, data)


@overload
def event(
    kind: type[Data], /, *, name: str | None = ..., title: str | None = ..., description: str | None = ...
) -> Event[Data]: ...
@overload
def event(
    kind: Any = ..., /, *, name: str | None = ..., title: str | None = ..., description: str | None = ...
) -> Event[Any]: ...
def event(
    kind: Any = NoneType, /, *, name: str | None = None, title: str | None = None, description: str | None = None
) -> Event[Any]:
    """Declare an event of a thing in its class: `overheated = event(float)`.

    kind: the type of its data; without it the event has none. name: in the description, default the attribute's. title,
    description: for people.
    """
    return Event(kind, name, title, description)


def name_of(given: object, default: str, where: str) -> str:
    """The name of an affordance, which is a part of paths. Raises `DeclarationError`."""
    name = default if given is None else given
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DeclarationError(f"{where}: name {name!r}: expected letters, digits, and . _ - behind a letter or _")
    return name


def _expect_function(decorator: str, function: object) -> None:
    if not inspect.isfunction(function):
        raise DeclarationError(f"@{decorator} decorates a plain method, not {function!r}")


def _check_options(decorator: str, unknown: dict[str, Any], function: Callable[..., Any]) -> None:
    for option in unknown:
        close = nearest(option, list(inspect.signature(function).parameters))
        raise DeclarationError(
            f"@{decorator}({option}=…): no such option" + (f" (did you mean {close!r}?)" if close else "")
        )
