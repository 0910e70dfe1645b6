"""SocketSource: streams for handlers, without waiting: each begun operation ends in a message with the same transaction id.

Seed 003, section 5: a BeginRead() that ends in a message, instead of a Read() that waits. A connection with a framing needs no
reads: its frames become messages by themselves (framing.py). One thread per source (io_thread.py). Input that comes faster
than it is handled waits at the peer (socket_outbox.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from socket import socket as Socket
from typing import Any, Final, NamedTuple

from appbackplane.transport.errors import BackplaneError, Busy, InvalidArgument, NotFound

from ....objects.operation import DeclarationError
from ...message import Message
from ...protectors import shortened
from ..source import Source, next_transaction
from .address import SocketAddress
from .completions import CompletionTypes
from .connection import CHUNK_BYTES, Connection, Read, Write
from .framing import Framing
from .io_thread import IoThread
from .listener import Listener
from .socket_outbox import NoSocket, SocketOperation

#: Connections at a time. A process has 1,024 descriptors by default, and ZeroMQ ends it when there are none left (TRAPS 1).
CONNECTIONS_MAX_DEFAULT: Final = 256
#: Operations begun and not ended, except reads and writes, which each connection bounds: a loop that begins them would fill
#: any memory.
OPERATIONS_MAX: Final = 10_000
#: Written to one connection and not sent yet; a single write may be longer. A slow peer shows early (`Busy`), and a fast one
#: never waits for the next iteration of the thread.
UNSENT_BYTES_MAX: Final = 1 << 20
#: Writes of one connection begun and not ended, however small: a peer that does not read takes no other connection's room.
WRITES_MAX: Final = 1_000
_OF_CONNECTIONS: Final = (Read, Write)
#: Makes the framing of a connection; None: it has none.
FramingMaker = Callable[[], Framing] | None
#: Retry hint in `Busy`.
RETRY_AFTER_S: Final = 0.01


class Begun(NamedTuple):
    """An operation begun with a source without a dispatcher, for tests of handlers."""

    what: str
    arguments: tuple[Any, ...]


class SocketSource(Source):
    """Streams for handlers. Its methods may be called from any thread.

    >>> class Hub(Dispatcher):
    ...     def setup(self) -> None:
    ...         self.devices = self.attach(SocketSource())
    ...         self.devices.begin_listen(("0.0.0.0", 9000), framing=Packets)
    """

    __slots__ = (
        "_begun", "_connections", "_io", "_is_draining", "_listeners", "_mutex", "_operations", "_stopped", "_tells",
        "complained_count", "connections_max", "malformed_count", "waited_count",
    )  # fmt: skip

    def __init__(
        self,
        *,
        tells: Mapping[type[Message], type[Message]] | None = None,
        connections_max: int = CONNECTIONS_MAX_DEFAULT,
    ) -> None:
        """`tells`: your message types for ready-made ones (completions.py). Raises `DeclarationError`."""
        if type(connections_max) is not int or connections_max < 1:
            raise DeclarationError(f"SocketSource: connections_max={connections_max!r}: expected 1 or more")
        self._tells = CompletionTypes(tells or {})
        self.connections_max = connections_max
        #: Malformed frames, and how often a message waited for room in the dispatcher.
        self.malformed_count = self.waited_count = 0
        #: Connections with malformed frames.
        self.complained_count = 0
        #: Guards the tables below, and the state that connections share with handlers. Held for a few steps, never to dispatch.
        self._mutex = threading.Lock()
        self._operations: dict[int, SocketOperation] = {}
        self._begun: dict[int, Begun] = {}
        self._connections: dict[int, Connection] = {}
        self._listeners: set[Listener] = set()  # of the I/O thread
        self._is_draining = False
        self._io = IoThread("sockets")
        self._stopped: IoThread | None = None

    # -- for handlers -------------------------------------------------------------------------------------------------

    def begin_listen(self, address: tuple[str, int] | str, *, framing: FramingMaker = None) -> int:
        """Accept peers at `address`, until `cancel`. Reports `Listening` or `Failed`; then `Accepted` for each peer.

        `address`: (IP address, port), port 0 for any; or the path of a Unix socket. Raises `InvalidArgument`, `Busy`, and
        `Unavailable` once the source has stopped; so do all other `begin_…`.
        """
        where, operation = SocketAddress(address), SocketOperation(next_transaction())
        _check_framing(framing)

        def listen(io: IoThread) -> None:
            if operation.is_over:
                return
            try:
                listener = operation.owner = Listener(self, io, operation, where, framing)
            except OSError as error:
                NoSocket(self, io, operation, error)
                return
            self._listeners.add(listener)
            listener.listen()

        return self._begin(operation, listen, "listen", address)

    def begin_connect(self, address: tuple[str, int] | str, *, framing: FramingMaker = None) -> int:
        """Connect. Reports `Connected` or `Failed`. The kernel decides how long it tries; bound it by a timer and `cancel`."""
        where, operation = SocketAddress(address), SocketOperation(next_transaction())
        _check_framing(framing)

        def connect(io: IoThread) -> None:
            if operation.is_over:
                return
            try:
                if self._is_full():
                    raise Busy(f"{self.connections_max} connections, the maximum (connections_max)")
                connection = self._take_in(io, where.socket(), str(where), operation, framing)
            except Exception as error:  # no descriptors left; or the framing factory, which is user code
                NoSocket(self, io, operation, error)
                return
            operation.owner = connection
            connection.connect(where.place)

        return self._begin(operation, connect, "connect", address)

    def begin_read(self, connection: int, *, bytes_max: int = CHUNK_BYTES) -> int:
        """Read bytes. Reports `Received`, with the bytes that have come when it is handled, at most `bytes_max`; or `Failed`.

        One at a time: the handler may begin the next. Raises `NotFound` if the connection has ended.
        """
        if type(bytes_max) is not int or bytes_max < 1:
            raise InvalidArgument(f"bytes_max={bytes_max!r}: expected 1 or more")
        read = Read(next_transaction(), bytes_max)
        if self._dispatcher is None:
            return self._begin(read, None, "read", connection)
        found = self._find(connection)
        if found.framing is not None:
            raise InvalidArgument(f"connection {connection} has a framing: its frames come by themselves")
        read.owner = found
        self._begin(read, None, "read", connection)
        with self._mutex:
            earlier, is_closing = found.read, found.is_closing
            if earlier is None and not is_closing:
                found.read = read
        if is_closing:
            raise self._not_begun(read, NotFound(f"connection {connection} is being closed"))
        if earlier is not None:
            raise self._not_begun(
                read, InvalidArgument(f"connection {connection} is being read already (transaction {earlier.id})")
            )
        found.io.call(found, found.pump)
        return read.id

    def begin_write(self, connection: int, data: bytes | Message) -> int:
        """Send bytes. Reports `Written`, or `Failed`. A message is encoded by the connection's framing.

        Raises `Busy` at `UNSENT_BYTES_MAX` not sent or `WRITES_MAX` not ended, `NotFound` if the connection is closed.
        """
        if self._dispatcher is None:
            return self._begin(SocketOperation(next_transaction()), None, "write", connection, data)
        found = self._find(connection)
        if isinstance(data, Message):
            if found.framing is None:
                raise InvalidArgument(f"connection {connection} has no framing: write bytes")
            data = found.framing.encode(data)
        if not isinstance(data, (bytes, bytearray, memoryview)):  # bytes(10) would be ten zeros
            raise InvalidArgument(f"begin_write({connection}, {shortened(data)}): expected bytes, or a message")
        write = Write(next_transaction(), bytes(data))
        write.owner = found
        size = len(write.left)
        self._begin(write, None, "write", connection, data)
        with self._mutex:
            is_closing, unsent = found.is_closing, found.outbound_bytes
            count = found.writes_count
            is_full = count >= WRITES_MAX or (bool(found.outbound) and unsent + size > UNSENT_BYTES_MAX)
            found.writes_count += 1
            if not is_closing and not is_full:
                found.outbound.append(write)
                found.outbound_bytes += size
        if is_closing:
            raise self._not_begun(write, NotFound(f"connection {connection} is being closed"))
        if is_full:
            message = f"connection {connection}: {count:,} writes pending, {unsent:,} bytes unsent ({found.peer} does not read)"
            raise self._not_begun(write, Busy(message, retry_after=RETRY_AFTER_S))
        found.io.call(found, found.pump)
        return write.id

    def begin_close(self, connection: int) -> None:
        """Close a connection when all its writes have left. Reports `Closed`."""
        if self._dispatcher is None:
            self._begin(SocketOperation(next_transaction()), None, "close", connection)
            return
        found = self._find(connection)
        with self._mutex:
            found.is_closing = True
        found.io.call(found, found.pump)

    def cancel(self, id: int) -> bool:
        """Cancel an operation: no handler begins with its message any more. False: one has begun, or it cannot be undone.

        A cancelled read loses nothing: its bytes wait for the next one. A write that has left in part cannot be undone.
        """
        with self._mutex:
            if self._begun.pop(id, None) is not None and self._dispatcher is None:
                return True
            operation = self._operations.get(id)
            if operation is None or operation.is_over:
                return False
            owner = operation.owner
            if isinstance(operation, Write):
                if operation.has_begun:
                    return False
                if operation in owner.outbound:  # or its connection has ended, and `Failed` is on its way
                    owner.outbound.remove(operation)
                    owner.outbound_bytes -= len(operation.left)
            if operation.handle is not None and not operation.handle.cancel():
                return False
            self._over(operation)
            if isinstance(operation, Read):
                if owner.read is operation:
                    owner.read = None
                owner.inbound[:0] = (
                    operation.taken
                )  # the next read has not taken anything: its message comes after this one
        if isinstance(operation, Read):
            owner.io.call(owner, owner.pump)  # the next read may have begun
        elif not isinstance(operation, Write):
            self._io.call(None, lambda: None if operation.owner is None else operation.owner.cancelled())
        return True

    @property
    def begun(self) -> dict[int, Begun]:
        """Without a dispatcher: the operations begun and not cancelled, by transaction id."""
        return dict(self._begun)

    @property
    def connections(self) -> dict[int, str]:
        """The peer of each connection, by connection id; also while it connects."""
        with self._mutex:
            return {id: each.peer for id, each in self._connections.items()}

    def wait_ended(self, seconds: float) -> bool:
        """For tests: whether its thread has ended, and closed its sockets, within that time after it was stopped."""
        return self._stopped is None or self._stopped.wait_ended(seconds)

    # -- with the states ----------------------------------------------------------------------------------------------

    def begin_emitting(self) -> None:
        """Start the thread, and with it the operations begun before."""
        self._is_draining = False
        self._io.start()

    def end_emitting(self) -> None:
        """Let its thread close all sockets; no more messages are dispatched."""
        with self._mutex:
            stopped, self._io = self._io, IoThread("sockets")
        self._stopped = stopped
        stopped.stop()
        with self._mutex:
            self._operations.clear()
            self._connections.clear()

    def _drain(self) -> None:
        """Accept and read no more; pending writes still leave."""
        self._is_draining = True
        self._io.call(None, self._pump_all)

    def _pump_all(self) -> None:
        for listener in self._listeners:
            listener.pump()
        for connection in list(self._connections.values()):
            connection.pump()

    # -- for its parts ------------------------------------------------------------------------------------------------

    def _begin(
        self, operation: SocketOperation, function: Callable[[IoThread], None] | None, what: str, *arguments: Any
    ) -> int:
        with self._mutex:
            self._check_open()  # with the mutex, or it might begin in the thread of the next start
            io = self._io
            if self._dispatcher is None:
                self._begun[operation.id] = Begun(what, arguments)
            if (
                len(self._operations) >= OPERATIONS_MAX
                and not isinstance(operation, _OF_CONNECTIONS)
                and sum(not isinstance(each, _OF_CONNECTIONS) for each in self._operations.values()) >= OPERATIONS_MAX
            ):
                raise Busy(f"{OPERATIONS_MAX} operations have been begun and not ended", retry_after=RETRY_AFTER_S)
            self._operations[operation.id] = operation
        if function is not None:
            io.call(None, lambda: function(io))
        return operation.id

    def _not_begun(self, operation: SocketOperation, error: BackplaneError) -> BackplaneError:
        self._ended(operation)
        return error

    def _find(self, connection: int) -> Connection:
        with self._mutex:
            found = self._connections.get(connection)
        if found is None:
            raise NotFound(f"there is no connection {connection!r}: it has been closed")
        return found

    def _take_in(
        self, io: IoThread, sock: Socket, peer: str, operation: SocketOperation, framing: FramingMaker
    ) -> Connection:
        id = next_transaction()
        try:
            connection = Connection(self, io, sock, id, peer, None if framing is None else framing(), begun=operation)
        except BaseException:
            sock.close()
            raise
        with self._mutex:
            self._connections[id] = connection
        return connection

    def _is_full(self) -> bool:
        return len(self._connections) >= self.connections_max

    def _gone(self, connection: Connection) -> None:
        with self._mutex:
            was_full = self._is_full()
            self._connections.pop(connection.id, None)
        if was_full:
            for listener in self._listeners:
                listener.io.again(listener, listener.pump)

    def _ended(self, operation: SocketOperation) -> None:
        with self._mutex:
            self._over(operation)

    def _over(self, operation: SocketOperation) -> None:
        """End an operation. Call it with the mutex."""
        operation.is_over = True
        if self._operations.pop(operation.id, None) is not None and isinstance(operation, Write):
            operation.owner.writes_count -= 1


def _check_framing(framing: Any) -> None:
    if framing is not None and not callable(framing):
        raise InvalidArgument(
            f"framing={shortened(framing)}: expected a factory that makes one for each connection, such as the class"
        )
