"""Data: whether an object may be put under a lock, and whether it is under one already.

A datum is an object that handlers change in place. A new value for an immutable one would be lost with the handler's variable.
One with a lock of its own could cause a circular wait with the dispatcher's locks. One under two locks is under none.
"""

from __future__ import annotations

import dataclasses
import threading
import types
import weakref
from enum import Enum
from typing import TYPE_CHECKING, Any

from ...objects.app_object import AppObject
from ...objects.operation import DeclarationError
from ..argument import LockedArgument
from .fields import changeable, is_frozen
from .kinds import an, text_of
from .lock_search import LOCKS, is_lock, lock_in, lock_in_class

if TYPE_CHECKING:
    from ..protectors import Protector

_VALUES = (int, float, complex, str, bytes, type(None), range, Enum, type(...))
_CODE = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    types.GeneratorType,
    types.CoroutineType,
)

#: The protector of a datum, by the `id()` of the datum, which lives as long as its protector.
_protected: weakref.WeakValueDictionary[int, Protector[Any]] = weakref.WeakValueDictionary()
_mutex = threading.Lock()


def check_datum(datum: object, where: str) -> None:
    """Raises `DeclarationError` if the object cannot be a datum. `where`: start of its text, `DataProtector(…)`."""
    if isinstance(datum, type):
        raise DeclarationError(f"{where} is a class: construct the datum in the call, {datum.__name__}()")
    if isinstance(datum, LockedArgument):
        raise DeclarationError(f"{where} is protected already: register it as it is")
    if isinstance(datum, AppObject):
        raise DeclarationError(f"{where} is active: send it messages, or protect a plain object that it shares")
    if isinstance(datum, _CODE):
        raise DeclarationError(f"{where} is {an(text_of(type(datum)))}: protect an object that handlers can change")
    if is_lock(datum):
        raise DeclarationError(f"{where} is a lock: protect what it guards, and the dispatcher locks it")
    if is_value(datum):
        raise DeclarationError(f"{where}: {_unchangeable(type(datum))}")
    if problem := lock_in(datum):
        raise DeclarationError(f"{where}: {problem}: {WITHOUT_LOCKS}")


def check_made(datum: object, where: str, *, is_first: bool) -> None:
    """`check_datum` for an object made by a user's factory; all but the first are checked in a microsecond."""
    if is_first or is_value(datum) or isinstance(datum, type):
        check_datum(datum, where)
    if (other := protector_of(datum)) is not None:
        raise DeclarationError(f"{where} is protected already, by {other!r}: two locks would not protect it")


def check_class(cls: type, where: str) -> None:
    """`check_datum` for the future instances of a class."""
    if issubclass(cls, _VALUES) or (is_frozen(cls) and changeable(cls) is None):
        raise DeclarationError(f"{where}: {_unchangeable(cls)}")
    if issubclass(cls, (LockedArgument, AppObject, *LOCKS)):
        raise DeclarationError(f"{where} makes objects that cannot be protected: give it a plain class")
    if problem := lock_in_class(cls):
        raise DeclarationError(f"{where}: {problem}: {WITHOUT_LOCKS}")


WITHOUT_LOCKS = (
    "remove it: the dispatcher locks protected data; an object that needs a lock of its own must be an ActiveObject"
)


def claim(datum: object, protector: Protector[Any], where: str) -> None:
    """Record the protector of a datum. Raises `DeclarationError` if it has one already."""
    with _mutex:
        other = protector_of(datum)
        if other is not None:
            raise DeclarationError(f"{where} is protected already, by {other!r}: two locks would not protect it")
        _protected[id(datum)] = protector


def protector_of(datum: object) -> Protector[Any] | None:
    """The protector of an object; None: it is not protected."""
    protector = _protected.get(id(datum))
    return protector if protector is not None and protector._has(datum) else None


def is_value(value: object) -> bool:
    """Whether nothing in a value can be changed in place."""
    if isinstance(value, _VALUES):
        return True
    if isinstance(value, (tuple, frozenset)):
        return all(map(is_value, value))
    if is_frozen(type(value)):
        return all(is_value(getattr(value, name, None)) for name in _fields(type(value)))
    return False


def _unchangeable(cls: type) -> str:
    return f"a handler cannot change {an(cls.__name__)} in place: protect an object that has it in a field"


def _fields(cls: Any) -> tuple[str, ...]:
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    return tuple(cls.__struct_fields__)
