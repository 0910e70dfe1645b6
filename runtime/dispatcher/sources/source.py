"""Source: emits messages by itself. Starts and stops with its dispatcher; attached by being registered, or by `attach`.

Begun operations have a transaction id, unique in the process over all sources. The source sets it in the operation's message,
if that has a field `transaction` (`with_transaction`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from appbackplane.transport.errors import FailedPrecondition, InvalidArgument, Unavailable

from ..argument import ActiveObject
from ..handles import ReadyHandle
from ..locking import Lock
from ..message import Message, spec_of
from ..protectors import DataProtector, SelectiveProtector, shortened

if TYPE_CHECKING:
    from ..dispatcher_base import DispatcherBase

M = TypeVar("M", bound=Message)

#: `next` is atomic: any thread may call it.
_transactions = itertools.count(1)


class Source(ActiveObject):
    """Subclass it, and call `emit`. Registered as it is, it must be thread-safe; under a protector it need not be.

    >>> class Camera(Source):
    ...     def shutter(self) -> None:
    ...         self.emit(Taken(next(self.numbers)))
    """

    __slots__ = ("_dispatcher", "_has_stopped", "_is_running", "_lock", "emitted")

    _dispatcher: DispatcherBase | None
    _is_running: bool
    _has_stopped: bool
    #: The lock of its protector, if it is protected data.
    _lock: Lock | None
    #: Messages emitted while it has no dispatcher.
    emitted: list[Message]

    def __new__(cls, *_arguments: Any, **_keywords: Any) -> Self:
        self = super().__new__(cls)
        self._dispatcher = self._lock = None
        self._is_running = self._has_stopped = False
        self.emitted = []
        return self

    def emit(self, message: Message, *, priority: int | None = None) -> None:
        """Dispatch a message; from any thread. Raises `NoHandler`, `Busy`, and `Unavailable` once it has stopped."""
        dispatcher = self._dispatcher
        if dispatcher is None:
            self._check_message(message)
            self.emitted.append(message)
            return
        self._check_open()
        dispatcher.dispatch(message if self._lock is None else ReadyHandle(message, lock=self._lock), priority=priority)

    def begin_emitting(self) -> None:
        """Its component begins to serve. Override it; be quick. Raising keeps the component from serving."""

    def end_emitting(self) -> None:
        """Its component goes down, or its backplane is drained: begin no new work. Override it; be quick."""

    def _drain(self) -> None:
        self._stop()

    # -- for dispatchers ----------------------------------------------------------------------------------------------

    def _attach(self, dispatcher: DispatcherBase, lock: Lock | None) -> bool:
        """Attach it; False: it was attached there already. Raises `FailedPrecondition` if it is attached elsewhere."""
        if self._dispatcher is dispatcher and self._lock is lock:
            return False
        if self._dispatcher is not None:
            raise FailedPrecondition(
                f"{type(self).__name__} is attached to {self._dispatcher.name} already"
                + (": attach it once, either as protected data or not" if self._dispatcher is dispatcher else "")
            )
        self._dispatcher, self._lock = dispatcher, lock
        return True

    def _start(self) -> None:
        if not self._is_running:
            self._is_running = True
            self.begin_emitting()

    def _stop(self) -> None:
        self._has_stopped = True
        if self._is_running:
            self._is_running = False
            self.end_emitting()

    # -- for subclasses -----------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._has_stopped:
            where = "" if self._dispatcher is None else f" of {self._dispatcher.name}"
            raise Unavailable(f"{type(self).__name__}{where} has stopped: it starts no more operations")

    def _check_message(self, message: object) -> None:
        """Raises `InvalidArgument` if the object is no message."""
        if spec_of(type(message)) is None:
            remedy = "construct one" if spec_of(message) else "declare its class with @message(category=…, id=…)"
            raise InvalidArgument(f"{shortened(message)} is not a message: {remedy}")

    def _check_heard(self, kind: type[Message]) -> None:
        """Raises `NoHandler` if no handler takes messages of this type."""
        if self._dispatcher is not None:
            self._dispatcher._sources.check_heard(kind)


def next_transaction() -> int:
    """A new transaction id, unique in this process."""
    return next(_transactions)


def with_transaction(message: M, id: int) -> M:
    """A copy of the message with its field `transaction` set; the message itself if it has no such field."""
    if "transaction" not in type(message).__struct_fields__:
        return message
    return msgspec.structs.replace(message, transaction=id)


def sources_in(argument: object) -> Iterator[tuple[Source, Lock | None]]:
    """The sources in a registered argument, with the locks of those that are protected."""
    if isinstance(argument, Source):
        yield argument, None
    elif isinstance(argument, (DataProtector, SelectiveProtector)):
        for lock, datum in argument._all():
            if isinstance(datum, Source):
                yield datum, lock
