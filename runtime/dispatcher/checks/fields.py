"""Fields: the types that a message may contain. Checked when a message is declared, from annotations alone.

All its handlers see the same object, so nothing in it can be changed in place. It travels, so msgspec must be able to decode
it. Its key selects a queue and a datum, so the key must be hashable. Lists and maps come as such from the wire: a message
annotates them as read-only types, `Sequence` or `Mapping`, so that type checkers refuse changes.
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

#: Types that can be changed in place, and their replacements.
_INSTEAD: dict[Any, str] = {
    list: "Sequence", dict: "Mapping", set: "frozenset", bytearray: "bytes", collections.deque: "Sequence",
    collections.defaultdict: "Mapping", collections.OrderedDict: "Mapping", collections.Counter: "Mapping",
    abc.MutableSequence: "Sequence", abc.MutableMapping: "Mapping", abc.MutableSet: "frozenset",
}  # fmt: skip
#: Containers that cannot be changed, but whose elements may be.
_READ_ONLY = (tuple, frozenset, abc.Sequence, abc.Mapping, abc.Set, abc.Collection)
_HASHABLE = (
    str, int, float, bytes, Enum, uuid.UUID, decimal.Decimal, datetime.datetime, datetime.date, datetime.time,
    datetime.timedelta, types.NoneType, complex,
)  # fmt: skip

#: How deep structs in structs are examined: some contain themselves.
_DEPTH_MAX = 8


def changeable(kind: Any) -> str | None:
    """The changeable part of a type, and a remedy: "list[int] can be changed: write Sequence[int]"; None: there is none."""
    return _changeable(kind, set())


def unhashable(kind: Any) -> str | None:
    """The part of a type whose values have no hash, or may have none; None: all have one."""
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
    """Why values of a type do not travel, with a remedy, as text for an error; None: they do."""
    try:
        msgspec.json.Decoder(kind)
        strange = _strange(msgspec.inspect.type_info(kind))
    except NameError as error:
        return f"{error}: define the types of its fields above it, and import them outside `if TYPE_CHECKING`"
    except TypeError as error:
        return str(error).partition("\n")[0]
    return None if strange is None else f"{an(strange.__name__)} cannot be sent: send its parts"


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
    """The fields and types of a struct, dataclass, named tuple or typed dictionary; None: it is none of these."""
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
    """Whether a class is a frozen dataclass, a frozen struct, or a tuple."""
    if issubclass(cls, msgspec.Struct):
        return cls.__struct_config__.frozen
    return issubclass(cls, tuple) or (
        dataclasses.is_dataclass(cls) and bool(cls.__dataclass_params__.frozen)  # type: ignore[attr-defined]
    )


def _strange(kind: Any, depth: int = 0) -> type | None:
    """A class in a type that msgspec does not know; None: it knows all."""
    if isinstance(kind, msgspec.inspect.CustomType):
        return kind.cls
    inner = [*getattr(kind, "types", ()), *getattr(kind, "item_types", ())]
    inner += [getattr(kind, name) for name in ("item_type", "key_type", "value_type") if hasattr(kind, name)]
    if depth < _DEPTH_MAX:
        inner += [field.type for field in getattr(kind, "fields", ())]
    return next((found for each in inner if (found := _strange(each, depth + 1))), None)
