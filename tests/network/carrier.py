"""Carrier: the sockets of a FaultProxy's process: takes connections, and carries their bytes as the lanes say.

The lanes decide, from the time that they are told (lane.py); this asks them what may be read and what is due, and has the
kernel tell it of nothing else, so that an end which is not to be seen yet is not seen. Where nothing is wrong, bytes go
straight from one socket into the other.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import struct
import time
from typing import Any

from tests.network.faults import NOTHING_WRONG, Counts, Faults
from tests.network.lane import READ_BYTES_MAX, ROUND_TRIP_NS_MIN, SECOND_NS, End, Flow, Lane
from tests.network.listening import Listening, prepare

#: What the kernel may keep of a sender's bytes before they are read here: when nothing is limited, a tenth more came through
#: than with 64 KB; with a rate, little more than keeps the wire busy: what is kept here looks sent to its sender.
RECEIVE_BYTES = 200_000
RECEIVE_BYTES_LIMITED = 32_768
ABORT = struct.pack("ii", 1, 0)


class Side:
    """One socket of a connection: source of one flow, outlet of the other."""

    __slots__ = ("connection", "fd", "inward", "is_blocked", "is_connected", "mask", "name", "other", "outward", "sock")

    def __init__(self, name: str, sock: socket.socket, connection: Connection, *, is_connected: bool) -> None:
        self.name = name
        self.sock = sock
        self.fd = sock.fileno()
        self.connection = connection
        self.is_connected = is_connected
        self.is_blocked = not is_connected
        self.mask = 0
        self.inward: tuple[Lane, Flow]
        self.outward: tuple[Lane, Flow]
        self.other: Side


class Connection:
    """A client's connection and the one to the upstream address that belongs to it."""

    __slots__ = ("client", "is_over", "upstream")

    def __init__(self, client: socket.socket, upstream: socket.socket, lanes: dict[str, Lane]) -> None:
        self.client = Side("client", client, self, is_connected=True)
        self.upstream = Side("upstream", upstream, self, is_connected=False)
        self.client.other, self.upstream.other = self.upstream, self.client
        self.client.inward = self.upstream.outward = (lanes["up"], lanes["up"].flow())
        self.upstream.inward = self.client.outward = (lanes["down"], lanes["down"].flow())
        self.is_over = False


