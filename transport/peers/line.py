"""Line: one connection that this node has dialled: what may go over it now goes, a part at a time, and the rest waits here.

A frame that was begun is finished before the next one: what is said at one priority keeps its order. Control has no order
with calls, and goes between the parts.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

import zmq

from ..batching import Sent
from ..security import links
from ..security.keyring import Keyring
from ..security.keys import PublicKey
from .parts import HEAD_BYTES, part
from .window import Window

#: What a monitor tells of a line that stands.
STANDS: Final = int(zmq.EVENT_HANDSHAKE_SUCCEEDED)
#: What a monitor tells of one that does not, and why.
ENDS: Final = {
    int(zmq.EVENT_DISCONNECTED): "the connection has ended",
    int(zmq.EVENT_CLOSED): "nobody listens there",
    int(zmq.EVENT_CONNECT_RETRIED): "nobody listens there",
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL): "it hung up during the handshake: it may not know this node's key",
    int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL): "it does not speak CURVE",
    int(zmq.EVENT_HANDSHAKE_FAILED_AUTH): "it does not trust this node's key",
}
#: Of a line for bulk, of which membership knows nothing. With 600 ms of silence it may be cut where 5 % of segments are lost:
#: TCP repeats one that is lost twice after that.
LIMITS: Final = links.Limits(heartbeat_ms=1_000, silence_ms=4_000)
#: Of a line that was dialled: nobody says anything on it but ZeroMQ itself (a handshake's words and heartbeats are shorter).
BULK_LIMITS: Final = replace(LIMITS, frame_bytes=4 << 10, handshake_ms=10_000)
#: Of one for what is urgent: membership's own heartbeats go by it, and prove more. ZeroMQ's were two thirds of what its
#: threads did in an idle mesh of 64.
URGENT_LIMITS: Final = replace(BULK_LIMITS, heartbeat_ms=0, silence_ms=0)
#: What is in one socket's queue that goes: frames of a few bytes, or they fill the window first. What nodes say of themselves
#: is in no window.
SEND_HWM: Final = 4_096


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


def dialled(context: zmq.Context[zmq.Socket[bytes]], keyring: Keyring, key: PublicKey, *, is_bulk: bool) -> Line:
    """One to connect to whoever has the secret of `key`. Raises `FailedPrecondition` for a key that was revoked here."""
    socket = context.socket(zmq.DEALER)
    try:
        links.client(socket, keyring, key, BULK_LIMITS if is_bulk else URGENT_LIMITS)
        socket.setsockopt(zmq.SNDHWM, SEND_HWM)
        # No mark to stop at: who has stopped hears no heartbeats, and the next one that he sends to a peer that was killed
        # aborts his process (links.py). Whoever says something there is hung up on (lines.py).
        socket.setsockopt(zmq.RCVHWM, 0)
        return Line(socket, STANDS | sum(ENDS))
    except BaseException:
        socket.close(linger=0)
        raise
