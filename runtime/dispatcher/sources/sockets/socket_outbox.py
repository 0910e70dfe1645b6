"""Socket outbox: passes the messages of one socket to the dispatcher: in order, a bounded number at a time, and without loss.

The socket is not read while a message has to wait: for earlier ones to be handled (`AHEAD_MAX`), or for room in the
dispatcher (`Busy`). So the excess of a fast peer waits in the kernel, and then at the peer.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from appbackplane.transport.errors import Busy

from ...handles import Handle, ReadyHandle
from ...message import Message
from .completions import Failed
from .io_thread import IoThread, SocketOwner

if TYPE_CHECKING:
    from .socket_source import SocketSource

log = logging.getLogger("appbackplane.runtime")

#: Messages of one connection that may be queued or running. They are handled one after the other (law 1), so one is enough
#: for a fast handler. With 64 the I/O thread is not woken for each, and a thousand connections stay within `max_posted`.
AHEAD_MAX: Final = 64


class SocketOperation:
    """One begun operation, from `begin_…` to its end."""

    __slots__ = ("handle", "id", "is_over", "owner")

    def __init__(self, id: int) -> None:
        self.id = id
        #: Its listener or connection, once known.
        self.owner: Any = None
        #: Its completion message, on its way.
        self.handle: Handle | None = None
        #: It was cancelled, or has ended.
        self.is_over = False


class MessageProducer(SocketOwner, Protocol):
    """The owner of a socket, as a producer of messages."""

    def fill(self) -> bool:
        """Queue the next message; False: there is none now."""

    def pump(self) -> None:
        """Continue to pass on messages."""


class SocketOutbox:
    """The messages of one socket. Used by the I/O thread only, except `released`."""

    __slots__ = ("_ahead", "_io", "_is_starved", "_owner", "_source", "ordering_key", "queue")

    def __init__(self, source: SocketSource, io: IoThread, owner: MessageProducer) -> None:
        self._source, self._io, self._owner = source, io, owner
        #: Messages of one socket that have no key are handled in the order in which they came.
        self.ordering_key = (id(source), id(owner))
        self.queue: deque[Handle] = deque()
        #: Messages queued or running, and whether others wait for them. Both under the source's mutex.
        self._ahead = 0
        self._is_starved = False

    def add(self, message: Message, operation: SocketOperation | None = None) -> None:
        """Queue a message behind the others; dropped if its operation was cancelled."""
        told = SocketMessage(self, message, operation)
        if operation is not None:
            with self._source._mutex:
                if operation.is_over:
                    return
                operation.handle = told
        self.queue.append(told)

    def add_ready(self, ready: type[Message], operation: SocketOperation | None = None, **facts: Any) -> None:
        """`add` a ready-made message. A `Failed` without a connection is logged if it has no handler."""
        if ready is Failed and not facts["connection"] and not (operation is not None and operation.is_over):
            dispatcher = self._source._dispatcher
            assert dispatcher is not None
            kind = self._source._tells.kind(Failed)
            if not dispatcher._is_heard(kind):
                because = facts["because"]
                log.warning("%s: %r: %s (%s has no handler here)", dispatcher.name, self._owner, because, kind.__name__)
        self.add(self._source._tells.make(ready, **facts), operation)

    def pump(self) -> bool:
        """Pass on all messages; False: some have to wait."""
        source, dispatcher = self._source, self._source._dispatcher
        assert dispatcher is not None
        while self.queue or self._owner.fill():
            if not self.queue:
                continue
            handle = self.queue[0]
            if not handle.is_cancelled:
                with source._mutex:
                    if self._ahead >= AHEAD_MAX:
                        self._is_starved = True
                        return False
                    self._ahead += 1
                try:
                    dispatcher._sources.tell(handle)
                except BaseException as error:
                    with source._mutex:
                        self._ahead -= 1
                    if not isinstance(error, Busy):
                        raise
                    source.waited_count += 1
                    self._io.again(self._owner, self._owner.pump)
                    return False
            self.queue.popleft()
        return True

    def is_all_handled(self) -> bool:
        """Whether all passed messages have been handled; if not, `pump` is called after the next one."""
        with self._source._mutex:
            self._is_starved = self._ahead > 0
            return not self._ahead

    def released(self) -> None:
        """A message has been handled. Called in the thread that did so."""
        with self._source._mutex:
            self._ahead -= 1
            is_starved, self._is_starved = self._is_starved, False
        if is_starved:
            self._io.call(self._owner, self._owner.pump)


class NoSocket:
    """Reports the failure of an operation that never had a socket."""

    socket = None

    def __init__(self, source: SocketSource, io: IoThread, operation: SocketOperation, error: Exception) -> None:
        self.outbox = SocketOutbox(source, io, self)
        self.outbox.add_ready(Failed, operation, transaction=operation.id, connection=0, because=str(error))
        self.pump()

    def __repr__(self) -> str:
        return "<no socket>"

    def pump(self) -> None:
        """Continue to pass on the failure."""
        self.outbox.pump()

    def fill(self) -> bool:
        return False

    def on_ready(self, events: int) -> None:
        """Never called: there is no socket."""

    def failed(self, error: Exception) -> None:
        """Nothing to do: the error is logged already."""

    def abandon(self) -> None:
        """Nothing to do: it has no resources."""


class SocketMessage(ReadyHandle):
    """A message of a socket, and the operation that ends with it."""

    __slots__ = ("operation", "outbox")

    def __init__(self, outbox: SocketOutbox, message: Message, operation: SocketOperation | None) -> None:
        super().__init__(message, ordering_key=outbox.ordering_key, lock=outbox._source._lock)
        self.outbox, self.operation = outbox, operation

    def release(self) -> None:
        self.outbox.released()
        if self.operation is not None:
            self.outbox._source._ended(self.operation)
