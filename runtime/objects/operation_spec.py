"""Operation specs: the data that calls of a marked method need, derived once a class.

A spec holds the function to run, and a msgspec struct that checks the arguments against the annotations before the object
gets them (binding.py). Separate from the marks (operation.py), because each call reads it and so it is compiled.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, get_args, get_origin

import msgspec

from appbackplane.transport.address import Address
from appbackplane.transport.errors import InvalidArgument

from . import binding
from .actors import of_component
from .batch import batched_hints, serves_one, single_signature
from .binding import Binding
from .hints import hints_of
from .operation import MARK, DeclarationError, Mark
from .streamed_items import ItemConversion, StreamedItems, streamed_parameter

#: The wire format has a bytes type. Without this msgspec would accept any text as base64 for bytes.
_BUILTIN = (bytes, bytearray, memoryview)


class OperationSpec:
    """One marked method, prepared for calls: the function, the check of its arguments, and its declaration."""

    def __init__(self, attribute: str, function: Callable[..., Any], mark: Mark) -> None:
        self.attribute = attribute
        self.mark = mark
        self.name = mark.name or attribute
        self.priority = mark.priority
        self.is_coroutine = inspect.iscoroutinefunction(function)
        #: Whether it is a generator: it sends its items one after the other.
        self.is_stream = inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function)
        if self.is_stream and mark.kind != "operation":
            raise DeclarationError(
                f"{function.__qualname__} is a generator, but nobody reads its items: only operations may be"
            )
        signature = declared = inspect.signature(function)
        parameters, hints = _parameters(function, signature)
        #: Takes the object and a list for each parameter; None: it does not serve batches.
        self.batched: Callable[..., Any] | None = None
        if mark.batch is not None:
            try:
                hints = batched_hints(function, hints)
            except TypeError as error:
                raise DeclarationError(str(error)) from None
            signature = single_signature(function, hints)
        if mark.kind != "settings":
            _check_self(function, declared)
        #: Takes the object and the values that `bind` returns.
        self.function = _by_position(function, parameters)
        if mark.batch is not None:
            self.batched, self.function = self.function, serves_one(self.function, function.__qualname__)
        if mark.actors is not None:
            self.function = of_component(self.function)
        self.signature = _signature(signature)
        #: By name: the annotation, and whether the parameter is required.
        self.parameters: dict[str, tuple[Any, bool]] = {
            p.name: (hints.get(p.name, Any), p.default is p.empty) for p in parameters
        }
        #: The parameter that takes a stream, and what checks and converts a list of items (None: any are in order).
        self.streamed = self._streamed(function, hints) if mark.kind == "operation" else None
        struct, names = _struct(function, parameters, hints), tuple(p.name for p in parameters)

        def convert(arguments: Any) -> tuple[Any, ...]:
            values = msgspec.convert(arguments, struct, builtin_types=_BUILTIN, dec_hook=_convert)
            return tuple([getattr(values, name) for name in names])

        self.binding = Binding(_plain(parameters, hints), convert, self.signature, struct)
        if mark.kind == "timer" and any(p.default is p.empty for p in parameters):
            raise DeclarationError(f"{function.__qualname__} runs on a timer: its parameters need defaults")

    def bind(self, arguments: Mapping[str, Any], route: str) -> tuple[Any, ...]:
        """The positional arguments for the method. Raises `InvalidArgument`, which names the argument."""
        return self.binding.bind(arguments, route)

    def _streamed(
        self, function: Callable[..., Any], hints: dict[str, Any]
    ) -> tuple[str, ItemConversion | None] | None:
        found = streamed_parameter(function.__qualname__, hints, is_async=self.is_coroutine)
        if found is None:
            return None
        if self.is_stream:
            raise DeclarationError(f"{function.__qualname__} is a generator: its items are a stream, so it takes none")
        name, annotation = found
        if annotation is Any:
            return name, None
        many = functools.partial(converted, GenericAlias(list, (annotation,)))
        try:
            many([])
        except TypeError as error:
            raise DeclarationError(f"{function.__qualname__}: an annotation cannot be checked: {error}") from error
        return name, ItemConversion(many, functools.partial(converted, annotation))

    def takes_as(self, other: OperationSpec) -> bool:
        """Whether it takes the same arguments as `other`. A parameter without annotation matches any type."""
        mine, its = self.parameters, other.parameters
        return mine.keys() == its.keys() and all(
            is_required is its[name][1] and (kind == its[name][0] or Any in (kind, its[name][0]))
            for name, (kind, is_required) in mine.items()
        )


def specs_of(cls: type) -> dict[str, OperationSpec]:
    """All marked methods of a class by attribute name, base classes included. Raises `DeclarationError`.

    A method that overrides a marked one without a mark of its own inherits that mark.
    """
    specs: dict[str, OperationSpec] = {}
    by_name: dict[str, str] = {}
    marks = _marked(cls)
    for attribute in sorted(marks):
        mark, function = marks[attribute], inspect.getattr_static(cls, attribute)
        if function is None:
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


def _marked(cls: type) -> dict[str, Mark]:
    """The marks by attribute name. To look each attribute of `dir(cls)` up took ten times as long: 5 ms a class."""
    marks: dict[str, Mark] = {}
    for base in cls.__mro__:
        for attribute, declared in vars(base).items():
            if attribute not in marks:
                mark = _mark_of(declared)
                if mark is not None:
                    marks[attribute] = mark
    return marks


def _mark_of(declared: Any) -> Mark | None:
    for marked in (declared, getattr(declared, "__func__", None), getattr(declared, "fget", None)):
        mark = getattr(marked, MARK, None)
        if isinstance(mark, Mark):
            return mark
    return None


def _parameters(
    function: Callable[..., Any], signature: inspect.Signature
) -> tuple[list[inspect.Parameter], dict[str, Any]]:
    parameters = list(signature.parameters.values())
    if not parameters or parameters.pop(0).kind is inspect.Parameter.KEYWORD_ONLY:
        raise DeclarationError(f"{function.__qualname__} has no `self`: an operation is a method of its object")
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise DeclarationError(
                f"{function.__qualname__}: parameter {parameter.name!r} cannot be passed by name: callers name each argument"
            )
    try:
        return parameters, hints_of(function)
    except NameError as error:
        raise DeclarationError(f"{function.__qualname__}: annotation cannot be resolved: {error}") from error


def _check_self(function: Callable[..., Any], signature: inspect.Signature) -> None:
    first = next(iter(signature.parameters))
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
            fields.append((parameter.name, kind, msgspec.field(default_factory=parameter.default.copy)))
        else:
            fields.append((parameter.name, kind, parameter.default))
    struct = msgspec.defstruct(function.__qualname__, fields, kw_only=True, forbid_unknown_fields=True)
    try:
        msgspec.convert({}, struct)
    except msgspec.ValidationError:
        return struct  # an empty call lacks arguments: the struct itself is usable
    except TypeError as error:
        raise DeclarationError(f"{function.__qualname__}: an annotation cannot be checked: {error}") from error
    return struct


def _plain(parameters: list[inspect.Parameter], hints: dict[str, Any]) -> list[binding.Parameter] | None:
    """All parameters, if each of them is plain; else None."""
    found: list[binding.Parameter] = []
    for each in parameters:
        one = binding.plain(each.name, hints.get(each.name, Any), each.default)
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


def converted(kind: Any, value: Any) -> Any:
    """A received value as one of type `kind`, as arguments are checked. Raises `msgspec.ValidationError`."""
    return msgspec.convert(value, kind, builtin_types=_BUILTIN, dec_hook=_convert)


def _convert(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    if kind is Address and isinstance(value, str):
        try:
            return Address(value)
        except InvalidArgument as error:
            raise TypeError(f"Expected an address: {error.message}") from None
    if isinstance(value, kind):
        return value
    if kind is StreamedItems:
        raise TypeError("Expected a stream, as in rows=stream(rows)")
    raise TypeError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")


def _signature(signature: inspect.Signature) -> str:
    """As it is shown in errors: without `self`, quotes, and the bounds of an annotation, which the error says itself."""
    parameters = [
        each.replace(annotation=get_args(each.annotation)[0]) if get_origin(each.annotation) is Annotated else each
        for each in signature.parameters.values()
    ]
    text = str(signature.replace(parameters=parameters))
    text = re.sub(r"^\(self(, )?", "(", text)
    return text.replace("'", "").replace('"', "")  # quotes around string annotations and around names in a Literal
