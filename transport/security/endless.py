"""Endless: bytes that the connections of one key have received, and that were not read as messages.

ZeroMQ hands over whole messages, and its limits count whole ones. It gathers the parts of an unfinished message without bound:
30 connections of one key with 92 MiB each took 2,796 MiB. The reader sees none of them, but the kernel counts the bytes that a
connection has received. The bytes that remain after the messages that were read lie in this process or before it. If a key
leaves more than its bound from one check to the next, its connections with the most are to be closed. Connections that have
not sent a message yet count together, as their keys are not known. Between two checks the network is the bound. A check costs
8 us a connection. Pure: bytes come in, descriptors go out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

#: Bound for all connections of a key: the outstanding calls of two clients (caller_core.py), should the reader be that late. A
#: node has 16 MiB in transit at most (peers/window.py). Of messages that are read, a key is refused calls beyond 64 MiB.
ENDLESS_BYTES: Final = 128 << 20
#: ZeroMQ's own heartbeats are not messages: a client's are 210 bytes a second. With less the rest would add up, and end an
#: idle connection after some weeks; with this a peer can hide 22 MB a day.
IDLE_BYTES_S: Final = 256
#: Bytes on the wire beside a message's body: CURVE and the frame's head take 42. More is subtracted, so that no error adds up.
HEAD_BYTES: Final = 64
#: Both ends of a connection: they tell it from a later one that has its descriptor.
Ends = tuple[Any, Any]


class Brought(NamedTuple):
    """A connection, and all bytes that the kernel has received on it."""

    fd: int
    #: The User-Id of its key; "": it has sent no message yet.
    user_id: str
    ends: Ends
    received: int


class Endless:
    """Counts of one bound socket. Not thread-safe."""

    def __init__(self) -> None:
        #: By descriptor: its connection at the last check, and the bytes that this had received then.
        self._seen: dict[int, tuple[Ends | None, int]] = {}
        #: By descriptor: the bytes of the messages that were read.
        self._taken: dict[int, int] = {}

    def took(self, fd: int, size: int) -> None:  # hot: once a frame
        """A message of so many bytes was read from this connection."""
        self._taken[fd] = self._taken.get(fd, 0) + size + HEAD_BYTES

    def begins(self, fd: int, ends: Ends | None) -> None:
        """This descriptor belongs to another connection than before."""
        self._seen[fd] = ends, 0
        self._taken.pop(fd, None)

    def look(self, connections: Sequence[Brought], elapsed_ns: int) -> list[int]:
        """Descriptors of the connections to close. `connections`: all that there are. `elapsed_ns`: since the last check."""
        idle = IDLE_BYTES_S * elapsed_ns // 1_000_000_000
        left: defaultdict[str, list[tuple[int, Brought]]] = defaultdict(list)
        for one in connections:
            left[one.user_id].append((self._left(one, idle), one))
        self._seen = {one.fd: (one.ends, one.received) for one in connections}
        self._taken = {one.fd: self._taken[one.fd] for one in connections}
        return [fd for of_key in left.values() for fd in self._beyond(of_key)]

    def _left(self, one: Brought, idle: int) -> int:
        """The bytes that had come by the last check and were not read yet."""
        ends, received = self._seen.get(one.fd, (one.ends, 0))
        if ends != one.ends:
            self.begins(one.fd, one.ends)
            received = 0
        taken = self._taken[one.fd] = min(one.received, self._taken.get(one.fd, 0) + idle)
        return max(0, received - taken)

    def _beyond(self, of_key: list[tuple[int, Brought]]) -> list[int]:
        """The connections with the most, until the rest is within the bound."""
        rest, found = sum(left for left, _ in of_key), []
        for left, one in sorted(of_key, reverse=True):
            if rest <= ENDLESS_BYTES:
                break
            rest -= left
            found.append(one.fd)
            self._taken[one.fd] = one.received  # reported once: it is shut down, and ZeroMQ may close it later
        return found
