"""Headroom: descriptors that connections without a key may not take, because the sockets of this host need them.

Each connection to the port costs a descriptor until it shows a key or its handshake times out, and ZeroMQ accepts all that
come. At the limit it aborts the process: its listener for local sockets does not bear that accept() fails with EMFILE. So
while newcomers hold too many, a socket filter on the listening socket has the kernel drop packets of new connections at this
port. Established connections go on, TCP tries a dropped one again after a second, and strangers run out of time. Closing the
port instead would end its connections: ZeroMQ keeps them with the listener. Costs 5 us a check while newcomers are there, and
nothing otherwise.

Some kernels (Linux 6.18 here) let only privileged users attach a filter. There ZeroMQ is not told of new connections
(accept_gate.py): they wait in the kernel's queue, which is short (`WAITING_SHARE`), and those beyond it are dropped as well.
"""

from __future__ import annotations

import ctypes
import os
import select
import socket as sockets
import struct
from itertools import islice
from typing import Final

from ..accept_gate import ListenerRegistration, registration_of
from ..descriptors import descriptors_max, open_count

#: Half of a process's descriptors stay out of the strangers' reach. ZeroMQ accepted one in 0.1 ms, so that half of 1,024 last
#: for 50 ms. They are counted in each iteration of the owner, 2 ms: beside 4,000 half-open connections 524 were open.
SHARE: Final = 2
#: Newcomers that are let in even if others hold that share: or a node with many local sockets could not be reached at all.
NEWCOMERS_MIN: Final = 32
#: How long a connection is a newcomer: two handshakes. After that it has shown a key, or ZeroMQ has hung up on it.
NEWCOMER_NS: Final = 2_000_000_000
#: Connections that wait in the kernel are still accepted when new ones are dropped: at most this share of the descriptors.
WAITING_SHARE: Final = 16
#: Time between two lines in the log.
SAID_NS: Final = 60_000_000_000
#: Linux, socket.h and filter.h; Python does not have them. The filter is one instruction: keep 0 bytes of each packet.
_SO_ATTACH_FILTER: Final = 26
_SO_DETACH_FILTER: Final = 27
_DROP_ALL: Final = struct.pack("=HBBI", 0x06, 0, 0, 0)


class Headroom:
    """Guards one listening socket. Not thread-safe."""

    def __init__(self, listening_fd: int) -> None:
        """`listening_fd`: ZeroMQ's, which is duplicated. Raises OSError."""
        self._listening_fd = listening_fd
        self._socket = sockets.socket(fileno=os.dup(listening_fd))
        #: None: as long as filters are permitted.
        self._registration: ListenerRegistration | None = None
        self.is_paused = False
        self._said_ns: int | None = None

    def look(self, arrivals: dict[int, int], now_ns: int) -> str | None:
        """Drop new connections, or accept them again. Returns a sentence for the log when that is due.

        `arrivals`: when each connection came, by descriptor, the oldest first. Old ones may be missing.
        """
        limit = descriptors_max()
        is_short = _is_crowd(arrivals, now_ns) and open_count(limit) * SHARE >= limit
        if is_short is self.is_paused:
            return None
        if because := self._switch(is_paused=is_short):
            return self._paced(f"connections that have shown no key cannot be limited: {because}", now_ns)
        self.is_paused = is_short
        if not is_short:
            return None
        return self._paced(
            f"new connections wait: half of {limit:,} descriptors are open, and many connections have not shown a key yet "
            "(raise the limit, ulimit -Hn or LimitNOFILE, or keep strangers from the port)",
            now_ns,
        )

    def close(self) -> None:
        """To be called before ZeroMQ's socket is closed, or the port stays taken."""
        self._socket.close()

    def _switch(self, *, is_paused: bool) -> str | None:
        """Attach or remove the filter, or do without. Returns why neither is possible; None: it is done."""
        try:
            if self._registration is None:
                try:
                    self._filter(is_paused=is_paused)
                    return None
                except OSError:
                    self._registration = registration_of(self._listening_fd)
                    if self._registration is None:
                        raise
            self._registration.report(0 if is_paused else select.EPOLLIN)
        except OSError as error:
            return os.strerror(error.errno or 0)
        return None

    def _filter(self, *, is_paused: bool) -> None:
        code = ctypes.create_string_buffer(_DROP_ALL, len(_DROP_ALL))
        program = struct.pack("@HP", 1, ctypes.addressof(code))
        if is_paused:
            self._socket.setsockopt(sockets.SOL_SOCKET, _SO_ATTACH_FILTER, program)
        else:
            self._socket.setsockopt(sockets.SOL_SOCKET, _SO_DETACH_FILTER, 0)

    def _paced(self, sentence: str, now_ns: int) -> str | None:
        if self._said_ns is not None and now_ns - self._said_ns < SAID_NS:
            return None
        self._said_ns = now_ns
        return sentence


def _is_crowd(arrivals: dict[int, int], now_ns: int) -> bool:
    newest = [*islice(reversed(arrivals.values()), NEWCOMERS_MIN)]
    return len(newest) == NEWCOMERS_MIN and now_ns - newest[-1] < NEWCOMER_NS
