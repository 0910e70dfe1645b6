"""Accessor: to lock a further datum inside a handler, when only there it is known which, or whether (seed 003, 4.2).

What is held of higher rank is released first and taken again with it (figure 6), or two handlers could wait for each other.
So after `lock()` what the handler was given may have been changed by others meanwhile, as far as its rank is higher, and
`disturbed` says whether it was: construct early what handlers are registered with, and late what they reach for. The end of
the block waits for nothing and releases nothing else. What a handler has already, in whatever way, it may lock again.
An accessor is a parameter like any other: a test gives a handler `Accessor.of(datum)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Generic, Protocol, TypeVar

from appbackplane.transport.errors import FailedPrecondition

from .argument import Given
from .locking import Claim, Lock

T = TypeVar("T")
K = TypeVar("K")
T_co = TypeVar("T_co", covariant=True)
K_contra = TypeVar("K_contra", contravariant=True)


class Reach(Protocol):
    """By which accessors lock and let go: the delivery whose handler runs (delivery.py)."""

    def reach(self, lock: Lock, *, is_shared: bool, who: str) -> tuple[Claim, tuple[str, ...]]:
        """Hold this one, too. Waits. What `let_go` wants, and the names of what others have changed meanwhile."""

    def let_go(self, claim: Claim) -> None:
        """Hold it no longer, if nothing else wants it. Does not wait."""


class Reaching:
    """What both kinds of accessors have."""

    __slots__ = ("_is_shared", "_name", "_reach", "disturbed")

    def __init__(self, name: str, reach: Reach | None, is_shared: bool, disturbed: Sequence[str] = ()) -> None:
        self._name, self._reach, self._is_shared = name, reach, is_shared
        #: Of what the handler held already, the names of what others may have changed while the latest `lock` waited:
        #: what was read of it before is to be read again. Empty: all is as it was.
        self.disturbed: tuple[str, ...] = tuple(disturbed)


class Accessor(Reaching, Generic[T_co]):
    """One datum, within reach."""

    __slots__ = ("_find",)

    def __init__(
        self, name: str, reach: Reach | None, find: Callable[[], tuple[Lock | None, T_co]], is_shared: bool,
        disturbed: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(name, reach, is_shared, disturbed)
        self._find = find

    @classmethod
    def of(cls, datum: T, *, disturbed: Sequence[str] = ()) -> Accessor[T]:
        """For tests of handlers: nothing is locked. `disturbed`: what `lock` is to find changed by others."""
        return Accessor(type(datum).__name__, None, lambda: (None, datum), False, disturbed)

    def lock(self) -> AbstractContextManager[T_co]:
        """The datum, locked inside the block: `with room.lock() as found:`."""
        return _locked(self, *self._find())


class SelectiveAccessor(Reaching, Generic[K_contra, T_co]):
    """Many data, within reach by their keys."""

    __slots__ = ("_find",)

    def __init__(
        self, name: str, reach: Reach | None, find: Callable[[K_contra], tuple[Lock | None, T_co]], is_shared: bool,
        disturbed: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(name, reach, is_shared, disturbed)
        self._find = find

    @classmethod
    def of(cls, data: Mapping[K, T], *, disturbed: Sequence[str] = ()) -> SelectiveAccessor[K, T]:
        """For tests of handlers: nothing is locked. `disturbed`: what `lock` is to find changed by others."""
        return SelectiveAccessor("data", None, lambda key: (None, data[key]), False, disturbed)

    def lock(self, key: K_contra) -> AbstractContextManager[T_co]:
        """The datum of `key`, locked inside the block. Raises `NotFound`."""
        return _locked(self, *self._find(key))


@contextmanager
def _locked(accessor: Reaching, lock: Lock | None, datum: T) -> Iterator[T]:
    reach = accessor._reach
    if lock is None or reach is None:
        yield datum
        return
    claim, accessor.disturbed = reach.reach(lock, is_shared=accessor._is_shared, who=accessor._name)
    try:
        yield datum
    finally:
        reach.let_go(claim)


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
        f"the accessor of {who} was used after its handler had returned, or in another thread: it ends with the handler"
    )
