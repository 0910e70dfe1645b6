"""Doorstep: who came to a bound socket and showed no key: the wrong mechanism, another server's key, noise, or silence.

ZeroMQ hangs up on them by itself, before it asks the gatekeeper; here they are counted and logged, with their address. Its
monitor says which descriptor a connection got, and later that it failed, and which descriptor has ended, in order, from one
I/O thread. The address is asked of the descriptor, and believed if no event says then that it has ended: it could be somebody
else's by now. So an owner that comes late may not learn it. Who sends what is no greeting (a browser) is hung up on without
a word from the monitor, and is not seen here. Where strangers leave few descriptors, newcomers wait in the kernel
(headroom.py). Costs two messages a connection, three if it fails, and nothing a frame.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import zmq

from .admission import Refusal, plain
from .gatekeeper import Gatekeeper
from .headroom import Headroom
from .roll import ends_of, held

# A plain integer: an enum's `&` looks a member up each time, and this is asked in every turn.
_POLLIN: Final = int(zmq.POLLIN)
#: What ZeroMQ says of a handshake that failed. (Of a key that was refused, the gatekeeper has said more.)
REASONS: Final = {
    int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL): "it does not speak CURVE with the key of this node",
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL): "it hung up, or said nothing for too long, before it showed a key",
}
_EVENTS: Final = int(
    zmq.EVENT_ACCEPTED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_LISTENING
)
_ACCEPTED, _ENDED = int(zmq.EVENT_ACCEPTED), int(zmq.EVENT_DISCONNECTED)
_LISTENING = int(zmq.EVENT_LISTENING)
_event: Final = struct.Struct("=HI")
#: What happened, and the descriptor that it happened to (or an error's number).
Event = tuple[int, int]
#: Waiting for an owner that does not come; then ZeroMQ's own thread would wait, and every link with it. 30 MB.
WAITING_MAX: Final = 100_000
#: Taken in a turn, at 20 us each. With 100, p99 of who is served was 16 ms while 2,000 came.
EVENTS_MAX: Final = 10
#: After its arrival a connection has had its time to say something: ten handshakes.
SILENCE_NS: Final = 10_000_000_000
UNKNOWN: Final = "an address that is not known any more"


class Doorstep:
    """Of one bound socket, whose context has one I/O thread. Not thread-safe: it belongs to the owner of the socket."""

    def __init__(self, socket: zmq.Socket[Any], gatekeeper: Gatekeeper) -> None:
        """Before `bind`, or the first are missed."""
        self._socket, self._gatekeeper = socket, gatekeeper
        self._addresses: dict[int, str] = {}  # by descriptor, of those that are connected
        self._arrivals: dict[
            int, int
        ] = {}  # when they came, of those that SILENCE_NS has not passed for; the oldest first
        self._headroom: Headroom | None = None
        self._reason: str | None = None  # of the failure that the next end belongs to
        self._left: list[Event] = []  # taken to see what ends, and not looked at yet
        address = f"inproc://doorstep-{id(self):x}"
        socket.monitor(address, _EVENTS)
        self._monitor: zmq.Socket[bytes] = socket.context.socket(zmq.PAIR)
        self._monitor.linger = 0
        self._monitor.setsockopt(zmq.RCVHWM, WAITING_MAX)
        self._monitor.connect(address)

    def listens(self) -> None:
        """After `bind`: from now on strangers cannot take all descriptors."""
        kind, fd = event_of(self._monitor.recv_multipart(zmq.NOBLOCK))
        assert kind == _LISTENING
        self._headroom = Headroom(fd)

    def fileno(self) -> int:
        """Readable when something may have happened. Edge-triggered: look before waiting on it."""
        return int(self._monitor.getsockopt(zmq.FD))

    def look(self, now_ns: int) -> bool:
        """Log who was hung up on; whether there may be more to look at, so that the owner comes back before it waits."""
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
                self._end(self._addresses.pop(value, UNKNOWN), now_ns)
            else:
                self._reason = REASONS[kind]
        if self._headroom is not None and (sentence := self._headroom.look(self._arrivals, now_ns)):
            self._gatekeeper.say([sentence])
        return bool(self._left)

    def due(self, now_ns: int) -> list[int]:
        """The descriptors of those that are connected and came SILENCE_NS ago, each once: the roll knows who has spoken."""
        found = []
        for fd, came_ns in self._arrivals.items():
            if now_ns - came_ns < SILENCE_NS:
                break
            found.append(fd)
        for fd in found:
            del self._arrivals[fd]
        return found

    @property
    def waiting(self) -> list[int]:
        """The descriptors of those that have come, and are not due yet."""
        return [*self._arrivals]

    @property
    def connection_count(self) -> int:
        """Of all that are connected, who has shown no key yet too: by this an owner knows that descriptors run short."""
        return len(self._addresses)

    def close(self) -> None:
        """Before the socket is closed."""
        if self._headroom is not None:
            self._headroom.close()
        self._socket.disable_monitor()
        self._monitor.close()

    def _taken(self) -> list[Event]:
        """What has happened, as far as it is one turn's work."""
        events: list[Event] = []
        while len(events) < EVENTS_MAX and int(self._monitor.getsockopt(zmq.EVENTS)) & _POLLIN:
            events.append(event_of(self._monitor.recv_multipart(zmq.NOBLOCK)))
        return events

    def _end(self, address: str, now_ns: int) -> None:
        if self._reason is not None:
            self._gatekeeper.refuse(Refusal(address, None, self._reason), now_ns)
            self._reason = None


def event_of(told: list[bytes]) -> Event:
    """What a monitor has told (zmq_socket_monitor(3)): 2 us; pyzmq's own makes an enum of it, 30 us."""
    event: Event = _event.unpack(told[0])
    return event


def _address(fd: int) -> str:
    with held(fd) as connection:
        ends = ends_of(connection)
    return UNKNOWN if ends is None else plain(str(ends[1][0]))
