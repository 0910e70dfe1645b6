"""Lines: the TCP sockets of one node: a door that it listens at, and two lines to each address that it has dialled.

The one file of peers that knows sockets; what is decided is in node.py. A line is one way, from who dials to who listens:
what this node says leaves by a DEALER, and what it hears comes in at its door, each frame under a key that its ring trusts
(transport/security). One is for what is urgent and one for bulk; no more is on its way on either than keeps it busy
(window.py), so that what is urgent waits behind one part of a large frame at most (parts.py), and what nodes say of themselves
not even behind those of its own line. ZeroMQ connects once and never again: whoever is lost is dialled afresh, when membership
says so. What is said to one peer in a turn leaves as one frame (batching.py). A descriptor says when to look.
"""

import logging
import select
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

import zmq

from ..batching import Outbox, Sent
from ..errors import BackplaneError
from ..remote.visitors import CLIENT, Visitors
from ..security import links
from ..security.doorstep import Doorstep, event_of
from ..security.gatekeeper import Gatekeeper
from ..security.keyring import Keyring
from ..security.keys import PublicKey
from ..security.ring import Holder, Ring
from ..security.roll import Roll
from .line import ENDS, LIMITS, STANDS, Line, dialled
from .parts import Joining, Took

# A plain integer: an enum's `&` looks a member up each time, and this is asked in every turn.
_POLLIN: Final = int(zmq.POLLIN)
#: Between two looks at the ring, and at who says nothing: for so long a revoked key may still be heard.
SWEEP_NS: Final = 100_000_000
#: Who says something on a line that was dialled is found in so many of them: to look costs 5 us a line.
SWEEPS_A_LOOK: Final = 4
#: Frames taken in one turn: a frame is up to 512 envelopes, or a megabyte.
FRAMES_MAX: Final = 64
#: What is in one socket's queue that comes, frames: of a peer that keeps to its window they are 16 MiB at most.
HWM: Final = 64
#: What is urgent, bulk, and what nodes say of themselves: each has an outbox; the last goes by the line of the first.
URGENT, BULK, CONTROL = range(3)
_LOG = logging.getLogger(__name__)


class Connected(NamedTuple):
    """What was dialled stands."""

    address: str


class Lost(NamedTuple):
    """What was dialled could not be reached, or stands no more."""

    address: str
    because: str


class Came(NamedTuple):
    """A frame, and whose key it came under."""

    holder: Holder
    frame: bytes
    #: Of a client that is no node: the name of its connection (remote/visitors.py).
    client: str = ""


