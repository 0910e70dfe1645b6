"""Argument: what may be registered for a parameter of a handler. Under what name it comes is the parameter's business.

Type checkers compare the T of each with the parameter (registrar.py), registration does the same at run time.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Argument(Generic[T_co]):
    """What may be registered for a parameter of type T."""

    __slots__ = ("__weakref__",)


class ActiveObject(Argument[Any]):
    """What handlers may share without a lock: it is safe for threads by itself, and nothing it does ever waits.

    Subclass it; registered, it is given to handlers as it is (seed 003, section 5: "Monitor like behavior by providing
    non-blocking self-synchronization").
    """

    __slots__ = ()
