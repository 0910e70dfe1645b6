"""Operation specs: marked methods as calls need them, made once a class.

What to run, and a msgspec struct that checks the arguments against the annotations before the object sees them
(binding.py). Apart from the marks (operation.py), because each call reads it, so that it is compiled where the package is.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from . import binding
from .binding import Binding
from .hints import hints_of
from .operation import MARK, DeclarationError, Mark

#: The wire has bytes of its own; without this msgspec would take any text for base64 of bytes.
_BUILTIN = (bytes, bytearray, memoryview)


class OperationSpec:
    """One marked method, compiled: what to run, how to check its arguments, what was declared about it."""

    __slots__ = (
        "attribute",
        "binding",
        "function",
        "is_coroutine",
        "mark",
        "name",
        "parameters",
        "priority",
        "signature",
    )

    def __init__(self, attribute: str, function: Callable[..., Any], mark: Mark) -> None:
        self.attribute = attribute
        self.mark = mark
        self.name = mark.name or attribute
        self.priority = mark.priority
        self.is_coroutine = inspect.iscoroutinefunction(function)
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise DeclarationError(f"{function.__qualname__} is a generator: an operation returns one result")
        parameters, hints = _parameters(function)
        if mark.kind != "settings":
            _check_self(function)
        #: Takes the object and what `bind` returns.
        self.function = _by_position(function, parameters)
        self.signature = _signature(function)
        #: By name: what it is to be, and whether it has to be given.
        self.parameters: dict[str, tuple[Any, bool]] = {
            p.name: (hints.get(p.name, Any), p.default is p.empty) for p in parameters
        }
        struct, names = _struct(function, parameters, hints), tuple(p.name for p in parameters)

        def convert(arguments: Any) -> tuple[Any, ...]:
            values = msgspec.convert(arguments, struct, builtin_types=_BUILTIN, dec_hook=_convert)
            return tuple([getattr(values, name) for name in names])

        self.binding = Binding(_plain(parameters, hints), convert, self.signature, struct)
        if mark.kind == "timer" and any(p.default is p.empty for p in parameters):
            raise DeclarationError(f"{function.__qualname__} runs on a timer: its parameters need defaults")

    def bind(self, arguments: Mapping[str, Any], route: str) -> tuple[Any, ...]:
        """The arguments as the method takes them. Raises `InvalidArgument` that names the argument."""
        return self.binding.bind(arguments, route)

    def takes_as(self, other: OperationSpec) -> bool:
        """Whether it takes the arguments that `other` takes. What is not annotated takes anything."""
        mine, its = self.parameters, other.parameters
        return mine.keys() == its.keys() and all(
            is_required is its[name][1] and (kind == its[name][0] or Any in (kind, its[name][0]))
            for name, (kind, is_required) in mine.items()
        )


def specs_of(cls: type) -> dict[str, OperationSpec]:
    """All marked methods of a class by attribute name, base classes included. Raises `DeclarationError`.

    A method that overrides a marked one and has no mark of its own keeps that one's.
    """
    specs: dict[str, OperationSpec] = {}
    by_name: dict[str, str] = {}
    for attribute in dir(cls):
        function = inspect.getattr_static(cls, attribute)
        mark = _mark_of(cls, attribute)
        if mark is None or function is None:
            continue
        if not inspect.isfunction(function):
            raise DeclarationError(f"{cls.__qualname__}.{attribute}: expected a plain method, got {function!r}")
        spec = specs[attribute] = OperationSpec(attribute, function, mark)
        if mark.kind == "operation" and by_name.setdefault(spec.name, attribute) != attribute:
            raise DeclarationError(
                f"{cls.__qualname__}: {by_name[spec.name]} and {attribute} are both the operation {spec.name!r}: "
                "give one another name"
            )
    return specs


def _mark_of(cls: type, attribute: str) -> Mark | None:
    for base in cls.__mro__:
        declared = vars(base).get(attribute)
        for marked in (declared, getattr(declared, "__func__", None), getattr(declared, "fget", None)):
            mark = getattr(marked, MARK, None)
            if isinstance(mark, Mark):
                return mark
    return None


def _parameters(function: Callable[..., Any]) -> tuple[list[inspect.Parameter], dict[str, Any]]:
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters.pop(0).kind is inspect.Parameter.KEYWORD_ONLY:
        raise DeclarationError(f"{function.__qualname__} has no `self`: an operation is a method of its object")
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise DeclarationError(
                f"{function.__qualname__}: parameter {parameter.name!r} has no name a caller could give: name each argument"
            )
    try:
        return parameters, hints_of(function)
    except NameError as error:
        raise DeclarationError(f"{function.__qualname__}: annotation cannot be resolved: {error}") from error


def _check_self(function: Callable[..., Any]) -> None:
    first = next(iter(inspect.signature(function).parameters))
    if first != "self":
        raise DeclarationError(
            f"{function.__qualname__}: the first parameter is {first!r}: it must be self, as of any method"
        )


def _struct(function: Callable[..., Any], parameters: list[inspect.Parameter], hints: dict[str, Any]) -> Any:
    fields: list[Any] = []
    for parameter in parameters:
        kind = hints.get(parameter.name, Any)
        if parameter.default is parameter.empty:
            fields.append((parameter.name, kind))
        elif isinstance(parameter.default, (list, dict, set, bytearray)):
            factory = _copier(parameter.default)
            fields.append((parameter.name, kind, msgspec.field(default_factory=factory)))
        else:
            fields.append((parameter.name, kind, parameter.default))
    struct = msgspec.defstruct(function.__qualname__, fields, kw_only=True, forbid_unknown_fields=True)
    try:
        msgspec.convert({}, struct)
    except msgspec.ValidationError:
        return struct  # arguments are missing, which is what an empty call should say
    except TypeError as error:
        raise DeclarationError(f"{function.__qualname__}: an annotation cannot be checked: {error}") from error
    return struct


def _plain(parameters: list[inspect.Parameter], hints: dict[str, Any]) -> list[binding.Parameter] | None:
    """All of them, if each is plain."""
    found: list[binding.Parameter] = []
    for each in parameters:
        kind = hints.get(each.name, Any)
        one = (
            binding.plain(each.name, kind)
            if each.default is each.empty
            else binding.plain(each.name, kind, each.default)
        )
        if one is None:
            return None
        found.append(one)
    return found


def _by_position(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> Callable[..., Any]:
    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    if not keywords:
        return function
    first = len(parameters) - len(keywords)

    @functools.wraps(function)
    def call(self: Any, *given: Any) -> Any:
        return function(self, *given[:first], **dict(zip(keywords, given[first:], strict=True)))

    return call


def _copier(default: Any) -> Callable[[], Any]:
    return lambda: default.copy()


def _convert(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    if isinstance(value, kind):
        return value
    raise TypeError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")


def _signature(function: Callable[..., Any]) -> str:
    text = str(inspect.signature(function))
    text = re.sub(r"^\(self(, )?", "(", text)
    return text.replace("'", "").replace('"', "")  # of annotations that are text, and of names in a Literal
