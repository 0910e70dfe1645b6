"""Binding: a map of arguments as it came becomes the positional arguments of a method, checked, or an error that names one.

msgspec checks against the annotations. Most parameters are plain (`str`, `int | None`, `Any`, …), and where a value has
exactly such a type there is nothing to check or convert: looking at its type costs a tenth of asking msgspec.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from appbackplane.transport.errors import InvalidArgument

from . import unfit

#: Values of exactly these types are what they say; msgspec would hand them on as they are.
_PLAIN = (str, int, float, bool, bytes, NoneType, list, dict)
#: Defaults that nobody can change, so that they need no copy.
_FIXED = (str, int, float, bool, bytes, NoneType)
#: Stands for "no default".
_NO_DEFAULT: Any = object()
_ABSENT: Any = object()


class Parameter:
    """One that is plain: its name, the types a value may have as it is (None: any), and its default."""

    __slots__ = ("default", "kinds", "name")

    def __init__(self, name: str, kinds: tuple[Any, ...] | None, default: Any) -> None:
        self.name = name
        self.kinds = kinds
        self.default = default


class Binding:
    """The parameters of one method."""

    __slots__ = ("_convert", "_plain", "_struct", "signature")

    def __init__(
        self, plain: list[Parameter] | None, convert: Callable[[Any], tuple[Any, ...]], signature: str,
        struct: Any = None,
    ) -> None:  # fmt: skip
        """`struct`: what they are converted to, for who explains what does not fit."""
        #: All parameters, in their order, if each of them is plain.
        self._plain = plain
        self._convert = convert
        self._struct = struct
        self.signature = signature

    def bind(self, arguments: Mapping[str, Any], route: str) -> tuple[Any, ...]:  # hot: scripts/bench call_pipelined
        """The arguments as the method takes them. Raises `InvalidArgument` that names the argument."""
        if self._plain is not None and type(arguments) is dict:
            values = self._as_they_are(self._plain, arguments)
            if values is not None:
                return values
        try:
            return self._convert(arguments)
        except msgspec.ValidationError as error:
            raise InvalidArgument(self._explain(error, route)) from None

    def _as_they_are(self, plain: list[Parameter], arguments: dict[str, Any]) -> tuple[Any, ...] | None:
        values: list[Any] = []
        left_count = len(arguments)
        for parameter in plain:
            value = arguments.get(parameter.name, _ABSENT)
            if value is _ABSENT:
                value = parameter.default
                if value is _NO_DEFAULT:
                    return None
            else:
                left_count -= 1
                if parameter.kinds is not None and type(value) not in parameter.kinds:
                    return None
            values.append(value)
        return None if left_count else tuple(values)

    def _explain(self, error: msgspec.ValidationError, route: str) -> str:
        message = str(error)
        if found := re.match(r"Object missing required field `([^`]+)`$", message):
            problem = f"missing argument {found[1]!r}"
        elif found := re.match(r"Object contains unknown field `([^`]+)`$", message):
            problem = f"unknown argument {found[1]!r}"
        elif found := re.match(r"(.*) - at `\$\.(.+)`$", message):
            problem = f"argument {found[2]!r}: {found[1][0].lower()}{found[1][1:]}"
            if hint := unfit.hint(found[1], found[2], self._struct):
                problem += f" ({hint})" if hint.endswith("?") else f": {hint}"
                if re.search(r"\W", found[2]) or not hint.startswith("expected '"):
                    return f"{route}: {problem}"  # within an argument, of which the signature says nothing
            elif unfit.says_itself(error, found[2], self._struct):
                return f"{route}: {problem}"
        else:
            problem = message
        return f"{route}: {problem}; expected {self.signature}"


def plain(name: str, annotation: Any, default: Any = _NO_DEFAULT) -> Parameter | None:
    """A parameter, if it is plain; None if only msgspec knows what to do with it."""
    if default is not _NO_DEFAULT and type(default) not in _FIXED:
        return None
    if annotation is Any:
        return Parameter(name, None, default)
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return Parameter(name, kinds, default) if all(kind in _PLAIN for kind in kinds) else None
