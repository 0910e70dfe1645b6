"""Declaring: the decorators `prop`, `action` and `event`, which make affordances of the methods of a `Thing`.

Properties and actions are operations of the method's name, so callers need no gateway: `client.call("house.level", key=…)`.
The return annotation of a property is its type, bounds included. Writes are checked against the same annotation.
A wrong declaration fails when the class is made, and the error names the method.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, Never, Protocol, TypeVar, cast, overload

import msgspec

from appbackplane.transport.directory import nearest

from ..objects.operation import PRIORITY_DEFAULT, DeclarationError, operation

#: The attribute of a function that holds its `AffordanceMark`.
AFFORDANCE: Final = "__appbackplane_affordance__"

Value = TypeVar("Value", covariant=True)
Setter = TypeVar("Setter", bound=Callable[..., Any])
Method = TypeVar("Method", bound=Callable[..., Any])


class AffordanceMark(msgspec.Struct, kw_only=True):
    """The declaration that a decorator noted on a method. `setter` of a property is filled by its `write`."""

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

    name: in the description and in routes, default the method's. observable: subscribers are told each new value. priority: of
    a read or write, 0 is the highest. unit: such as "percent" or "celsius". title: for people.

    `@brightness.write` decorates the method that sets it: `def set_brightness(self, value: int) -> None`. Without it the
    property is read only. Raises `DeclarationError`.
    """
    _check_options("prop", unknown, prop)

    def declare(function: Callable[[Any], Any]) -> Any:
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
            kind="property", name=name or function.__name__, title=title, unit=unit, is_observable=observable
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
    if len(parameters) != 2:
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

    is_long: its caller may be answered before it has ended (`synchronous: false`). safe: it changes nothing. idempotent: as of
    `operation`. The rest as in `prop`. Raises `DeclarationError`.
    """
    _check_options("action", unknown, action)

    def declare(function: Method) -> Method:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise DeclarationError(
                f"action {function.__qualname__} is a generator, and an action has one result: make it an event, or a stream"
                " by @operation"
            )
        mark = AffordanceMark(
            kind="action", name=name or function.__name__, title=title, is_synchronous=not is_long, is_safe=safe,
            is_idempotent=idempotent,
        )  # fmt: skip
        setattr(function, AFFORDANCE, mark)
        return operation(name=mark.name, priority=priority, is_long=is_long, idempotent=idempotent)(function)

    return declare if written is None else declare(written)


@overload
def event(written: Method, /) -> Method: ...
@overload
def event(*, name: str | None = ..., title: str | None = ...) -> Callable[[Method], Method]: ...
def event(
    written: Method | None = None, /, *, name: str | None = None, title: str | None = None, **unknown: Never
) -> Any:
    """Declare an event of a thing: the annotation of the result is the type of its data, and the body is never run.

    `def overheated(self) -> float: ...`, and in an action `self.emit("overheated", 91.5)`. Raises `DeclarationError`.
    """
    _check_options("event", unknown, event)

    def declare(function: Method) -> Method:
        if len(inspect.signature(function).parameters) != 1:
            raise DeclarationError(
                f"event {function.__qualname__}: expected `def {function.__name__}(self) -> TYPE: ...`"
            )

        @functools.wraps(function)
        def refuse(_self: Any) -> Never:
            raise TypeError(f"{function.__qualname__} declares an event: tell it by self.emit({mark.name!r}, DATA)")

        mark = AffordanceMark(kind="event", name=name or function.__name__, title=title)
        setattr(refuse, AFFORDANCE, mark)
        return cast(Method, refuse)

    return declare if written is None else declare(written)


def _check_options(decorator: str, unknown: dict[str, Any], function: Callable[..., Any]) -> None:
    for option in unknown:
        close = nearest(option, list(inspect.signature(function).parameters))
        raise DeclarationError(
            f"@{decorator}({option}=…): no such option" + (f" (did you mean {close!r}?)" if close else "")
        )
