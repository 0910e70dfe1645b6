"""Signature: reads from a handler which message it handles, and which arguments it takes besides.

Seed 003 deduces the message from the handler's signature, so that a handler cannot be registered for the wrong one. Mistakes
that would only show with the first message are refused here: coroutines and generators, annotations that cannot be resolved,
parameters that cannot be filled, results that cannot be sent.
"""

from __future__ import annotations

import collections.abc
import dis
import functools
import inspect
import types
from typing import Annotated, Any, Final, NamedTuple, Never, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from ..accessor import Accessor, SelectiveAccessor
from ..argument import ActiveObject
from ..errors import RegistrationError
from ..message import Message, MessageSpec, spec_of, undeclared
from ..protectors import READ, Protector, Read
from .fields import cannot_travel
from .kinds import an, plain, text_of

_LATER: Final = (
    collections.abc.Awaitable, collections.abc.Generator, collections.abc.AsyncIterator, collections.abc.AsyncIterable,
)  # fmt: skip


class Wanted(NamedTuple):
    """One further parameter of a handler."""

    name: str
    #: The type of its datum, without marks.
    kind: Any
    is_shared: bool
    #: `Accessor`, `SelectiveAccessor`, or None: the datum itself.
    accessor: type | None
    #: The key type of a `SelectiveAccessor`.
    key_kind: Any
    has_default: bool
    #: The annotation, for errors.
    text: str


class Signature(NamedTuple):
    """A handler's name, message, further parameters and kind of result."""

    name: str
    spec: MessageSpec
    wanted: tuple[Wanted, ...]
    #: Whether it returns something to the caller of the message.
    answers: bool


def signature_of(handler: Any) -> Signature:
    """The signature of a handler. Raises `RegistrationError`."""
    name = _name_of(handler)
    _check_callable(handler, name)
    try:
        parameters = list(inspect.signature(handler).parameters.values())
        hints = get_type_hints(handler, include_extras=True)
    except NameError as error:
        raise RegistrationError(
            f"{name}: {error}: registration reads annotations at run time: import it outside `if TYPE_CHECKING`, and define it "
            "in a module, not in a function"
        ) from error
    except Exception as error:  # an annotation is an expression, which may raise anything
        raise RegistrationError(f"{name}: its annotations cannot be read: {error}") from error
    positional = _positional(name, parameters)
    if not positional:
        raise RegistrationError(f"{name} has no parameters: the first is the message that it handles")
    spec = _message_of(name, positional[0], hints)
    _check_call(handler, name, len(positional))
    wanted = tuple(_wanted(name, each, hints) for each in positional[1:])
    return Signature(name, spec, wanted, _answers(handler, name, hints))


def _name_of(handler: Any) -> str:
    return str(getattr(handler, "__qualname__", None) or repr(handler))


def _check_callable(handler: Any, name: str) -> None:
    if isinstance(handler, Protector):
        raise RegistrationError(f"register({handler!r}, …): the handler comes first, then its arguments")
    if isinstance(handler, functools.partial):
        raise RegistrationError(
            f"register({handler!r}): its bound arguments would be shared without a lock: write a plain function, and "
            "register a protector for each"
        )
    if not (inspect.isfunction(handler) or inspect.ismethod(handler) or inspect.isbuiltin(handler)):
        raise RegistrationError(f"register({name}): expected a plain function as the handler")
    bound = getattr(handler, "__self__", None)
    if bound is not None and not isinstance(bound, (ActiveObject, type, types.ModuleType)):
        kind = type(bound).__name__
        raise RegistrationError(
            f"{name} is bound to a {kind}, which all its calls would share without a lock: write a plain function, and "
            f"register DataProtector({kind}()) for a parameter of it"
        )
    for each in (handler, inspect.unwrap(handler)):
        if inspect.iscoroutinefunction(each) or inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each):
            raise RegistrationError(
                f"{name} is a coroutine or a generator, but a handler must be a plain function; begin the "
                "operation instead, and handle its completion message"
            )


