"""Accessor: locks a further datum inside a handler, when only the handler knows which one, or whether (seed 003, 4.2).

`lock()` first releases held locks of higher rank and takes them again with the new one (figure 6); otherwise two handlers
could wait for each other. So others may have changed those data meanwhile, and `disturbed` names the changed ones. Construct
registered data early, and data for accessors late: then few locks are released. The end of the block waits for nothing and
releases nothing else. A handler may lock a datum again that it already holds in any way.
An accessor is a parameter like any other: a test gives a handler `Accessor.of(datum)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Generic, Protocol, TypeVar

from appbackplane.transport.errors import FailedPrecondition

from .locking import Lock, LockClaim

T = TypeVar("T")
K = TypeVar("K")
T_co = TypeVar("T_co", covariant=True)
K_contra = TypeVar("K_contra", contravariant=True)


class AccessorLocks(Protocol):
    """The methods of a delivery by which the accessors of its handler lock and release (delivery.py)."""

    def reach(self, lock: Lock, *, is_shared: bool, who: str) -> tuple[LockClaim, tuple[str, ...]]:
        """Hold this lock, too. Waits. Returns the claim for `let_go`, and the names of held data that others changed."""

    def let_go(self, claim: LockClaim) -> None:
        """Release the claim, unless the handler holds its lock otherwise, too. Does not wait."""


class AccessorBase:
    """Base of both kinds of accessor."""

    __slots__ = ("_find", "_is_shared", "_name", "_reach", "disturbed")

    def __init__(
        self, name: str, reach: AccessorLocks | None, find: Callable[..., tuple[Lock | None, Any]], is_shared: bool,
        disturbed: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """`find`: the lock and the datum of the arguments of `lock`."""
        self._name, self._reach, self._find, self._is_shared = name, reach, find, is_shared
        #: Names of data held already that others may have changed while the latest `lock` waited: read them again.
        #: Empty: none was changed.
        self.disturbed: tuple[str, ...] = tuple(disturbed)


class Accessor(AccessorBase, Generic[T_co]):
    """One datum that a handler can lock when it needs it."""

    __slots__ = ()

    @classmethod
    def of(cls, datum: T, *, disturbed: Sequence[str] = ()) -> Accessor[T]:
        """For tests of handlers: locks nothing. `disturbed`: the names that are reported as changed by others."""
        return Accessor(type(datum).__name__, None, lambda: (None, datum), False, disturbed)

    def lock(self) -> AbstractContextManager[T_co]:
        """The datum, locked inside the block: `with room.lock() as found:`. `FailedPrecondition` outside of its handler."""
        return _locked(self, *self._find())


class SelectiveAccessor(AccessorBase, Generic[K_contra, T_co]):
    """Many data, each of which a handler can lock by its key."""

    __slots__ = ()

    @classmethod
    def of(cls, data: Mapping[K, T], *, disturbed: Sequence[str] = ()) -> SelectiveAccessor[K, T]:
        """For tests of handlers: locks nothing. `disturbed`: the names that are reported as changed by others."""
        return SelectiveAccessor("data", None, lambda key: (None, data[key]), False, disturbed)

    def lock(self, key: K_contra) -> AbstractContextManager[T_co]:
        """The datum of `key`, locked inside the block. Raises `NotFound`, and `FailedPrecondition` outside of its handler."""
        return _locked(self, *self._find(key))


@contextmanager
def _locked(accessor: AccessorBase, lock: Lock | None, datum: T) -> Iterator[T]:
    reach = accessor._reach
    if lock is None or reach is None:
        yield datum
        return
    claim, accessor.disturbed = reach.reach(lock, is_shared=accessor._is_shared, who=accessor._name)
    try:
        yield datum
    finally:
        reach.let_go(claim)


def finished(who: str) -> FailedPrecondition:
    """Error for an accessor used after its handler, or in another thread."""
    return FailedPrecondition(
        f"the accessor of {who} was used after its handler had returned, or in another thread: it ends with the handler"
    )
