"""Listener: accepts for a `begin_listen`, until that is taken back. At `connections_max` peers wait in the kernel's queue."""

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
from .telling import Operation, Telling

if TYPE_CHECKING:
    from .address import Address
    from .socket_source import FramingMaker, SocketSource

#: Peers that wait to be accepted. The kernel's own limit is 4,096; more than a hundred have given up by their turn.
BACKLOG: Final = 128
#: Accepted in one go: connections that are served already are not to wait for a flood of new ones.
ACCEPTS_MAX: Final = 32
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

log = logging.getLogger("appbackplane.runtime")


class Listener:
    """One address. The thread's own."""

    def __init__(
        self, source: SocketSource, io: IoThread, operation: Operation, address: Address, framing: FramingMaker
    ) -> None:
        """Raises OSError."""
        self.source, self.io, self.operation, self.address, self.framing = source, io, operation, address, framing
        self.socket = address.socket()
        self.telling = Telling(source, io, self)
        self._has_complained = False
        #: Of the file that it has made; 0: none.
        self._inode = 0

    def __repr__(self) -> str:
        return f"<Listener {self.address}>"

    def listen(self) -> None:
        """Begin to."""
        try:
            if self.address.family != socket.AF_UNIX:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._bind()
            self.socket.listen(BACKLOG)
        except OSError as error:
            self.telling.add_ready(
                Failed, self.operation, transaction=self.operation.id, connection=0, because=f"{self.address}: {error}"
            )
            self.abandon()
        else:
            where = self.address.of_name(self.socket.getsockname())
            self.telling.add_ready(Listening, transaction=self.operation.id, address=where)
        self.pump()

    def on_ready(self, events: int) -> None:
        """Take in who has come."""
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
            except Exception:  # what makes framings is a user's
                log.exception("%s: %s is turned away", self, peer)
                continue
            connection.accepted()
        self.pump()

    def pump(self) -> None:
        """Go on accepting, if there is room."""
        self.telling.pump()
        if self.socket.fileno() >= 0:
            is_open = not (self.source._is_full() or self.source._is_draining)
            self.io.watch(self, EVENT_READ if is_open else 0)

    def fill(self) -> bool:
        """It has nothing else to tell."""
        return False

    def cancelled(self) -> None:
        """The `begin_listen` was taken back."""
        self.abandon()
        self.source._forget(self.operation)

    def failed(self, error: Exception) -> None:
        """A bug: the log has it."""
        self.cancelled()

    def abandon(self) -> None:
        """No more peers."""
        if self.socket.fileno() < 0:
            return
        self.source._listeners.discard(self)
        self.io.forget(self)
        self.socket.close()
        if self._inode:
            with suppress(FileNotFoundError):  # somebody has removed it, or put another in its place
                if os.stat(self.address.place).st_ino == self._inode:
                    os.unlink(self.address.place)

    def _bind(self) -> None:
        try:
            self.socket.bind(self.address.place)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not self.address.is_left_over():
                raise
            os.unlink(self.address.place)  # a process that was killed has left it
            self.socket.bind(self.address.place)
        if self.address.family == socket.AF_UNIX and not self.address.is_abstract:
            self._inode = os.stat(self.address.place).st_ino
