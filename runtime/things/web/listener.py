"""Listener: accepts the connections of a gateway, bounds their number, and ends those on which no request comes.

aiohttp bounds neither, so a client with many connections that sends a byte a second would shut all others out. Here a
connection has `IDLE_S` for the complete head of each request. If all places are taken, the connection that has waited longest
for a request makes room. If requests are under way on all, the next clients wait in the kernel's queue until one has ended, as
with systemd. Costs two dictionary entries a request.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from appbackplane.transport.descriptors import NONE_LEFT, descriptors_max, open_count

#: Seconds that a connection may be open without the complete head of a request: new, kept alive, or sending it slowly. Proxies
#: keep connections for 60 s and send again if one was closed meanwhile; a head arrives within 1 s on a bad network.
IDLE_S: Final = 60.0
#: Most connections, whatever the descriptors allow: aiohttp takes 14 KB for each, so 700 MB.
CONNECTIONS_MAX: Final = 50_000
#: Seconds that a connection without a request keeps its place although others wait: a client sends its request at once. A
#: flood of mute connections takes ten times as many places a second as there are.
GRACE_S: Final = 0.1
#: Descriptors left to the rest of the process, as the accept gate leaves them (transport/accept_gate.py); of a small limit a
#: quarter.
RESERVE: Final = 512
RESERVE_SHARE: Final = 4
#: Connections accepted in one go: requests are served in between. asyncio accepts 128, too.
BATCH: Final = 128
#: Connections that the kernel keeps until they are accepted: with aiohttp's 128, ten thousand took 36 s.
BACKLOG: Final = 4_096
#: Milliseconds that data may wait for a client that reads nothing (tcp(7)); then the kernel ends the connection.
UNREAD_MS: Final = 30_000
#: Seconds between two attempts where no descriptor was left, and between two looks for idle connections.
AGAIN_S: Final = 1.0
log = logging.getLogger(__name__)


class HttpConnection(RequestHandler):
    """One connection, from its acceptance on."""

    __slots__ = ("_is_ended", "_listener", "_opening")

    def __init__(self, listener: HttpListener, manager: web.Server, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            manager,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # as web.AppRunner passes it on: no line a request
            auto_decompress=False,
            keepalive_timeout=2 * listener.idle_s,
        )
        self._listener = listener
        self._is_ended = False
        self._opening: asyncio.Task[object] | None = None

    def open(self, accepted: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Agree on TLS, and begin to read, in a task of its own."""

        def opened(ended: asyncio.Task[object]) -> None:
            # A client that speaks no TLS, or has gone, is its own concern: no line of the log.
            if ended.cancelled() or ended.exception() is not None:
                accepted.close()
                self._end()

        limit_s = None if tls is None else self._listener.idle_s
        self._opening = self._loop.create_task(
            self._loop.connect_accepted_socket(lambda: self, accepted, ssl=tls, ssl_handshake_timeout=limit_s)
        )
        self._opening.add_done_callback(opened)

    def abort(self) -> None:
        """Close it at once."""
        if self.transport is not None:
            self.transport.abort()
        elif self._opening is not None:
            self._opening.cancel()

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._end()

    def _end(self) -> None:
        if not self._is_ended:
            self._is_ended = True
            self._listener.lost(self)


