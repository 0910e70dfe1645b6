"""RemoteLink: the link of a client whose system is on another host: one connection to the listening socket of its node.

It has the methods of `link.Link`, so that a session does not know the difference. But there is one peer, which is dialled by
`connect`, greeted before anything else is sent (greeting.py), and gone with its connection: ZeroMQ does not connect again
(security/links.py). The caller keeps frames that cannot be sent yet (`SendResult.FULL`). A descriptor (`open`) tells the
owner that the connection is over or could not be made, as on one host it learns that a supervisor has ended. A new dial
waits, for longer each time. A node that sends nothing for 2 s, not even a heartbeat, is cut off.
"""

import os
import select
import weakref
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Final

import zmq
from zmq.utils.monitor import parse_monitor_message

from .. import descriptors
from ..batching import SendResult
from ..codec import Encoder, Frame, batch, decode
from ..descriptors import opening
from ..errors import BackplaneError, FailedPrecondition, MalformedFrame, PeerDown, Unavailable
from ..link import HIGH_WATER_MARK, LARGE_BYTES, LINGER_MS
from ..security import links
from ..security.keyring import Keyring
from ..security.keys import PublicKey
from ..uncopied import uncopied
from .greeting import CLOCK_EVERY_NS, SILENCE_MS, ClientClock, ClientRefused, Welcome, heard, hello, said
from .target import Target

#: An attempt without an answered greeting by then is given up; a connection and a handshake need a few round trips.
ATTEMPT_NS: Final = 2_000_000_000
#: Wait after a failed attempt, doubled each time. The first is short: a process that died is back in 300 ms.
BACKOFF_NS: Final = 50_000_000
#: Longest wait: most of the time that a client idles when its node is back.
BACKOFF_MAX_NS: Final = 2_000_000_000
_STANDS: Final = int(zmq.EVENT_HANDSHAKE_SUCCEEDED)
_NOBODY: Final = "nobody listens there"
_UNTRUSTED: Final = "it does not trust this host's key (there: appbackplane keys trust NAME {key})"
_TORN: Final = "an exception from a signal handler interrupted the connection"
_CROWDED: Final = "it hung up at the greeting: this key may have as many connections there as it can"
_ENDS: Final = {
    int(zmq.EVENT_DISCONNECTED): "the connection has ended",
    int(zmq.EVENT_CLOSED): _NOBODY,
    int(zmq.EVENT_CONNECT_RETRIED): _NOBODY,
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL): "it hung up during the handshake: it may have another key by now",
    int(
        zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    ): "the process that answers there is no node, or has another key than the one trusted here",
    int(zmq.EVENT_HANDSHAKE_FAILED_AUTH): _UNTRUSTED,
}
#: Failures that another attempt does not mend.
_LASTING: Final = frozenset({int(zmq.EVENT_HANDSHAKE_FAILED_AUTH)})


class _State(Enum):
    IDLE = "idle"
    WAITING = "waiting"  # until the next dial is due
    DIALLED = "dialled"
    GREETED = "greeted"  # and the node has not answered yet
    STANDING = "standing"
    OVER = "over"  # its owner was notified, and has not disconnected yet


_UNDER_WAY: Final = frozenset({_State.DIALLED, _State.GREETED})


