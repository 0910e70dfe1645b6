"""Link: one ROUTER socket through which a process exchanges frames with all others on this host, by ZeroMQ.

The ROUTER both binds and connects. Thirty peers cost one descriptor to wait on and one drain; with a DEALER per peer they
would cost thirty (a poller of 16 sockets takes 10 us, TRAPS 12). A round trip takes 43.6 us, against 42.9 us with
DEALER/ROUTER, interleaved in one run. A connected peer has an alias known only here, so nobody can take its place (a
duplicate routing id on connect would abort the process). One owner at a time: the thread that holds the lead.
"""

import os
import weakref
from collections import deque
from pathlib import Path
from typing import Any, Final

import zmq

from .batching import SendResult
from .codec import FRAME_BYTES_MAX, Frame, batch
from .errors import FrameLost, MalformedFrame
from .uncopied import uncopied

#: Frames queued to one peer before it counts as full. A frame is a whole batch, so this is far more than 1000 calls.
HIGH_WATER_MARK: Final = 1000
#: Frames read ahead from one peer while the owner does not receive. ZeroMQ counts frames and not bytes (TRAPS 4), and a
#: frame is a whole batch of up to 1 MiB. With 1000, a process that did not read used a gigabyte of its own memory. Calls,
#: topics and large bodies are no slower with 64 (scripts/bench).
READ_AHEAD: Final = 64
#: Frames read ahead from each process that a link which listens connects to: these only answer its calls.
ANSWERS_READ_AHEAD: Final = 8_192
#: Milliseconds for the last frames to leave. A living peer needs well under one; with 200 ms, a cast from a program that
#: exits at once was lost now and then on a machine whose cores were all busy. A frozen peer gets no more.
LINGER_MS: Final = 1_000
# Plain integers: `&` and `|` of an enum look up a member each time, 0.4 us. (pyzmq wants the option itself as a member.)
_POLLIN: Final = int(zmq.POLLIN)
_NOBLOCK: Final = int(zmq.NOBLOCK)
_MORE: Final = int(zmq.SNDMORE | zmq.NOBLOCK)
_EVENTS: Final = zmq.EVENTS
_SENT: Final = SendResult.SENT
#: From this many bytes on, a frame is sent uncopied (uncopied.py), so that its end is known and its bytes can be bounded: with
#: 256 KiB a thousand frames would take 256 MB. Copying takes 0.7 of the time for 64 KiB, the same for 256 KiB, 1.4 for 1 MiB
#: and 2 for 16 MiB. Preparing a frame in another thread adds 8 us: a third for 64 KiB, a twentieth for 1 MiB.
LARGE_BYTES: Final = 1 << 16
#: Bytes of such frames in flight to one peer before it counts as full. Smaller frames are bounded by their number.
LARGE_BYTES_MAX: Final = 32 << 20
#: With large frames in flight to more peers than this, peers whose frames have all left are removed.
_LARGE_PEERS_SWEEP: Final = 64
#: Completes a message of which only the address was sent. Readers ignore an empty batch.
_NOTHING: Final = batch([])
#: State of `receive` when a signal's exception interrupts it: between messages; reading the address; reading the frame;
#: discarding the rest of a message that has lost a part; the same of one with too many.
_WHOLE: Final = 0
_ADDRESS: Final = 1
_FRAME: Final = 2
_LOST: Final = 3
_DROPPING: Final = 4
#: Parts of one message with too many that a call of `receive` drops: 10 ms. A message of a million empty parts is 2 MB on the
#: wire; dropped at once it stopped a backplane for 2 s of CPU.
PARTS_DROPPED_MAX: Final = 10_000
#: Linux limits a socket path to 107 bytes.
PATH_BYTES_MAX: Final = 107


