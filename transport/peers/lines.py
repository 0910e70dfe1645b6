"""Lines: the TCP sockets of one node: its listening socket, and up to two connections to each address that it has dialled.

Decisions are in node.py; only this file and line.py know sockets. A connection is one way, from dialler to listener: a node
sends by its DEALERs and receives by its listening ROUTER, each frame under a key that its ring trusts (transport/security).
One connection is for urgent frames, one for bulk. A window admits only as much as keeps a connection busy (window.py). So an
urgent frame waits behind one part of a large frame at most (parts.py), and control messages not even behind those of their
connection. ZeroMQ connects once and never again: membership decides when a lost peer is dialled afresh. Messages to one peer
in an iteration leave as one frame (batching.py).
"""

import logging
import select
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

import zmq

from ..batching import Outbox, SendResult
from ..errors import BackplaneError
from ..remote.visitors import CLIENT, Visitors
from ..security import links
from ..security.doorstep import Doorstep, event_of
from ..security.gatekeeper import Gatekeeper
from ..security.keyring import Keyring
from ..security.keys import PublicKey
from ..security.ring import Holder
from ..security.roll import Roll
from .line import ENDS, LIMITS, STANDS, PeerConnection, dialled
from .parts import Joining, Took

#: Between two checks of the key ring and of silent connections: a revoked key is accepted for so long at most.
SWEEP_NS: Final = 100_000_000
#: All dialled connections are checked for input within this many sweeps: a check costs 5 us each.
SWEEPS_A_LOOK: Final = 4
#: Frames received in one iteration: a frame is up to 512 envelopes, or a megabyte.
FRAMES_MAX: Final = 64
#: Frames of one message of the wrong shape that are dropped in one iteration: 5 ms. A message of a million empty frames is 35
#: MB on the wire; received at once it stopped a node for 19 s, and all its peers gave it up. While it is dropped this node
#: goes on, but ZeroMQ hands over nothing else: with a tenth of this a million took 2 s.
DROPPED_MAX: Final = 10_000
#: Classes of messages, each with an outbox. CONTROL, for membership, shares the urgent connection.
URGENT, BULK, CONTROL = range(3)
_LOG = logging.getLogger(__name__)


class PeerConnected(NamedTuple):
    """A dialled connection is established."""

    address: str


class Lost(NamedTuple):
    """A dialled address could not be reached, or its connection has ended."""

    address: str
    because: str


class Came(NamedTuple):
    """A received frame, and the holder of the key that it came under."""

    holder: Holder
    frame: bytes
    #: Connection name of a client (remote/visitors.py); "": the frame came from a node.
    client: str = ""


