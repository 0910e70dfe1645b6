"""Link: one ROUTER socket through which a process talks to all others. For this host the one that knows ZeroMQ.

A ROUTER that binds and also connects: thirty peers cost one descriptor to wait on and one drain, where a DEALER a peer
would cost thirty (a poller of 16 sockets takes 10 us, TRAPS 12). A round trip against DEALER/ROUTER, interleaved in one
run: 43.6 against 42.9 us. A connected peer is known by an alias that only we know, so that nobody can take its
place (a duplicate routing id on connect would abort the process). One owner at a time: whoever uses it holds the lead.
"""

import os
import weakref
from collections import deque
from pathlib import Path
from typing import Any, Final

import zmq

from .batching import Sent
from .codec import FRAME_BYTES_MAX, Frame, batch
from .errors import FrameLost, MalformedFrame

#: Frames queued to one peer before it counts as full. A frame is a whole batch, so this is far more than as many calls.
HIGH_WATER_MARK: Final = 1000
#: Frames read ahead from one peer, for an owner that does not come: ZeroMQ counts frames and not bytes (TRAPS 4), and a
#: frame is a whole batch of up to 1 MiB. With 1000, who did not read took a gigabyte of its own memory; calls, topics and
#: large bodies are no slower with 64 (scripts/bench). More only for answers that are outstanding (`read_ahead`).
READ_AHEAD: Final = 64
#: How long what was said last may take to leave. A living peer needs well under a millisecond; with 200 ms, a cast from a
#: program that exits at once was lost now and then on a machine whose cores were all busy. A frozen peer gets no more.
LINGER_MS: Final = 1_000
# Plain integers: an enum's `&` and `|` look a member up each time, 0.4 us. (The option, though, pyzmq wants as a member.)
_POLLIN: Final = int(zmq.POLLIN)
_NOBLOCK: Final = int(zmq.NOBLOCK)
_MORE: Final = int(zmq.SNDMORE | zmq.NOBLOCK)
_EVENTS: Final = zmq.EVENTS
_SENT: Final = Sent.SENT
#: From so many bytes on, handing memory over beats copying it (64 to 256 KiB, TRAPS 12): echoes of 1 MiB went from 0.4 of
#: raw pyzmq's MB/s to about 0.9 (scripts/bench large).
LARGE_BYTES: Final = 1 << 16
#: Bytes of such frames on their way to one peer before it counts as full: smaller ones are bounded by their number.
LARGE_BYTES_MAX: Final = 32 << 20
#: Peers with large frames on their way from which on it is looked for those that have gone.
_LARGE_PEERS_SWEEP: Final = 64
#: Ends a message of which only the address has left, and means nothing to who reads it.
_NOTHING: Final = batch([])
#: State of `receive` when a signal's exception interrupts it: between messages; reading the address; reading the frame;
#: discarding the rest of a message that has lost a part.
_WHOLE: Final = 0
_ADDRESS: Final = 1
_FRAME: Final = 2
_LOST: Final = 3
#: Linux limits a socket path to 107 bytes.
PATH_BYTES_MAX: Final = 107


