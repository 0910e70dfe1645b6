"""Line: one connection that this node has dialled: what may go over it now goes, a part at a time, and the rest waits here.

A frame that was begun is finished before the next one: what is said at one priority keeps its order. Control has no order
with calls, and goes between the parts.
"""

from __future__ import annotations

import random
from typing import Final

import zmq

from ..batching import Sent
from .parts import HEAD_BYTES, part
from .window import Window

#: What a monitor tells of a line that stands.
STANDS: Final = int(zmq.EVENT_HANDSHAKE_SUCCEEDED)


class Line:
    """A socket, what tells of its connection, and how much may be on its way."""

    __slots__ = ("_rest", "is_connected", "is_full", "monitor", "number", "socket", "window")

    def __init__(self, socket: zmq.Socket[bytes], events: int) -> None:
        """`events`: what its monitor is to tell."""
        self.socket = socket
        self.monitor: zmq.Socket[bytes] = socket.get_monitor_socket(events)
        self.is_connected = False
        self.number = random.getrandbits(63)
        self.window = Window()
        #: ZeroMQ's own queue took nothing the last time: nobody tells when it will.
        self.is_full = False
        self._rest: memoryview | None = None

    def fileno(self) -> int:
        """Readable when the monitor may have something to tell."""
        return int(self.monitor.getsockopt(zmq.FD))

    def close(self, linger_ms: int = 0) -> None:
        """With all that waits in it, after so long."""
        self.socket.disable_monitor()
        self.monitor.close(linger=0)
        self.socket.close(linger=linger_ms)

    def greet(self, now_ns: int) -> None:
        """A line for bulk stands: say so. Who says nothing is hung up on (doorstep.py), as bulk may for long; and it tells the
        delay. On the first line a node says hello.
        """
        hello = part(self.number, b"", is_last=False, is_to_tell=True)
        if self.send(hello) is Sent.SENT:
            self.window.send(len(hello), now_ns, is_asked=True)

    def begin(self, frame: bytes, now_ns: int) -> Sent:
        """Take a frame over, if the one before has gone. What may not go yet of it does by `go_on`."""
        if self._rest is not None or not self.window.is_open:
            return Sent.FULL
        self._rest = memoryview(frame)
        if self.go_on(now_ns):
            return Sent.SENT
        if len(self._rest) < len(frame):
            return Sent.SENT  # it has begun: what is left is kept here
        self._rest = None
        return Sent.FULL if self.is_connected else Sent.UNREACHABLE

    def go_on(self, now_ns: int) -> bool:
        """Send of the frame that was begun what may go. Whether all of it has."""
        window = self.window
        while self._rest is not None:
            if not window.is_open:
                return False
            size = window.part_bytes
            piece, rest = self._rest[:size], self._rest[size:]
            size = HEAD_BYTES + len(piece)
            is_asked = window.is_to_tell(size)
            if self.send(part(self.number, piece, is_last=not rest, is_to_tell=is_asked)) is not Sent.SENT:
                return False
            window.send(size, now_ns, is_asked=is_asked)
            self._rest = rest or None
        return True

    def send(self, message: bytes) -> Sent:
        """As it is, whatever the window says."""
        try:
            self.socket.send(message, zmq.NOBLOCK)
        except zmq.Again:
            self.is_full = self.is_connected
            return Sent.FULL if self.is_connected else Sent.UNREACHABLE
        self.is_full = False
        return Sent.SENT
