"""Binding: turns a received map of arguments into checked positional arguments, or into an error that names the argument.

msgspec checks against the annotations. Most parameters are plain (`str`, `int | None`, `Any`, …). A value of exactly such
a type needs no check or conversion, and comparing its type costs a tenth of a call to msgspec.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from appbackplane.transport.errors import InvalidArgument

from . import unfit

#: Values of exactly these types need no conversion: msgspec would return them unchanged.
_PLAIN = (str, int, float, bool, bytes, NoneType, list, dict)
#: Types of immutable defaults, which need no copy.
_FIXED = (str, int, float, bool, bytes, NoneType)
#: Marks a parameter without a default.
_NO_DEFAULT: Any = inspect.Parameter.empty
_ABSENT: Any = object()


class Parameter:
    """A plain parameter: its name, the types of values that need no conversion (None: any type), and its default."""

    __slots__ = ("default", "kinds", "name")

    def __init__(self, name: str, kinds: tuple[Any, ...] | None, default: Any) -> None:
        self.name = name
        self.kinds = kinds
        self.default = default


class Binding:
    """The parameters of one method. Values of plain types bypass msgspec."""

    __slots__ = ("_convert", "_plain", "_struct", "signature")

    def __init__(
        self, plain: list[Parameter] | None, convert: Callable[[Any], tuple[Any, ...]], signature: str,
        struct: Any = None,
    ) -> None:  # fmt: skip
        """`struct`: the msgspec struct that the arguments are converted to; used to explain errors."""
        #: All parameters, in their order, if each of them is plain; else None.
        self._plain = plain
        self._convert = convert
        self._struct = struct
        self.signature = signature

    def bind(self, arguments: Mapping[str, Any], route: str) -> tuple[Any, ...]:  # hot: scripts/bench call_pipelined
        """The positional arguments for the method. Raises `InvalidArgument`, which names the argument."""
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
                    return f"{route}: {problem}"  # inside an argument, so the signature would not help
            elif unfit.says_itself(error, found[2], self._struct):
                return f"{route}: {problem}"
        else:
            problem = message
        return f"{route}: {problem}; expected {self.signature}"


def plain(name: str, annotation: Any, default: Any = _NO_DEFAULT) -> Parameter | None:
    """The parameter as a plain one; None if its values need msgspec. `default`: as of `inspect.Parameter`."""
    if default is not _NO_DEFAULT and type(default) not in _FIXED:
        return None
    if annotation is Any:
        return Parameter(name, None, default)
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return Parameter(name, kinds, default) if all(kind in _PLAIN for kind in kinds) else None
