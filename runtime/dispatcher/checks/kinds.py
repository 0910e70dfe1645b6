"""Kinds: whether a value, or the result of a factory, has the type that an annotation names.

It does the work of a type checker, as far as that is possible at run time: unions, protocols, generic types whose arguments are
known, forward references (already resolved). Unknown facts get the benefit of the doubt, since a type checker sees them: the
type of the elements of an empty list, a type variable without a bound.
"""

from __future__ import annotations

import functools
import itertools
import operator
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

#: `float` in an annotation takes an int (PEP 484).
_PROMOTED: dict[Any, tuple[type, ...]] = {float: (float, int), complex: (complex, float, int)}
#: Elements of a container that are checked: a mistake is in the first as in the last.
_ELEMENTS_MAX = 100


@typing.runtime_checkable
class _Empty(typing.Protocol):
    """An empty protocol: this Python adds its members to every protocol."""

    _: int  # so that it has annotations


_NOT_MEMBERS = {*dir(_Empty), *vars(_Empty), "__orig_bases__", "__parameters__", "__slots__", "__match_args__"}


class NoKind(Exception):
    """The annotation is no type that a value could have."""


def fits(value: object, kind: Any) -> bool:
    """Whether a value has the type `kind`. Raises `NoKind`."""
    kind = plain(kind)
    origin = get_origin(kind)
    if kind is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, each) for each in get_args(kind))
    if origin is Literal:
        return value in get_args(kind)
    if origin is type:
        return isinstance(value, type) and all(not isinstance(a, type) or issubclass(value, a) for a in get_args(kind))
    cls = origin or kind
    if not isinstance(cls, type):
        raise NoKind(kind)
    if members := _members_of(cls):
        return all(hasattr(value, each) for each in members)
    if typing.is_typeddict(cls):
        return isinstance(value, dict) and getattr(cls, "__required_keys__", set()) <= value.keys()
    return isinstance(value, _PROMOTED.get(cls, cls)) and _has_arguments(value, get_args(kind))


def is_made(made: Any, kind: Any) -> bool:
    """Whether all values of type `made` have the type `kind`. Raises `NoKind`."""
    made, kind = plain(made), plain(kind)
    if kind is Any or kind is object or made is Any or made == kind:
        return True
    if get_origin(made) in (Union, types.UnionType):
        return all(is_made(each, kind) for each in get_args(made))
    if get_origin(kind) in (Union, types.UnionType):
        return any(is_made(made, each) for each in get_args(kind))
    if get_origin(made) is Literal:
        return all(fits(each, kind) for each in get_args(made))
    mine, wanted = get_origin(made) or made, get_origin(kind) or kind
    if not isinstance(mine, type) or not isinstance(wanted, type):
        raise NoKind(kind if isinstance(mine, type) else made)
    if members := _members_of(wanted):
        return all(hasattr(mine, each) or each in getattr(mine, "__annotations__", ()) for each in members)
    if typing.is_typeddict(wanted) or typing.is_typeddict(mine):
        return mine is wanted
    if not issubclass(mine, _PROMOTED.get(wanted, wanted)):
        return False
    pairs = zip(get_args(made), get_args(kind), strict=False) if mine is wanted else ()
    return all(_is_open(a) or _is_open(b) or is_made(a, b) for a, b in pairs)


def plain(kind: Any) -> Any:
    """The type behind `Annotated`, new types, type aliases and type variables."""
    while True:
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        elif isinstance(kind, TypeVar):
            kind = (
                functools.reduce(operator.or_, kind.__constraints__) if kind.__constraints__ else kind.__bound__ or Any
            )
        elif kind is None:
            return types.NoneType
        elif hasattr(kind, "__supertype__"):
            kind = kind.__supertype__
        elif hasattr(kind, "__value__"):
            kind = kind.__value__
        else:
            return kind


def text_of(kind: Any) -> str:
    """A type as it is written: `Room`, `dict[str, Room]`, `Room | None`."""
    if kind is types.NoneType:
        return "None"
    if get_origin(kind) is Annotated:
        return text_of(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return " | ".join(text_of(each) for each in get_args(kind))
    arguments = get_args(kind)
    if arguments and get_origin(kind) is not Literal:
        inner = ", ".join("…" if each is ... else text_of(each) for each in arguments)
        return f"{text_of(get_origin(kind))}[{inner}]"
    return str(getattr(kind, "__name__", None) or str(kind).removeprefix("typing."))


def an(text: str) -> str:
    """With its article: `a Room`, `an Accessor[Room]`."""
    return f"an {text}" if text[:1] in "AEIOUaeiou" else f"a {text}"


def kind_of(value: object, wanted: Any) -> str:
    """The type of a value that does not fit, as text: `Journal`; `dict of other contents` where a dict was wanted."""
    origin = get_origin(plain(wanted))
    is_near = isinstance(origin, type) and isinstance(value, origin)
    return type(value).__name__ + (" of other contents" if is_near else "")


def _has_arguments(value: object, arguments: tuple[Any, ...]) -> bool:
    """Whether the known type arguments, or the elements, of a generic value fit the wanted arguments."""
    if not arguments or any(map(_is_open, arguments)):
        return True
    known = get_args(getattr(value, "__orig_class__", None))
    if len(known) == len(arguments):
        return all(_is_open(each) or is_made(each, wanted) for each, wanted in zip(known, arguments, strict=True))
    if isinstance(value, Mapping) and len(arguments) == 2:
        return _all_fit(value.keys(), arguments[0]) and _all_fit(value.values(), arguments[1])
    if isinstance(value, (list, set, frozenset)) and len(arguments) == 1:
        return _all_fit(value, arguments[0])
    return True


def _all_fit(values: Iterable[object], kind: Any) -> bool:
    return all(fits(each, kind) for each in itertools.islice(values, _ELEMENTS_MAX))


def _is_open(kind: Any) -> bool:
    return kind is Any or kind is ... or isinstance(kind, (TypeVar, list))


def _members_of(cls: type) -> set[str]:
    """The members that a protocol requires; empty: it is no protocol."""
    if not getattr(cls, "_is_protocol", False):
        return set()
    return {
        name
        for base in cls.__mro__
        if getattr(base, "_is_protocol", False)
        for name in (*vars(base), *vars(base).get("__annotations__", ()))
        if name not in _NOT_MEMBERS
    }
