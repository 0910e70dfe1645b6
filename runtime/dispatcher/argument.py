"""Argument: what may be registered for a parameter of a handler. Under what name it comes is the parameter's business.

Type checkers compare the T of each with the parameter (registrar.py), registration does the same at run time. What is under
a lock says its T by what it derives from; an active object is given as it is, so that its T is its own class: hence a
protocol, since no class can be named a base of itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Argument(Protocol[T_co]):
    """What may be registered for a parameter of type T: nothing but a type, for annotations."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _given(self) -> T_co: ...


class Given(Argument[T_co]):
    """What stands for data under locks: protectors, and what is made of them."""

    __slots__ = ("__weakref__",)

    if TYPE_CHECKING:

        def _given(self) -> T_co:
            raise NotImplementedError


class ActiveObject:
    """What handlers may share without a lock: it is safe for threads by itself, and nothing it does ever waits.

    Subclass it; registered, it is given to handlers as it is (seed 003, section 5: "Monitor like behavior by providing
    non-blocking self-synchronization").
    """

    __slots__ = ("__weakref__",)

    if TYPE_CHECKING:

        def _given(self) -> Self: ...
