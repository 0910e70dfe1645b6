"""Roll: who is connected, by which frames, and how the connection of a key that was revoked ends.

ZeroMQ asks once, at the handshake; a key that is revoked later would stay. So each frame is looked at: its User-Id, which the
gatekeeper gave and no peer can choose, is looked up among those trusted now, 2 us. And as ZeroMQ cannot hang up on one
peer, the roll does: each frame tells the descriptor that it came by; what is shut down there ends for ZeroMQ as if the peer had
gone. Descriptors are numbers that are used again: before it is shut, the connection is held and compared with what it was.
"""

from __future__ import annotations

import os
import socket as sockets
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import zmq

from ..errors import FailedPrecondition
from .endless import Brought, Endless, Ends
from .gatekeeper import Gatekeeper
from .ring import Holder, Ring

#: Connections of one key at a time. A node has one a class of urgency, and each program that is a client of another host one:
#: the programs of one host, and those connections that have just ended. It keeps one key from taking the descriptors of all.
CONNECTIONS_OF_KEY_MAX: Final = 64
#: Between two looks for messages without an end. A look costs 7 us a connection, of which a node among 64 has 126. What a key
#: can send in that time is in memory, beyond its bound.
LOOK_NS: Final = 500_000_000
#: Of `struct tcp_info` (Linux) so much, and where in it is how many bytes were received.
_INFO_BYTES: Final = 136
_BYTES_RECEIVED: Final = 128


@dataclass(frozen=True, slots=True)
class Connection:
    """Whose it is, by which of its admissions, and between which two addresses."""

    user_id: str
    admission: int
    #: Its two ends, by which it is known again; None: it has ended, as far as is known.
    ends: Ends | None


