"""Registration: a handler and what it is to be given, checked against each other before any message comes.

Seed 003 deduces the message from the handler's signature, so that a handler cannot be registered for the wrong one; here the
same, and each further parameter is compared with what is registered for it. A type checker sees the same mistakes
(registrar.py). What is right becomes an `Entry`; whatever can be worked out once is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from ..objects.operation import DeclarationError
from .accessor import Accessor, AccessorOf, Reach, SelectiveAccessor, SelectiveAccessorOf
from .argument import ActiveObject, Argument, Given
from .locking import Claim, ordered
from .message import Message, MessageSpec, spec_of
from .protectors import READ, UNNAMED, Choice, DataProtector, Protector, SelectiveProtector


class RegistrationError(DeclarationError):
    """A handler and what it is registered with do not fit; says which parameter, and what to write instead."""


class Parameter:
    """One further parameter of a handler, and what it is given."""

    __slots__ = ("argument", "is_shared", "kind", "name")

    def __init__(self, name: str, kind: Any, is_shared: bool, argument: Argument[Any]) -> None:
        self.name, self.kind, self.is_shared, self.argument = name, kind, is_shared, argument

    @property
    def text(self) -> str:
        """For people: `room: Room`, `rooms: Room (read)`."""
        protector = getattr(self.argument, "protector", self.argument)
        what = protector.name if isinstance(protector, Protector) else type(protector).__name__
        return f"{self.name}: {what}{' (read)' if self.is_shared else ''}"


class Entry:
    """One registered handler (the paper's DeferredCaller). What it is given is worked out for each message, before any lock."""

    __slots__ = (
        "_claims", "_values", "answers", "calls_count", "failures_count", "handler", "has_accessor", "is_registered", "name",
        "parameters", "run_ns", "spec", "wait_ns",
    )  # fmt: skip

    def __init__(
        self, handler: Callable[..., Any], spec: MessageSpec, parameters: Sequence[Parameter], answers: bool
    ) -> None:
        self.handler = handler
        self.spec = spec
        self.parameters = tuple(parameters)
        #: Whether the caller of its message gets what it returns.
        self.answers = answers
        self.name: str = handler.__qualname__
        self.is_registered = True
        self.has_accessor = any(isinstance(p.argument, (AccessorOf, SelectiveAccessorOf)) for p in parameters)
        self.calls_count = self.failures_count = self.run_ns = self.wait_ns = 0
        self._claims: tuple[Claim, ...] | None = None
        self._values: tuple[Any, ...] = ()
        if all(isinstance(p.argument, (DataProtector, ActiveObject)) for p in parameters):
            # The same for every message.
            claims, self._values = self._prepare(None, None)
            self._claims = tuple(claims)

    def prepare(self, message: Any, reach: Reach) -> tuple[Sequence[Claim], tuple[Any, ...]]:
        """The locks that `message` needs, in ascending rank, and the further arguments."""
        if self._claims is not None:
            return self._claims, self._values
        return self._prepare(message, reach)

    def _prepare(self, message: Any, reach: Any) -> tuple[list[Claim], tuple[Any, ...]]:
        claims: list[Claim] = []
        values: list[Any] = []
        for parameter in self.parameters:
            argument = parameter.argument
            if isinstance(argument, (Protector, Choice)):
                lock, datum = argument._select(message)
                claims.append(Claim(lock, parameter.is_shared))
                values.append(datum)
            elif isinstance(argument, (AccessorOf, SelectiveAccessorOf)):
                values.append(argument._bind(reach, message, parameter.is_shared))
            else:
                values.append(argument)
        return ordered(claims), tuple(values)


def entry_of(handler: Any, arguments: Sequence[Any], owner: object) -> Entry:
    """Check a registration. Raises `RegistrationError`."""
    if not inspect.isroutine(handler):
        raise RegistrationError(f"register({handler!r}): expected a plain function as the handler")
    name = getattr(handler, "__qualname__", repr(handler))
    if (
        inspect.iscoroutinefunction(handler)
        or inspect.isgeneratorfunction(handler)
        or inspect.isasyncgenfunction(handler)
    ):
        raise RegistrationError(
            f"{name} is a coroutine or a generator: a handler is a plain function, and runs in one go"
        )
    try:
        parameters = list(inspect.signature(handler).parameters.values())
        hints = get_type_hints(handler, include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise RegistrationError(f"{name}: its annotations cannot be read: {error}") from error
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            raise RegistrationError(
                f"{name}: parameter {parameter.name!r} cannot be given by position: make it a plain one"
            )
    if not parameters:
        raise RegistrationError(f"{name} has no parameters: the first is the message that it handles")
    first = parameters.pop(0)
    spec = _message_of(name, first, hints)
    if len(arguments) < len(parameters):
        missing = ", ".join(repr(each.name) for each in parameters[len(arguments) :])
        raise RegistrationError(f"{name}: nothing is registered for parameter {missing}: name a protector for each")
    if len(arguments) > len(parameters):
        raise RegistrationError(
            f"{name} has {len(parameters)} parameters besides its message, and {len(arguments)} protectors were registered"
        )
    found = [_parameter(name, each, hints, arguments[at], spec, owner) for at, each in enumerate(parameters)]
    _check_twice(name, found)
    answers = hints.get("return", type(None)) is not type(None)
    return Entry(handler, spec, found, answers)


def conflict(entry: Entry, others: Sequence[Entry]) -> str | None:
    """Why a handler cannot stand beside those of its message; None: it can."""
    message = entry.spec.type.__name__
    if any(each.handler == entry.handler for each in others):
        return f"{entry.name} is registered for {message} already: once is enough"
    answering = next((each.name for each in others if each.answers), None)
    if entry.answers and answering is not None:
        return (
            f"{entry.name} and {answering} both return what the caller of {message} is to get: one answers; "
            "annotate the other `-> None`"
        )
    return None


def _message_of(name: str, first: inspect.Parameter, hints: dict[str, Any]) -> MessageSpec:
    kind = hints.get(first.name)
    if kind is None:
        raise RegistrationError(
            f"{name}: parameter {first.name!r} has no annotation: write the message that it handles"
        )
    spec = spec_of(kind)
    if spec is not None:
        return spec
    if isinstance(kind, type) and issubclass(kind, Message):
        raise RegistrationError(f"{name}: {kind.__name__} has no identity: declare it with @message(category=…, id=…)")
    raise RegistrationError(f"{name}: parameter {first.name!r} is a {_text(kind)}: the first parameter is the message")


def _parameter(
    handler: str, parameter: inspect.Parameter, hints: dict[str, Any], argument: Any, spec: MessageSpec, owner: object
) -> Parameter:
    where = f"{handler}: parameter {parameter.name!r}"
    annotation = hints.get(parameter.name)
    if annotation is None:
        raise RegistrationError(f"{where} has no annotation: write the type of what it is given")
    if not isinstance(argument, (Given, ActiveObject)):
        raise RegistrationError(
            f"{where} was registered with {argument!r}: expected a DataProtector, a SelectiveProtector, the accessor of one, "
            "or an ActiveObject"
        )
    kind, is_shared = _unwrapped(annotation)
    origin = get_origin(kind) or kind
    if isinstance(argument, ActiveObject):
        _check_kind(where, annotation, origin, None if _is_a(argument, origin) else type(argument).__name__)
        return Parameter(parameter.name, kind, False, argument)
    if isinstance(argument, (AccessorOf, SelectiveAccessorOf)):
        expected = Accessor if isinstance(argument, AccessorOf) else SelectiveAccessor
        if origin is not expected:
            raise RegistrationError(
                f"{where} is a {_text(annotation)}, but was registered with an accessor: {expected.__name__}"
            )
        inner = get_args(kind)[-1:] or (Any,)
        kind, is_shared = _unwrapped(inner[0])
        origin = get_origin(kind) or kind
        protector: Any = argument.protector
    elif isinstance(argument, Choice):
        protector = argument.protector
        _check_key(where, argument.by if isinstance(argument.by, str) else None, spec, is_given=True)
    else:
        assert isinstance(argument, Protector)
        protector = argument
        if isinstance(argument, SelectiveProtector):
            _check_key(where, argument._field, spec, is_given=argument._has_function)
    if isinstance(origin, type):
        _check_kind(where, annotation, origin, protector._fits(origin))
    if protector._owner is not None and protector._owner is not owner:
        raise RegistrationError(
            f"{where}: {protector.name} is registered with another dispatcher: share it by messages, not by locks"
        )
    protector._owner = owner
    if protector.name == UNNAMED and isinstance(origin, type):
        protector.name = origin.__name__
    return Parameter(parameter.name, kind, is_shared, argument)


def _check_kind(where: str, annotation: Any, origin: Any, is_really: str | None) -> None:
    if is_really is not None:
        raise RegistrationError(f"{where} is a {_text(annotation)}, but was registered with a {is_really}")


def _check_key(where: str, field: str | None, spec: MessageSpec, *, is_given: bool) -> None:
    if field is None and is_given:
        return
    name = field or spec.key
    if name is None:
        raise RegistrationError(
            f"{where}: nothing says by what {spec.type.__name__} chooses: declare @message(key=…), or SelectiveProtector(by=…)"
        )
    if name not in spec.type.__struct_fields__:
        raise RegistrationError(f"{where}: {spec.type.__name__} has no field {name!r} to choose by")


def _check_twice(handler: str, parameters: Sequence[Parameter]) -> None:
    seen: dict[int, str] = {}
    for each in parameters:
        if isinstance(each.argument, (DataProtector, SelectiveProtector)):
            other = seen.setdefault(id(each.argument), each.name)
            if other != each.name:
                raise RegistrationError(
                    f"{handler}: parameters {other!r} and {each.name!r} are the same datum: it is given once"
                )


def _unwrapped(annotation: Any) -> tuple[Any, bool]:
    """The type, and whether it is marked as read only."""
    if get_origin(annotation) is Annotated:
        kind, *marks = get_args(annotation)
        return kind, READ in marks
    return annotation, False


def _is_a(value: object, kind: Any) -> bool:
    return not isinstance(kind, type) or isinstance(value, kind)


def _text(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