def _positional(name: str, parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """The parameters that get an argument. A keyword-only parameter with a default keeps its default."""
    found: list[inspect.Parameter] = []
    for parameter in parameters:
        is_optional = parameter.default is not parameter.empty
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            found.append(parameter)
        elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            raise RegistrationError(
                f"{name}: {stars}{parameter.name} accepts unknown arguments: name each parameter (use functools.wraps on the "
                "wrapper of a decorator)"
            )
        elif not is_optional:
            raise RegistrationError(
                f"{name}: parameter {parameter.name!r} cannot be given by position: make it a plain one"
            )
        if is_optional and isinstance(parameter.default, Protector):
            raise RegistrationError(
                f"{name}: parameter {parameter.name!r} has a protector as its default: register it, "
                f"register({name}, …, {parameter.default!r})"
            )
        if is_optional and isinstance(parameter.default, (list, dict, set, bytearray)):
            raise RegistrationError(
                f"{name}: parameter {parameter.name!r} has a {type(parameter.default).__name__} as its default, which all "
                "calls would share without a lock: register a DataProtector for it"
            )
    return found


def _check_call(handler: Any, name: str, count: int) -> None:
    """The function called may be a decorator's wrapper, whose own parameters must accept the arguments."""
    if not hasattr(handler, "__wrapped__"):
        return
    try:
        inspect.signature(handler, follow_wrapped=False).bind(*range(count))
    except TypeError as error:
        raise RegistrationError(f"{name}: its decorator does not pass its parameters on: {error}") from None


def _message_of(name: str, first: inspect.Parameter, hints: dict[str, Any]) -> MessageSpec:
    where = f"{name}: parameter {first.name!r}"
    if first.name not in hints:
        if first.name == "self":
            raise RegistrationError(f"{where}: it is a method: write a plain function")
        raise RegistrationError(f"{where} has no annotation: write the message that it handles")
    kind = plain(hints[first.name])
    spec = spec_of(kind)
    if spec is not None:
        return spec
    if kind is Message:
        raise RegistrationError(
            f"{where} is annotated with Message itself: name the message class that it handles, "
            "or use eavesdrop(…) for a whole category"
        )
    if isinstance(kind, type) and issubclass(kind, Message):
        raise RegistrationError(f"{where}: {undeclared(kind)}")
    if any(spec_of(each) for each in get_args(kind)):
        raise RegistrationError(f"{where} is {an(text_of(kind))}: a handler is for one message: register one for each")
    raise RegistrationError(f"{where} has type {text_of(kind)}; the first parameter must be the message")


def _wanted(handler: str, parameter: inspect.Parameter, hints: dict[str, Any]) -> Wanted:
    where = f"{handler}: parameter {parameter.name!r}"
    if parameter.name not in hints:
        raise RegistrationError(f"{where} has no annotation: write the type of its argument")
    annotation = hints[parameter.name]
    kind, is_shared = _unwrapped(annotation, where)
    text, accessor, key_kind = text_of(kind), None, Any
    origin = get_origin(kind) or kind
    if origin in (Accessor, SelectiveAccessor):
        accessor = origin
        arguments = get_args(kind) or (Any, Any)
        key_kind = arguments[0] if origin is SelectiveAccessor else Any
        kind, is_shared_inside = _unwrapped(arguments[-1], where)
        is_shared = is_shared or is_shared_inside
    elif isinstance(origin, type) and issubclass(origin, Protector):
        inner = text_of(get_args(kind)[-1]) if get_args(kind) else "its datum's type"
        raise RegistrationError(f"{where} is {an(text)}: a handler gets the datum: write {inner}")
    elif isinstance(origin, type) and issubclass(origin, Message):
        raise RegistrationError(f"{where} is {an(text)}: a handler is for one message, its first parameter")
    return Wanted(parameter.name, kind, is_shared, accessor, key_kind, parameter.default is not parameter.empty, text)


def _unwrapped(annotation: Any, where: str) -> tuple[Any, bool]:
    """The annotated type, and whether it is marked as read only."""
    if annotation is Read or (get_origin(annotation) is Annotated and isinstance(get_args(annotation)[0], TypeVar)):
        raise RegistrationError(f"{where} is Read of nothing: write Read[…] with the type of its argument")
    if get_origin(annotation) is not Annotated:
        return annotation, False
    kind, *marks = get_args(annotation)
    if any(mark is Read for mark in marks):
        raise RegistrationError(f"{where} is marked with Read: write Read[{text_of(kind)}]")
    return kind, any(isinstance(mark, str) and mark == READ for mark in marks)


def _answers(handler: Any, name: str, hints: dict[str, Any]) -> bool:
    if "return" not in hints:
        if _returns_something(inspect.unwrap(handler)):
            raise RegistrationError(
                f"{name} returns a value without a return annotation: write `-> int` to send it to the caller, or `-> None`"
            )
        return False
    kind = plain(hints["return"])
    if kind in (type(None), Never, NoReturn):
        return False
    origin = get_origin(kind) or kind
    if isinstance(origin, type) and issubclass(origin, _LATER):
        raise RegistrationError(
            f"{name} returns {an(text_of(kind))}, but a handler is a plain function, not a coroutine or a generator"
        )
    if problem := cannot_travel(kind):
        raise RegistrationError(f"{name} returns {an(text_of(kind))}, which cannot be sent to its caller: {problem}")
    return True


def _returns_something(function: Any) -> bool:
    """Whether any `return` in its bytecode has a value."""
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    before: dis.Instruction | None = None
    for step in dis.get_instructions(code):
        if step.opname == "RETURN_CONST" and step.argval is not None:
            return True
        if step.opname == "RETURN_VALUE" and not (
            before is not None and before.opname == "LOAD_CONST" and before.argval is None
        ):
            return True
        before = step
    return False
