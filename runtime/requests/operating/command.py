"""Command: a method of a command handler that operates the kernel, and the parsing of lines for it.

`workers 4`, `lanes on 0 20 20`, `settings workers=4 ready=500`: words go to the parameters in their order, and `name=value` to
the parameter of that name. Arguments of a call are checked the same way, against the annotations. The first parameter that a
word fits takes it, so `lanes 0 20 20` means the percents. A handler's class is inspected once.
"""

from __future__ import annotations

import functools
import inspect
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints, overload

import msgspec

from appbackplane.transport.directory import nearest
from appbackplane.transport.errors import InvalidArgument, NotFound

from ...objects.operation import DeclarationError, Mark
from ...objects.operation_spec import OperationSpec
from .schedule import EVERY_MAX_S, When, when_of

#: Attribute of a function that has its mark.
COMMAND: Final = "__appbackplane_command__"
#: Characters of a line, at most: several times what a person types. A longer one is a file sent by mistake.
LINE_LENGTH_MAX: Final = 10_000
_SEQUENCES: Final = (list, tuple, set, frozenset)

Method = TypeVar("Method", bound=Callable[..., Any])


class CommandMark(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `@command`, noted on the method."""

    name: str | None
    when: When | None
    is_logged: bool


@overload
def command(method: Method, /) -> Method: ...
@overload
def command(
    *, name: str | None = None, every: float | None = None, at: str | None = None, is_logged: bool = True
) -> Callable[[Method], Method]: ...
def command(
    method: Any = None, /, *, name: str | None = None, every: float | None = None, at: str | None = None,
    is_logged: bool = True,
) -> Any:  # fmt: skip
    """Make a method of a `CommandHandler` a command: `@command`, or `@command(every=60)`.

    `name`: of the command, by default the method's. `every`: it also runs by itself, at this interval in seconds; `at`: at a
    time of day, as "22:00" or "mon-fri 22:00". `is_logged`: whether its runs are logged, with their results. Runs of the
    policy's schedule are always logged, and so are failed runs by the clock.
    """

    def decorate(function: Method) -> Method:
        if not inspect.isfunction(function):
            raise DeclarationError(f"{function!r} is marked as a command: expected a plain method")
        setattr(function, COMMAND, CommandMark(name=name, when=when, is_logged=is_logged))
        return function

    when = _declared(every, at)
    return decorate if method is None else decorate(method)


def _declared(every: float | None, at: str | None) -> When | None:
    if every is not None and at is not None:
        raise DeclarationError("command(every=…, at=…): expected one of them; for both write a schedule in the policy")
    if every is not None:
        if not 0.001 <= every <= EVERY_MAX_S:
            raise DeclarationError(f"command(every={every!r}): expected seconds, 0.001 to {EVERY_MAX_S:,}")
        return When(f"every {every:g}s", round(every * 1e9))
    try:
        return None if at is None else when_of(at)
    except ValueError as error:
        raise DeclarationError(f"command(at={at!r}): {error}") from None


class CommandSpec:
    """One command: its name, its parameters, and its function."""

    __slots__ = ("_bound", "_hints", "_names", "_rest", "function", "is_async", "mark", "name", "signature", "summary")

    def __init__(self, attribute: str, function: Callable[..., Any], mark: CommandMark) -> None:
        """Raises `DeclarationError` for parameters that no line and no call could fill."""
        self.mark = mark
        self.name = name = mark.name or attribute
        if not name.isidentifier():
            raise DeclarationError(f"{function.__qualname__}: the command {name!r} is not a word of letters and digits")
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)
        self.summary = (inspect.getdoc(function) or "").partition("\n")[0]
        fixed, self._rest = _without_rest(function)
        self._bound = OperationSpec(attribute, fixed, Mark(kind="command", name=name))
        self._names = [*inspect.signature(fixed).parameters][1:]
        self._hints = get_type_hints(fixed)
        self.signature = self._bound.signature
        if self._rest:
            before, arrow, after = self.signature.partition(" -> ")
            rest = str(inspect.signature(function).parameters[self._rest]).replace("'", "").replace('"', "")
            self.signature = f"{before[:-1]}{', ' if self._names else ''}{rest}){arrow}{after}"
        if mark.when is not None and any(
            each.default is each.empty for each in [*inspect.signature(fixed).parameters.values()][1:]
        ):
            raise DeclarationError(f"{function.__qualname__} runs by itself: its parameters need defaults")

    def bind(self, arguments: Mapping[str, Any], route: str) -> Callable[[Any], Any]:
        """A function that runs the command on a handler. Raises `InvalidArgument` that names the argument."""
        rest = {name: value for name, value in arguments.items() if self._rest and name not in self._names}
        fixed = {name: value for name, value in arguments.items() if name not in rest}
        values = self._bound.bind(fixed, route)
        function = self.function
        given = dict(zip(self._names, values, strict=True))
        return lambda handler: function(handler, **given, **rest)

    def arguments(self, words: Sequence[str], route: str) -> dict[str, Any]:
        """The arguments in the words after a command's name. Raises `InvalidArgument`; `bind` checks their values."""
        found: dict[str, Any] = {}
        plain: list[str] = []
        for word in words:
            name, equals, text = word.partition("=")
            if not equals or not (name in self._names or (self._rest and name.isidentifier())):
                plain.append(word)
            elif name in found:
                raise InvalidArgument(f"{route}: {name!r} is given twice")
            else:
                found[name] = _fitting(text, self._hints.get(name, Any))[1]
        skipped: list[str] = []
        for name in [each for each in self._names if each not in found]:
            if not plain:
                break
            kind = self._hints.get(name, Any)
            is_fit, value = _fitting_together(plain, kind) if _is_sequence(kind) else _fitting(plain[0], kind)
            if is_fit:
                found[name] = value
                plain = [] if _is_sequence(kind) else plain[1:]
            else:
                skipped.append(name)
        if plain and len(skipped) == 1:
            found[skipped[0]] = _fitting(plain[0], Any)[1]  # `bind` then names the expected type
        elif plain:
            raise InvalidArgument(
                f"{route}: {' '.join(plain)!r} matches none of its arguments; expected {self.signature}"
            )
        return found


def specs_of(cls: type) -> dict[str, CommandSpec]:
    """All commands of a handler's class, by name. An override without a mark keeps it. Raises `DeclarationError`."""
    specs: dict[str, CommandSpec] = {}
    for attribute in dir(cls):
        function = inspect.getattr_static(cls, attribute)
        mark = next((found for base in cls.__mro__ if (found := _mark_of(vars(base).get(attribute)))), None)
        if mark is None:
            continue
        if not inspect.isfunction(function):
            raise DeclarationError(f"{cls.__qualname__}.{attribute}: expected a plain method, got {function!r}")
        spec = CommandSpec(attribute, function, mark)
        if spec.name in specs:
            other = specs[spec.name].function.__qualname__
            raise DeclarationError(f"{function.__qualname__} and {other} are both the command {spec.name!r}")
        specs[spec.name] = spec
    return specs


def parsed(line: str, specs: Mapping[str, CommandSpec], of: str) -> tuple[CommandSpec, dict[str, Any]]:
    """The command of a line, and its arguments. Raises `NotFound`, with the nearest command there is, and `InvalidArgument`."""
    if len(line) > LINE_LENGTH_MAX:
        raise InvalidArgument(f"{of}: a command of {len(line):,} characters: at most {LINE_LENGTH_MAX:,}")
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise InvalidArgument(f"{of}: {line!r:.200}: {str(error).lower()}") from None
    if not words:
        raise InvalidArgument(f"{of}: no command: one of {', '.join(sorted(specs))}")
    spec = specs.get(words[0])
    if spec is None:
        near = nearest(words[0], specs)
        hint = f"did you mean {near!r}?" if near else f"one of {', '.join(sorted(specs))}"
        raise NotFound(f"{of} has no command {words[0]!r:.100} ({hint})")
    return spec, spec.arguments(words[1:], f"{of}.{spec.name}")


def _mark_of(declared: Any) -> CommandMark | None:
    for marked in (declared, getattr(declared, "__func__", None), getattr(declared, "fget", None)):
        mark = getattr(marked, COMMAND, None)
        if isinstance(mark, CommandMark):
            return mark
    return None


def _without_rest(function: Callable[..., Any]) -> tuple[Callable[..., Any], str]:
    """The function without its `**rest`, as an operation must be, and the name of that; "" if it has none."""
    signature = inspect.signature(function)
    rest = next((name for name, each in signature.parameters.items() if each.kind is each.VAR_KEYWORD), "")
    if not rest:
        return function, ""

    @functools.wraps(function)
    def fixed(*given: Any, **named: Any) -> Any:
        return function(*given, **named)

    left = [each for name, each in signature.parameters.items() if name != rest]
    fixed.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
    return fixed, rest


def _fitting(text: str, kind: Any) -> tuple[bool, Any]:
    """Whether a word fits this type, and its value: parsed as JSON if that fits, else the text."""
    values: list[Any] = [text]
    with suppress(ValueError, RecursionError):
        values.insert(0, json.loads(text))
    for value in values:
        try:
            msgspec.convert(value, kind)
        except (msgspec.ValidationError, TypeError):
            continue
        return True, value
    return False, values[0]


def _fitting_together(words: list[str], kind: Any) -> tuple[bool, Any]:
    """`_fitting` of all words as one list; or of the only one, if it is a list itself."""
    if len(words) == 1:
        is_fit, value = _fitting(words[0], kind)
        if is_fit:
            return True, value
    together = [_fitting(word, Any)[1] for word in words]
    try:
        msgspec.convert(together, kind)
    except (msgspec.ValidationError, TypeError):
        return False, together
    return True, together


def _is_sequence(kind: Any) -> bool:
    if get_origin(kind) in (Union, UnionType):
        return any(_is_sequence(each) for each in get_args(kind) if each is not NoneType)
    return kind in _SEQUENCES or get_origin(kind) in _SEQUENCES
