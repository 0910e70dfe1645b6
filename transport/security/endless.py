"""Endless: who sends and sends, and never comes to the end of a message.

ZeroMQ hands over whole messages, and its marks count whole ones: the parts of one that has no end are gathered without bound
(400 MiB of them took 400 MiB, with a mark of 64 frames). They are seen by nobody who reads; but the kernel counts what came
by a connection. Who has sent more than anybody may since his last message, and comes to no end until the next look either, is
cut off. A look costs some us a connection. What is gathered in between is bounded by the network: 2 s of it.
"""

from __future__ import annotations

import socket as sockets
import struct
from collections.abc import Iterable
from typing import Final

#: Who keeps to a window has 16 MiB on its way at most (peers/window.py), and a client 64 MiB outstanding (calls.py).
ENDLESS_BYTES: Final = 96 << 20
#: ZeroMQ's own heartbeats are no messages: 90 bytes a second, of which one look a second allows a little more.
IDLE_BYTES: Final = 160
#: Of `struct tcp_info` (Linux) so much, and where in it is how much came.
_INFO_BYTES: Final = 136
_BYTES_RECEIVED: Final = 128


class Endless:
    """Of one bound socket. Not thread-safe."""

    def __init__(self) -> None:
        #: By descriptor: how much had come when a message of it was last seen, and how often it was beyond the bound since.
        self._seen: dict[int, tuple[int, int]] = {}
        #: Those of whom a message came since the last look.
        self._spoken: set[int] = set()

    def spoke(self, fd: int) -> None:  # hot: once a frame
        """A message came by this connection."""
        self._spoken.add(fd)

    def begins(self, fd: int) -> None:
        """This descriptor is another connection than before."""
        self._seen.pop(fd, None)

    def is_one(self, fd: int, connection: sockets.socket) -> bool:
        """Whether this is to be cut off; asked at each look of each connection."""
        came = _came(connection)
        since, strikes = self._seen.get(fd, (0, 0))
        if fd in self._spoken or came < since:  # less than before: it is another by now
            self._seen[fd] = came, 0
            return False
        since = min(came, since + IDLE_BYTES)
        # Not at once: where this process stood still, what it has not read yet lies before the next look.
        strikes = strikes + 1 if came - since > ENDLESS_BYTES else 0
        if strikes > 1:
            self._seen[fd] = came, 0  # told once: what was shut down brings nothing more
            return True
        self._seen[fd] = since, strikes
        return False

    def looked(self, fds: Iterable[int]) -> None:
        """All were; these are there."""
        self._spoken.clear()
        self._seen = {fd: self._seen[fd] for fd in fds if fd in self._seen}


def _came(connection: sockets.socket) -> int:
    try:
        info = connection.getsockopt(sockets.IPPROTO_TCP, sockets.TCP_INFO, _INFO_BYTES)
    except OSError:  # not TCP: a descriptor that is something else by now
        return 0
    if len(info) < _INFO_BYTES:  # an old kernel (before 4.1) does not say
        return 0
    (came,) = struct.unpack_from("=Q", info, _BYTES_RECEIVED)
    return int(came)
