"""Listening: the proxy's address: open, silent as behind a cut cable, or closed as on a host without this service.

Silence towards newcomers needs no privilege: a queue of length 0 that one connection of our own fills, and the kernel
drops every further SYN, as a cable does that is cut. The client's kernel repeats it after 1, 3 and 7 s, as it would.
The address stays ours while it is closed: a second socket is bound to it, and never listens.
"""

from __future__ import annotations

import contextlib
import select
import socket

from tests.network.faults import SEGMENT_BYTES
from tests.waiting import LIMIT_S

#: More than any test opens at once; the kernel's own limit is 4096.
BACKLOG = 1024


class Listening:
    """An address where clients connect."""

    def __init__(self, host: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._reserved = socket.socket(family)
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind((host, 0))
        self._socket: socket.socket | None = None
        self._filler: socket.socket | None = None
        self.is_silent = False  # newcomers get no answer
        self.address: tuple[str, int] = self._reserved.getsockname()[:2]

    @property
    def fd(self) -> int:
        """Of the socket that listens; -1 while it is closed."""
        return -1 if self._socket is None else self._socket.fileno()

    def open(self, receive_bytes: int) -> None:
        """Take connections (again, after `close`)."""
        sock = socket.socket(self._reserved.family)
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        prepare(sock, receive_bytes)
        sock.bind(self.address)
        sock.listen(BACKLOG)
        self._socket = sock

    def limit(self, receive_bytes: int) -> None:
        """What the kernel may keep for those that connect from now on."""
        if self._socket is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)

    def accept(self) -> socket.socket | None:
        """The next that came, not blocking; the one that kept others away is none."""
        assert self._socket is not None
        while True:
            try:
                sock, peer = self._socket.accept()
            except BlockingIOError:
                return None
            sock.setblocking(False)
            if self._filler is None or peer != self._filler.getsockname():
                return sock
            sock.close()
            self._remove_filler()

    def silence(self) -> None:
        """Give newcomers no answer; whoever had come was accepted before."""
        assert self._socket is not None
        self._socket.listen(0)
        self._remove_filler()
        self.is_silent = True
        self._filler = socket.socket(self._reserved.family)
        self._filler.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            self._filler.connect(self.address)
        # Until it is in the queue, a newcomer finds it empty: a kernel that is busy puts a handshake off.
        if not select.select([self._socket], [], [], LIMIT_S)[0]:
            raise TimeoutError(f"the connection that keeps others away has not arrived within {LIMIT_S} s")

    def listen(self) -> None:
        """No longer be silent."""
        assert self._socket is not None
        self._socket.listen(BACKLOG)
        self.is_silent = False

    def close(self) -> None:
        """Refuse newcomers; the address stays ours."""
        assert self._socket is not None
        self._socket.close()
        self._socket = None
        self.is_silent = False
        self._remove_filler()

    def _remove_filler(self) -> None:
        if self._filler is not None:
            self._filler.close()
            self._filler = None


def prepare(sock: socket.socket, receive_bytes: int) -> None:
    """Before it connects or listens: segments as on Ethernet, for loopback's of 64 KiB do not fit a small buffer."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