class Roll:
    """Of one bound socket. Not thread-safe: it belongs to the owner of the socket."""

    def __init__(self, gatekeeper: Gatekeeper, socket: zmq.Socket[Any]) -> None:
        """After `bind`. Nothing that is not connected to the port of this socket is ever shut down.

        Raises `FailedPrecondition` for one without keys: there a peer writes the User-Id itself.
        """
        if socket.getsockopt(zmq.MECHANISM) != zmq.CURVE or not socket.getsockopt(zmq.ZAP_ENFORCE_DOMAIN):
            raise FailedPrecondition(
                "whose frames these are is only known of a socket that was made a server by links.py"
            )
        self._gatekeeper, self._keyring = gatekeeper, gatekeeper.keyring
        self._port = int(socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])
        self._connections: dict[int, Connection] = {}  # by descriptor: no more than a process may have
        self._swept: Ring | None = None
        self._endless = Endless()
        self._looked_ns = 0
        #: Frames refused, as their key is not trusted (any more) or has too many connections; and connections ended.
        self.refused_count = self.cut_count = 0

    def admit(self, frame: zmq.Frame) -> Holder | None:  # hot: once a frame
        """Who sent this frame, and what it may use. None: nobody who is trusted now; it is to be dropped, its connection ends.

        The frame as it was received: `recv(copy=False)`. The routing id before it is what the peer likes: whoever answers
        compares who bears it now with who bore it when he asked.
        """
        user_id = str(frame.get("User-Id"))
        fd = int(frame.get(zmq.SRCFD))
        known = self._connections.get(fd)
        admission = self._gatekeeper.admissions.get(user_id, 0)
        is_new = known is None or known.user_id != user_id or known.admission != admission
        if is_new:
            self._note(fd, user_id, admission)
        self._endless.took(fd, len(frame))
        holder = self._keyring.ring.of_user_id(user_id)
        if holder is None or (is_new and self._is_one_too_many(user_id)):
            self.refused_count += 1
            self._cut(fd)
            return None
        return holder

    def sweep(self, now_ns: int, due: Iterable[int] = (), waiting: Iterable[int] = ()) -> list[str]:
        """Read the ring again, and end the connections of those who are not trusted any more, of those who are silent, too.

        `due`: descriptors of those who have had their time to speak (doorstep.py). Who has not is hung up on: he has a key, but
        as long as he says nothing it is not known whose. `waiting`: of those who have not had it yet. Returns the User-Ids of
        those who were trusted. Call it a few times a second: for so long a revoked key may still be written to.
        """
        for fd in due:
            self._end_if_silent(fd)
        if now_ns - self._looked_ns >= LOOK_NS:
            self._end_endless(waiting, now_ns - self._looked_ns)
            self._looked_ns = now_ns
        self._keyring.refresh()
        ring = self._keyring.ring
        if ring is self._swept:
            return []
        self._swept = ring
        untrusted = {fd: one for fd, one in self._connections.items() if ring.of_user_id(one.user_id) is None}
        gone = {fd: one for fd, one in untrusted.items() if one.ends is not None}
        for fd in gone:
            self._cut(fd)
        return sorted({one.user_id for one in gone.values()})

    def _note(self, fd: int, user_id: str, admission: int) -> None:
        before = self._connections.pop(fd, None)
        with held(fd) as connection:
            ends = ends_of(connection)
        if before is None or before.ends != ends:
            self._endless.begins(fd, ends)
        self._connections[fd] = Connection(user_id, admission, ends)

    def _is_one_too_many(self, user_id: str) -> bool:
        """Those that have ended are forgotten first."""
        of_key = {fd: one for fd, one in self._connections.items() if one.user_id == user_id}
        if len(of_key) <= CONNECTIONS_OF_KEY_MAX:
            return False
        for fd, one in of_key.items():
            with held(fd) as connection:
                if one.ends is None or ends_of(connection) != one.ends:
                    del self._connections[fd]
        return sum(one.user_id == user_id for one in self._connections.values()) > CONNECTIONS_OF_KEY_MAX

    def _end_if_silent(self, fd: int) -> None:
        # Should another have the descriptor by now, who came less long ago, he has to connect again: no harm is done.
        with held(fd) as connection:
            ends, known = ends_of(connection), self._connections.get(fd)
        if ends is not None and (known is None or known.ends != ends):
            self._connections[fd] = Connection("", 0, ends)
            self._cut(fd)

    def _end_endless(self, waiting: Iterable[int], elapsed_ns: int) -> None:
        known = {fd for fd, one in self._connections.items() if one.ends is not None}
        for fd in self._endless.look([*self._brought(known.union(waiting))], elapsed_ns):
            self._end_if_silent(fd)
            self._cut(fd)

    def _brought(self, fds: Iterable[int]) -> Iterator[Brought]:
        for fd in fds:
            with held(fd) as connection:
                ends = ends_of(connection)
                received = _received(connection) if connection is not None and ends is not None else None
            if ends is None or received is None:
                continue
            known = self._connections.get(fd)
            user_id = "" if known is None or known.ends != ends else known.user_id
            yield Brought(fd, user_id, ends, received)

    def _cut(self, fd: int) -> None:
        was = self._connections.get(fd)
        if was is None or was.ends is None:
            return
        # It stays known as ended: frames of its that were read ahead still come, and by then its descriptor is another's.
        self._connections[fd] = replace(was, ends=None)
        with held(fd) as connection:  # from here on it cannot become another
            ends = ends_of(connection)
            if connection is not None and ends == was.ends and was.ends[0][1] == self._port:
                self.cut_count += 1
                connection.shutdown(sockets.SHUT_RDWR)


@contextmanager
def held(fd: int) -> Iterator[sockets.socket | None]:
    """The connection that has this descriptor now, by another of our own, so that it stays the same. None: there is none."""
    try:
        held = os.dup(fd)
    except OSError:
        yield None
        return
    try:
        connection = sockets.socket(fileno=held)
    except OSError:  # a file, by now
        os.close(held)
        yield None
        return
    with connection:
        yield connection


def ends_of(connection: sockets.socket | None) -> Ends | None:
    """Ours and theirs; None: it is not, or no longer, connected."""
    try:
        return None if connection is None else (connection.getsockname(), connection.getpeername())
    except OSError:
        return None


def _received(connection: sockets.socket) -> int:
    """All bytes of this connection that the kernel has received."""
    try:
        info = connection.getsockopt(sockets.IPPROTO_TCP, sockets.TCP_INFO, _INFO_BYTES)
    except OSError:  # not TCP: a descriptor that is something else by now
        return 0
    if len(info) < _INFO_BYTES:  # an old kernel (before 4.1) does not say
        return 0
    (received,) = struct.unpack_from("=Q", info, _BYTES_RECEIVED)
    return int(received)