class RemoteLink:
    """A client's link to a node. Not thread-safe. `now_ns` is the clock of deadlines."""

    def __init__(
        self, target: Target, keyring: Keyring, now_ns: Callable[[], int], random: Callable[[], float]
    ) -> None:
        self._target, self._keyring = target, keyring
        self._now_ns, self._random = now_ns, random
        self._line = _Line()
        self._encoder = Encoder()
        self._peer = b""
        self._state = _State.IDLE
        self._began_ns = self._again_ns = self._clock_ns = 0
        self._failures_count = 0
        self._lifeline_fd = -1
        #: Whether the connection is established, and its handshake done.
        self._stands = False
        #: A signal's exception has struck at a socket: its frame was sent or received, or not, or is lost.
        self._is_torn = False
        #: Why the last attempt or connection ended.
        self.trouble: BackplaneError = Unavailable(f"{self._who}: not connected yet")
        # As for a local link (link.py): pyzmq's context would wait in `__del__` for sockets that are not referenced any more.
        self._shut = weakref.finalize(self, _Line.shut, self._line, os.getpid())

    # -- the methods of a link -----------------------------------------------------------------------------------------

    def read_ahead(self, frames: int) -> None:
        """Does nothing: all that comes is read anyhow (`_Line.dial`)."""

    def connect(self, path: Path) -> bytes:
        """Dial, as soon as the wait is over; returns the peer's id. There is one place to connect to, for any `path`."""
        self._peer = os.urandom(8)
        self._state = _State.WAITING
        self._look()
        return self._peer

    def disconnect(self, peer: bytes) -> None:
        """Close the connection, if `peer` is the present one."""
        if peer == self._peer:
            self._line.hang_up(0)
            self._peer, self._state = b"", _State.IDLE

    def send(self, peer: bytes, frame: bytes) -> SendResult:
        """Offer one frame; never blocks."""
        if peer != self._peer:
            return SendResult.UNREACHABLE
        if self._state is not _State.STANDING or self._is_torn:
            self._look()
        socket = self._line.socket
        if socket is None or self._state is not _State.STANDING:
            return SendResult.FULL  # its end is reported by the descriptor of `open`
        now_ns = self._now_ns()
        part = frame if len(frame) < LARGE_BYTES else uncopied(frame)
        try:
            if now_ns - self._clock_ns >= CLOCK_EVERY_NS:
                self._clock_ns = now_ns
                socket.send(batch([self._encoder.encode(said(ClientClock(now_ns)))]), zmq.NOBLOCK)
            socket.send(part, zmq.NOBLOCK, copy=part is frame)
        except zmq.Again:
            return SendResult.FULL
        except BaseException:
            self._is_torn = True
            raise
        return SendResult.SENT

    def receive(self) -> tuple[bytes, Frame] | None:
        """The next (peer, frame), or None. A message of another shape ends the connection."""
        self._look()
        try:
            frame = self._next() if self._state is _State.STANDING else None
        except BaseException:
            self._is_torn = True
            raise
        return None if frame is None else (self._peer, frame)

    def expect(self) -> None:
        """Does nothing: this link polls anyhow."""

    def fileno(self) -> int:
        """Readable when there may be input."""
        return self._line.epoll.fileno()

    def close(self, linger_ms: int = LINGER_MS) -> None:
        """Close the connection; sent frames have `linger_ms` to leave. A second call does nothing."""
        if self._shut.alive:
            self._line.hang_up(linger_ms)
            self._close_lifeline()
            self._shut()

    # -- for the owner -------------------------------------------------------------------------------------------------

    def open(self) -> int:
        """A descriptor that becomes readable when the connection is over; the caller closes it."""
        self._close_lifeline()
        fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lifeline_fd = os.dup(fd)
        if self._state is _State.OVER:
            self._cut_lifeline()
        return fd

    # -- steps --------------------------------------------------------------------------------------------------------

    @property
    def _who(self) -> str:
        return f"node {self._target.node!r} at {self._target.address}"

    def _look(self) -> None:
        """Process events of the connection, and time limits."""
        is_torn, self._is_torn = self._is_torn, True
        if is_torn and (self._state is _State.STANDING or self._state in _UNDER_WAY):
            self._end(_TORN)
        self._look_on()
        self._is_torn = False

    def _look_on(self) -> None:
        if self._state is _State.WAITING and self._now_ns() >= self._again_ns:
            self._dial()
        while (monitor := self._line.monitor) is not None and int(monitor.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            event = int(parse_monitor_message(monitor.recv_multipart(zmq.NOBLOCK))["event"])
            if event == _STANDS:
                self._stands = True
            elif event in _ENDS:  # ZeroMQ drops unread frames with it
                self._end(_CROWDED if self._state is _State.GREETED else _ENDS[event], is_lasting=event in _LASTING)
        if self._state is _State.DIALLED and self._stands:
            self._greet()
        if self._state is _State.GREETED:
            self._hear_answer()
        if self._state in _UNDER_WAY and self._now_ns() - self._began_ns >= ATTEMPT_NS:
            what = "connected, but nobody answers" if self._stands else "no connection"
            self._end(f"{what} within {ATTEMPT_NS / 1e9:g} s")

    def _dial(self) -> None:
        self._began_ns, self._stands = self._now_ns(), False
        try:
            self._keyring.refresh()
            key = self._keyring.ring.named(self._target.node).key
        except BackplaneError as error:  # its key was revoked here, or a file is not in order any more
            self._end(error.message, is_lasting=True)
            return
        try:
            with opening(descriptors.CLIENT), links.dialling(self._target.address):
                self._line.dial(self._target.address, self._keyring, key)
            self._state = _State.DIALLED
        except BackplaneError as error:  # no descriptor is left: the program may close some
            self._end(error.message)

    def _greet(self) -> None:
        socket, now_ns = self._line.socket, self._now_ns()
        assert socket is not None
        socket.getsockopt(zmq.EVENTS)  # ZeroMQ learns so that it is connected; `send` checks once a millisecond
        try:
            socket.send(batch([self._encoder.encode(said(hello(self._target.node, now_ns)))]), zmq.NOBLOCK)
        except zmq.Again:
            return  # it does not know yet: at the next poll
        self._state, self._clock_ns = _State.GREETED, now_ns

    def _hear_answer(self) -> None:
        try:
            frame = self._next()
            for word in [] if frame is None else map(heard, decode(frame)):
                if isinstance(word, Welcome):
                    self._state, self._failures_count = _State.STANDING, 0
                elif isinstance(word, ClientRefused):
                    self._end(f"it refuses this client: {word.because}", is_lasting=True)
        except MalformedFrame as error:
            self._end(f"its greeting is malformed: {error.message}", is_lasting=True)

    def _next(self) -> Frame | None:
        socket = self._line.socket
        if socket is None or not int(socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            return None
        frame = socket.recv(zmq.NOBLOCK, copy=False)
        if frame.more:  # possibly millions, which would take longer to read than any call may take
            self._end("it sent a message of several frames: it is no node")
            return None
        return frame.bytes if len(frame) < LARGE_BYTES else frame.buffer

    def _end(self, because: str, *, is_lasting: bool = False) -> None:
        """Close the connection, and notify the owner. `is_lasting`: another attempt would end in the same way."""
        if because == _UNTRUSTED:
            because = because.format(key=self._own_key())
        message = f"{self._who}: {because}"
        wait_ns = min(BACKOFF_MAX_NS, BACKOFF_NS << min(self._failures_count, 16))
        self._again_ns = self._now_ns() + int(wait_ns * (0.5 + self._random() / 2))
        self._failures_count += 1
        if self._state is _State.STANDING:
            self.trouble = PeerDown(f"{self._who} is gone ({because}); whether the work ran is not known")
        elif is_lasting:
            self.trouble = FailedPrecondition(message)
        else:
            self.trouble = Unavailable(message, retry_after=wait_ns / 1e9)
        self._line.hang_up(0)
        self._state = _State.OVER
        self._cut_lifeline()

    def _own_key(self) -> str:
        try:
            return str(self._keyring.own().public)
        except FailedPrecondition:
            return "KEY"

    def _cut_lifeline(self) -> None:
        if self._lifeline_fd >= 0:
            os.eventfd_write(self._lifeline_fd, 1)
            self._close_lifeline()

    def _close_lifeline(self) -> None:
        if self._lifeline_fd >= 0:
            os.close(self._lifeline_fd)
            self._lifeline_fd = -1


class _Line:
    """The sockets of the present connection; `dial` makes new ones."""

    def __init__(self) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=1)
        self.epoll = select.epoll()
        self.socket: zmq.Socket[bytes] | None = None
        self.monitor: zmq.Socket[bytes] | None = None
        self._fds: list[int] = []

    def dial(self, address: str, keyring: Keyring, key: PublicKey) -> None:
        """Connect, without waiting for it. Raises errors of keys and files."""
        socket = self.socket = self._context.socket(zmq.DEALER)
        links.client(socket, keyring, key, links.LinkLimits(silence_ms=SILENCE_MS))
        socket.setsockopt(zmq.SNDHWM, HIGH_WATER_MARK)
        # No receive limit: frames here answer calls of this client, which bounds these (caller_core.py). A socket that stopped
        # reading at a limit receives no heartbeats, and its next heartbeat to a killed peer aborts the process (links.py).
        socket.setsockopt(zmq.RCVHWM, 0)
        # Nobody else can know this id: a reply to it comes to this connection, or to none (visitors.py).
        socket.setsockopt(zmq.ROUTING_ID, b"client/" + os.urandom(16).hex().encode())
        monitor = self.monitor = socket.get_monitor_socket(_STANDS | sum(_ENDS))
        for one in (socket, monitor):
            self._fds.append(int(one.getsockopt(zmq.FD)))
            self.epoll.register(self._fds[-1], select.EPOLLIN)
        links.connect(socket, address)

    def hang_up(self, linger_ms: int) -> None:
        """Close the sockets; sent frames have `linger_ms` to leave."""
        socket, monitor, fds = self.socket, self.monitor, self._fds
        self.socket, self.monitor, self._fds = None, None, []
        for fd in fds:
            self.epoll.unregister(fd)
        if socket is not None and monitor is not None:
            socket.disable_monitor()
            monitor.close(linger=0)
        if socket is not None:
            socket.close(linger=linger_ms)

    def shut(self, pid: int) -> None:
        """Release everything; in a forked process nothing, as ZeroMQ's threads did not come along."""
        if os.getpid() == pid:
            self.hang_up(0)
            self._context.term()
            self.epoll.close()
