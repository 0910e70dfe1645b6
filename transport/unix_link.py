"""Unix link: frames between the processes of one host over Unix sockets, with no thread and no library between them.

The port is that of `link.Link`. Each connection is a socket of its own (SOCK_SEQPACKET), and one epoll descriptor stands for
all of them. The owner itself reads and writes, so a round trip wakes two threads, where ZeroMQ's I/O threads make it four or
more.

Each packet begins with a number, so a frame leaves once although a signal's exception (Ctrl-C) may strike at each system call:
what is sent again bears the same number, and is dropped there; a number that is missing is a lost frame. The first packet of
a connection says who has connected. Descriptors that are passed with a packet are closed by the kernel: nobody receives them.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from .accept_gate import RESERVE, RESERVE_SHARE
from .batching import SendResult
from .codec import FRAME_BYTES_MAX, Frame
from .descriptors import NONE_LEFT, descriptors_max, open_count
from .errors import FrameLost, MalformedFrame
from .link import HIGH_WATER_MARK, LARGE_BYTES_MAX, LINGER_MS, PATH_BYTES_MAX

#: Bytes of a frame in one packet. The kernel keeps a packet in one piece, and three of these fit into a socket's buffer.
PART_BYTES: Final = 64 << 10
#: Begins the first packet of a connection; the identity of the process that connects follows.
GREETING: Final = b"appbackplane-1 "
IDENTITY_BYTES_MAX: Final = 255
#: Connections that wait to be accepted: the kernel's bound (somaxconn) is lower on old kernels.
BACKLOG: Final = 4_096
#: Connections accepted in one go.
ACCEPT_BATCH: Final = 16
#: Packets read between two questions who has some: to ask costs as much as to read one.
BURST: Final = 16
#: Connections that have not said who they are: a process that connects says it at once.
SILENT_MAX: Final = 64
#: Packets read by one call of `receive`, which then lets its owner do something else.
PACKETS_MAX: Final = 64

_HEAD: Final = struct.Struct("<I")
_HEAD_BYTES: Final = _HEAD.size
#: The largest packet. Each part of a frame but the last is one, or a stranger could send millions of a byte.
_PACKET_BYTES: Final = _HEAD_BYTES + PART_BYTES
#: In the head of a packet: the rest of the frame follows in the next one.
_MORE: Final = 1 << 31
#: It continues the frame of the packet before.
_CONTINUES: Final = 1 << 30
_NUMBER: Final = _CONTINUES - 1
_CREDENTIALS: Final = struct.Struct("3i")
#: Nothing is wrong with the connection: there may be room later.
_SCARCE: Final = (*NONE_LEFT, errno.ENOBUFS, errno.ENOMEM)
#: socket(7), of Linux 6.16 on: whether descriptors may be passed. They would be closed in the thread that receives.
_SO_PASSRIGHTS: Final = 83
#: Bytes of a socket's buffer, which has room for three packets: more than most kernels grant.
_BUFFER_BYTES: Final = 256 << 10
_SENT: Final = SendResult.SENT
_FULL: Final = SendResult.FULL
_UNREACHABLE: Final = SendResult.UNREACHABLE


class UnixConnection:
    """One socket. `peer`: its name here; empty until it has said who it is. Of one that we make, `path`: of the listener, and
    `identity`: as what we are known there.
    """

    def __init__(self, peer: bytes = b"", path: str = "", identity: bytes = b"") -> None:
        self.peer, self.path, self.identity = peer, path, identity
        #: The process at the other end; -1: nobody has asked yet.
        self.pid = -1
        self.socket: socket.socket | None = None
        #: Of one that we make: whether the socket is connected. Of each: whether it is greeted, or accepted, and listened to.
        self.is_connected = self.is_open = False
        self.send: Any = None
        self.recv_into: Any = None
        #: The numbers of the next packet that is sent, and of the next one that is expected.
        self.sent = self.heard = 0
        #: The frame whose sending an exception has interrupted: the kernel may have it; or it is among those that wait.
        self.offered: bytes | None = None
        self.queued: bytes | None = None
        #: The parts of the frame that is being received.
        self.parts: list[bytes] = []
        self.parts_bytes = 0
        #: Packets that the kernel has not taken yet, with their bytes, and the number of their frames.
        self.waiting: deque[bytes] = deque()
        self.waiting_bytes = self.waiting_frames = 0
        #: Whether it is among those that may have input.
        self.is_ready = False


class UnixLink:
    """Carries frames between this process and its peers, never blocking. Not thread-safe."""

    def __init__(self, name: str, token: str = "") -> None:
        """`name`, `token`: as `link.Link`."""
        self._name, self._token = name, token
        self._epoll = select.epoll()
        self._listening: socket.socket | None = None
        #: Accepted connections that have not said who they are, the oldest first.
        self._silent: dict[UnixConnection, None] = {}
        self._bound: list[Path] = []
        #: Whether connections wait until there are descriptors for them.
        self.is_shut = False
        self._by_peer: dict[bytes, UnixConnection] = {}
        self._by_fd: dict[int, UnixConnection] = {}
        #: The connections that we have made, until they are disconnected.
        self._own: dict[bytes, UnixConnection] = {}
        self._ready: deque[UnixConnection] = deque()
        #: Packets to be read until it is asked who else has some.
        self._left = BURST
        self._buffer = memoryview(bytearray(_PACKET_BYTES + 1))
        self._buffers = (self._buffer,)
        #: The bytes in the buffer, of `_current`: a list, which C code fills before a signal's exception can strike.
        self._got: list[int] = []
        self._current = UnixConnection()

    # -- connections --------------------------------------------------------------------------------------------------

    def bind(self, path: Path) -> None:
        """Listen on a Unix socket. Its folder must be 0700: nothing else keeps other users out."""
        assert self._listening is None, "listen once"
        if len(os.fsencode(path)) > PATH_BYTES_MAX:
            raise ValueError(f"socket path exceeds {PATH_BYTES_MAX} bytes: {path} (choose a shorter [system] run_dir)")
        listening = _socket()
        try:
            listening.bind(os.fspath(path))
            listening.listen(BACKLOG)
        except OSError:
            listening.close()
            raise
        self._listening = listening
        self._bound.append(path)
        self._epoll.register(listening, select.EPOLLIN)

    def connect(self, path: Path) -> bytes:
        """Connect to the process that listens on `path`, with the first frame. Returns the peer to send to."""
        assert not self._token or not self._own, "a token is for one connection"
        peer = b"\x01" + os.urandom(8)
        identity = f"{self._name}-{self._token or os.urandom(8).hex()}".encode()
        self._own[peer] = self._by_peer[peer] = UnixConnection(peer, os.fspath(path), identity)
        return peer

    def known_as(self, peer: bytes) -> bytes:
        """The identity by which a peer knows us; empty if we did not connect to it."""
        connection = self._own.get(peer)
        return b"" if connection is None else connection.identity

    def disconnect(self, peer: bytes) -> None:
        """Forget a peer we connected to. Frames that it has not read are lost, as they were by its death."""
        connection = self._own.get(peer)
        if connection is not None:
            self._drop(connection)
            self._own.pop(peer, None)

    def process(self) -> int:
        """The process at the other end of the connection that brought the frame last received, by the kernel."""
        connection = self._current
        if connection.pid < 0 and connection.socket is not None:
            told = connection.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            connection.pid = int(_CREDENTIALS.unpack(told)[0])
        return max(0, connection.pid)

    def read_ahead(self, frames: int) -> None:
        """Nothing is read ahead: the kernel keeps what has been sent, also when its sender ends."""

    def _open(self, connection: UnixConnection) -> SendResult:
        """Connect, and say who we are. FULL: its queue of connections is, or no descriptor is left.

        An exception may strike between any two steps: the next call goes on with the same socket.
        """
        try:
            if connection.socket is None:
                connection.socket = _socket()
            connected = connection.socket
            if not connection.is_connected:
                result = connected.connect_ex(connection.path)
                if result not in (0, errno.EISCONN):  # the latter where an exception had struck behind it
                    raise OSError(result, os.strerror(result))
                connection.is_connected = True
            connected.send(GREETING + connection.identity)
        except BlockingIOError:
            return _FULL
        except OSError as error:
            return _FULL if error.errno in _SCARCE else _UNREACHABLE
        self._add(connection)
        return _SENT

    def _add(self, connection: UnixConnection) -> None:
        """Listen to a connection. It is open with the last step."""
        connected = connection.socket
        assert connected is not None
        self._by_fd[connected.fileno()] = connection
        with suppress(FileExistsError):  # an exception had struck behind it
            self._epoll.register(connected, select.EPOLLIN)
        connection.send, connection.recv_into = connected.send, connected.recv_into
        connection.is_open = True

    def _accept(self) -> None:
        if self._listening is None:
            return
        for _ in range(ACCEPT_BATCH):
            if not _has_descriptors():
                self._shut()
                return
            try:
                connected, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _SCARCE:
                    raise
                self._shut()
                return
            connected.setblocking(False)
            connection = UnixConnection()
            connection.socket = connected
            self._add(connection)
            self._silent[connection] = None
            if len(self._silent) > SILENT_MAX:
                self._drop(next(iter(self._silent)))

    def _shut(self) -> None:
        """Let further connections wait until there are descriptors for them."""
        assert self._listening is not None
        self.is_shut = True
        self._epoll.unregister(self._listening)

    def _look_for_descriptors(self) -> None:
        if self.is_shut and self._listening is not None and _has_descriptors():
            self.is_shut = False
            self._epoll.register(self._listening, select.EPOLLIN)

    def _drop(self, connection: UnixConnection) -> None:
        """Close a connection, and forget it. An exception may strike anywhere: to call it again goes on."""
        connection.is_open = False
        if connection.is_ready:
            self._ready = deque(each for each in self._ready if each is not connection)
            connection.is_ready = False
        if connection is self._current:
            self._got = []
        self._silent.pop(connection, None)
        if self._by_peer.get(connection.peer) is connection:
            del self._by_peer[connection.peer]
        connection.waiting, connection.waiting_bytes, connection.waiting_frames = deque(), 0, 0
        connected = connection.socket
        if connected is not None:
            fd = connected.fileno()
            if self._by_fd.get(fd) is connection:
                with suppress(FileNotFoundError):  # it is not registered yet, or any more
                    self._epoll.unregister(fd)  # to close does not end it where a forked child has a copy
                del self._by_fd[fd]
            connected.close()
            connection.socket = None
        self._look_for_descriptors()

    # -- sending ------------------------------------------------------------------------------------------------------

    def send(self, peer: bytes, frame: bytes) -> SendResult:
        """Offer one frame; never blocks. After an exception, offer the same object next: it leaves once."""
        connection = self._by_peer.get(peer)
        if connection is None:
            return _UNREACHABLE
        if not connection.is_open and (opened := self._open(connection)) is not _SENT:
            if opened is _UNREACHABLE:
                self._drop(connection)
            return opened
        if connection.offered is not frame and connection.offered is not None:
            connection.sent, connection.offered = (connection.sent + 1) & _NUMBER, None  # it counts as sent
        if connection.queued is not None and self._finish_sending(connection, frame):
            return _SENT
        if connection.waiting or len(frame) > PART_BYTES:
            return self._send_later(connection, frame)
        packet = _HEAD.pack(connection.sent) + frame
        connection.offered = frame
        try:
            connection.send(packet)
        except BlockingIOError:
            connection.offered = None
            return self._send_later(connection, frame)
        except OSError as error:
            connection.offered = None
            return _FULL if error.errno in _SCARCE else self._lost(connection)
        connection.sent, connection.offered = (connection.sent + 1) & _NUMBER, None
        return _SENT

    def _finish_sending(self, connection: UnixConnection, frame: bytes) -> bool:
        """After an exception, while packets were sent that had waited: whether this frame was among them."""
        is_queued = connection.queued is frame
        self._flush(connection)
        connection.queued = None
        return is_queued

    def _send_later(self, connection: UnixConnection, frame: bytes) -> SendResult:
        """Queue a frame, in parts, unless the queue is full; and send what the kernel takes now."""
        frames, size = connection.waiting_frames, connection.waiting_bytes
        if frames >= HIGH_WATER_MARK or (frames and size + len(frame) > LARGE_BYTES_MAX):
            return _FULL
        count = max(1, -(-len(frame) // PART_BYTES))
        view, waiting = memoryview(frame), connection.waiting.copy()
        was_waiting = bool(waiting)
        for index in range(count):
            number = (connection.sent + index) & _NUMBER
            part = view[index * PART_BYTES : (index + 1) * PART_BYTES]
            head = number | (_MORE if index + 1 < count else 0) | (_CONTINUES if index else 0)
            waiting.append(b"".join((_HEAD.pack(head), part)))
        size += len(frame) + count * _HEAD_BYTES
        # No call is between these assignments: an exception finds the frame queued, or not.
        connection.waiting, connection.queued = waiting, frame
        connection.waiting_frames, connection.waiting_bytes = frames + 1, size
        connection.sent = (connection.sent + count) & _NUMBER
        result = _SENT if was_waiting else self._flush(connection)
        connection.queued = None
        return result

    def _flush(self, connection: UnixConnection) -> SendResult:
        """Send the packets that wait, as many as the kernel takes; the rest when it has room."""
        waiting, connected = connection.waiting, connection.socket
        assert connected is not None
        try:
            while waiting:
                packet = waiting[0]
                connection.send(packet)
                waiting.popleft()
                connection.waiting_bytes -= len(packet)
                if not _HEAD.unpack_from(packet)[0] & _MORE:
                    connection.waiting_frames -= 1
        except OSError as error:
            if error.errno != errno.EAGAIN and error.errno not in _SCARCE:
                return self._lost(connection)
            self._epoll.modify(connected, select.EPOLLIN | select.EPOLLOUT)
            return _SENT
        connection.waiting_bytes = connection.waiting_frames = 0
        self._epoll.modify(connected, select.EPOLLIN)
        return _SENT

    def _lost(self, connection: UnixConnection) -> SendResult:
        """The other end has closed. FULL: what it has sent before is to be read first; it counts as reachable until then."""
        connected = connection.socket
        assert connected is not None
        connection.waiting, connection.waiting_bytes, connection.waiting_frames = deque(), 0, 0
        for _ in range(2):  # a connection that was reset says so once, ahead of what it has sent
            try:
                if self._got or connected.recv(1, socket.MSG_PEEK):
                    return _FULL
                break
            except BlockingIOError:
                break
            except ConnectionResetError:
                continue
        if self._by_peer.get(connection.peer) is connection:
            del self._by_peer[connection.peer]
        return _UNREACHABLE

    # -- receiving ----------------------------------------------------------------------------------------------------

    def receive(self) -> tuple[bytes, Frame] | None:
        """The next (peer, frame), or None: none has come, or many packets have, and none of them completes a frame.

        Peers take turns, packet by packet. Raises `MalformedFrame` for a packet of another shape, whose connection ends, and
        `FrameLost` for a frame lost to a signal's exception. Call until None before waiting on `fileno()`.
        """
        for _ in range(PACKETS_MAX):
            if not self._got:
                connection = self._next()
                if connection is None:
                    return None
                self._current = connection
                try:
                    self._got.extend(map(connection.recv_into, self._buffers))
                except BlockingIOError:
                    connection.is_ready = False
                    self._ready.popleft()
                    continue
                except ConnectionResetError:  # it has closed with input unread; what it has sent before is still there
                    continue
                if len(self._ready) > 1:
                    self._ready.rotate(-1)
            frame = self._taken(self._current, self._got[0])
            if frame is not None:
                return self._current.peer, frame
        return None

    def _next(self) -> UnixConnection | None:
        """A connection that may have input."""
        self._look_for_descriptors()
        while not self._ready or not self._left:
            found = self._epoll.poll(0)
            self._left = BURST
            if not found:
                break
            for fd, events in found:
                connection = self._by_fd.get(fd)
                if connection is None:
                    self._accept()
                    continue
                if events & select.EPOLLOUT:
                    self._flush(connection)
                if events & ~select.EPOLLOUT and not connection.is_ready:
                    connection.is_ready = True
                    self._ready.append(connection)
        self._left -= 1
        return self._ready[0] if self._ready else None

    def _taken(self, connection: UnixConnection, size: int) -> Frame | None:
        """The frame that the packet in the buffer completes. The packet counts as read with the last assignment alone."""
        if size == 0:
            self._ended(connection)
            return None
        if not connection.peer:
            self._greeted(connection, bytes(self._buffer[:size]))
            return None
        if connection.heard == 0 and self._buffer[:size] == GREETING + connection.peer:
            self._got = []  # an exception had struck behind the first one
            return None
        (head,) = _HEAD.unpack_from(self._buffer)
        if not _HEAD_BYTES <= size <= _PACKET_BYTES or (head & _MORE and size != _PACKET_BYTES):
            self._ended(connection)
            raise MalformedFrame(f"a packet of {size} bytes from {connection.peer!r}")
        number = head & _NUMBER
        if number != connection.heard:
            if (number - connection.heard) & _NUMBER <= _NUMBER >> 1:
                connection.heard, connection.parts, connection.parts_bytes = number, [], 0
                raise FrameLost(connection.peer)
            self._got = []  # it had been sent before a signal's exception, and is sent again
            return None
        part, parts = bytes(self._buffer[_HEAD_BYTES:size]), connection.parts if head & _CONTINUES else []
        if head & _CONTINUES and not parts:  # of a frame that is lost
            connection.heard, self._got = (number + 1) & _NUMBER, []
            return None
        if head & _MORE:
            if connection.parts_bytes + len(part) > FRAME_BYTES_MAX:
                self._ended(connection)
                raise MalformedFrame(f"a frame of more than {FRAME_BYTES_MAX:,} bytes from {connection.peer!r}")
            size = connection.parts_bytes + len(part) if parts else len(part)
            connection.heard, connection.parts, connection.parts_bytes = (number + 1) & _NUMBER, [*parts, part], size
            self._got = []
            return None
        frame: Frame = b"".join((*parts, part)) if parts else part
        connection.heard, connection.parts, connection.parts_bytes = (number + 1) & _NUMBER, [], 0
        self._got = []
        return frame

    def _greeted(self, connection: UnixConnection, greeting: bytes) -> None:
        """Take the first packet of a connection. One that bears the name of a connection that lives is closed."""
        identity = greeting.removeprefix(GREETING)
        is_right = greeting.startswith(GREETING) and 0 < len(identity) <= IDENTITY_BYTES_MAX
        if not is_right or identity.startswith(b"\x01") or identity in self._by_peer:
            self._ended(connection)
            return
        self._silent.pop(connection, None)
        self._by_peer[identity] = connection
        connection.peer, self._got = identity, []

    def _ended(self, connection: UnixConnection) -> None:
        """The other end has closed, or has said what makes no sense."""
        self._drop(connection)

    # -- waiting ------------------------------------------------------------------------------------------------------

    def expect(self) -> None:
        """Nothing is to be prepared."""

    def has_input(self) -> bool:
        """Whether `receive` may have a frame."""
        self._look_for_descriptors()
        return bool(self._got or self._ready or self._epoll.poll(0, 1))

    def fileno(self) -> int:
        """Descriptor that is readable when `receive` may have a frame. Poll it; never read from it."""
        return self._epoll.fileno()

    def close(self, linger_ms: int = LINGER_MS) -> None:
        """Close, and remove the socket files. Sent frames get `linger_ms` to leave. Closing twice is harmless."""
        until_s = os.times().elapsed + linger_ms / 1e3
        while waiting := [each for each in self._by_fd.values() if each.waiting]:
            poll = select.poll()
            for each in waiting:
                assert each.socket is not None
                poll.register(each.socket, select.POLLOUT)
            left_s = until_s - os.times().elapsed
            if left_s <= 0 or not poll.poll(left_s * 1e3):
                break
            for each in waiting:
                self._flush(each)
        for each in [*self._by_fd.values(), *self._by_peer.values()]:
            self._drop(each)
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        self._epoll.close()
        for path in self._bound:
            path.unlink(missing_ok=True)


def _socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
    with suppress(OSError):
        made.setsockopt(socket.SOL_SOCKET, _SO_PASSRIGHTS, 0)
    return made


def _has_descriptors() -> bool:
    """Whether there are descriptors for further connections."""
    most = descriptors_max()
    return most - open_count(most) > min(RESERVE, most // RESERVE_SHARE)
