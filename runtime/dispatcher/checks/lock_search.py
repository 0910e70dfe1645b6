"""Lock search: finds locks of their own in handlers and data, before any message arrives.

Seed 003, section 5: deadlock is ruled out "as long as the application programmer does not interfere": a handler that waits for
a lock of its own, holding data, can wait for ever. The paper leaves this to code review. Here the handler's code is read: the
globals, closures, defaults and attributes that it names, and the functions of its own package that it calls. Other packages
are not searched, nor is an `ActiveObject`, which may have a lock that it never holds for long. A lock reached in another way
(by a computed name) is not found. Costs under a millisecond per handler.
"""

from __future__ import annotations

import dataclasses
import dis
import inspect
import itertools
import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ...objects.app_object import AppObject
from ..argument import ActiveObject, LockedArgument

#: Types that make a handler wait for another. (An Event or a Queue makes it wait too, but guards nothing: a handler that
#: blocks is reported when it does.)
LOCKS: Final = (type(threading.Lock()), type(threading.RLock()), threading.Condition, threading.Semaphore)
#: Functions and classes that make locks.
_MAKERS: Final = (threading.Lock, threading.RLock, threading.Condition, threading.Semaphore, threading.BoundedSemaphore)
#: Our own package: it has locks, and knows when to take them.
_OURS: Final = "appbackplane"
#: Types whose inside is not searched.
_CLOSED: Final = (ActiveObject, LockedArgument, AppObject)
#: Functions read for one handler, and objects examined in one datum: enough for any that people write.
_STEPS_MAX: Final = 1_000

#: The verdict on a value that was reached: "is a lock"; None: harmless.
Judge = Callable[[object], str | None]


def lock_in(datum: object) -> str | None:
    """Where a lock is in a datum, or in the code of its class: `Room.mutex is a lock`; None: nowhere."""
    package, name = _package_of(type(datum)), type(datum).__name__
    if package == _OURS or isinstance(datum, ActiveObject):
        return None
    if any(map(is_lock, _elements(datum))):
        return f"{name} has a lock in it"
    return _inside(datum, name, package, set()) or lock_in_class(type(datum), datum)


def lock_in_class(cls: type, instance: object = None) -> str | None:
    """Where a lock is in a class and its code: `Room.__init__ uses threading.Lock, which makes locks`; None: nowhere."""
    package = _package_of(cls)
    if issubclass(cls, ActiveObject):
        return None
    if dataclasses.is_dataclass(cls):
        for field in dataclasses.fields(cls):
            if field.default_factory in _MAKERS:
                return f"{cls.__name__}.{field.name} is a lock"
    reader = _Reader(is_lock, package)
    for each in cls.__mro__:
        if _package_of(each) != package:
            continue
        for name, value in vars(each).items():
            where = f"{each.__name__}.{name}"
            if said := is_lock(value):
                return f"{where} {said}"
            function = _function_of(value)
            if function is not None and (said := reader.read(function, instance)):
                return f"{where} {said}"
    return None


def found_in(function: object, judge: Judge) -> str | None:
    """The verdict on all values that a handler reaches: `uses LOCK, which is a lock`; None: harmless."""
    plain = _function_of(function)
    if plain is None:
        return None
    return _Reader(judge, (plain.__module__ or "").partition(".")[0]).read(plain, getattr(function, "__self__", None))


def is_lock(value: object) -> str | None:
    """The judge for locks, and for functions that make them."""
    if isinstance(value, LOCKS):
        return "is a lock"
    if any(value is each for each in _MAKERS):
        return "makes locks"
    made_elsewhere = sys.modules.get("multiprocessing.synchronize")
    if made_elsewhere is not None and isinstance(value, made_elsewhere.SemLock):
        return "is a lock"
    return None


