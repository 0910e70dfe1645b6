"""Fields: what a message may be made of. All handlers of a message see the same one, so nothing in it can be changed in place;
it travels, so msgspec knows how to make it of what has come; and its key finds a lane and a datum, so it can be hashed.

Lists and maps come as such from the wire: where a message has one it is annotated as what can only be read, `Sequence` or
`Mapping`, and a type checker refuses to change it. Read when a message is declared, from annotations alone.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import types
import typing
import uuid
from collections import abc
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from .kinds import an, plain, text_of

#: What can be changed in place, and what to write instead.
_INSTEAD: dict[Any, str] = {
    list: "Sequence", dict: "Mapping", set: "frozenset", bytearray: "bytes", collections.deque: "Sequence",
    collections.defaultdict: "Mapping", collections.OrderedDict: "Mapping", collections.Counter: "Mapping",
    abc.MutableSequence: "Sequence", abc.MutableMapping: "Mapping", abc.MutableSet: "frozenset",
}  # fmt: skip
#: What only wraps others.
_READ_ONLY = (tuple, frozenset, abc.Sequence, abc.Mapping, abc.Set, abc.Collection)
_HASHABLE = (
    str, int, float, bytes, Enum, uuid.UUID, decimal.Decimal, datetime.datetime, datetime.date, datetime.time,
    datetime.timedelta, types.NoneType, complex,
)  # fmt: skip

#: How deep structs in structs are looked into: some contain themselves.
_DEPTH_MAX = 8


def changeable(kind: Any) -> str | None:
    """What in a kind can be changed in place, and what to write instead: "list[int] can be changed: write Sequence[int]"."""
    return _changeable(kind, set())


def unhashable(kind: Any) -> str | None:
    """The part of a kind whose values have no hash, or may have none; None: all have one."""
    kind = plain(kind)
    origin = get_origin(kind)
    if origin is Literal:
        return None
    if origin in (Union, types.UnionType) or origin in (tuple, frozenset):
        return next((found for each in get_args(kind) if each is not ... and (found := unhashable(each))), None)
    if isinstance(kind, type) and origin is None:
        if issubclass(kind, _HASHABLE):
            return None
        if (parts := _fields_of(kind)) is not None and is_frozen(kind):
            return next((found for each in parts.values() if (found := unhashable(each))), None)
    return text_of(kind)


def cannot_travel(kind: Any) -> str | None:
    """Why values of a kind do not travel: "a Room does not travel: send what it is made of"; None: they do."""
    try:
        msgspec.json.Decoder(kind)
        strange = _strange(msgspec.inspect.type_info(kind))
    except NameError as error:
        return f"{error}: what is in it is defined above it, and imported outside `if TYPE_CHECKING`"
    except TypeError as error:
        return str(error).partition("\n")[0]
    return None if strange is None else f"{an(strange.__name__)} does not travel: send what it is made of"


def _changeable(kind: Any, seen: set[Any]) -> str | None:
    kind = plain(kind)
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin is Literal or origin in seen:
        return None
    if origin in _INSTEAD:
        inner = f"[{', '.join(map(text_of, arguments))}]" if arguments else ""
        return f"{text_of(kind)} can be changed: write {_INSTEAD[origin]}{inner}"
    if origin in (Union, types.UnionType, *_READ_ONLY):
        return next((found for each in arguments if each is not ... and (found := _changeable(each, seen))), None)
    if not isinstance(origin, type):
        return None
    parts = _fields_of(origin)
    if parts is None:
        return None
    if not is_frozen(origin):
        return f"{origin.__name__} can be changed: declare it with frozen=True"
    return next((found for each in parts.values() if (found := _changeable(each, {*seen, origin}))), None)


def _fields_of(cls: type) -> dict[str, Any] | None:
    """The fields of a struct, dataclass, named tuple or typed dictionary, and what they are; None: it is none of these."""
    if issubclass(cls, msgspec.Struct):
        return {field.name: field.type for field in msgspec.structs.fields(cls)}
    if (
        dataclasses.is_dataclass(cls)
        or typing.is_typeddict(cls)
        or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
    ):
        return get_type_hints(cls)
    return None


def is_frozen(cls: type) -> bool:
    """A frozen dataclass or struct, or a tuple."""
    if issubclass(cls, msgspec.Struct):
        return cls.__struct_config__.frozen
    return issubclass(cls, tuple) or (
        dataclasses.is_dataclass(cls) and bool(cls.__dataclass_params__.frozen)  # type: ignore[attr-defined]
    )


def _strange(kind: Any, depth: int = 0) -> type | None:
    """The class in it that msgspec does not know."""
    if isinstance(kind, msgspec.inspect.CustomType):
        return kind.cls
    inner = [*getattr(kind, "types", ()), *getattr(kind, "item_types", ())]
    inner += [getattr(kind, name) for name in ("item_type", "key_type", "value_type") if hasattr(kind, name)]
    if depth < _DEPTH_MAX:
        inner += [field.type for field in getattr(kind, "fields", ())]
    return next((found for each in inner if (found := _strange(each, depth + 1))), None)
