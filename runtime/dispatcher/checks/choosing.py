"""Choosing: checks the functions given to selective protectors: selectors of a message's key, and factories of a key's datum.

They are first called when a message comes. So their known properties are checked before: that they take one argument, its type,
and the type of their result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_origin, get_type_hints

from ...objects.operation import DeclarationError
from ..argument import LockedArgument
from .data import WITHOUT_LOCKS, check_class
from .kinds import an
from .lock_search import found_in, is_lock

#: Modules whose classes would take the key as their contents.
_BUILTIN = ("builtins", "collections")


def check_function(function: object, where: str, of: str) -> None:
    """Check that it can be called with one argument. `of`: "message" or "key". Raises `DeclarationError`."""
    if not callable(function):
        raise DeclarationError(f"{where} is {an(type(function).__name__)}: expected a function of the {of}")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise DeclarationError(f"{where} is a coroutine or a generator: expected a plain function of the {of}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # written in C, without a signature
        return
    try:
        signature.bind(None)
    except TypeError:
        raise DeclarationError(f"{where} takes {signature}: expected a function of the {of} alone") from None


def check_factory(factory: object, where: str) -> None:
    """Check a factory, which makes a datum from its key. Raises `DeclarationError`."""
    if isinstance(factory, (list, tuple, set, frozenset)):
        raise DeclarationError(
            f"{where} is {an(type(factory).__name__)}: give a map of keys to data, dict(enumerate(…))"
        )
    if isinstance(factory, LockedArgument):
        raise DeclarationError(f"{where} is protected already: register it as it is")
    if problem := is_lock(factory):
        raise DeclarationError(f"{where} {problem}: give a function that makes data from their keys")
    made = get_origin(factory) or factory
    if isinstance(made, type):
        if made.__module__ in _BUILTIN:
            raise DeclarationError(
                f"{where} would make {an(made.__name__)} of the key itself: write lambda key: {made.__name__}()"
            )
        check_class(made, where)
    elif problem := found_in(factory, is_lock):
        raise DeclarationError(f"{where} {problem}: {WITHOUT_LOCKS}")
    check_function(factory, where, "key")


def taken(function: Callable[..., Any]) -> Any:
    """The annotation of its first parameter; None: it has none."""
    hints = _hints(vars(function).get("__init__") if isinstance(function, type) else function)
    names = list(inspect.signature(function).parameters) if hints else []
    return hints.get(names[0]) if names else None


def returned(function: Callable[..., Any]) -> Any:
    """Its return annotation, a class itself; None: it has none."""
    if isinstance(get_origin(function) or function, type):
        return function
    return _hints(function).get("return")


def _hints(function: Any) -> dict[str, Any]:
    try:
        return get_type_hints(inspect.unwrap(function))
    except Exception:  # unknown annotations are not compared
        return {}