class _Reader:
    """Reads functions of one package, each of them once."""

    def __init__(self, judge: Judge, package: str) -> None:
        self._judge, self._package = judge, package
        self._read: set[tuple[types.CodeType, int]] = set()

    def read(self, function: types.FunctionType, instance: object) -> str | None:
        """The verdict on a function. `instance`: the value of its first parameter; None: unknown."""
        function = inspect.unwrap(function)
        if not isinstance(function, types.FunctionType) or (function.__code__, id(instance)) in self._read:
            return None
        self._read.add((function.__code__, id(instance)))
        if len(self._read) > _STEPS_MAX:
            return None
        defaults = itertools.chain(function.__defaults__ or (), (function.__kwdefaults__ or {}).values())
        for value in defaults:
            if said := self._said_of(value):
                return f"has a default that {said}"
        known = dict(zip(function.__code__.co_freevars, _contents(function.__closure__ or ()), strict=True))
        if instance is not None and function.__code__.co_argcount:
            known[function.__code__.co_varnames[0]] = instance
        return self._code(function.__code__, function.__globals__, known)

    def _code(self, code: types.CodeType, names: Mapping[str, Any], known: Mapping[str, Any]) -> str | None:
        for text, value in _reached(code, names, known):
            if said := self._said_of(value):
                return f"uses {text}, which {said}"
            function = _function_of(value)
            is_closed = isinstance(value, type) and issubclass(value, _CLOSED)
            if function is None or is_closed or self._package == _OURS or _package_of(function) != self._package:
                continue
            bound = getattr(value, "__self__", None)
            if not isinstance(bound, _CLOSED[:2]) and (said := self.read(function, bound)):
                return f"calls {text}, which {said}"
        for inner in code.co_consts:
            if isinstance(inner, types.CodeType) and (said := self._code(inner, names, known)):
                return said
        return None

    def _said_of(self, value: object) -> str | None:
        if said := self._judge(value):
            return said
        for each in _elements(value):
            if said := self._judge(each):
                return f"contains an object that {said}"
        return None


def _reached(code: types.CodeType, names: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """The values that a function names: globals, closures, modules that it imports, and attributes of these."""
    text, value, known = "", _NOTHING, dict(known)
    for name, argument in _steps(code):
        if name.startswith(("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM")) and value is not _NOTHING:
            text, value = f"{text}.{argument}", _attribute(value, argument)
        elif name == "IMPORT_NAME":
            text, value = argument, sys.modules.get(argument, _NOTHING)
        elif name.startswith("LOAD_") and isinstance(argument, str):
            text = argument
            is_global = name.startswith(("LOAD_GLOBAL", "LOAD_NAME"))
            value = (names if is_global else known).get(text, _NOTHING)
        elif name.startswith("STORE_") and value is not _NOTHING and isinstance(argument, str):
            known[argument], value = value, _NOTHING
        elif name not in ("CACHE", "PRECALL", "PUSH_NULL", "NOP", "EXTENDED_ARG"):
            value = _NOTHING
        if value is not _NOTHING:
            yield text, value


def _steps(code: types.CodeType) -> Iterator[tuple[str, Any]]:
    """Instructions and the names in them. From Python 3.13, one may be two: STORE_FAST_LOAD_FAST."""
    for step in dis.get_instructions(code):
        if isinstance(step.argval, tuple) and step.opname.count("_FAST") == len(step.argval) == 2:
            first = step.opname.index("_FAST") + len("_FAST")
            yield step.opname[:first], step.argval[0]
            yield step.opname[first + 1 :], step.argval[1]
        else:
            yield step.opname, step.argval


def _inside(value: object, text: str, package: str, seen: set[int]) -> str | None:
    """Where a lock is among the attributes of a value, and of values of its package in it; None: nowhere."""
    if id(value) in seen or len(seen) > _STEPS_MAX or isinstance(value, (*_CLOSED, type)):
        return None
    seen.add(id(value))
    for name, each in _attributes(value):
        where = f"{text}.{name}"
        for one in (each, *_elements(each)):
            if said := is_lock(one):
                return f"{where} {said if one is each else 'contains an object that ' + said}"
            if _package_of(type(one)) == package and (found := _inside(one, where, package, seen)):
                return found
    return None


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    yield from getattr(value, "__dict__", {}).items()
    for cls in type(value).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            found = _attribute(value, name)
            if found is not _NOTHING:
                yield name, found


def _elements(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple, set, frozenset)):
        return
    try:
        yield from itertools.islice(value, _STEPS_MAX)
    except RuntimeError:  # another thread changes it: the search is a snapshot anyway
        return


def _attribute(value: object, name: str) -> object:
    """An attribute, found without running user code such as a property or `__getattr__`; methods are bound."""
    try:
        found = inspect.getattr_static(value, name)
    except (AttributeError, TypeError):
        return _NOTHING
    if isinstance(found, types.MemberDescriptorType):
        return getattr(value, name, _NOTHING)
    if isinstance(found, types.FunctionType) and not isinstance(value, (type, types.ModuleType)):
        return types.MethodType(found, value)
    return found


def _function_of(value: object) -> types.FunctionType | None:
    """The plain function of a method or property; of a class, its `__init__`."""
    if isinstance(value, type):
        value = vars(value).get("__init__")
    if isinstance(value, property):
        value = value.fget
    value = getattr(value, "__func__", value)
    return value if isinstance(value, types.FunctionType) else None


def _contents(cells: tuple[types.CellType, ...]) -> Iterator[object]:
    for cell in cells:
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            yield _NOTHING


def _package_of(thing: type | types.FunctionType) -> str:
    return (thing.__module__ or "").partition(".")[0]


_NOTHING: Final = object()