class HttpListener:
    """The connections of one listening socket. Used by one event loop."""

    def __init__(
        self,
        listening: socket.socket,
        *,
        tls: ssl.SSLContext | None = None,
        idle_s: float = IDLE_S,
        connections_max: Callable[[], int] | None = None,
    ) -> None:
        """`listening` is closed by its owner. `connections_max` is asked again for each connection; without it the limit of
        descriptors decides.
        """
        self.idle_s = idle_s
        self._socket = listening
        self._tls = tls
        others = open_count(0)
        self._max = connections_max or (lambda: bound_of(descriptors_max() - others))
        self._loop = asyncio.get_running_loop()
        self._manager: web.Server | None = None
        self._count = 0
        #: Connections without a request, with the time since when; the one that has waited longest first.
        self._waiting: dict[HttpConnection, float] = {}
        self._is_accepting = False
        #: When not accepting: the next attempt; None: when a connection ends, or can make room.
        self._retry: asyncio.TimerHandle | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._reported: set[str] = set()

    def start(self, manager: web.Server) -> None:
        """Accept connections, whose requests go to `manager`."""
        self._manager = manager
        self._socket.setblocking(False)
        self._socket.listen(BACKLOG)
        self._accept_again()
        self._sweep = self._loop.call_later(AGAIN_S, self._close_idle)

    def stop(self) -> None:
        """Accept no more. The server ends the connections, but for those that have not agreed on TLS."""
        self._manager = None
        self._pause()
        if self._retry is not None:
            self._retry.cancel()
        if self._sweep is not None:
            self._sweep.cancel()
        for each in [*self._waiting]:
            if each.transport is None:
                each.abort()

    # -- requests -----------------------------------------------------------------------------------------------------

    def wait_for_request(self, connection: RequestHandler) -> None:
        """No request is under way on this connection."""
        assert isinstance(connection, HttpConnection)
        self._waiting[connection] = self._loop.time()

    def has_request(self, connection: RequestHandler) -> None:
        """A request has come."""
        assert isinstance(connection, HttpConnection)
        self._waiting.pop(connection, None)

    def has_answered(self, connection: RequestHandler) -> None:
        """A request has ended."""
        if connection.transport is not None:
            self.wait_for_request(connection)
            if not self._is_accepting and self._retry is None:
                self._accept_again()  # it can make room

    def lost(self, connection: HttpConnection) -> None:
        """The connection is closed."""
        self._waiting.pop(connection, None)
        self._count -= 1
        if not self._is_accepting:
            self._accept_again()

    # -- connections --------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        assert self._manager is not None
        for _ in range(BATCH):
            if self._count >= self._max() and not self._make_room():
                self._pause()
                if not self._waiting:
                    self._report("requests are under way on all connections")
                return
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in NONE_LEFT:
                    raise
                self._pause()
                self._make_room()
                self._report("no file descriptor is left for a connection")
                if self._retry is None:
                    self._retry = self._loop.call_later(AGAIN_S, self._accept_again)
                return
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MS)
            self._count += 1
            connection = HttpConnection(self, self._manager, self._loop)
            self.wait_for_request(connection)
            connection.open(accepted, self._tls)

    def _report(self, shortage: str) -> None:
        """Once each: it may begin and end many times a second."""
        if shortage not in self._reported:
            self._reported.add(shortage)
            log.warning("%s (%d; ulimit -Hn, LimitNOFILE=): others wait", shortage, self._count)

    def _make_room(self) -> bool:
        """Close the connection that has waited longest for a request. False: there is none yet."""
        for connection, since in self._waiting.items():
            left_s = since + GRACE_S - self._loop.time()
            if left_s > 0:
                self._retry = self._loop.call_later(left_s, self._accept_again)
                return False
            del self._waiting[connection]
            connection.abort()
            return True
        return False

    def _close_idle(self) -> None:
        """Close connections on which no request has come in time."""
        until = self._loop.time() - self.idle_s
        for connection, since in [*self._waiting.items()]:
            if since > until:
                break
            del self._waiting[connection]
            connection.abort()
        self._sweep = self._loop.call_later(min(AGAIN_S, self.idle_s), self._close_idle)

    def _accept_again(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._manager is not None:
            self._is_accepting = True
            self._loop.add_reader(self._socket, self._accept)

    def _pause(self) -> None:
        self._is_accepting = False
        self._loop.remove_reader(self._socket)


def bound_of(descriptors: int) -> int:
    """Most connections of a process that may have so many descriptors."""
    return max(1, min(CONNECTIONS_MAX, descriptors - min(RESERVE, descriptors // RESERVE_SHARE)))
