"""Visitors: the clients connected to a node's listening socket, and the frames queued for each.

A client is known by the routing id that it has chosen (32 random digits, which nobody guesses) together with the key of its
frames. Its replies go back on the same connection. Unread ones are queued up to a bound in bytes; a client beyond it is
disconnected, since it would wait for a reply that was dropped. ZeroMQ does not report that a connection of a bound socket has
ended. But each frame tells its descriptor, which is checked a few times a second: whether it still is that connection, and for
how long nothing has come on it.
"""

import fcntl
import re
import socket as sockets
import struct
import termios
from array import array
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

import zmq

from ..batching import PEER_BYTES_MAX, Outbox, SendResult
from ..link import LARGE_BYTES, LARGE_BYTES_MAX
from ..security.admission import plain
from ..security.keyring import Keyring
from ..security.ring import Holder
from ..security.roll import ends_at, ends_of, held
from ..uncopied import uncopied
from .greeting import SILENCE_MS

#: Pattern of a client's routing id. Ids that ZeroMQ makes itself, for connections of other nodes, begin with a zero.
CLIENT: Final = re.compile(rb"client/[0-9a-f]{32}")
#: Frames in ZeroMQ's queue for one client.
HWM: Final = 256
#: Size to read of `struct tcp_info` (Linux); `_LAST_DATA_RECEIVED`: offset of the time since the last data, ms.
_INFO_BYTES: Final = 64
#: Bytes queued for all clients of one key. Its 64 connections (security/roll.py) could have 2 GiB otherwise.
KEY_BYTES_MAX: Final = 2 * PEER_BYTES_MAX
#: A client with no more than this queued does not trigger a check of that bound: 64 of them are below it.
UNCOUNTED_BYTES: Final = KEY_BYTES_MAX // 128
_LAST_DATA_RECEIVED: Final = 52


@dataclass(slots=True)
class _Visitor:
    holder: Holder
    fd: int
    #: Both ends of its connection, which identify it: an earlier connection may have had the same descriptor.
    ends: tuple[Any, Any]
    #: Large frames that ZeroMQ still holds, the oldest first.
    large: deque[tuple[zmq.MessageTracker, int]] = field(default_factory=deque)


