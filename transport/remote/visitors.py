"""Visitors: the clients that are connected to a node's door, and what is on its way to each.

A client is known by the routing id that it has chosen (32 random digits, which nobody guesses) together with the key that
its frames bear. Its answers go back by the same connection: what is not read is kept up to a bound in bytes, and who is
beyond it is hung up on, since an answer that was dropped would be waited for. ZeroMQ does not tell that a connection of a
bound socket has ended; but each frame tells the descriptor that it came by, and that is looked at a few times a second: whether
it still is that connection, and for how long nothing has come by it.
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

from ..batching import PEER_BYTES_MAX, Outbox, Sent
from ..link import LARGE_BYTES, LARGE_BYTES_MAX
from ..security.admission import plain
from ..security.keyring import Keyring
from ..security.ring import Holder
from ..security.roll import ends_of, held
from .greeting import SILENCE_MS

#: What a client's routing id looks like. Those that ZeroMQ makes itself, for lines of other nodes, begin with a zero.
CLIENT: Final = re.compile(rb"client/[0-9a-f]{32}")
#: Frames on their way to one client.
HWM: Final = 256
#: Of `struct tcp_info` (Linux) so much, and where in it is how long ago the last data came, ms.
_INFO_BYTES: Final = 64
#: Bytes that wait for all clients of one key. Its 64 connections (security/roll.py) could have 2 GiB otherwise.
KEY_BYTES_MAX: Final = 2 * PEER_BYTES_MAX
#: A client for which no more than this waits is not looked at for that: 64 of them are below the bound.
UNCOUNTED_BYTES: Final = KEY_BYTES_MAX // 128
_LAST_DATA_RECEIVED: Final = 52


@dataclass(slots=True)
class _Visitor:
    holder: Holder
    fd: int
    #: Of its connection, by which that is known again; what was there before has had the same descriptor.
    ends: tuple[Any, Any]
    #: Large frames that ZeroMQ still has, the oldest first.
    large: deque[tuple[zmq.MessageTracker, int]] = field(default_factory=deque)


class Visitors:
    """Of one bound ROUTER. Not thread-safe: it belongs to the owner of the socket."""

    def __init__(self, door: "zmq.Socket[bytes]", keyring: Keyring) -> None:
        """Before `bind`."""
        door.setsockopt(zmq.ROUTER_MANDATORY, 1)
        door.setsockopt(zmq.SNDHWM, HWM)
        self._door, self._keyring = door, keyring
        self._visitors: dict[bytes, _Visitor] = {}
        self._outbox = Outbox()
        #: Those that have gone and whose owner was not told yet.
        self._gone: list[bytes] = []

    def __len__(self) -> int:
        return len(self._visitors)

    def came(self, id: bytes, holder: Holder, frame: zmq.Frame) -> bool:
        """Whether a frame is a client's, and he is still there: then he can be answered."""
        visitor = self._visitors.get(id)
        if visitor is not None:
            if visitor.holder.user_id == holder.user_id:
                return True
            self._forget(id)  # two keys and one id: neither is believed
            return False
        fd = int(frame.get(zmq.SRCFD))
        with held(fd) as connection:
            ends = ends_of(connection)
        if ends is None:
            return False  # what it said last has been read ahead, and nobody waits for an answer
        self._visitors[id] = _Visitor(holder, fd, ends)
        return True

    def holder(self, name: str) -> Holder | None:
        """Who that is, and what he may use now; None: he has gone, or is not trusted any more."""
        visitor = self._visitors.get(name.encode())
        if visitor is None:
            return None
        found = self._keyring.ring.of_user_id(visitor.holder.user_id)
        if found is not None and found is not visitor.holder:
            visitor.holder = found
        return found

    def address(self, name: str) -> str:
        """Where that is, as this host sees it; "": he has gone."""
        visitor = self._visitors.get(name.encode())
        if visitor is None:
            return ""
        host, port = visitor.ends[1][:2]
        return f"{plain(str(host))}:{port}"

    def say(self, name: str, packed: bytes) -> bool:
        """Put a packed envelope behind those for a client. False: he has gone, or does not read and is hung up on.

        Where more than `KEY_BYTES_MAX` waits for the clients of his key, the one that most waits for is hung up on.
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
        """As `say`, for what nobody waits for: False: no room is left beside that for answers, and nothing else happens."""
        id = name.encode()
        if id not in self._visitors or self._outbox.room(id) <= PEER_BYTES_MAX // 2:
            return False
        if self._is_counted(id) and sum(map(self._waiting, self._of_key(id))) > KEY_BYTES_MAX // 2:
            return False
        return self._outbox.add(id, packed)

    def flush(self, *, with_stalled: bool = True) -> bool:
        """Let go what was said; whether something waits for somebody who reads slowly."""
        if self._outbox:
            for id in self._outbox.flush(self._send, with_stalled=with_stalled):
                self._forget(id)
        return bool(self._outbox.stalled)

    def gone(self) -> list[str]:
        """Those who have gone since it was last asked. To ask costs 5 us for each who is there."""
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
        """End a connection: for ZeroMQ it is as if the client had done it."""
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
        """Those who are connected with the same key."""
        user_id = self._visitors[id].holder.user_id
        return [one for one, visitor in self._visitors.items() if visitor.holder.user_id == user_id]

    def _forget(self, id: bytes) -> None:
        if self._visitors.pop(id, None) is not None:
            self._outbox.forget(id)
            self._gone.append(id)

    def _send(self, id: bytes, frame: bytes) -> Sent:
        visitor = self._visitors.get(id)
        if visitor is None:
            return Sent.UNREACHABLE
        large = visitor.large
        while large and large[0][0].done:
            large.popleft()
        is_large = len(frame) >= LARGE_BYTES
        if is_large and large and sum(size for _, size in large) + len(frame) > LARGE_BYTES_MAX:
            return Sent.FULL
        try:
            self._door.send(id, zmq.SNDMORE | zmq.NOBLOCK)
            tracker = self._door.send(frame, zmq.NOBLOCK, copy=not is_large, track=is_large)
        except zmq.Again:
            return Sent.FULL
        except zmq.ZMQError as error:
            if error.errno == zmq.EHOSTUNREACH:
                return Sent.UNREACHABLE
            raise
        if tracker is not None:
            large.append((tracker, len(frame)))
        return Sent.SENT


def is_silent(connection: sockets.socket) -> bool:
    """Whether nothing has come for so long, not even a heartbeat, that nobody is there; what was not read yet has come.

    The kernel knows. ZeroMQ does not: without heartbeats of its own (links.py) it goes by those of the other end, and forgets
    how long they may stay away with whatever else comes.
    """
    info = connection.getsockopt(sockets.IPPROTO_TCP, sockets.TCP_INFO, _INFO_BYTES)
    (silence_ms,) = struct.unpack_from("=I", info, _LAST_DATA_RECEIVED)
    unread = array("i", (0,))
    fcntl.ioctl(connection, termios.FIONREAD, unread)
    return bool(silence_ms > SILENCE_MS) and not unread[0]


def is_client(name: str) -> bool:
    """Whether something is called as a client is, and not as a node."""
    return name.startswith("client/")
