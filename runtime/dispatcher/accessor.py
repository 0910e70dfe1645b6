"""Accessor: to lock a further datum inside a handler, when only there it is known which, or whether (seed 003, 4.2).

What is held of higher rank is released first and taken again with it (figure 6), or two handlers could wait for each other.
So after `lock()` and after the end of its block, what the handler was given may have been changed by others meanwhile, as
far as its rank is higher: construct early what handlers are registered with, and late what they reach for.
An accessor is a parameter like any other: a test gives a handler `Accessor.of(datum)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from appbackplane.transport.errors import FailedPrecondition

from .argument import Given
from .locking import Lock

T = TypeVar("T")
K = TypeVar("K")
T_co = TypeVar("T_co", covariant=True)
K_contra = TypeVar("K_contra", contravariant=True)


class Reach(Protocol):
    """By which accessors lock and let go: the delivery whose handler runs (delivery.py)."""

    def reach(self, lock: Lock, *, is_shared: bool, who: str) -> None:
        """Hold this one, too. Waits."""

    def let_go(self, lock: Lock) -> None:
        """Hold it no longer, if nothing else wants it."""


class Accessor(Generic[T_co]):
    """One datum, within reach."""

    __slots__ = ("_find", "_is_shared", "_name", "_reach")

    def __init__(
        self, name: str, reach: Reach | None, find: Callable[[], tuple[Lock | None, T_co]], is_shared: bool
    ) -> None:
        self._name, self._reach, self._find, self._is_shared = name, reach, find, is_shared

    @classmethod
    def of(cls, datum: T) -> Accessor[T]:
        """For tests of handlers: nothing is locked."""
        return Accessor(type(datum).__name__, None, lambda: (None, datum), False)

    @contextmanager
    def lock(self) -> Iterator[T_co]:
        """The datum, locked inside the block: `with room.lock() as found:`."""
        lock, datum = self._find()
        if lock is None or self._reach is None:
            yield datum
            return
        self._reach.reach(lock, is_shared=self._is_shared, who=self._name)
        try:
            yield datum
        finally:
            self._reach.let_go(lock)


class SelectiveAccessor(Generic[K_contra, T_co]):
    """Many data, within reach by their keys."""

    __slots__ = ("_find", "_is_shared", "_name", "_reach")

    def __init__(
        self, name: str, reach: Reach | None, find: Callable[[K_contra], tuple[Lock | None, T_co]], is_shared: bool
    ) -> None:
        self._name, self._reach, self._find, self._is_shared = name, reach, find, is_shared

    @classmethod
    def of(cls, data: Mapping[K, T]) -> SelectiveAccessor[K, T]:
        """For tests of handlers: nothing is locked."""
        return SelectiveAccessor("data", None, lambda key: (None, data[key]), False)

    @contextmanager
    def lock(self, key: K_contra) -> Iterator[T_co]:
        """The datum of `key`, locked inside the block. Raises `NotFound`."""
        lock, datum = self._find(key)
        if lock is None or self._reach is None:
            yield datum
            return
        self._reach.reach(lock, is_shared=self._is_shared, who=self._name)
        try:
            yield datum
        finally:
            self._reach.let_go(lock)


class Protected(Protocol[T_co]):
    """What an accessor needs of a `DataProtector`."""

    name: str

    def _select(self, message: Any) -> tuple[Lock, T_co]: ...


class Selection(Protocol[K_contra, T_co]):
    """What an accessor needs of a `SelectiveProtector`."""

    name: str

    def _reached(self, key: K_contra) -> tuple[Lock, T_co]: ...


class AccessorOf(Given[Accessor[T]]):
    """What is registered for a parameter that is an `Accessor`."""

    __slots__ = ("protector",)

    def __init__(self, protector: Protected[T]) -> None:
        self.protector = protector

    def _bind(self, reach: Reach, message: Any, is_shared: bool) -> Accessor[T]:
        protector = self.protector
        return Accessor(protector.name, reach, lambda: protector._select(message), is_shared)


class SelectiveAccessorOf(Given[SelectiveAccessor[K, T]]):
    """What is registered for a parameter that is a `SelectiveAccessor`."""

    __slots__ = ("protector",)

    def __init__(self, protector: Selection[K, T]) -> None:
        self.protector = protector

    def _bind(self, reach: Reach, message: Any, is_shared: bool) -> SelectiveAccessor[K, T]:
        return SelectiveAccessor(self.protector.name, reach, self.protector._reached, is_shared)


def finished(who: str) -> FailedPrecondition:
    """An accessor was kept."""
    return FailedPrecondition(
        f"the accessor of {who} was used after its handler had returned: it ends with the handler"
    )
