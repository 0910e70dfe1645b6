"""Matching: compares each further parameter of a handler with the argument registered for it.

It repeats the check of `register` by type checkers (registrar.py), for users without one. It also finds mistakes that no type
checker sees: unsuitable fields for selecting data, one datum given twice, protectors of another dispatcher.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

import msgspec

from ...objects.operation import DeclarationError
from ..accessor import Accessor, SelectiveAccessor
from ..argument import ActiveObject, Argument, LockedArgument
from ..errors import RegistrationError
from ..message import MessageSpec
from ..protectors import (
    UNNAMED,
    AccessorOf,
    Choice,
    Protector,
    SelectiveAccessorOf,
    SelectiveProtector,
    protector_behind,
    shortened,
)
from .choosing import returned, taken
from .fields import unhashable
from .kinds import NoKind, an, fits, is_made, plain, text_of
from .signature import Signature, Wanted


class HandlerParameter(NamedTuple):
    """One further parameter of a handler, and its argument."""

    name: str
    is_shared: bool
    argument: Argument[Any]

    @property
    def protector(self) -> Protector[Any] | None:
        """The protector of its argument, also behind an accessor or a choice; None: it is an active object."""
        return protector_behind(self.argument)

    @property
    def text(self) -> str:
        """For people: `room: Room`, `rooms: Room (read)`."""
        protector = self.protector
        what = type(self.argument).__name__ if protector is None else protector.name
        return f"{self.name}: {what}{' (read)' if self.is_shared else ''}"


def matched(signature: Signature, arguments: Sequence[Any], owner: object) -> list[HandlerParameter]:
    """The parameters with their arguments; `owner` now owns the protectors. Raises `RegistrationError`."""
    name, wanted = signature.name, signature.wanted
    missing = [each.name for each in wanted[len(arguments) :] if not each.has_default]
    if missing:
        names = ", ".join(map(repr, missing))
        raise RegistrationError(f"{name}: nothing is registered for parameter {names}: name a protector for each")
    if len(arguments) > len(wanted):
        raise RegistrationError(
            f"{name} has {len(wanted)} parameters besides its message, and {len(arguments)} protectors were registered"
        )
    problem = _first_problem(signature, arguments)
    if problem is not None:
        raise RegistrationError(problem + _other_order(signature, arguments))
    parameters = [HandlerParameter(w.name, w.is_shared, given) for w, given in zip(wanted, arguments, strict=False)]
    _check_owner(name, parameters, owner)
    _check_twice(signature, parameters)
    for each, parameter in zip(wanted, parameters, strict=False):
        _own(parameter.protector, each, owner)
    return parameters


def _first_problem(signature: Signature, arguments: Sequence[Any]) -> str | None:
    for each, argument in zip(signature.wanted, arguments, strict=False):
        where = f"{signature.name}: parameter {each.name!r}"
        try:
            if problem := _problem(each, argument, signature.spec):
                return f"{where} {problem}"
        except NoKind as error:
            raise RegistrationError(
                f"{where} is {an(each.text)}: {text_of(error.args[0])} is not a type: write the type of its argument"
            ) from None
    return None


def _problem(wanted: Wanted, argument: Any, spec: MessageSpec) -> str | None:
    """Why an argument does not fit a parameter; None: it does."""
    if isinstance(argument, ActiveObject):
        is_right = wanted.accessor is None and fits(argument, wanted.kind)
        return None if is_right else _mismatch(wanted, type(argument).__name__)
    if not isinstance(argument, LockedArgument):
        return _no_argument(argument)
    if isinstance(argument, (AccessorOf, SelectiveAccessorOf)):
        return _accessor_problem(wanted, argument)
    if wanted.accessor is not None:
        what = argument.name if isinstance(argument, Protector) else type(argument).__name__
        return f"is {an(wanted.text)}, but was registered with {what} itself: register its .accessor"
    protector = argument.protector if isinstance(argument, Choice) else argument
    assert isinstance(protector, Protector)
    if problem := _unknown(wanted, protector):
        return problem
    if is_really := protector._fits(wanted.kind):
        return _mismatch(wanted, is_really)
    if isinstance(protector, SelectiveProtector):
        return _choice_problem(protector, argument.by if isinstance(argument, Choice) else protector._by, spec)
    return None


def _unknown(wanted: Wanted, protector: Protector[Any]) -> str | None:
    if not isinstance(protector, SelectiveProtector) or not protector._has_factory or protector._makes is not None:
        return None
    kind = text_of(wanted.kind)
    return (
        f"is {an(wanted.text)}, and the type that {protector.name} makes is unknown: annotate what that function returns, or "
        f"write SelectiveProtector[…, {kind}](…)"
    )


def _no_argument(argument: Any) -> str:
    if isinstance(argument, type) and issubclass(argument, ActiveObject):
        return f"was registered with the class {argument.__name__}: register an object, {argument.__name__}()"
    if isinstance(argument, (Accessor, SelectiveAccessor)):
        return "was registered with an accessor that is for tests: register the .accessor of a protector"
    return (
        f"was registered with {shortened(argument)}: expected a DataProtector, a SelectiveProtector, the accessor of one, or "
        "an ActiveObject"
    )


def _mismatch(wanted: Wanted, is_really: str) -> str:
    return f"is {an(wanted.text)}, but was registered with {an(is_really)}"


def _accessor_problem(wanted: Wanted, argument: AccessorOf[Any] | SelectiveAccessorOf[Any, Any]) -> str | None:
    expected = Accessor if isinstance(argument, AccessorOf) else SelectiveAccessor
    protector: Any = argument.protector
    if wanted.accessor is not expected:
        datum = text_of(wanted.kind)
        right = f"Accessor[{datum}]" if expected is Accessor else f"SelectiveAccessor[…, {datum}]"
        return f"is {an(wanted.text)}, but was registered with an accessor of {protector.name}: write {right}"
    if problem := _unknown(wanted, protector):
        return problem
    if is_really := protector._fits(wanted.kind):
        return _mismatch(wanted, f"{expected.__name__} of {is_really}")
    if isinstance(protector, SelectiveProtector) and not _are_keys(protector, wanted.key_kind):
        return f"is {an(wanted.text)}, but the keys of {protector.name} are {_keys_text(protector)}"
    return None


def _choice_problem(protector: SelectiveProtector[Any, Any], by: Any, spec: MessageSpec) -> str | None:
    message = spec.type.__name__
    if by is None or isinstance(by, str):
        field = by or spec.key
        if field is None:
            return f"has no key for {message} to choose by: declare @message(key=…), or SelectiveProtector(by=…)"
        kinds = {each.name: each.type for each in msgspec.structs.fields(spec.type)}
        if field not in kinds:
            return f"is chosen by {field!r}, which {message} does not have: it has {', '.join(kinds) or 'no fields'}"
        kind, what = kinds[field], f"{message}.{field}"
    else:
        of, kind, what = taken(by), returned(by), getattr(by, "__qualname__", repr(by))
        if of is not None and not is_made(spec.type, of):
            return f"is chosen by {what}, which takes {an(text_of(of))}, not a {message}"
        if kind is None:
            return None
    if part := unhashable(kind):
        return f"is chosen by {what}: {part} cannot be hashed: choose by a str, a number or an Enum"
    if not _are_keys(protector, kind):
        return f"is chosen by {what}, a {text_of(kind)}, but the keys of {protector.name} are {_keys_text(protector)}"
    return None


def _are_keys(protector: SelectiveProtector[Any, Any], kind: Any) -> bool:
    """Whether values of a type may be keys of the data: each part of a union may. (None is no key, and is not found.)"""
    keys = protector._key_kinds
    kind = plain(kind)
    parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return not keys or all(
        part is NoneType or any(is_made(part, key) or is_made(key, part) for key in keys) for part in parts
    )


def _keys_text(protector: SelectiveProtector[Any, Any]) -> str:
    return " | ".join(map(text_of, protector._key_kinds))


def _other_order(signature: Signature, arguments: Sequence[Any]) -> str:
    """`: expected this order: rooms, journal`, if another order fits; else empty."""
    if not 2 <= len(arguments) <= _ORDERS_OF_MAX or len(arguments) != len(signature.wanted):
        return ""
    for order in itertools.permutations(arguments):
        try:
            if _first_problem(signature, order) is None:
                return f": expected this order: {', '.join(_text(each) for each in order)}"
        except DeclarationError:
            return ""
    return ""


#: Most arguments of which all orders are tried: 120 orders.
_ORDERS_OF_MAX = 5


def _text(argument: Any) -> str:
    protector = protector_behind(argument)
    if isinstance(protector, SelectiveProtector) and protector.name == UNNAMED:
        return text_of(protector._makes)
    return type(argument).__name__ if protector is None else protector.name


def _check_twice(signature: Signature, parameters: Sequence[HandlerParameter]) -> None:
    seen: dict[tuple[int, Any], str] = {}
    for each in parameters:
        argument, by = each.argument, None
        if not isinstance(argument, (Protector, Choice)):
            continue  # an accessor of the same datum lets a handler read first, and lock to write only if it must
        if isinstance(each.protector, SelectiveProtector):
            by = (argument.by if isinstance(argument, Choice) else each.protector._by) or signature.spec.key
        other = seen.setdefault((id(each.protector), by), each.name)
        if other != each.name:
            raise RegistrationError(
                f"{signature.name}: parameters {other!r} and {each.name!r} are the same datum: it is given once"
            )


def _check_owner(name: str, parameters: Sequence[HandlerParameter], owner: object) -> None:
    for each in parameters:
        protector = each.protector
        if protector is not None and protector._owner not in (None, owner):
            raise RegistrationError(
                f"{name}: parameter {each.name!r}: {protector.name} is registered with another dispatcher: share it by "
                "messages, not by locks"
            )


def _own(protector: Protector[Any] | None, wanted: Wanted, owner: object) -> None:
    if protector is not None:
        protector._owner = owner
        if protector.name == UNNAMED:
            protector.name = text_of(wanted.kind)
