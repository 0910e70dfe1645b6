"""Operations: methods that others may call, hear or leave to the clock.

A decorator only marks the method; `specs_of` reads the marks once a class and makes what each call needs: a msgspec struct
that checks the arguments against the annotations before the object sees them (binding.py), and a getter that spreads them.
A wrong declaration fails here, when the component is constructed, and names the parameter; never at a call.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import msgspec

from appbackplane.transport.errors import InvalidArgument
from appbackplane.transport.topics import check_pattern

from . import binding
from .binding import Binding

#: Priority of an operation that names none: the middle of the default eight, so that there is room on both sides.
PRIORITY_DEFAULT = 4
#: Component states in which an operation that names none is registered.
SERVING_STATES = ("primary", "secondary")
_STATES = frozenset(("initializing", "primary", "secondary"))
_MARK = "__appbackplane__"
#: The wire has bytes of its own; without this msgspec would take any text for base64 of bytes.
_BUILTIN = (bytes, bytearray, memoryview)

Method = TypeVar("Method", bound=Callable[..., Any])


class DeclarationError(TypeError):
    """An operation, subscription or timer is declared wrongly; says which, and what to write instead."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """What a decorator noted on a method."""

    kind: str
    name: str | None = None
    priority: int = PRIORITY_DEFAULT
    reentrant: bool = False
    calls: tuple[str, ...] = ()
    states: tuple[str, ...] = SERVING_STATES
    digest: str | None = None
    accepted_in: tuple[Any, ...] | None = None
    otherwise: str = "refuse"
    topic: str | None = None
    interval_ns: int = 0


def operation(
    *,
    priority: int = PRIORITY_DEFAULT,
    name: str | None = None,
    reentrant: bool = False,
    calls: Sequence[str] = (),
    states: Sequence[str] = SERVING_STATES,
    digest: str | None = None,
    accepted_in: Sequence[Any] | None = None,
    otherwise: str = "refuse",
) -> Callable[[Method], Method]:
    """Make a method callable by others, on the route COMPONENT.NAME.

    `priority`: 0 is highest; a caller may ask for another. `name`: of the route, default the method's. `reentrant`: a call
    that comes back to this object through its own chain is served instead of refused. `calls`: routes it calls, for
    `appbackplane check` to find cycles in. `states`: the component states in which it is registered. `digest`: name of a
    method of the component that works out the key of the target slowly, in the digester (law 7). `accepted_in` and
    `otherwise` ("refuse" or "defer"): states of a `StateMachine` in which it is accepted, and what happens elsewhere.
    """
    if otherwise not in ("refuse", "defer"):
        raise DeclarationError(f"otherwise={otherwise!r}: expected 'refuse' or 'defer'")
    if unknown := set(states) - _STATES:
        raise DeclarationError(f"states: {sorted(unknown)} are not among {sorted(_STATES)}")
    return _mark(
        Mark(
            kind="operation", name=name, priority=priority, reentrant=reentrant, calls=tuple(calls), states=tuple(states),
            digest=digest, accepted_in=None if accepted_in is None else tuple(accepted_in), otherwise=otherwise,
        )
    )  # fmt: skip


def subscribe(topic: str, *, priority: int = PRIORITY_DEFAULT) -> Callable[[Method], Method]:
    """Have a method run for each message of `topic` (`a.b` exactly, or `a.*` for all below it)."""
    try:
        check_pattern(topic)
    except InvalidArgument as error:
        raise DeclarationError(str(error)) from None
    return _mark(Mark(kind="topic", topic=topic, priority=priority))


def every(seconds: float, *, priority: int = PRIORITY_DEFAULT) -> Callable[[Method], Method]:
    """Have a method run every `seconds` while its component serves. An overrun skips, it does not pile up."""
    if not 1e-9 <= seconds < math.inf:
        raise DeclarationError(f"every({seconds!r}): expected a number of seconds above 0")
    return _mark(Mark(kind="timer", interval_ns=round(seconds * 1e9), priority=priority))


def _mark(mark: Mark) -> Callable[[Method], Method]:
    def decorate(method: Method) -> Method:
        if not inspect.isfunction(method):
            raise DeclarationError(f"{method!r} is marked as an operation: expected a plain method")
        setattr(method, _MARK, mark)
        return method

    return decorate


class OperationSpec:
    """One marked method, compiled: what to run, how to check its arguments, what was declared about it."""

    __slots__ = ("attribute", "binding", "function", "is_coroutine", "mark", "name", "signature")

    def __init__(self, attribute: str, function: Callable[..., Any], mark: Mark) -> None:
        self.attribute = attribute
        self.mark = mark
        self.name = mark.name or attribute
        self.is_coroutine = inspect.iscoroutinefunction(function)
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise DeclarationError(f"{function.__qualname__} is a generator: an operation returns one result")
        parameters, hints = _parameters(function)
        #: Takes the object and what `bind` returns.
        self.function = _by_position(function, parameters)
        self.signature = _signature(function)
        struct, spread = _struct(function, parameters, hints), _spread(tuple(p.name for p in parameters))

        def convert(arguments: Any) -> tuple[Any, ...]:
            return spread(msgspec.convert(arguments, struct, builtin_types=_BUILTIN, dec_hook=_convert))

        self.binding = Binding(_plain(parameters, hints), convert, self.signature)
        if mark.kind == "timer" and any(p.default is p.empty for p in parameters):
            raise DeclarationError(f"{function.__qualname__} runs on a timer: its parameters need defaults")

    def bind(self, arguments: Mapping[str, Any], route: str) -> tuple[Any, ...]:
        """The arguments as the method takes them. Raises `InvalidArgument` that names the argument."""
        return self.binding.bind(arguments, route)


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
            mark = getattr(marked, _MARK, None)
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
        return parameters, get_type_hints(function)
    except NameError as error:
        raise DeclarationError(f"{function.__qualname__}: annotation cannot be resolved: {error}") from error


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


def _spread(fields: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if not fields:
        return lambda struct: ()
    getter = operator.attrgetter(*fields)
    if len(fields) == 1:
        return lambda struct: (getter(struct),)
    return getter


def _convert(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    if isinstance(value, kind):
        return value
    raise TypeError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")


def _signature(function: Callable[..., Any]) -> str:
    text = str(inspect.signature(function))
    text = re.sub(r"^\(self(, )?", "(", text)
    return text.replace("'", "")
