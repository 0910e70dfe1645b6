"""MemoryLink: a link whose far ends are the test.

Answers as `transport/link.py` does, frame by frame: a peer may be full, or have gone.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

from appbackplane.transport.batching import Sent


class MemoryLink:
    """A `Port` of the engine (execution/engine.py) without a socket."""

    def __init__(self, known_as: str = "virtual-1") -> None:
        """`known_as`: what far ends call this one."""
        self._known_as = known_as.encode()
        self._inbox: deque[tuple[bytes, bytes]] = deque()
        #: Frames that were sent and not taken yet: (peer, frame).
        self.sent: deque[tuple[bytes, bytes]] = deque()
        #: Peers that do not read, and peers that are not there.
        self.full: set[bytes] = set()
        self.gone: set[bytes] = set()
        self._connected = 0

    def deliver(self, peer: bytes, frame: bytes) -> None:
        """Have the backplane receive a frame from `peer`."""
        self._inbox.append((peer, frame))

    def send(self, peer: bytes, frame: bytes) -> Sent:
        """Take a frame from the backplane."""
        if peer in self.gone:
            return Sent.UNREACHABLE
        if peer in self.full:
            return Sent.FULL
        self.sent.append((peer, frame))
        return Sent.SENT

    def receive(self) -> tuple[bytes, bytes] | None:
        """The next frame for the backplane."""
        return self._inbox.popleft() if self._inbox else None

    def read_ahead(self, frames: int) -> None:
        """All that is delivered has room."""

    def expect(self) -> None:
        """It is no cheaper to know."""

    def has_input(self) -> bool:
        """Whether `receive` has something."""
        return bool(self._inbox)

    def connect(self, path: Path) -> bytes:
        """A peer for a path."""
        self._connected += 1
        return b"connected-%d %s" % (self._connected, str(path).encode())

    def known_as(self, peer: bytes) -> bytes:
        """The identity by which a peer knows the backplane."""
        return self._known_as

    def disconnect(self, peer: bytes) -> None:
        """The backplane has let go of a peer."""
        self.gone.add(peer)

    def fileno(self) -> int:
        """There is nothing to wait on."""
        return -1

    def close(self) -> None:
        """Nothing is held."""