class Link:
    """Carries frames between this process and its peers, never blocking. Not thread-safe."""

    def __init__(self, name: str, token: str = "") -> None:
        """A peer knows this end of a connection by an identity: `name`, for people, and an unguessable word.

        Each connection draws its own word, so an ended connection never blocks the next. `token`: the word of the only
        connection, if the peer is to recognise it.
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
            # A connection keeps its identity while it lives. With a hand-over, a peer that used another's identity received
            # frames meant for that one, and a connection replaced while we were behind kept its descriptor for ever.
            (zmq.ROUTER_HANDOVER, 0),
            (zmq.SNDHWM, HIGH_WATER_MARK),
            (zmq.RCVHWM, READ_AHEAD),
            (zmq.MAXMSGSIZE, FRAME_BYTES_MAX),
            # No heartbeats. A local socket ends with its process, at once, and a slow peer would be taken for dead: ZeroMQ
            # stops reading where READ_AHEAD frames wait, receives no heartbeat there, cuts the connection after their
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
        #: Large frames that ZeroMQ still holds, by peer, oldest first; each tracker reports when ZeroMQ is done.
        self._large: dict[bytes, deque[tuple[zmq.MessageTracker, int]]] = {}
        # Bound once: a socket looks up every attribute in a class of four layers, and then once more. Bypassing the layer
        # around `send` that only DRAFT sockets need saves 0.2 of 0.36 us a part.
        self._send: Any = zmq.backend.Socket.send.__get__(self._socket)
        self._recv: Any = self._socket.recv
        self._get: Any = self._socket.getsockopt
        # Messages have two parts, and a signal's exception (Ctrl-C) may strike at each call of the socket, after its effect.
        #: The frame being sent; `_NOTHING` until its address has left.
        self._leaving: bytes | None = None
        self._step = _WHOLE
        self._sender = b""
        self._part: Any = None
        #: The part last received in full, for `process`.
        self._received: Any = None
        self._is_expecting = False
        # A link dropped unclosed in a reference cycle would hang the garbage collector: pyzmq's context waits in `__del__`
        # for sockets it can no longer see. The finalizer keeps both alive until it has closed them in order.
        self._life: set[None] = set()  # dies with the link, which is compiled and cannot be weakly referenced itself
        self._shut = weakref.finalize(self._life, _shut, self._socket, self._context, os.getpid())

    def bind(self, path: Path) -> None:
        """Listen on a Unix socket. Its folder must be 0700: nothing else keeps other users out.

        ZeroMQ aborts the process that accepts at its descriptor limit: a process that serves makes an `AcceptGate` next.

        Before any `connect`. From each peer that connects here, READ_AHEAD frames are read ahead; from each that this link
        connects to, ANSWERS_READ_AHEAD. ZeroMQ takes the bound of the former from the option as it is now.
        """
        assert not self._endpoints and not self._bound, (
            "listen first, and once: the bound of a connection must not change"
        )
        if len(os.fsencode(path)) > PATH_BYTES_MAX:
            raise ValueError(f"socket path exceeds {PATH_BYTES_MAX} bytes: {path} (choose a shorter [system] run_dir)")
        self._socket.bind(f"ipc://{path}")
        self._bound.append(path)
        self._socket.setsockopt(zmq.RCVHWM, ANSWERS_READ_AHEAD)

    def connect(self, path: Path) -> bytes:
        """Connect to the process that listens on `path`, without waiting. Returns the peer to send to."""
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
        """The identity by which a peer knows us; empty if we did not connect to it."""
        return self._identities.get(peer, b"")

    def disconnect(self, peer: bytes) -> None:
        """Forget a peer we connected to. Frames that it has not read are lost, as they were by its death."""
        self._large.pop(peer, None)
        self._identities.pop(peer, None)
        endpoint = self._endpoints.pop(peer, None)
        if endpoint is not None:
            self._socket.disconnect(endpoint)

    def send(self, peer: bytes, frame: bytes) -> SendResult:  # hot: scripts/bench call_rtt
        """Offer one frame; never blocks. After an exception, offer the same object next: it leaves once."""
        send = self._send
        if self._leaving is not None and self._finish_sending(frame):
            return _SENT
        if len(frame) >= LARGE_BYTES and self._large and not self._has_room(peer, len(frame)):
            return SendResult.FULL
        try:
            part: Any = frame if len(frame) < LARGE_BYTES else self._uncopied(peer, frame)
            self._leaving = _NOTHING
            send(peer, _MORE)
            self._leaving = frame
            send(part, _NOBLOCK, part is frame)
            self._leaving = None
            return _SENT
        except zmq.Again:
            self._leaving = None  # only the first part can be refused
            return SendResult.FULL
        except zmq.ZMQError as error:
            self._leaving = None
            if error.errno == zmq.EHOSTUNREACH:
                return SendResult.UNREACHABLE
            raise

    def _uncopied(self, peer: bytes, frame: bytes) -> zmq.Frame:
        """A large frame as it is sent, noted as in flight before it is: no call may come between its leaving and the note of
        that, or a signal's exception would have it sent twice. If it does not leave, its tracker is done once it is dropped.
        """
        part = uncopied(frame)
        self._large.setdefault(peer, deque()).append((part.tracker, len(frame)))
        return part

    def _finish_sending(self, frame: bytes) -> bool:
        """Complete the message whose sending was interrupted by an exception from a signal handler.

        Returns whether `frame` was the part that completed it, and so has been sent.
        A ROUTER drops a message of one part. So a last part may be sent again: it completes a message that lacks it, or is
        dropped. If the address was being sent, it is unknown whether ZeroMQ took it. Then the last part is an empty batch.
        """
        leaving = self._leaving
        self._send(leaving, _NOBLOCK)
        self._leaving = None
        return leaving is frame

    def _has_room(self, peer: bytes, size: int) -> bool:
        """Whether one more large frame may be in flight to a peer; one always may."""
        if len(self._large) > _LARGE_PEERS_SWEEP:
            self._large = {one: large for one, large in self._large.items() if large and not large[-1][0].done}
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
        """The next (peer, frame), or None. A large frame is a view of ZeroMQ's own memory.

        Raises `MalformedFrame` for a message of another shape, which is consumed, by several calls if it is long; and
        `FrameLost` for a frame lost to a signal's exception in the call before. Call until None before waiting on `fileno()`,
        and again after every send: the descriptor is edge-triggered.
        """
        if self._step == _DROPPING:
            if self._drop_parts() == PARTS_DROPPED_MAX:
                raise MalformedFrame(f"message of too many frames from {self._sender!r}: more of it were dropped")
            self._step = _WHOLE
        if self._step == _WHOLE or not self._has_sender():
            if not self._is_expecting:
                events: int = self._get(_EVENTS)  # 1.4 us against 3.2 for a recv that raises
                if not events & _POLLIN:
                    return None
            self._is_expecting = False
            self._step = _ADDRESS
            try:
                self._sender = self._recv(_NOBLOCK)
            except zmq.Again:  # `expect` was wrong
                self._step = _WHOLE
                return None
            self._step = _FRAME
        # A ROUTER's messages have at least these two parts. Uncopied, the second reports a third: asking costs 0.8 us.
        part = self._part
        if part is None:
            part = self._part = self._recv(_NOBLOCK, False)
        if part.more:
            self._step, self._part = _DROPPING, None
            count = self._drop_parts()
            more = " or more" if count == PARTS_DROPPED_MAX else ""
            raise MalformedFrame(f"message of {count + 1} frames{more} from {self._sender!r}, one is expected")
        frame: Frame = part.bytes if len(part) < LARGE_BYTES else part.buffer
        self._step, self._part, self._received = _WHOLE, None, part
        return self._sender, frame

    def _drop_parts(self) -> int:
        """Drop the next parts of the message that is being received. Returns how many: beyond the most there may be others."""
        if not self._get(zmq.RCVMORE):  # a signal's exception may have struck after the last one
            return 0
        for count in range(1, PARTS_DROPPED_MAX):
            if not self._recv(_NOBLOCK, False).more:
                return count
        self._recv(_NOBLOCK, False)
        return PARTS_DROPPED_MAX

    def process(self) -> int:
        """The process at the other end of the connection that brought the frame last received; 0: not a local connection.

        The kernel says so (SO_PEERCRED), whatever identity the peer has chosen: ZeroMQ appends `:UID:GID:PID` to the address.
        Of a process that hands its socket on, it is the one that connected.
        """
        try:
            address: str = self._received.get("Peer-Address")
        except zmq.ZMQError:  # no such property: no frame of a Unix socket
            return 0
        pid = address.rpartition(":")[2]
        return int(pid) if address.count(":") >= 3 and pid.isdecimal() else 0

    def _has_sender(self) -> bool:
        """After a signal's exception in `receive`: whether the frame of `_sender` is next. Raises `FrameLost`."""
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
        """Read this many frames ahead from each peer from now on; never fewer than before. A link that listens does already.

        Frames that the owner has not taken in time stay with the peer, and are lost when it ends: ZeroMQ reads no further
        once a connection is cut.

        Only while no peer can have as many frames here, unread, as were read ahead before: from a peer that has, ZeroMQ would
        never read again, as from one that has more than a bound which has fallen (docs/decisions/read_ahead.md).
        """
        if not self._bound:
            self._socket.setsockopt(zmq.RCVHWM, frames)

    def expect(self) -> None:
        """`fileno()` was just found readable: the next `receive` skips its check, which saves 1.4 us."""
        self._is_expecting = True

    def has_input(self) -> bool:
        """Whether `receive` has a frame. Ask after the last send before waiting: a send may consume the descriptor's edge."""
        events: int = self._get(_EVENTS)
        return events & _POLLIN != 0

    def fileno(self) -> int:
        """Descriptor that is readable when `receive` may have a frame. Poll it; never read from it."""
        return int(self._socket.getsockopt(zmq.FD))

    def close(self, linger_ms: int = LINGER_MS) -> None:
        """Close, and remove the socket files. Sent frames get `linger_ms` to leave. Closing twice is harmless."""
        if self._shut.alive:
            self._socket.linger = linger_ms
            self._shut()
        for path in self._bound:
            path.unlink(missing_ok=True)


def _shut(socket: "zmq.Socket[bytes]", context: "zmq.Context[zmq.Socket[bytes]]", pid: int) -> None:
    if os.getpid() == pid:  # ZeroMQ's threads do not survive a fork: there is nothing to wait for
        socket.close()
        context.term()