class Lines:
    """All sockets of one node. Not thread-safe: one thread owns and polls them."""

    def __init__(self, keyring: Keyring, listen: str, log: Callable[[str], object] = _LOG.warning) -> None:
        """`listen`: an address; port 0 takes any that is free. `log`: receives a line about refused connections.

        Raises `InvalidArgument` and `FailedPrecondition`: no keys, key files open to others, an address that is taken.
        """
        self._keyring = keyring
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=1)
        self._context.set(zmq.MAX_SOCKETS, 4_096)
        self._epoll = select.epoll()
        #: By address: the urgent connection, then the bulk one, once there is bulk.
        self._lines: dict[str, list[PeerConnection]] = {}
        self._monitored: dict[int, str] = {}
        #: The key that is expected at each dialled address.
        self._keys: dict[str, PublicKey] = {}
        #: The key ring, as of the last sweep.
        self.ring = keyring.ring
        #: Connections by number; and the addresses at which the holder of a key is expected.
        self._by_number: dict[int, tuple[str, PeerConnection]] = {}
        self._addresses: dict[bytes, set[str]] = {}
        self._outboxes = Outbox(), Outbox(), Outbox()
        self._sends = [partial(self._send, which) for which in range(3)]
        #: Addresses whose ZeroMQ queue is full; numbers of connections whose window has opened.
        self._full: set[str] = set()
        self._opened: set[int] = set()
        self._joining = Joining()
        self._now_ns = 0
        self._lost: list[Lost] = []
        #: The rest of a message of the wrong shape is to be dropped before the next message.
        self._is_dropping = False
        #: Dialled since the last iteration: a descriptor signals nothing before its socket was found empty once.
        self._fresh: list[str] = []
        self._sweep_ns = self._looked = 0
        #: Whether input is left: call `turn` again before waiting.
        self.has_more = False
        try:
            self._door = self._context.socket(zmq.ROUTER)
            links.server(self._door, keyring, LIMITS)
            # No receive limit: ZeroMQ aborts the process where a socket has stopped reading at one, the peer is gone, and a
            # heartbeat of that peer is among what was received (links.py). A node sends what its window admits, and a key
            # with too much unread is cut (security/endless.py).
            self._door.setsockopt(zmq.RCVHWM, 0)
            #: Connected clients, which are not nodes.
            self.visitors = Visitors(self._door, keyring)
            self._gatekeeper = Gatekeeper(self._context, keyring, log)
            self._doorstep = Doorstep(self._door, self._gatekeeper)
            #: Listening address, with the port that was bound.
            self.address = f"{listen.rpartition(':')[0]}:{links.bind(self._door, listen).rpartition(':')[2]}"
            self._doorstep.listens()
            self._roll = Roll(self._gatekeeper, self._door)
        except BaseException:
            self._epoll.close()
            self._context.destroy(linger=0)
            raise
        #: Handlers by descriptor; and the descriptors with input left. Each is polled once before it is waited for: a
        #: descriptor of ZeroMQ's signals nothing before that.
        self._at_the_door = {
            self._gatekeeper.fileno(): self._gatekeeper.answer, self._doorstep.fileno(): self._doorstep.look,
        }  # fmt: skip
        self._unfinished = set(self._at_the_door)
        for fd in (int(self._door.getsockopt(zmq.FD)), *self._at_the_door):
            self._epoll.register(fd, select.EPOLLIN)

    def fileno(self) -> int:
        """Readable when there is input. Call `turn` until `has_more` is false before waiting for it."""
        return self._epoll.fileno()

    # -- connections that this node dials ----------------------------------------------------------------------------

    def dial(self, address: str, key: str) -> None:
        """Connect to the holder of `key` (`PublicKey` as text). Later iterations report `PeerConnected` or `Lost`."""
        self.hang_up(address)
        try:
            expected = self._keys[address] = PublicKey.parse(key)
            self._addresses.setdefault(expected.raw, set()).add(address)
            self._lines[address] = []
            self._begin(address)
        except BackplaneError as error:
            self.hang_up(address)
            self._lost.append(Lost(address, error.message))

    def _begin(self, address: str) -> None:
        """Dial one more connection to this address: the first is for urgent frames, the second for bulk."""
        with links.dialling(address):
            line = dialled(self._context, self._keyring, self._keys[address], is_bulk=bool(self._lines[address]))
        self._lines[address].append(line)
        self._by_number[line.number] = address, line
        self._monitored[line.fileno()] = address
        self._epoll.register(line.fileno(), select.EPOLLIN)
        links.connect(line.socket, address)
        self._fresh.append(address)

    def hang_up(self, address: str) -> None:
        """Close the connections to an address, and discard their queues. No event follows."""
        expected = self._keys.pop(address, None)
        if expected is not None:
            addresses = self._addresses.get(expected.raw, set())
            addresses.discard(address)
            if not addresses:
                self._addresses.pop(expected.raw, None)
        for line in self._lines.pop(address, ()):
            self._by_number.pop(line.number, None)
            fd = line.fileno()
            if self._monitored.pop(fd, None) is not None:
                self._epoll.unregister(fd)
            line.close()
        self._full.discard(address)
        for outbox in self._outboxes:
            outbox.forget(address.encode())

    def say(self, address: str, packed: bytes, *, is_bulk: bool = False, is_control: bool = False) -> bool:
        """Queue a packed envelope for an address, behind those of its class; False: not connected, or the peer does not read.

        `is_control`: messages of membership, which are small and must not wait behind other traffic.
        """
        lines = self._lines.get(address)
        which = CONTROL if is_control else BULK if is_bulk else URGENT
        return lines is not None and lines[0].is_connected and self._outboxes[which].add(address.encode(), packed)

    def say_instead(self, address: str, packed: bytes, *, is_bulk: bool) -> bool:
        """Queue a short error in the place of an answer that `say` had no room for; False: the reserve is full, too."""
        return self._outboxes[is_bulk].add_instead(address.encode(), packed)

    def give_up(self, address: str, because: str) -> None:
        """Close the connections to an address, and discard their queues; the next iteration reports it as `Lost`."""
        self.hang_up(address)
        self._lost.append(Lost(address, because))
        self.has_more = True

    def holder(self, address: str) -> Holder | None:
        """The expected holder at a dialled address, as the ring is now; None: not dialled, or the key is not in the ring."""
        key = self._keys.get(address)
        return None if key is None else self._keyring.ring.of_key(key.raw)

    def stands(self, address: str) -> bool:
        """Whether the urgent connection to this address is established."""
        return address in self._lines and self._lines[address][0].is_connected

    def flush(self, now_ns: int | None = None, *, with_stalled: bool = True) -> bool:
        """Send queued messages, urgent before bulk. Whether to offer some again in a moment, as ZeroMQ's own queue was full.

        Messages that wait for a window leave when the peer acknowledges. `now_ns`: by default that of the last iteration.
        """
        self._now_ns = self._now_ns if now_ns is None else now_ns
        if with_stalled:
            for address in self._full:
                self._reopen(address)
                self._opened.update(line.number for line in self._lines[address])
            self._full.clear()
        opened, self._opened = self._opened, set()
        for number in opened:
            address, line = self._by_number.get(number, ("", None))
            if line is None:
                continue
            if line.go_on(self._now_ns):
                self._reopen(address)
            elif line.is_full:
                self._full.add(address)
        for which in (CONTROL, URGENT, BULK):
            if self._outboxes[which]:
                self._outboxes[which].flush(self._sends[which], with_stalled=False)
        self._tell()
        is_stalled = self.visitors.flush(with_stalled=with_stalled)
        return is_stalled or bool(self._full)

    # -- input -------------------------------------------------------------------------------------------------------

    def turn(self, now_ns: int) -> Iterator[PeerConnected | Lost | Came]:
        """Yield the events since the last call, up to one iteration's work; `has_more` says whether input is left."""
        self.has_more, self._now_ns = True, now_ns  # in case the caller stops iterating early
        ready = {fd for fd, _ in self._epoll.poll(0)}
        is_more = False
        for fd, look in self._at_the_door.items():
            if fd in ready or fd in self._unfinished:
                if look(now_ns):
                    self._unfinished.add(fd)
                    is_more = True
                else:
                    self._unfinished.discard(fd)
        if now_ns - self._sweep_ns >= SWEEP_NS:
            self._sweep_ns = now_ns
            self._unfinished.update(self._at_the_door)  # refusals are summed up on time, too
            self._roll.sweep(now_ns, self._doorstep.due(now_ns), self._doorstep.waiting)
            self._leave_untrusted()
            self._leave_talkers()
        lost, self._lost = self._lost, []
        yield from lost
        fresh, self._fresh = self._fresh, []
        for address in (*fresh, *(self._monitored.get(fd, "") for fd in ready)):
            yield from self._look(address)
        for _ in range(FRAMES_MAX):
            if self._is_dropping and self._drop():
                is_more = True
                break
            if not int(self._door.getsockopt(zmq.EVENTS)) & links.POLLIN:
                break
            routing_id = self._door.recv(zmq.NOBLOCK, copy=False)
            frame = self._door.recv(zmq.NOBLOCK, copy=False)
            holder = self._roll.admit(frame)
            if frame.more:  # neither a node nor a client sends such a message
                self._is_dropping = True
                self._roll.cut(frame)
                continue
            if holder is None:
                continue
            if CLIENT.fullmatch(id := routing_id.bytes):
                if self.visitors.came(id, holder, frame):
                    yield Came(holder, frame.bytes, id.decode())
                continue
            whole = self._joining.take(holder.key.raw, frame.bytes)
            if isinstance(whole, Took):
                self._took(holder, whole, now_ns)
            elif whole is not None:
                yield Came(holder, whole)
        else:
            is_more = True
        self.has_more = is_more or bool(self._lost) or bool(self._fresh)

    def close(self, linger_ms: int = 100) -> None:
        """Send queued messages for up to `linger_ms`, and close all sockets."""
        self.flush()
        for line in chain.from_iterable(self._lines.values()):
            line.close(linger_ms)
        self._lines.clear()
        self._doorstep.close()
        self._gatekeeper.close()
        self._door.close(linger=linger_ms)  # it carries replies to clients
        self._epoll.close()
        self._context.term()

    def _drop(self) -> bool:
        """Drop further frames of a message of the wrong shape. Returns whether some are left."""
        recv = self._door.recv
        for _ in range(DROPPED_MAX):
            if not recv(zmq.NOBLOCK, copy=False).more:
                self._is_dropping = False
                break
        return self._is_dropping

    def _leave_untrusted(self) -> None:
        """Disconnect from peers whose key was revoked."""
        ring = self._keyring.ring
        if ring is self.ring:
            return
        self.ring = ring
        self._joining.keep(lambda key: (holder := ring.of_key(key)) is not None and not holder.is_revoked)
        for address, key in [*self._keys.items()]:
            holder = ring.of_key(key.raw)
            if address in self._lines and holder is not None and holder.is_revoked:
                self.give_up(address, f"the key of {holder.name!r} was revoked here")

    def _leave_talkers(self) -> None:
        """Disconnect from peers that send on a connection dialled here: the input would be kept, unread, for ever."""
        looked = self._looked = (self._looked + 1) % SWEEPS_A_LOOK
        for address, lines in [*self._lines.items()][looked::SWEEPS_A_LOOK]:
            if any(int(line.socket.getsockopt(zmq.EVENTS)) & links.POLLIN for line in lines):
                self.give_up(address, "it sends on a connection that is one-way, from this node")

    def _look(self, address: str) -> Iterator[PeerConnected | Lost]:
        lines = self._lines.get(address, [])
        for line in lines:
            while int(line.monitor.getsockopt(zmq.EVENTS)) & links.POLLIN:
                event, _ = event_of(line.monitor.recv_multipart(zmq.NOBLOCK))
                if event != STANDS:
                    self.hang_up(address)
                    yield Lost(address, ENDS.get(event, "the connection has ended"))
                    return
                line.is_connected = True
                if line is not lines[0]:  # on the urgent one a node says hello
                    line.greet(self._now_ns)
                self._reopen(address)
                if line is lines[0]:
                    self._joining.tell_again(self._keys[address].raw)
                    yield PeerConnected(address)
                    if self._lines.get(address) is not lines:
                        return

    def _send(self, which: int, peer: bytes, frame: bytes) -> SendResult:
        address = peer.decode()
        lines = self._lines.get(address)
        if lines is None:
            return SendResult.UNREACHABLE
        if which == BULK and not self._has_bulk(address, lines):
            return SendResult.FULL  # until it is established
        line = lines[which == BULK]
        sent = line.send(frame) if which == CONTROL else line.begin(frame, self._now_ns)
        if line.is_full:  # also for a frame that was begun: nothing else would continue it
            self._full.add(address)
        return sent

    def _has_bulk(self, address: str, lines: list[PeerConnection]) -> bool:
        """Whether the bulk connection is established. It is dialled with the first bulk: most peers never have any."""
        if len(lines) == 1:
            try:
                self._begin(address)
            except BackplaneError as error:
                self.give_up(address, error.message)
        return lines[-1].is_connected and len(lines) > 1

    def _took(self, holder: Holder, took: Took, now_ns: int) -> None:
        """The receiver of a connection has acknowledged more bytes."""
        address, line = self._by_number.get(took.line, ("", None))
        expected = self._keys.get(address)
        is_theirs = expected is not None and expected.raw == holder.key.raw
        if line is not None and is_theirs and line.window.took(took.total, now_ns):
            self._opened.add(took.line)

    def _tell(self) -> None:
        """Send acknowledgements that are due; those for an unreachable peer wait until it is reachable."""
        owed = self._joining.owed
        for (key, number), total in [*owed.items()]:
            for address in self._addresses.get(key, ()):
                line = self._lines[address][0]
                if not line.is_connected:
                    continue
                if line.send(Took(number, total).packed()) is SendResult.SENT:
                    owed.pop((key, number), None)
                else:
                    self._full.add(address)

    def _reopen(self, address: str) -> None:
        """Let the outboxes offer their messages for this address again."""
        for outbox in self._outboxes:
            outbox.stalled.discard(address.encode())
