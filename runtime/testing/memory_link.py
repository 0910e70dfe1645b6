"""MemoryLink: a link without sockets; the test acts as all its peers.

It behaves like `transport/link.py`, frame by frame. The test may declare a peer full or gone.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

from appbackplane.transport.batching import SendResult


class MemoryLink:
    """An `EngineLink` (execution/loop/engine.py) without a socket."""

    def __init__(self, known_as: str = "virtual-1") -> None:
        """`known_as`: the identity by which all peers know this backplane."""
        self._known_as = known_as.encode()
        self._inbox: deque[tuple[bytes, bytes]] = deque()
        #: Frames sent by the backplane that the test has not taken yet: (peer, frame).
        self.sent: deque[tuple[bytes, bytes]] = deque()
        #: Peers that do not read, and peers that are gone. The test fills both.
        self.full: set[bytes] = set()
        self.gone: set[bytes] = set()
        self._connected = 0
        #: The process that each peer claims to be; a peer that is not listed has no process.
        self.processes: dict[bytes, int] = {}
        self._sender = b""

    def deliver(self, peer: bytes, frame: bytes) -> None:
        self._inbox.append((peer, frame))

    def send(self, peer: bytes, frame: bytes) -> SendResult:
        """Put a frame of the backplane into `sent`, unless the peer is in `gone` or `full`."""
        if peer in self.gone:
            return SendResult.UNREACHABLE
        if peer in self.full:
            return SendResult.FULL
        self.sent.append((peer, frame))
        return SendResult.SENT

    def receive(self) -> tuple[bytes, bytes] | None:
        """The next frame for the backplane; None: there is none."""
        if not self._inbox:
            return None
        self._sender, frame = self._inbox.popleft()
        return self._sender, frame

    def process(self) -> int:
        """The process of the peer whose frame was received last; 0: it has none."""
        return self.processes.get(self._sender, 0)

    def read_ahead(self, frames: int) -> None:
        """Does nothing: `deliver` has no bound that would need frames to be read ahead."""

    def expect(self) -> None:
        """Does nothing: `receive` is not cheaper if input is known to be there."""

    def has_input(self) -> bool:
        return bool(self._inbox)

    def connect(self, path: Path) -> bytes:
        """Make up a new peer identity for a path."""
        self._connected += 1
        return b"connected-%d %s" % (self._connected, str(path).encode())

    def known_as(self, peer: bytes) -> bytes:
        return self._known_as

    def disconnect(self, peer: bytes) -> None:
        """Count the peer as gone from now on."""
        self.gone.add(peer)

    def fileno(self) -> int:
        """-1: there is no descriptor to wait on."""
        return -1

    def close(self) -> None:
        """Does nothing: it holds no resources."""
