"""Listener: accepts peers for a `begin_listen` until it is cancelled; at `connections_max` they wait in the kernel's queue."""

from __future__ import annotations

import errno
import logging
import os
import socket
from contextlib import suppress
from selectors import EVENT_READ
from typing import TYPE_CHECKING, Final

from .completions import Failed, Listening
from .io_thread import IoThread
from .socket_outbox import SocketOperation, SocketOutbox

if TYPE_CHECKING:
    from .address import SocketAddress
    from .socket_source import FramingMaker, SocketSource

#: Peers that wait to be accepted. The kernel's limit is 4,096; a peer behind a hundred others has given up by its turn.
BACKLOG: Final = 128
#: Accepted per event loop iteration: a flood of new connections must not delay the existing ones.
ACCEPTS_MAX: Final = 32
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

log = logging.getLogger("appbackplane.runtime")


class Listener:
    """The listening socket of one address. Used by the I/O thread only."""

    def __init__(
        self,
        source: SocketSource,
        io: IoThread,
        operation: SocketOperation,
        address: SocketAddress,
        framing: FramingMaker,
    ) -> None:
        """Make the socket. Raises OSError, as when no descriptors are left."""
        self.source, self.io, self.operation, self.address, self.framing = source, io, operation, address, framing
        self.socket = address.socket()
        self.outbox = SocketOutbox(source, io, self)
        self._has_complained = False
        #: Inode of the socket file that it has made; 0: none.
        self._inode = 0

    def __repr__(self) -> str:
        return f"<Listener {self.address}>"

    def listen(self) -> None:
        """Bind and listen. Reports `Listening` or `Failed`."""
        try:
            if self.address.family != socket.AF_UNIX:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._bind()
            self.socket.listen(BACKLOG)
        except OSError as error:
            self.outbox.add_ready(
                Failed, self.operation, transaction=self.operation.id, connection=0, because=f"{self.address}: {error}"
            )
            self.abandon()
        else:
            where = self.address.of_name(self.socket.getsockname())
            self.outbox.add_ready(Listening, transaction=self.operation.id, address=where)
        self.pump()

    def on_ready(self, events: int) -> None:
        """Accept up to `ACCEPTS_MAX` waiting peers."""
        for _ in range(ACCEPTS_MAX):
            if self.source._is_full():
                break
            try:
                accepted, name = self.socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                break
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                if not self._has_complained:
                    self._has_complained = True
                    log.warning("%s: %s: peers wait", self, error)
                self.io.watch(self, 0)
                self.io.again(self, self.pump)
                return
            accepted.setblocking(False)
            peer = self.address.of_name(name) or f"a peer of {self.address}"
            try:
                connection = self.source._take_in(self.io, accepted, peer, self.operation, self.framing)
            except Exception:  # the framing factory is user code
                log.exception("%s: %s is refused", self, peer)
                continue
            connection.accepted()
        self.pump()

    def pump(self) -> None:
        """Pass on messages, and poll for peers if there is room for more."""
        self.outbox.pump()
        if self.socket.fileno() >= 0:
            is_open = not (self.source._is_full() or self.source._is_draining)
            self.io.watch(self, EVENT_READ if is_open else 0)

    def fill(self) -> bool:
        return False

    def cancelled(self) -> None:
        """The `begin_listen` was cancelled: close, and end the operation."""
        self.abandon()
        self.source._ended(self.operation)

    def failed(self, error: Exception) -> None:
        """A bug, logged already: the listener closes."""
        self.cancelled()

    def abandon(self) -> None:
        """Close the socket, and remove its own socket file."""
        if self.socket.fileno() < 0:
            return
        self.source._listeners.discard(self)
        self.io.forget(self)
        self.socket.close()
        if self._inode:
            with suppress(FileNotFoundError):  # it may have been removed, or replaced by another
                if os.stat(self.address.place).st_ino == self._inode:
                    os.unlink(self.address.place)

    def _bind(self) -> None:
        try:
            self.socket.bind(self.address.place)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not self.address.is_left_over():
                raise
            os.unlink(self.address.place)  # left by a process that was killed
            self.socket.bind(self.address.place)
        if self.address.family == socket.AF_UNIX and not self.address.is_abstract:
            self._inode = os.stat(self.address.place).st_ino
