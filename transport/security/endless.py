"""Endless: bytes that the connections of one key have brought and that were not taken in as messages.

ZeroMQ hands over whole messages, and its marks count whole ones: the parts of a message that has no end are gathered without
bound (30 connections of one key with 92 MiB each took 2,796 MiB). The reader sees none of them, but the kernel counts the
bytes that a connection has received. What is left after the messages that were taken in lies in this process or before it.
Where a key leaves more than its bound from one look to the next, its connections with the most are to be hung up on. The
connections that have not said anything yet count together: nobody knows whose they are. Between two looks the network is
the bound. A look costs 8 us a connection. Pure: bytes come in, descriptors go out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

#: For all connections of a key: what two of its clients may have outstanding (exchange.py), should the reader be that late.
#: A node has 16 MiB on its way at most (peers/window.py). Of what is read, a key is refused calls beyond 64 MiB.
ENDLESS_BYTES: Final = 128 << 20
#: ZeroMQ's own heartbeats are no messages: a client's are 210 bytes a second. With less the rest would add up, and end an idle
#: connection after some weeks; behind this a peer can hide 22 MB a day.
IDLE_BYTES_S: Final = 256
#: What a message is longer on the wire than its body: CURVE and the frame's head take 42 bytes. More is taken off, so that no
#: error adds up.
HEAD_BYTES: Final = 64
#: Both ends of a connection: by them it is told from another that has its descriptor later.
Ends = tuple[Any, Any]


class Brought(NamedTuple):
    """What the kernel says of a connection: all bytes that it has received."""

    fd: int
    #: The User-Id of its key; "": it has said nothing yet.
    user_id: str
    ends: Ends
    received: int


class Endless:
    """Of one bound socket. Not thread-safe."""

    def __init__(self) -> None:
        #: By descriptor: which connection it was at the last look, and the bytes that it had received then.
        self._seen: dict[int, tuple[Ends | None, int]] = {}
        #: By descriptor: the bytes of the messages that were taken in.
        self._taken: dict[int, int] = {}

    def took(self, fd: int, size: int) -> None:  # hot: once a frame
        """A message of so many bytes was taken in from this connection."""
        self._taken[fd] = self._taken.get(fd, 0) + size + HEAD_BYTES

    def begins(self, fd: int, ends: Ends | None) -> None:
        """This descriptor is another connection than before."""
        self._seen[fd] = ends, 0
        self._taken.pop(fd, None)

    def look(self, connections: Sequence[Brought], elapsed_ns: int) -> list[int]:
        """The descriptors of the connections to hang up on. `connections`: all that there are. Elapsed: since the last look."""
        idle = IDLE_BYTES_S * elapsed_ns // 1_000_000_000
        left: defaultdict[str, list[tuple[int, Brought]]] = defaultdict(list)
        for one in connections:
            left[one.user_id].append((self._left(one, idle), one))
        self._seen = {one.fd: (one.ends, one.received) for one in connections}
        self._taken = {one.fd: self._taken[one.fd] for one in connections}
        return [fd for of_key in left.values() for fd in self._beyond(of_key)]

    def _left(self, one: Brought, idle: int) -> int:
        """The bytes that had come at the last look and are not taken in yet."""
        ends, received = self._seen.get(one.fd, (one.ends, 0))
        if ends != one.ends:
            self.begins(one.fd, one.ends)
            received = 0
        taken = self._taken[one.fd] = min(one.received, self._taken.get(one.fd, 0) + idle)
        return max(0, received - taken)

    def _beyond(self, of_key: list[tuple[int, Brought]]) -> list[int]:
        """Those with the most, until the rest is within the bound."""
        rest, found = sum(left for left, _ in of_key), []
        for left, one in sorted(of_key, reverse=True):
            if rest <= ENDLESS_BYTES:
                break
            rest -= left
            found.append(one.fd)
            self._taken[one.fd] = one.received  # told once: it is shut down, and ZeroMQ may close it later
        return found