class Carrier:
    """Everything between the clients and one upstream address."""

    def __init__(self, host: str, upstream: tuple[str, int], seed: int, epoll: select.epoll) -> None:
        """Listens at `host`, and registers with `epoll` what is to be waited for."""
        self._counts = Counts()
        self._lanes = {name: Lane(name, seed) for name in ("up", "down")}
        self._sides: dict[int, Side] = {}
        self._connections: set[Connection] = set()
        self.listening = Listening(host)
        self._upstream = upstream
        self._epoll = epoll
        self._orphans: list[socket.socket] = []
        self._view = memoryview(bytearray(READ_BYTES_MAX))
        self._listen()

    def next_ns(self, now_ns: int) -> int | None:
        """When something is due, unless something happens before."""
        return min((due for lane in self._lanes.values() if (due := lane.next_ns(now_ns)) is not None), default=None)

    def carry_all(self, now_ns: int) -> None:
        """Everything that is due."""
        for lane in self._lanes.values():
            lane.advance(now_ns)
        for connection in list(self._connections):
            for side in (connection.client, connection.upstream):
                self._carry(side, now_ns)
            self._watch(connection, now_ns)

    def serve(self, fd: int, event: int, now_ns: int) -> None:
        """Handle an epoll event of one of its sockets."""
        if (side := self._sides.get(fd)) is None:
            if fd == self.listening.fd and not self.listening.is_silent:  # else it is an event from before a cut
                self._accept(now_ns)
            return  # or of one that has been closed in this very turn
        connection = side.connection
        if not side.is_connected and not self._connected(side):
            return
        if event & select.EPOLLOUT:
            side.is_blocked = False
            self._carry(side, now_ns)
        if event & ~select.EPOLLOUT and not connection.is_over:
            self._read(side, now_ns)
        self._watch(connection, now_ns)

    # Bytes

    def _read(self, side: Side, now_ns: int) -> None:
        """From this side into its lane, and on if it is time."""
        lane, flow = side.inward
        room = lane.room(flow, now_ns)
        if not room:
            return
        try:
            size = side.sock.recv_into(self._view, room)
        except BlockingIOError:
            return
        except OSError:
            lane.end(flow, End.RESET, now_ns)
            self._carry(side.other, now_ns)
            return
        if not size:
            lane.end(flow, End.FINISHED, now_ns)
        else:
            self._count(lane, "taken", size)
            sent = 0
            if lane.is_plain(flow, now_ns) and not side.other.is_blocked:
                sent = self._send(side.other, self._view[:size])
                if sent < 0:
                    return
            if sent < size:
                has_more = bool(lane.faults.rate) and is_readable(side.sock)
                lane.take(flow, memoryview(bytes(self._view[sent:size])), now_ns, has_more=has_more)
                lane.advance(now_ns)
        self._carry(side.other, now_ns)

    def _carry(self, side: Side, now_ns: int) -> None:
        """Out of the lane into this side's socket, all that is due."""
        lane, flow = side.outward
        while not side.is_blocked and (piece := lane.due(flow, now_ns)) is not None:
            if piece is End.RESET:
                self._abort(side.connection)
                return
            if piece is End.FINISHED:
                lane.sent(flow, 0)
                self._finish(side)
                continue
            sent = self._send(side, piece)
            if sent < 0:
                return
            if sent:
                lane.sent(flow, sent)

    def _send(self, side: Side, data: bytes | memoryview) -> int:
        """How much the socket took; -1 if nobody is there any more."""
        try:
            sent = side.sock.send(data)
        except BlockingIOError:
            side.is_blocked = True
            return 0
        except OSError:
            self._lost(side)
            return -1
        side.is_blocked = sent < len(data)
        self._count(side.outward[0], "bytes", sent)
        return sent

    def _count(self, lane: Lane, what: str, size: int) -> None:
        name = f"{lane.name}_{what}"
        setattr(self._counts, name, getattr(self._counts, name) + size)

    # Connections

    def _listen(self) -> None:
        self.listening.open(self._receive_bytes(self._lanes["up"]))
        self._epoll.register(self.listening.fd, select.EPOLLIN)

    def _accept(self, now_ns: int) -> None:
        while client := self.listening.accept():
            upstream = socket.socket(client.family)
            upstream.setblocking(False)
            prepare(upstream, self._receive_bytes(self._lanes["down"]))
            for sock in (client, upstream):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(client, upstream, self._lanes)
            self._connections.add(connection)
            for side in (connection.client, connection.upstream):
                self._sides[side.fd] = side
            self._counts.accepted += 1
            self._counts.open += 1
            if upstream.connect_ex(self._upstream) not in (0, errno.EINPROGRESS):
                self._refused(connection)
            self._watch(connection, now_ns)

    def _connected(self, side: Side) -> bool:
        if side.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._refused(side.connection)
            return False
        side.is_connected, side.is_blocked = True, False
        return True

    def _refused(self, connection: Connection) -> None:
        self._counts.refused += 1
        self._abort(connection)

    def _receive_bytes(self, lane: Lane) -> int:
        return RECEIVE_BYTES_LIMITED if lane.faults.rate else RECEIVE_BYTES

    def _limit_kernel(self, side: Side) -> None:
        # A connection that has seen a larger window may lose what it sends into it once, and repeats it 200 ms later, as
        # where a route changes. Those that come later never see it: hence the listening socket, too.
        side.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_bytes(side.inward[0]))

    def _watch(self, connection: Connection, now_ns: int) -> None:
        """Have the kernel tell us what can be done now, and nothing else: an end that is not yet to be seen is not."""
        if connection.is_over:
            return
        for side in (connection.client, connection.upstream):
            lane, flow = side.outward
            mask = select.EPOLLOUT if side.is_blocked and (lane.due(flow, now_ns) or not side.is_connected) else 0
            if side.other.is_connected and side.is_connected and side.inward[0].room(side.inward[1], now_ns):
                mask |= select.EPOLLIN
            if mask != side.mask:
                if not side.mask:
                    self._epoll.register(side.fd, mask)
                elif mask:
                    self._epoll.modify(side.fd, mask)
                else:
                    self._epoll.unregister(side.fd)
                side.mask = mask

    def _finish(self, side: Side) -> None:
        """The last byte for this side is out."""
        with contextlib.suppress(OSError):  # it may have gone meanwhile; that will be read from it
            side.sock.shutdown(socket.SHUT_WR)
        side.outward[1].is_heard = True
        if side.inward[1].is_heard:
            self._counts.closed += 1
            self._forget(side.connection)
            side.sock.close()
            side.other.sock.close()

    def _lost(self, side: Side) -> None:
        """Nobody is there to send to: this is told to the other side, behind what was on its way there."""
        side.outward[0].drop(side.outward[1])
        lane, flow = side.inward
        if flow.is_heard:
            self._abort(side.connection)
        else:
            now_ns = time.monotonic_ns()
            lane.end(flow, End.RESET, now_ns)
            self._carry(side.other, now_ns)

    def _abort(self, connection: Connection) -> None:
        if connection.is_over:
            return
        self._forget(connection)
        self._counts.reset += 1
        for side in (connection.client, connection.upstream):
            reset(side.sock)

    def _forget(self, connection: Connection) -> None:
        connection.is_over = True
        self._connections.discard(connection)
        self._counts.open -= 1
        for side in (connection.client, connection.upstream):
            del self._sides[side.fd]
            if side.mask:
                self._epoll.unregister(side.fd)
                side.mask = 0
            side.inward[0].drop(side.inward[1])

    # What is done to all of them

    def counted(self) -> Counts:
        """What has been done so far."""
        for name, lane in self._lanes.items():
            setattr(self._counts, f"{name}_losses", lane.loss_count)
            setattr(self._counts, f"{name}_flips", lane.flip_count)
        return self._counts

    def set(self, now_ns: int, **faults: dict[str, Any]) -> None:
        """What is wrong from now on, for each direction that is named."""
        for name, values in faults.items():
            wanted = Faults(**values)
            self._lanes[name].set(NOTHING_WRONG if wanted == NOTHING_WRONG else wanted, now_ns)
        delay_s = sum(lane.faults.delay_s for lane in self._lanes.values())
        for lane in self._lanes.values():
            lane.round_trip_ns = max(ROUND_TRIP_NS_MIN, int(delay_s * SECOND_NS))
        for side in self._sides.values():
            self._limit_kernel(side)
        self.listening.limit(self._receive_bytes(self._lanes["up"]))

    def stall(self, now_ns: int, lanes: list[str], stall_s: float) -> None:
        """Nothing moves for so long."""
        for name in lanes:
            self._lanes[name].stall(now_ns + int(stall_s * SECOND_NS))

    def cut(self, now_ns: int, lanes: list[str]) -> None:
        """Nothing moves, and nobody can connect: a handshake needs both ways."""
        for name in lanes:
            self._lanes[name].is_cut = True
        if self.listening.fd >= 0 and not self.listening.is_silent:
            self._epoll.unregister(self.listening.fd)
            self._accept(now_ns)
            self.listening.silence()

    def reset(self, now_ns: int) -> None:
        """All connections end, and no other is taken."""
        for connection in list(self._connections):
            self._abort(connection)
        if self.listening.fd >= 0:
            if not self.listening.is_silent:
                self._epoll.unregister(self.listening.fd)
            self.listening.close()

    def heal(self, now_ns: int) -> None:
        """No cut, no stall; ends that were left half-open meet a host that knows nothing of them."""
        for lane in self._lanes.values():
            lane.heal(now_ns)
        while self._orphans:
            reset(self._orphans.pop())
        if self.listening.fd < 0:
            self._listen()
        elif self.listening.is_silent:
            self.listening.listen()
            self._epoll.register(self.listening.fd, select.EPOLLIN)

    def forget(self, now_ns: int, side: str) -> None:
        """As if that side's host had crashed: the other side's connections stay, and nobody is there."""
        for connection in list(self._connections):
            gone = connection.client if side == "client" else connection.upstream
            self._forget(connection)
            self._counts.forgotten += 1
            reset(gone.sock)
            self._orphans.append(gone.other.sock)


def is_readable(sock: socket.socket) -> bool:
    """Whether there is more to be read."""
    return bool(select.select([sock], [], [], 0)[0])


def reset(sock: socket.socket) -> None:
    """Close with an RST."""
    with contextlib.suppress(OSError):  # one that never was connected
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
    sock.close()
