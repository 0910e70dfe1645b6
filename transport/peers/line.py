"""Line: one connection that this node has dialled. It sends a frame in parts as the window allows, and keeps the rest.

A frame that was begun is finished before the next one, so that messages of one priority keep their order. Control messages
have no order with calls, and are sent between the parts.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

import zmq

from ..batching import SendResult
from ..security import links
from ..security.keyring import Keyring
from ..security.keys import PublicKey
from .parts import HEAD_BYTES, part
from .window import FlowWindow

#: Monitor event of an established connection.
STANDS: Final = int(zmq.EVENT_HANDSHAKE_SUCCEEDED)
#: Monitor events of a connection that failed or ended, with the reason.
ENDS: Final = {
    int(zmq.EVENT_DISCONNECTED): "the connection has ended",
    int(zmq.EVENT_CLOSED): "nobody listens there",
    int(zmq.EVENT_CONNECT_RETRIED): "nobody listens there",
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL): "it hung up during the handshake: it may not know this node's key",
    int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL): "it does not speak CURVE",
    int(zmq.EVENT_HANDSHAKE_FAILED_AUTH): "it does not trust this node's key",
}
#: Limits of the listening socket, and heartbeats of a bulk connection, which membership does not watch. With 600 ms of silence
#: it may be cut where 5 % of segments are lost: TCP repeats one that is lost twice later than that.
LIMITS: Final = links.LinkLimits(heartbeat_ms=1_000, silence_ms=4_000)
#: Limits of a dialled connection: only ZeroMQ itself receives on it (a handshake and heartbeats are shorter).
BULK_LIMITS: Final = replace(LIMITS, frame_bytes=4 << 10, handshake_ms=10_000)
#: Limits of an urgent connection: membership's heartbeats use it, and prove more. ZeroMQ's own were two thirds of the work of
#: its threads in an idle mesh of 64.
URGENT_LIMITS: Final = replace(BULK_LIMITS, heartbeat_ms=0, silence_ms=0)
#: Limit of one socket's send queue, in messages. Only parts of a few bytes reach it: larger ones exhaust the flow-control
#: window first. Control messages do not count towards any window.
SEND_HWM: Final = 4_096


class PeerConnection:
    """A dialled socket, its monitor, and its flow-control window."""

    __slots__ = ("_rest", "is_connected", "is_full", "monitor", "number", "socket", "window")

    def __init__(self, socket: zmq.Socket[bytes], events: int) -> None:
        """`events`: those that its monitor is to report."""
        self.socket = socket
        self.monitor: zmq.Socket[bytes] = socket.get_monitor_socket(events)
        self.is_connected = False
        self.number = random.getrandbits(63)
        self.window = FlowWindow()
        #: ZeroMQ's own queue refused the last message. No event announces when it has room again.
        self.is_full = False
        self._rest: memoryview | None = None

    def fileno(self) -> int:
        """Readable when the monitor may have an event."""
        return int(self.monitor.getsockopt(zmq.FD))

    def close(self, linger_ms: int = 0) -> None:
        """Close the connection; queued messages may still leave within `linger_ms`."""
        self.socket.disable_monitor()
        self.monitor.close(linger=0)
        self.socket.close(linger=linger_ms)

    def greet(self, now_ns: int) -> None:
        """Send an empty part on a bulk connection that was just established. Silent connections are closed (doorstep.py), and
        bulk may be silent for long; the part also measures the delay. On the urgent connection a node sends a hello instead.
        """
        hello = part(self.number, b"", is_last=False, is_to_tell=True)
        if self.send(hello) is SendResult.SENT:
            self.window.send(len(hello), now_ns, is_asked=True)

    def begin(self, frame: bytes, now_ns: int) -> SendResult:
        """Take a frame over, if the one before has left. `go_on` sends later what the window does not admit now."""
        if self._rest is not None or not self.window.is_open:
            return SendResult.FULL
        self._rest = memoryview(frame)
        if self.go_on(now_ns):
            return SendResult.SENT
        if len(self._rest) < len(frame):
            return SendResult.SENT  # begun: the rest is kept here
        self._rest = None
        return SendResult.FULL if self.is_connected else SendResult.UNREACHABLE

    def go_on(self, now_ns: int) -> bool:
        """Send more of the current frame, as the window allows. Whether all of it has left."""
        window = self.window
        while self._rest is not None:
            if not window.is_open:
                return False
            size = window.part_bytes
            piece, rest = self._rest[:size], self._rest[size:]
            size = HEAD_BYTES + len(piece)
            is_asked = window.is_to_tell(size)
            if self.send(part(self.number, piece, is_last=not rest, is_to_tell=is_asked)) is not SendResult.SENT:
                return False
            window.send(size, now_ns, is_asked=is_asked)
            self._rest = rest or None
        return True

    def send(self, message: bytes) -> SendResult:
        """Send a message at once, whatever the window allows."""
        try:
            self.socket.send(message, zmq.NOBLOCK)
        except zmq.Again:
            self.is_full = self.is_connected
            return SendResult.FULL if self.is_connected else SendResult.UNREACHABLE
        self.is_full = False
        return SendResult.SENT


def dialled(
    context: zmq.Context[zmq.Socket[bytes]], keyring: Keyring, key: PublicKey, *, is_bulk: bool
) -> PeerConnection:
    """A line that connects only to the owner of `key`. Raises `FailedPrecondition` for a key that was revoked here."""
    socket = context.socket(zmq.DEALER)
    try:
        links.client(socket, keyring, key, BULK_LIMITS if is_bulk else URGENT_LIMITS)
        socket.setsockopt(zmq.SNDHWM, SEND_HWM)
        # No receive limit: a socket that stopped reading at one receives no heartbeats, and its next heartbeat to a killed
        # peer aborts the process (links.py). A peer that sends on this connection is hung up on (lines.py).
        socket.setsockopt(zmq.RCVHWM, 0)
        return PeerConnection(socket, STANDS | sum(ENDS))
    except BaseException:
        socket.close(linger=0)
        raise
