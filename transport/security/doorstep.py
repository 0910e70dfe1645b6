"""Doorstep: connections to a bound socket that show no key: the wrong mechanism, another server's key, noise, or silence.

ZeroMQ closes them itself, before it asks the gatekeeper; here they are counted and logged, with their addresses. Its monitor
reports the descriptor of a new connection, later that the connection failed, and the descriptor that has ended, in order, from
one I/O thread. The address is read from the descriptor, and believed if no event says afterwards that it has ended: it could
be another connection's by now. So an owner that polls late may not learn it. A peer that sends no greeting of ZeroMQ's (a
browser) is disconnected without an event, and is not seen here. Where strangers leave few descriptors, new connections wait in
the kernel (headroom.py). Costs two messages a connection, three if it fails, and nothing a frame.
"""

from __future__ import annotations

import struct
from itertools import takewhile
from typing import Any, Final

import zmq

from .admission import RefusedConnection, plain
from .gatekeeper import Gatekeeper
from .headroom import Headroom
from .links import POLLIN
from .roll import ends_at

#: Events of handshakes that failed, with the reason. (Of a key that was refused, the gatekeeper has logged more.)
REASONS: Final = {
    int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL): "it does not speak CURVE with the key of this node",
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL): "it hung up, or said nothing for too long, before it showed a key",
}
_ACCEPTED, _ENDED = int(zmq.EVENT_ACCEPTED), int(zmq.EVENT_DISCONNECTED)
_LISTENING = int(zmq.EVENT_LISTENING)
_event: Final = struct.Struct("=HI")
#: An event, and the descriptor that it happened to (or an error's number).
Event = tuple[int, int]
#: Events that wait for an owner that does not come; beyond that ZeroMQ's own thread would wait, and every link with it. 30 MB.
WAITING_MAX: Final = 100_000
#: Events taken in an iteration, at 20 us each. With 100, p99 of connected clients was 16 ms while 2,000 came.
EVENTS_MAX: Final = 10
#: How long after its arrival a connection may stay silent: ten handshakes.
SILENCE_NS: Final = 10_000_000_000
UNKNOWN: Final = "an address that is not known any more"


class Doorstep:
    """Watches one bound socket, whose context has one I/O thread. Not thread-safe: the socket's owner calls it."""

    def __init__(self, socket: zmq.Socket[Any], gatekeeper: Gatekeeper) -> None:
        """To be made before `bind`, or the first connections are missed."""
        self._socket, self._gatekeeper = socket, gatekeeper
        self._addresses: dict[int, str] = {}  # by descriptor, of all connections
        self._arrivals: dict[int, int] = {}  # arrival times of those younger than SILENCE_NS; the oldest first
        self._headroom: Headroom | None = None
        self._reason: str | None = None  # of the failure to which the next end belongs
        self._left: list[Event] = []  # read ahead to see which connections end; not processed yet
        address = f"inproc://doorstep-{id(self):x}"
        socket.monitor(address, _ACCEPTED | _ENDED | _LISTENING | sum(REASONS))
        self._monitor: zmq.Socket[bytes] = socket.context.socket(zmq.PAIR)
        self._monitor.linger = 0
        self._monitor.setsockopt(zmq.RCVHWM, WAITING_MAX)
        self._monitor.connect(address)

    def listens(self) -> None:
        """To be called after `bind`: from now on strangers cannot take all descriptors."""
        kind, fd = event_of(self._monitor.recv_multipart(zmq.NOBLOCK))
        assert kind == _LISTENING
        self._headroom = Headroom(fd)

    def fileno(self) -> int:
        """Readable when events may be waiting. Edge-triggered: call `look` before waiting on it."""
        return int(self._monitor.getsockopt(zmq.FD))

    def look(self, now_ns: int) -> bool:
        """Take in events, and log handshakes that failed. Returns whether more may wait; then call it again before waiting."""
        events = self._left + self._taken()
        last = dict((value, number) for number, (kind, value) in enumerate(events) if kind in (_ACCEPTED, _ENDED))
        asked = {value: _address(value) for value, number in last.items() if events[number][0] == _ACCEPTED}
        self._left = self._taken()
        for kind, value in self._left:
            if kind == _ENDED:
                asked.pop(value, None)
        for number, (kind, value) in enumerate(events):
            if kind == _ACCEPTED:
                self._addresses[value] = asked.get(value, UNKNOWN) if last[value] == number else UNKNOWN
                self._arrivals[value] = now_ns
            elif kind == _ENDED:
                self._arrivals.pop(value, None)
                address = self._addresses.pop(value, UNKNOWN)
                if self._reason is not None:
                    self._gatekeeper.refuse(RefusedConnection(address, None, self._reason), now_ns)
                    self._reason = None
            else:
                self._reason = REASONS[kind]
        if self._headroom is not None and (sentence := self._headroom.look(self._arrivals, now_ns)):
            self._gatekeeper.say([sentence])
        return bool(self._left)

    def due(self, now_ns: int) -> list[int]:
        """The descriptors of connections that came SILENCE_NS ago, each once; the roll knows which of them sent a message."""
        found = [fd for fd, _ in takewhile(lambda came: now_ns - came[1] >= SILENCE_NS, self._arrivals.items())]
        for fd in found:
            del self._arrivals[fd]
        return found

    @property
    def waiting(self) -> list[int]:
        """The descriptors of connections that are not due yet."""
        return [*self._arrivals]

    def close(self) -> None:
        """To be called before the socket is closed."""
        if self._headroom is not None:
            self._headroom.close()
        self._socket.disable_monitor()
        self._monitor.close()

    def _taken(self) -> list[Event]:
        """Waiting events, as many as one iteration takes in."""
        events: list[Event] = []
        while len(events) < EVENTS_MAX and int(self._monitor.getsockopt(zmq.EVENTS)) & POLLIN:
            events.append(event_of(self._monitor.recv_multipart(zmq.NOBLOCK)))
        return events


def event_of(told: list[bytes]) -> Event:
    """Decode a monitor's message (zmq_socket_monitor(3)): 2 us; pyzmq's own makes an enum of it, 30 us."""
    event: Event = _event.unpack(told[0])
    return event


def _address(fd: int) -> str:
    ends = ends_at(fd)
    return UNKNOWN if ends is None else plain(str(ends[1][0]))