class Lines:
    """Not thread-safe: it belongs to the thread that looks after it."""

    def __init__(self, keyring: Keyring, listen: str, log: Callable[[str], object] = _LOG.warning) -> None:
        """`listen`: an address; with port 0, any that is free. `log`: of those who are not let in.

        Raises `InvalidArgument` and `FailedPrecondition`: no keys, files open to others, an address that is taken.
        """
        self._keyring = keyring
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=1)
        self._context.set(zmq.MAX_SOCKETS, 4_096)
        self._epoll = select.epoll()
        #: By address: for what is urgent, and for bulk, once there is some.
        self._lines: dict[str, list[Line]] = {}
        self._monitored: dict[int, str] = {}
        #: Who is expected at which address.
        self._keys: dict[str, PublicKey] = {}
        self._seen_ring = keyring.ring
        #: The same by their numbers; and the addresses at which the holder of a key is expected.
        self._by_number: dict[int, tuple[str, Line]] = {}
        self._addresses: dict[bytes, set[str]] = {}
        self._outboxes = Outbox(), Outbox(), Outbox()
        self._sends = [partial(self._send, which) for which in range(3)]
        #: Addresses of which ZeroMQ's own queue is full; lines whose window has opened.
        self._full: set[str] = set()
        self._opened: set[int] = set()
        self._joining = Joining()
        self._now_ns = 0
        self._lost: list[Lost] = []
        #: Dialled since the last turn: a descriptor says nothing before its socket was found empty once.
        self._fresh: list[str] = []
        self._sweep_ns = self._looked = 0
        #: Whether there is more to look at: take another turn before waiting.
        self.has_more = False
        try:
            self._door = self._context.socket(zmq.ROUTER)
            links.server(self._door, keyring, LIMITS)
            self._door.setsockopt(zmq.RCVHWM, HWM)
            #: Clients that are no nodes.
            self.visitors = Visitors(self._door, keyring)
            self._gatekeeper = Gatekeeper(self._context, keyring, log)
            self._doorstep = Doorstep(self._door, self._gatekeeper)
            #: Where it listens, with the port that it got.
            self.address = f"{listen.rpartition(':')[0]}:{links.bind(self._door, listen).rpartition(':')[2]}"
            self._doorstep.listens()
            self._roll = Roll(self._gatekeeper, self._door)
        except BaseException:
            self._epoll.close()
            self._context.destroy(linger=0)
            raise
        #: Who looks after which descriptor; those of which there is more to look at. Each is looked at once before it is waited
        #: for: a descriptor of ZeroMQ's says nothing before.
        self._at_the_door = {
            self._gatekeeper.fileno(): self._gatekeeper.answer, self._doorstep.fileno(): self._doorstep.look,
        }  # fmt: skip
        self._unfinished = set(self._at_the_door)
        for fd in (int(self._door.getsockopt(zmq.FD)), *self._at_the_door):
            self._epoll.register(fd, select.EPOLLIN)

    @property
    def ring(self) -> Ring:
        """Whom this node trusts, as it was at the last look."""
        return self._seen_ring

    def fileno(self) -> int:
        """Readable when there is something to look at. Take turns until `turn` says that there is no more."""
        return self._epoll.fileno()

    # -- lines that this node dials ----------------------------------------------------------------------------------

    def dial(self, address: str, key: str) -> None:
        """Connect to who has the secret of `key` (`PublicKey` as text). The next turns say what became of it."""
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
        """One more line there: the first is for what is urgent, the second for bulk."""
        with links.dialling(address):
            line = dialled(self._context, self._keyring, self._keys[address], is_bulk=bool(self._lines[address]))
        self._lines[address].append(line)
        self._by_number[line.number] = address, line
        self._monitored[line.fileno()] = address
        self._epoll.register(line.fileno(), select.EPOLLIN)
        links.connect(line.socket, address)
        self._fresh.append(address)

    def hang_up(self, address: str) -> None:
        """Close a line, with all that waits in it. Nothing more is told of it."""
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
        """Put a packed envelope behind those of its class for an address; False: it is not connected, or does not read.

        `is_control`: what nodes say of themselves; small, and not to be kept waiting by what others send.
        """
        lines = self._lines.get(address)
        which = CONTROL if is_control else BULK if is_bulk else URGENT
        return lines is not None and lines[0].is_connected and self._outboxes[which].add(address.encode(), packed)

    def say_instead(self, address: str, packed: bytes, *, is_bulk: bool) -> bool:
        """A word in the place of an answer that `say` had no room for; False: there is none for words either."""
        return self._outboxes[is_bulk].add_instead(address.encode(), packed)

    def give_up(self, address: str, because: str) -> None:
        """Close a line, with all that waits in it; the next turn tells of it as of one that was lost."""
        self.hang_up(address)
        self._lost.append(Lost(address, because))
        self.has_more = True

    def holder(self, address: str) -> Holder | None:
        """Who is expected at an address that was dialled, as the ring says now; None: nobody, or it is not dialled."""
        key = self._keys.get(address)
        return None if key is None else self._keyring.ring.of_key(key.raw)

    def stands(self, address: str) -> bool:
        """Whether it is connected."""
        return address in self._lines and self._lines[address][0].is_connected

    def flush(self, now_ns: int | None = None, *, with_stalled: bool = True) -> bool:
        """Let go what was said, what is urgent first; whether something is to be offered again in a moment, by itself.

        What waits until a peer has read what is on its way goes when it tells so. `now_ns`: by default of the last turn.
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

    # -- what happens ------------------------------------------------------------------------------------------------

    def turn(self, now_ns: int) -> Iterator[Connected | Lost | Came]:
        """What has happened since the last one, as far as it is one turn's work; `has_more` says whether it is all."""
        self.has_more, self._now_ns = True, now_ns  # should whoever asks stop in between
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
            self._unfinished.update(self._at_the_door)  # what was refused is summed up when it is time, too
            self._roll.sweep(now_ns, self._doorstep.due(now_ns), self._doorstep.waiting)
            self._leave_untrusted()
            self._leave_talkers()
        lost, self._lost = self._lost, []
        yield from lost
        fresh, self._fresh = self._fresh, []
        for address in (*fresh, *(self._monitored.get(fd, "") for fd in ready)):
            yield from self._look(address)
        for _ in range(FRAMES_MAX):
            if not int(self._door.getsockopt(zmq.EVENTS)) & _POLLIN:
                break
            parts: list[zmq.Frame] = self._door.recv_multipart(zmq.NOBLOCK, copy=False)
            holder = self._roll.admit(parts[-1])
            if holder is None or len(parts) != 2:
                continue
            if CLIENT.fullmatch(id := parts[0].bytes):
                if self.visitors.came(id, holder, parts[1]):
                    yield Came(holder, parts[1].bytes, id.decode())
                continue
            whole = self._joining.take(holder.key.raw, parts[1].bytes)
            if isinstance(whole, Took):
                self._took(holder, whole, now_ns)
            elif whole is not None:
                yield Came(holder, whole)
        else:
            is_more = True
        self.has_more = is_more or bool(self._lost) or bool(self._fresh)

    def close(self, linger_ms: int = 100) -> None:
        """Let out what was said, for so long, and let go of everything."""
        self.flush()
        for line in chain.from_iterable(self._lines.values()):
            line.close(linger_ms)
        self._lines.clear()
        self._doorstep.close()
        self._gatekeeper.close()
        self._door.close(linger=linger_ms)  # clients have their answers by it
        self._epoll.close()
        self._context.term()

    def _leave_untrusted(self) -> None:
        """Whose key was revoked is not written to either."""
        ring = self._keyring.ring
        if ring is self._seen_ring:
            return
        self._seen_ring = ring
        self._joining.keep(lambda key: (holder := ring.of_key(key)) is not None and not holder.is_revoked)
        for address, key in [*self._keys.items()]:
            holder = ring.of_key(key.raw)
            if address in self._lines and holder is not None and holder.is_revoked:
                self.give_up(address, f"the key of {holder.name!r} was revoked here")

    def _leave_talkers(self) -> None:
        """What a node says it says on its own line; what came on one of this node's would be kept, unread, for ever."""
        looked = self._looked = (self._looked + 1) % SWEEPS_A_LOOK
        for address, lines in [*self._lines.items()][looked::SWEEPS_A_LOOK]:
            if any(int(line.socket.getsockopt(zmq.EVENTS)) & _POLLIN for line in lines):
                self.give_up(address, "it says something where it is to listen")

    def _look(self, address: str) -> Iterator[Connected | Lost]:
        lines = self._lines.get(address, [])
        for line in lines:
            while int(line.monitor.getsockopt(zmq.EVENTS)) & _POLLIN:
                event, _ = event_of(line.monitor.recv_multipart(zmq.NOBLOCK))
                if event != STANDS:
                    self.hang_up(address)
                    yield Lost(address, ENDS.get(event, "the connection has ended"))
                    return
                line.is_connected = True
                if line is not lines[0]:  # on the first a node says hello
                    line.greet(self._now_ns)
                self._reopen(address)
                if line is lines[0]:
                    self._joining.tell_again(self._keys[address].raw)
                    yield Connected(address)
                    if self._lines.get(address) is not lines:
                        return

    def _send(self, which: int, peer: bytes, frame: bytes) -> Sent:
        address = peer.decode()
        lines = self._lines.get(address)
        if lines is None:
            return Sent.UNREACHABLE
        if which == BULK and not self._has_bulk(address, lines):
            return Sent.FULL  # until it stands
        line = lines[which == BULK]
        sent = line.send(frame) if which == CONTROL else line.begin(frame, self._now_ns)
        if line.is_full:  # also with a frame that has begun: nothing else would have it go on
            self._full.add(address)
        return sent

    def _has_bulk(self, address: str, lines: list[Line]) -> bool:
        """Whether the line for bulk stands; it is dialled when there is some: most peers never have any for each other."""
        if len(lines) == 1:
            try:
                self._begin(address)
            except BackplaneError as error:
                self.give_up(address, error.message)
        return lines[-1].is_connected and len(lines) > 1

    def _took(self, holder: Holder, took: Took, now_ns: int) -> None:
        """The reader of a line is further than he was."""
        address, line = self._by_number.get(took.line, ("", None))
        expected = self._keys.get(address)
        is_theirs = expected is not None and expected.raw == holder.key.raw
        if line is not None and is_theirs and line.window.took(took.total, now_ns):
            self._opened.add(took.line)

    def _tell(self) -> None:
        """Whoever has asked how much was taken in is told; who cannot be reached now is when he can."""
        owed = self._joining.owed
        for (key, number), total in [*owed.items()]:
            for address in self._addresses.get(key, ()):
                line = self._lines[address][0]
                if not line.is_connected:
                    continue
                if line.send(Took(number, total).packed()) is Sent.SENT:
                    owed.pop((key, number), None)
                else:
                    self._full.add(address)

    def _reopen(self, address: str) -> None:
        """What waits for this address is offered to its lines again."""
        for outbox in self._outboxes:
            outbox.stalled.discard(address.encode())
