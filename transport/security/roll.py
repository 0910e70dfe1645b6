"""Roll: the connections of a bound socket, as their frames show them, and how those of a revoked key are cut.

ZeroMQ asks once, at the handshake; a key that is revoked later would stay. So the User-Id of each frame, which the gatekeeper
gave and no peer can choose, is looked up among the keys trusted now, 2 us. ZeroMQ cannot hang up on one peer. So the roll
shuts down the descriptor that a frame came by, and ZeroMQ acts as if the peer had gone. Descriptors are numbers that are used
again: before it is shut down, the connection is held by a duplicate, and compared with the one that was known.
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

#: Connections of one key at a time, so that no key takes the descriptors of all. A node has one for each class of urgency,
#: each program on its host that is a client has one, and some have just ended.
CONNECTIONS_OF_KEY_MAX: Final = 64
#: Between two checks for messages without an end. A check costs 7 us a connection, of which a node among 64 has 126. The bytes
#: that a key sends in that time are in memory, beyond its bound.
LOOK_NS: Final = 500_000_000
#: Size to read of `struct tcp_info` (Linux), and the offset of the received bytes in it.
_INFO_BYTES: Final = 136
_BYTES_RECEIVED: Final = 128


@dataclass(frozen=True, slots=True)
class AdmittedConnection:
    """The User-Id of a connection, the number of that key's last admission then, and its two ends."""

    user_id: str
    admission: int
    #: Its two ends, which identify it; None: it has ended, as far as is known.
    ends: Ends | None


class Roll:
    """The connections of one bound socket. Not thread-safe: the socket's owner calls it."""

    def __init__(self, gatekeeper: Gatekeeper, socket: zmq.Socket[Any]) -> None:
        """To be made after `bind`. Only connections to the port of this socket are ever shut down.

        Raises `FailedPrecondition` for a socket without keys: there a peer writes the User-Id itself.
        """
        if socket.getsockopt(zmq.MECHANISM) != zmq.CURVE or not socket.getsockopt(zmq.ZAP_ENFORCE_DOMAIN):
            raise FailedPrecondition(
                "whose frames these are is only known of a socket that was made a server by links.py"
            )
        self._gatekeeper, self._keyring = gatekeeper, gatekeeper.keyring
        self._port = int(socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])
        self._connections: dict[int, AdmittedConnection] = {}  # by descriptor, so that its size is bounded
        self._swept: Ring | None = None
        self._endless = Endless()
        self._looked_ns = 0
        #: Frames refused, as their key is not trusted (any more) or has too many connections; and connections that were cut.
        self.refused_count = self.cut_count = 0

    def admit(self, frame: zmq.Frame) -> Holder | None:  # hot: once a frame
        """The holder of the key of this frame, with its grants. None: not trusted now; drop the frame, its connection is cut.

        `frame`: from `recv(copy=False)`. The routing id before it is the peer's choice. So before a reply is sent, compare the
        present bearer of the id with the one that asked.
        """
        user_id = str(frame.get("User-Id"))
        fd = int(frame.get(zmq.SRCFD))
        known = self._connections.get(fd)
        admission = self._gatekeeper.admissions.get(user_id, 0)
        is_new = known is None or known.user_id != user_id or known.admission != admission
        if known is not None and is_new and admission < known.admission and self._is_late(fd, user_id, known):
            holder = self._keyring.ring.of_user_id(user_id)
            self.refused_count += holder is None
            return holder
        if is_new:
            self._note(fd, user_id, admission)
        self._endless.took(fd, len(frame))
        holder = self._keyring.ring.of_user_id(user_id)
        if holder is None or (is_new and self._is_one_too_many(user_id)):
            self.refused_count += 1
            self._cut(fd)
            return None
        return holder

    def cut(self, frame: zmq.Frame) -> None:
        """Close the connection that this frame came by; `admit` has seen it."""
        self._cut(int(frame.get(zmq.SRCFD)))

    def sweep(self, now_ns: int, due: Iterable[int] = (), waiting: Iterable[int] = ()) -> list[str]:
        """Read the ring again, and cut connections whose keys are not trusted any more, also silent ones.

        `due`: descriptors whose time for a first message is over (doorstep.py). Those that sent none are cut: they have a key,
        but it is not known which. `waiting`: descriptors that still have time. Returns the User-Ids that have lost their
        trust. To be called a few times a second: for so long a revoked key may still be written to.
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

    def _is_late(self, fd: int, user_id: str, known: AdmittedConnection) -> bool:
        """Whether the connection that a frame of this key came by has ended: another key was admitted after this one, and the
        descriptor still is of that key's connection.
        """
        return known.user_id not in ("", user_id) and known.ends is not None and ends_at(fd) == known.ends

    def _note(self, fd: int, user_id: str, admission: int) -> None:
        before = self._connections.pop(fd, None)
        ends = ends_at(fd)
        if before is None or before.ends != ends:
            self._endless.begins(fd, ends)
        self._connections[fd] = AdmittedConnection(user_id, admission, ends)

    def _is_one_too_many(self, user_id: str) -> bool:
        """Whether this key has too many connections; those that have ended are forgotten first."""
        of_key = {fd: one for fd, one in self._connections.items() if one.user_id == user_id}
        if len(of_key) <= CONNECTIONS_OF_KEY_MAX:
            return False
        for fd, one in of_key.items():
            if one.ends is None or ends_at(fd) != one.ends:
                del self._connections[fd]
        return sum(one.user_id == user_id for one in self._connections.values()) > CONNECTIONS_OF_KEY_MAX

    def _end_if_silent(self, fd: int) -> None:
        # If a younger connection has the descriptor by now, its peer has to connect again: no harm is done.
        ends, known = ends_at(fd), self._connections.get(fd)
        if ends is not None and (known is None or known.ends != ends):
            self._connections[fd] = AdmittedConnection("", 0, ends)
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
        # It stays known as ended: its frames that were read ahead still come, and by then another has its descriptor.
        self._connections[fd] = replace(was, ends=None)
        with held(fd) as connection:  # from here on it cannot become another
            if connection is not None and ends_of(connection) == was.ends and was.ends[0][1] == self._port:
                self.cut_count += 1
                connection.shutdown(sockets.SHUT_RDWR)


@contextmanager
def held(fd: int) -> Iterator[sockets.socket | None]:
    """The connection that has this descriptor now, by a duplicate, so that it stays the same. None: there is none."""
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
    """Local and remote address of a connection; None: it is not, or no longer, connected."""
    try:
        return None if connection is None else (connection.getsockname(), connection.getpeername())
    except OSError:
        return None


def ends_at(fd: int) -> Ends | None:
    """`ends_of` the connection that has this descriptor now."""
    with held(fd) as connection:
        return ends_of(connection)


def _received(connection: sockets.socket) -> int:
    """All bytes that the kernel has received on this connection; 0: not known."""
    try:
        info = connection.getsockopt(sockets.IPPROTO_TCP, sockets.TCP_INFO, _INFO_BYTES)
    except OSError:  # not TCP: a descriptor that is something else by now
        return 0
    if len(info) < _INFO_BYTES:  # an old kernel (before 4.1) does not say
        return 0
    (received,) = struct.unpack_from("=Q", info, _BYTES_RECEIVED)
    return int(received)
