"""Connection: one stream, from `begin_connect` or an accepted peer to `Closed`.

Its socket and its messages belong to the I/O thread (io_thread.py); received bytes and pending writes are under the source's
mutex. It is read as long as its messages can be passed on (socket_outbox.py). A peer that has closed its sending side may still
be written to: the connection ends when all received messages have been handled and all writes have left.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections import deque
from selectors import EVENT_READ, EVENT_WRITE
from typing import TYPE_CHECKING, Final

from appbackplane.transport.errors import text_of

from ...handles import Handle
from ...message import Message
from .completions import Accepted, Closed, Connected, Failed, Malformed, Received, Written
from .framing import BadFrame, Framing
from .io_thread import IoThread
from .socket_outbox import SocketOperation, SocketOutbox

if TYPE_CHECKING:
    from .socket_source import SocketSource

#: Read at a time: as much as the kernel has for a busy stream, and little enough not to delay other sockets.
CHUNK_BYTES: Final = 64 << 10
#: Kept of a stream without a `begin_read`. More waits in the kernel, and at the peer.
UNREAD_BYTES_MAX: Final = 256 << 10
#: How much of malformed input is reported.
SHOWN_BYTES: Final = 64
#: A frame with its head may be this much longer than `frame_bytes_max`; no protocol examined has a longer head.
HEAD_BYTES_MAX: Final = 1024

log = logging.getLogger("appbackplane.runtime")


class Read(SocketOperation):
    """A `begin_read`: it is done once any bytes have come, and takes them when its message is resolved."""

    __slots__ = ("bytes_max", "taken")

    def __init__(self, id: int, bytes_max: int) -> None:
        super().__init__(id)
        self.bytes_max = bytes_max
        #: Bytes taken: put back if it is cancelled before a handler has begun. Under the source's mutex.
        self.taken = b""


class Write(SocketOperation):
    """A `begin_write`, and its bytes that have not left."""

    __slots__ = ("has_begun", "left")

    def __init__(self, id: int, data: bytes) -> None:
        super().__init__(id)
        self.left = memoryview(data)
        self.has_begun = False


class Connection:
    """One stream. Used by the I/O thread only, except attributes under the mutex."""

    def __init__(
        self, source: SocketSource, io: IoThread, sock: socket.socket, id: int, peer: str, framing: Framing | None,
        *, begun: SocketOperation,
    ) -> None:  # fmt: skip
        """`begun`: the `begin_connect` that it completes, or the `begin_listen` that accepted it."""
        self.source, self.io, self.socket, self.id, self.peer, self.framing = source, io, sock, id, peer, framing
        self.outbox = SocketOutbox(source, io, self)
        self._begun = begun
        self.is_connected = False
        self._has_complained = self._is_told = False
        #: No more input: the peer has closed its sending side, or its input was malformed.
        self._is_at_end = False
        #: Why the socket is closed; None while it is open.
        self._end: str | None = None
        #: The following are under the source's mutex.
        self.inbound = bytearray()
        self.read: Read | None = None
        self.outbound: deque[Write] = deque()
        self.outbound_bytes = 0
        #: Writes begun and not ended: not left yet, or their message is not handled yet.
        self.writes_count = 0
        self.is_closing = False

    def __repr__(self) -> str:
        return f"<Connection {self.id} {self.peer}>"

    # -- its beginning ------------------------------------------------------------------------------------------------

    def accepted(self) -> None:
        """The listener has accepted the peer: report `Accepted`."""
        self.is_connected = True
        self.outbox.add_ready(Accepted, transaction=self._begun.id, connection=self.id, peer=self.peer)
        self.pump()

    def connect(self, address: tuple[str, int] | str) -> None:
        """Begin to connect. Reports `Connected` or `Failed`."""
        code = self.socket.connect_ex(address)
        if code == 0:
            self._connected()
        elif code in (errno.EINPROGRESS, errno.EALREADY):
            self.io.watch(self, EVENT_WRITE)
            return
        else:
            self._ends(_why(code))
        self.pump()

    def _connected(self) -> None:
        self.is_connected = True
        self.outbox.add_ready(Connected, self._begun, transaction=self._begun.id, connection=self.id, peer=self.peer)

    # -- as owner of a socket (io_thread.py) --------------------------------------------------------------------------

    def on_ready(self, events: int) -> None:
        """Complete the connect, or receive; then send, and pass on messages."""
        if not self.is_connected:
            code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._ends(_why(code))
            else:
                self._connected()
        elif events & EVENT_READ and not self.source._is_draining:
            self._receive()
        self.pump()

    def failed(self, error: Exception) -> None:
        """A bug, logged already: the connection ends without messages."""
        self.abandon()
        self.source._gone(self)

    def abandon(self) -> None:
        """Close the socket; no more messages are passed on."""
        if self._end is None:
            self._end = "abandoned"
            self.io.forget(self)
            self.socket.close()
        self._is_told = True

    def cancelled(self) -> None:
        """The `begin_connect` was cancelled: close without messages."""
        self.abandon()
        self.source._gone(self)

    def pump(self) -> None:
        """Send, pass on messages, and poll for the events that allow to continue."""
        if self._end is None and self.is_connected:
            self._send()
        is_all_told = self.outbox.pump()
        if self._is_told:
            if is_all_told:
                self.source._gone(self)
            return
        if self._end is not None:
            return
        events = 0 if self.is_connected else EVENT_WRITE
        if self.outbound:
            events |= EVENT_WRITE
        if is_all_told and self._wants_more():
            events |= EVENT_READ
        self.io.watch(self, events)

    def _wants_more(self) -> bool:
        if not self.is_connected or self._is_at_end or self.is_closing or self.source._is_draining:
            return False
        return self.framing is not None or len(self.inbound) < UNREAD_BYTES_MAX

    # -- bytes --------------------------------------------------------------------------------------------------------

    def _receive(self) -> None:
        if self._is_at_end or self._end is not None:
            return
        try:
            data = self.socket.recv(CHUNK_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._ends(_why(error.errno))
            return
        if data:
            with self.source._mutex:
                self.inbound += data
        else:
            self._is_at_end = True

    def _send(self) -> None:
        while self.outbound:
            with self.source._mutex:
                if not self.outbound:
                    return
                write = self.outbound[0]
                write.has_begun = True
            try:
                sent = self.socket.send(write.left)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._ends(_why(error.errno))
                return
            write.left = write.left[sent:]
            with self.source._mutex:
                self.outbound_bytes -= sent
                if write.left:
                    continue
                self.outbound.popleft()
            self.outbox.add_ready(Written, write, transaction=write.id, connection=self.id)

    def _ends(self, because: str) -> None:
        if self._end is None:
            self._end = because
            self.io.forget(self)
            self.socket.close()

    # -- its messages -------------------------------------------------------------------------------------------------

    def fill(self) -> bool:
        """Queue the next message: from received bytes, or about the end."""
        if self._is_told:
            return False
        if self.is_connected and not self.is_closing and self._fill_from_inbound():
            return True
        if self._end is None:
            if self.is_closing and not self.outbound:
                self._ends("closed here")
            elif self._is_at_end and not self.inbound and not self.outbound and self.outbox.is_all_handled():
                self._ends("closed by the peer")
        if self._end is None:
            return False
        self._fill_last(self._end)
        return True

    def _fill_from_inbound(self) -> bool:
        if self.framing is not None:
            return bool(self.inbound) and self._fill_from_frame(self.framing)
        with self.source._mutex:
            read = self.read
            if read is None or read.handle is not None or not self.inbound:
                return False
            read.handle = handle = _Arrived(self, read)
        self.outbox.queue.append(handle)
        return True

    def _fill_from_frame(self, framing: Framing) -> bool:
        before = len(self.inbound)
        try:
            frame = framing.split(self.inbound)
            if frame is None:
                if self._is_at_end or self._end is not None:
                    raise BadFrame("it ended in the middle of a frame")
                if before > framing.frame_bytes_max + HEAD_BYTES_MAX:
                    raise BadFrame(f"no frame within {before:,} bytes (frame_bytes_max = {framing.frame_bytes_max:,})")
                return False
            if len(self.inbound) >= before:
                raise BadFrame(f"{type(framing).__name__}.split consumed no input")
        except Exception as error:  # the edge: the framing is user code, and bytes are a peer's
            self._malformed(error, bytes(self.inbound[:SHOWN_BYTES]))
            self.inbound = bytearray()
            self._is_at_end = True
            self._ends(f"malformed: {text_of(error)}")
            return True
        try:
            message = framing.message_of(frame, connection=self.id)
        except Exception as error:  # likewise
            self._malformed(error, bytes(frame.body[:SHOWN_BYTES]))
        else:
            self.outbox.add(message)
        return True

    def _malformed(self, error: Exception, data: bytes) -> None:
        self.source.malformed_count += 1
        if not self._has_complained:
            self._has_complained = True
            count = self.source.complained_count = self.source.complained_count + 1
            if not count & (count - 1):  # a peer that reconnects for ever does not fill the log
                words = (self, type(error).__name__, text_of(error))
                log.warning("%s: malformed input (logged for the 1st, 2nd, 4th, 8th peer and so on): %s: %s", *words)
        self.outbox.add_ready(
            Malformed, connection=self.id, because=f"{type(error).__name__}: {text_of(error)}", data=data
        )

    def _fill_last(self, because: str) -> None:
        with self.source._mutex:
            unfinished: list[SocketOperation] = [*self.outbound]
            if self.read is not None and self.read.handle is None:
                unfinished.append(self.read)
                self.read = None
            self.outbound.clear()
            self.is_closing = True
        if not self.is_connected:
            unfinished.append(self._begun)
        for operation in unfinished:
            self.outbox.add_ready(
                Failed,
                operation,
                transaction=operation.id,
                connection=self.id if self.is_connected else 0,
                because=because,
            )
        if self.is_connected:
            self.outbox.add_ready(Closed, connection=self.id, because=because)
        self._is_told = True


class _Arrived(Handle):
    """Handle of a `Received`. Bytes stay in the buffer until it is resolved, so they stay there if it is cancelled before."""

    __slots__ = ("connection", "read")

    def __init__(self, connection: Connection, read: Read) -> None:
        source = connection.source
        spec = source._tells.kind(Received).__message__
        super().__init__(spec, ordering_key=connection.outbox.ordering_key, lock=source._lock)
        self.connection, self.read = connection, read

    def resolve(self) -> Message | None:
        connection, read = self.connection, self.read
        with connection.source._mutex:
            if read.is_over:
                return None
            connection.read = None
            is_full = len(connection.inbound) >= UNREAD_BYTES_MAX
            data = read.taken = bytes(connection.inbound[: read.bytes_max])
            del connection.inbound[: read.bytes_max]
        if is_full or connection._is_at_end:
            connection.io.call(connection, connection.pump)
        return connection.source._tells.make(Received, transaction=read.id, connection=connection.id, data=data)

    def release(self) -> None:
        self.connection.outbox.released()
        self.connection.source._ended(self.read)


def _why(code: int | None) -> str:
    return os.strerror(code or 0)