class Link:
    """Carries frames between this process and its peers, never blocking. Not thread-safe."""

    def __init__(self, name: str, token: str = "") -> None:
        """The far end of a connection knows us by an identity: `name`, for people, and a word that nobody can guess.

        Each connection draws a word of its own, so that one that ends never stands in the way of the next. `token`: the word
        of the only connection, where the far end is to recognise it.
        """
        self._context = zmq.Context(io_threads=1)
        self._context.linger = 0
        try:
            self._socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        except zmq.ZMQError as error:  # no descriptor is left
            self._context.term()
            raise OSError(error.errno, str(error)) from error
        for option, value in (
            (zmq.ROUTER_MANDATORY, 1),
            # A connection keeps its identity while it lives. With a hand-over, whoever bore another's identity got what was
            # meant for that one, and a connection replaced while we were behind kept its descriptor for ever.
            (zmq.ROUTER_HANDOVER, 0),
            (zmq.SNDHWM, HIGH_WATER_MARK),
            (zmq.RCVHWM, READ_AHEAD),
            (zmq.MAXMSGSIZE, FRAME_BYTES_MAX),
            # No heartbeats. A local socket ends with its process, at once, and a peer that is only slow is told so by nobody:
            # ZeroMQ stops reading where READ_AHEAD frames wait, hears no heartbeat there, cuts the connection after their
            # time-out, and aborts the process that reads on (docs/decisions/no_heartbeats.md).
            (zmq.HANDSHAKE_IVL, 2_000),
            (zmq.RECONNECT_IVL, 10),
            (zmq.RECONNECT_IVL_MAX, 500),
        ):
            self._socket.setsockopt(option, value)
        self._name, self._token = name, token
        self._endpoints: dict[bytes, str] = {}
        self._identities: dict[bytes, bytes] = {}
        self._bound: list[Path] = []
        self._accepted: zmq.Socket[bytes] | None = None
        #: Large frames that ZeroMQ still has, by peer, the oldest first: it says when it has done with each.
        self._large: dict[bytes, deque[tuple[zmq.MessageTracker, int]]] = {}
        # Found once: a socket looks every attribute up in a class of four layers, and then once more. And without the layer
        # around `send` that only DRAFT sockets need: 0.2 of 0.36 us a part.
        self._send: Any = zmq.backend.Socket.send.__get__(self._socket)
        self._recv: Any = self._socket.recv
        self._get: Any = self._socket.getsockopt
        # Messages have two parts, and a signal's exception (Ctrl-C) may strike at each call of the socket, after it was done.
        #: The frame that is being sent; `_NOTHING` until its address has left.
        self._leaving: bytes | None = None
        self._step = _WHOLE
        self._sender = b""
        self._part: Any = None
        self._is_expecting = False
        # A link that is forgotten unclosed, in a ring of references, would hang the garbage collector: pyzmq's context waits
        # in `__del__` for sockets it cannot see any more. The finalizer keeps both alive until it has closed them in order.
        self._life: set[None] = set()  # ends with the link: compiled, it bears no weak references itself
        self._shut = weakref.finalize(self._life, _shut, self._socket, self._context, os.getpid())

    def bind(self, path: Path) -> None:
        """Listen on a Unix socket. The folder must be 0700: it is what keeps strangers out."""
        if len(os.fsencode(path)) > PATH_BYTES_MAX:
            raise ValueError(f"socket path exceeds {PATH_BYTES_MAX} bytes: {path} (choose a shorter [system] run_dir)")
        self._socket.bind(f"ipc://{path}")
        self._bound.append(path)

    def has_accepted(self) -> bool:
        """Whether anybody has connected to us since the last time; known once `accepted_fileno` was asked for."""
        found = False
        while self._accepted is not None and self._accepted.poll(0):
            self._accepted.recv_multipart(_NOBLOCK)
            found = True
        return found

    def accepted_fileno(self) -> int:
        """Readable when `has_accepted` may be true. Poll it, as `fileno`, and never read from it."""
        if self._accepted is None:
            self._accepted = self._socket.get_monitor_socket(zmq.EVENT_ACCEPTED)
        return int(self._accepted.getsockopt(zmq.FD))

    def connect(self, path: Path) -> bytes:
        """Connect to the process that listens on `path`; returns the peer to send to. Does not wait."""
        assert not self._token or not self._endpoints, "a token is for one connection"
        peer = b"\x01" + os.urandom(8)
        identity = self._identities[peer] = f"{self._name}-{self._token or os.urandom(8).hex()}".encode()
        self._socket.setsockopt(zmq.ROUTING_ID, identity)
        self._socket.setsockopt(zmq.CONNECT_ROUTING_ID, peer)
        endpoint = f"ipc://{path}"
        self._socket.connect(endpoint)
        self._endpoints[peer] = endpoint
        return peer

    def known_as(self, peer: bytes) -> bytes:
        """The identity by which a peer that we connected to knows us; empty if we did not."""
        return self._identities.get(peer, b"")

    def disconnect(self, peer: bytes) -> None:
        """Forget a peer we connected to; frames it has not read are lost, which its death has already made true."""
        self._large.pop(peer, None)
        self._identities.pop(peer, None)
        endpoint = self._endpoints.pop(peer, None)
        if endpoint is not None:
            self._socket.disconnect(endpoint)

    def send(self, peer: bytes, frame: bytes) -> Sent:  # hot: scripts/bench call_rtt
        """Offer one frame; never blocks. Where an exception leaves it, offer the same object next: it leaves once."""
        send = self._send
        if self._leaving is not None and self._finish_sending(frame):
            return _SENT
        if len(frame) >= LARGE_BYTES and self._large and not self._has_room(peer, len(frame)):
            return Sent.FULL
        try:
            self._leaving = _NOTHING
            send(peer, _MORE)
            self._leaving = frame
            if len(frame) < LARGE_BYTES:
                send(frame, _NOBLOCK)
                self._leaving = None
                return _SENT
            tracker = send(frame, _NOBLOCK, False, True)
            self._leaving = None
            assert tracker is not None
            self._large.setdefault(peer, deque()).append((tracker, len(frame)))
        except zmq.Again:
            self._leaving = None  # it is the first part that is refused, or none
            return Sent.FULL
        except zmq.ZMQError as error:
            self._leaving = None
            if error.errno == zmq.EHOSTUNREACH:
                return Sent.UNREACHABLE
            raise
        return Sent.SENT

    def _finish_sending(self, frame: bytes) -> bool:
        """Complete the message at which a signal's exception struck; whether `frame` has left with it.

        A ROUTER drops a message of one part. So a last part may be sent again: it completes a message that lacks it, and is
        dropped otherwise. Where the address was being sent, nobody knows whether it was taken: an empty batch completes it.
        """
        leaving = self._leaving
        self._send(leaving, _NOBLOCK)
        self._leaving = None
        return leaving is frame

    def _has_room(self, peer: bytes, size: int) -> bool:
        """Whether one more large frame may be on its way to a peer; one always may."""
        if len(self._large) > _LARGE_PEERS_SWEEP:
            self._large = {one: large for one, large in self._large.items() if not large[-1][0].done}
        large = self._large.get(peer)
        if large is None:
            return True
        while large and large[0][0].done:
            large.popleft()
        if not large:
            del self._large[peer]
            return True
        return sum(bytes for _, bytes in large) + size <= LARGE_BYTES_MAX

    def receive(self) -> tuple[bytes, Frame] | None:  # hot: scripts/bench call_rtt
        """The next (peer, frame), or None; a large frame is a view of ZeroMQ's own memory.

        Raises `MalformedFrame` for a message of another shape, which is consumed, and `FrameLost` for one that a signal's
        exception took away in the call before. Call until None before waiting on `fileno()`, and again after every send: the
        descriptor is edge-triggered.
        """
        if self._step == _WHOLE or not self._has_sender():
            if not self._is_expecting:
                events: int = self._get(_EVENTS)  # 1.4 us against 3.2 for a recv that raises
                if not events & _POLLIN:
                    return None
            self._is_expecting = False
            self._step = _ADDRESS
            try:
                self._sender = self._recv(_NOBLOCK)
            except zmq.Again:  # expected in vain
                self._step = _WHOLE
                return None
            self._step = _FRAME
        # A ROUTER's messages have at least these two. Not copied, the second brings word of a third: asking costs 0.8 us.
        part = self._part
        if part is None:
            part = self._part = self._recv(_NOBLOCK, False)
        count = len(self._socket.recv_multipart(_NOBLOCK)) if part.more else 0
        frame: Frame = part.bytes if len(part) < LARGE_BYTES else part.buffer
        self._step, self._part = _WHOLE, None
        if count:
            raise MalformedFrame(f"message of {count + 1} frames from {self._sender!r}, one is expected")
        return self._sender, frame

    def _has_sender(self) -> bool:
        """Where a signal's exception has left `receive`: whether the frame of `_sender` is next. Raises `FrameLost`."""
        has_rest = self._get(zmq.RCVMORE)
        if self._step == _ADDRESS and not has_rest:
            self._step = _WHOLE  # nothing had been taken
            return False
        if self._step == _FRAME and (has_rest or self._part is not None):
            return True
        sender = self._sender if self._step == _FRAME else None
        self._step = _LOST
        if has_rest:
            self._socket.recv_multipart(_NOBLOCK)
        self._step = _WHOLE
        raise FrameLost(sender)

    def read_ahead(self, frames: int) -> None:
        """From now on read so many frames ahead from each peer; never fewer than before.

        What its owner has not taken in time stays with the peer, and is lost when that ends: ZeroMQ reads no further once a
        connection is cut. The bound never falls: below what is queued already, ZeroMQ would never read
        from that peer again.
        """
        self._socket.setsockopt(zmq.RCVHWM, frames)

    def expect(self) -> None:
        """`fileno()` has just been found readable: the next `receive` does not ask first, which saves 1.4 us."""
        self._is_expecting = True

    def has_input(self) -> bool:
        """Whether `receive` has something. Ask after the last send before waiting: a send may use up the descriptor's edge."""
        events: int = self._get(_EVENTS)
        return events & _POLLIN != 0

    def fileno(self) -> int:
        """Readable when `receive` may have something. Poll it; never read from it."""
        return int(self._socket.getsockopt(zmq.FD))

    def close(self, linger_ms: int = LINGER_MS) -> None:
        """Close, and remove the socket files. What has been sent has `linger_ms` to leave; blocks no longer. Twice is once."""
        if self._accepted is not None:
            self._socket.disable_monitor()
            self._accepted.close(linger=0)
            self._accepted = None
        if self._shut.alive:
            self._socket.linger = linger_ms
            self._shut()
        for path in self._bound:
            path.unlink(missing_ok=True)


def _shut(socket: "zmq.Socket[bytes]", context: "zmq.Context[zmq.Socket[bytes]]", pid: int) -> None:
    if os.getpid() == pid:  # ZeroMQ's threads did not come along into a fork: there is nothing to wait for
        socket.close()
        context.term()