class Visitors:
    """The clients of one bound ROUTER. Not thread-safe: the socket's owner calls it."""

    def __init__(self, door: "zmq.Socket[bytes]", keyring: Keyring) -> None:
        """`door`: the ROUTER, before `bind`."""
        door.setsockopt(zmq.ROUTER_MANDATORY, 1)
        door.setsockopt(zmq.SNDHWM, HWM)
        self._door, self._keyring = door, keyring
        self._visitors: dict[bytes, _Visitor] = {}
        self._outbox = Outbox()
        #: Clients that have gone, and that `gone` has not reported yet.
        self._gone: list[bytes] = []

    def __len__(self) -> int:
        return len(self._visitors)

    def came(self, id: bytes, holder: Holder, frame: zmq.Frame) -> bool:
        """Whether this frame is a client's that is still connected, so that it can be answered."""
        visitor = self._visitors.get(id)
        if visitor is not None:
            if visitor.holder.user_id == holder.user_id:
                return True
            self._forget(id)  # two keys and one id: neither is believed
            return False
        fd = int(frame.get(zmq.SRCFD))
        ends = ends_at(fd)
        if ends is None:
            return False  # its last frame was read ahead, and nobody waits for a reply
        self._visitors[id] = _Visitor(holder, fd, ends)
        return True

    def holder(self, name: str) -> Holder | None:
        """The holder of the client's key, with its present grants; None: it has gone, or is not trusted any more."""
        visitor = self._visitors.get(name.encode())
        if visitor is None:
            return None
        found = self._keyring.ring.of_user_id(visitor.holder.user_id)
        if found is not None and found is not visitor.holder:
            visitor.holder = found
        return found

    def address(self, name: str) -> str:
        """Address of the client, as this host sees it; "": it has gone."""
        visitor = self._visitors.get(name.encode())
        if visitor is None:
            return ""
        host, port = visitor.ends[1][:2]
        return f"{plain(str(host))}:{port}"

    def say(self, name: str, packed: bytes) -> bool:
        """Queue a packed envelope for a client. False: it has gone, or does not read and is hung up on.

        If more than `KEY_BYTES_MAX` waits for the clients of its key, the client with the longest queue is hung up on.
        """
        id = name.encode()
        if id not in self._visitors:
            return False
        if not self._outbox.add(id, packed):
            self.hang_up(id)
            return False
        if self._is_counted(id):
            of_key = self._of_key(id)
            if sum(map(self._waiting, of_key)) > KEY_BYTES_MAX:
                slowest = max(of_key, key=self._waiting)
                self.hang_up(slowest)
                return slowest != id
        return True

    def tell(self, name: str, packed: bytes) -> bool:
        """As `say`, for a message that nobody waits for. False: it was dropped, as the rest of the room is for replies."""
        id = name.encode()
        if id not in self._visitors or self._outbox.room(id) <= PEER_BYTES_MAX // 2:
            return False
        if self._is_counted(id) and sum(map(self._waiting, self._of_key(id))) > KEY_BYTES_MAX // 2:
            return False
        return self._outbox.add(id, packed)

    def flush(self, *, with_stalled: bool = True) -> bool:
        """Send queued frames. Returns whether some wait for a slow reader."""
        if self._outbox:
            for id in self._outbox.flush(self._send, with_stalled=with_stalled):
                self._forget(id)
        return bool(self._outbox.stalled)

    def gone(self) -> list[str]:
        """Clients that have gone since the last call. Costs 5 us for each that is connected."""
        for id, visitor in [*self._visitors.items()]:
            with held(visitor.fd) as connection:
                if connection is None or ends_of(connection) != visitor.ends:
                    self._forget(id)
                elif is_silent(connection):
                    connection.shutdown(sockets.SHUT_RDWR)
                    self._forget(id)
        gone, self._gone = self._gone, []
        return [id.decode() for id in gone]

    def hang_up(self, id: bytes) -> None:
        """End a connection in such a way that ZeroMQ believes the client closed it."""
        visitor = self._visitors.get(id)
        if visitor is None:
            return
        with held(visitor.fd) as connection:  # from here on it cannot become another
            if connection is not None and ends_of(connection) == visitor.ends:
                connection.shutdown(sockets.SHUT_RDWR)
        self._forget(id)

    def _waiting(self, id: bytes) -> int:
        return PEER_BYTES_MAX - self._outbox.room(id)

    def _is_counted(self, id: bytes) -> bool:
        return self._waiting(id) > UNCOUNTED_BYTES

    def _of_key(self, id: bytes) -> list[bytes]:
        """The clients that are connected with the same key."""
        user_id = self._visitors[id].holder.user_id
        return [one for one, visitor in self._visitors.items() if visitor.holder.user_id == user_id]

    def _forget(self, id: bytes) -> None:
        if self._visitors.pop(id, None) is not None:
            self._outbox.forget(id)
            self._gone.append(id)

    def _send(self, id: bytes, frame: bytes) -> SendResult:
        visitor = self._visitors.get(id)
        if visitor is None:
            return SendResult.UNREACHABLE
        large = visitor.large
        while large and large[0][0].done:
            large.popleft()
        is_large = len(frame) >= LARGE_BYTES
        if is_large and large and sum(size for _, size in large) + len(frame) > LARGE_BYTES_MAX:
            return SendResult.FULL
        part = uncopied(frame) if is_large else None
        try:
            self._door.send(id, zmq.SNDMORE | zmq.NOBLOCK)
            self._door.send(frame if part is None else part, zmq.NOBLOCK, copy=part is None)
        except zmq.Again:
            return SendResult.FULL
        except zmq.ZMQError as error:
            if error.errno == zmq.EHOSTUNREACH:
                return SendResult.UNREACHABLE
            raise
        if part is not None:
            large.append((part.tracker, len(frame)))
        return SendResult.SENT


def is_silent(connection: sockets.socket) -> bool:
    """Whether nothing has come for so long, not even a heartbeat, that the client is gone; unread data is a sign of life.

    The kernel knows. ZeroMQ does not: without heartbeats of its own (links.py) it relies on the client's, and forgets their
    time limit with any other message.
    """
    info = connection.getsockopt(sockets.IPPROTO_TCP, sockets.TCP_INFO, _INFO_BYTES)
    (silence_ms,) = struct.unpack_from("=I", info, _LAST_DATA_RECEIVED)
    unread = array("i", (0,))
    fcntl.ioctl(connection, termios.FIONREAD, unread)
    return bool(silence_ms > SILENCE_MS) and not unread[0]


def is_client(name: str) -> bool:
    """Whether this is the name of a client's connection, and not of a node."""
    return name.startswith("client/")
