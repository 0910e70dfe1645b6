"""Lane: one direction of a bad link; decides which bytes of which connection come out of it, and when.

No sockets and no clock here (those are the forwarder's): bytes and `now_ns` come in, pieces that are due go out. A piece
first waits for the wire, when there is a rate (a place in turn, and its time on the wire), and then flies for the delay.
The wire is busy by its own account, not by when somebody looked: who looks late finds done what was to be done by then,
so that the rate holds on a machine that is busy. Little waits here: without room nothing more is read, and the rest
waits where it would on a slow link, in the sender's socket.
"""

from __future__ import annotations

import enum
import math
import random
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from tests.network.faults import NOTHING_WRONG, SEGMENT_BYTES, Faults

SECOND_NS = 1_000_000_000
#: What may fly on one connection: a TCP window of a long fast link (1 Gbit/s for 60 ms).
FLYING_BYTES_MAX = 8 << 20
#: What is read at once: with 16 KiB 150 MB/s came through, with 64 KiB 185, with this 220 (a busy machine, two cores).
READ_BYTES_MAX = 256 << 10
#: The longest turn of one connection on the wire, where a segment takes less: a thousand turns a second are few enough.
TURN_NS = 1_000_000
#: A segment that is followed by three others is missed by its receiver (RFC 5681), others by the sender's clock only.
FOLLOWERS = 3
#: A round trip takes that long at least, also where no delay is asked for.
ROUND_TRIP_NS_MIN = 1_000_000


class End(enum.Enum):
    """How a direction of a connection ends, in its place behind its last byte."""

    FINISHED = enum.auto()
    RESET = enum.auto()


Piece = bytes | memoryview | End


class Waiting(NamedTuple):
    """Bytes that wait for the wire: when they came, and since when the wire could have been at work on them."""

    came_ns: int
    ready_ns: int
    data: memoryview


class Flow:
    """One direction of one connection: what waits for the wire, and what flies."""

    __slots__ = (
        "_bytes_to_flip", "_draws", "_segments_to_loss", "flying", "flying_bytes", "held_ns",
        "is_dead", "is_ended", "is_heard", "more_since_ns", "waiting", "waiting_bytes",
    )  # fmt: skip

    def __init__(self, seed: str) -> None:
        self.waiting: deque[Waiting] = deque()
        self.waiting_bytes = 0
        self.flying: deque[tuple[int, Piece]] = deque()  # due, what; none comes out before the one ahead of it
        self.flying_bytes = 0
        self.held_ns = 0
        self.more_since_ns: int | None = None  # since when its source has not run dry
        self.is_ended = False  # its source has ended: nothing more is read
        self.is_heard = False  # its end has been handed on
        self.is_dead = False  # nobody is there to take it
        self._draws = random.Random(seed)
        self._segments_to_loss = 0
        self._bytes_to_flip = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing of it is on its way."""
        return not self.waiting and not self.flying

    def draw(self, faults: Faults) -> None:
        """Where the next loss and the next flipped bit are, from here on."""
        self._segments_to_loss = self._gap(faults.loss)
        self._bytes_to_flip = self._gap(faults.corrupt)

    def _gap(self, share: float) -> int:
        """How many come until one is hit, itself included; 0: none ever is."""
        if not share:
            return 0
        return 1 + int(math.log(1.0 - self._draws.random()) / math.log(1.0 - share))

    def losses_in(self, size: int, faults: Faults) -> Iterator[int]:
        """Where in the next `size` bytes a lost segment begins."""
        done = 0
        while self._segments_to_loss and (at := done + (self._segments_to_loss - 1) * SEGMENT_BYTES) < size:
            yield at
            done = min(size, at + SEGMENT_BYTES)
            self._segments_to_loss = self._gap(faults.loss)
        if self._segments_to_loss:
            self._segments_to_loss -= -(-(size - done) // SEGMENT_BYTES)

    def flipped(self, data: memoryview, faults: Faults) -> tuple[memoryview, int]:
        """The same bytes with the bits flipped whose turn it is, and how many."""
        if not self._bytes_to_flip or self._bytes_to_flip > len(data):
            self._bytes_to_flip -= len(data) if self._bytes_to_flip else 0
            return data, 0
        changed, at, count = bytearray(data), self._bytes_to_flip - 1, 0
        while at < len(changed):
            changed[at] ^= 1 << self._draws.randrange(8)
            count += 1
            at += self._gap(faults.corrupt)
        self._bytes_to_flip = at - len(changed) + 1
        return memoryview(changed), count

    def repetitions_ns(self, faults: Faults, first_ns: int) -> int:
        """How long a loss lasts whose repair begins after `first_ns`: each repair may be lost, and is tried later then."""
        total, timeout = first_ns, int(faults.rto_s * SECOND_NS)
        while self._draws.random() < faults.loss:
            total, timeout = total + timeout, 2 * timeout
        return total


class Lane:
    """All connections in one direction of the link."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.faults = NOTHING_WRONG
        self.is_cut = False
        self.round_trip_ns = ROUND_TRIP_NS_MIN
        self.loss_count = 0
        self.flip_count = 0
        self._seed = seed
        self._flow_count = 0
        self._held_ns = 0
        self._wire_free_ns = 0
        self._turns: deque[Flow] = deque()
        self._flows: set[Flow] = set()
        self._busy: set[Flow] = set()  # those with something on its way, or held

    def flow(self) -> Flow:
        """A further connection. What happens to it is drawn from the seed and its number, whatever others do."""
        self._flow_count += 1
        flow = Flow(f"{self._seed}/{self.name}/{self._flow_count}")
        flow.draw(self.faults)
        self._flows.add(flow)
        return flow

    def drop(self, flow: Flow) -> None:
        """Forget a connection, and what of it is on its way."""
        self._forget_waiting(flow)
        flow.flying.clear()
        flow.flying_bytes = 0
        flow.is_dead = True
        self._flows.discard(flow)
        self._busy.discard(flow)

    def set(self, faults: Faults, now_ns: int) -> None:
        """From now on; what already flies arrives as it would have."""
        self.advance(now_ns)
        self.faults = faults
        for flow in self._flows:
            flow.draw(faults)
        if not faults.rate:
            while self._turns:
                flow = self._turns.popleft()
                while flow.waiting:
                    self._fly(flow, flow.waiting.popleft().data, now_ns)
                flow.waiting_bytes = 0

    def stall(self, until_ns: int) -> None:
        """Nothing moves until then: nothing is read, nothing comes out."""
        self._held_ns = max(self._held_ns, until_ns)

    def heal(self, now_ns: int) -> None:
        """No cut and no stall any more; connections that repair a loss go on doing so."""
        if self.is_cut or self._held_ns > now_ns:
            self._wire_free_ns = max(self._wire_free_ns, now_ns)
        self.is_cut, self._held_ns = False, 0

    def is_held(self, now_ns: int) -> bool:
        """Whether nothing moves."""
        return self.is_cut or now_ns < self._held_ns

    def is_plain(self, flow: Flow, now_ns: int) -> bool:
        """Whether bytes may go straight through: nothing is wrong, and nothing is before them."""
        return self.faults is NOTHING_WRONG and flow.is_empty and not self.is_held(now_ns) and now_ns >= flow.held_ns

    def room(self, flow: Flow, now_ns: int) -> int:
        """How many bytes to read from this connection now; 0 leaves them in their sender's socket."""
        room = FLYING_BYTES_MAX - flow.flying_bytes
        if room <= 0 or flow.is_ended or flow.is_dead or now_ns < flow.held_ns or self.is_held(now_ns):
            flow.more_since_ns = None  # it is not for the wire that it waits now
            return 0
        if rate := self.faults.rate:
            turn = self._turn_bytes(rate)
            queue_max = max(2 * turn, int(rate * self.faults.queue_s))
            room = min(room, queue_max - flow.waiting_bytes)
            if room < turn:
                return 0
        return min(room, READ_BYTES_MAX)

    def take(self, flow: Flow, data: memoryview, now_ns: int, *, has_more: bool = False) -> None:
        """Bytes that were read. `has_more`: their source has not run dry."""
        self._busy.add(flow)
        ready_ns = now_ns if flow.more_since_ns is None else flow.more_since_ns
        # Since then its source has never run dry: but for the room here, all that follows would have come that early.
        flow.more_since_ns = ready_ns if has_more else None
        if not self.faults.rate:
            self._fly(flow, data, now_ns)
            return
        if not flow.waiting:
            self._turns.append(flow)
        flow.waiting.append(Waiting(now_ns, ready_ns, data))
        flow.waiting_bytes += len(data)

    def end(self, flow: Flow, end: End, now_ns: int) -> None:
        """Its source has ended, behind all that was read. A reset overtakes what waits for the wire: it is lost."""
        self._busy.add(flow)
        flow.is_ended = True
        if end is End.RESET:
            self._forget_waiting(flow)
        if flow.waiting:
            flow.waiting.append(Waiting(now_ns, now_ns, memoryview(b"")))
        else:
            self._append_end(flow, end, now_ns)

    def _forget_waiting(self, flow: Flow) -> None:
        flow.waiting.clear()
        flow.waiting_bytes = 0
        if flow in self._turns:
            self._turns.remove(flow)

    def _append_end(self, flow: Flow, end: End, now_ns: int) -> None:
        flow.flying.append((now_ns + int(self.faults.delay_s * SECOND_NS), end))

    def advance(self, now_ns: int) -> None:
        """Let pass over the wire what was to have passed by now."""
        rate = self.faults.rate
        if not rate or not self._turns or self.is_held(now_ns):
            return
        turn = self._turn_bytes(rate)
        self._wire_free_ns = max(self._wire_free_ns, self._held_ns)
        while self._turns:
            flow = self._next_turn()
            sent_ns = self._sent_ns(flow.waiting[0], rate)
            if sent_ns > now_ns:
                break
            self._wire_free_ns = sent_ns
            self._pass(flow, turn, sent_ns)

    def _next_turn(self) -> Flow:
        if not self.faults.is_fair:
            first = min(self._turns, key=lambda flow: flow.waiting[0].came_ns)
            if first is not self._turns[0]:
                self._turns.remove(first)
                self._turns.appendleft(first)
        return self._turns[0]

    def _pass(self, flow: Flow, turn: int, sent_ns: int) -> None:
        """One turn of the flow that is first is over."""
        self._turns.popleft()
        came_ns, ready_ns, data = flow.waiting.popleft()
        if len(data) > turn:
            flow.waiting.appendleft(Waiting(came_ns, ready_ns, data[turn:]))
            data = data[:turn]
        flow.waiting_bytes -= len(data)
        if data:
            self._fly(flow, data, sent_ns)
        else:
            self._append_end(flow, End.FINISHED, sent_ns)
        if flow.waiting:
            self._turns.append(flow)

    def _fly(self, flow: Flow, data: memoryview, sent_ns: int) -> None:
        if not data:
            self._append_end(flow, End.FINISHED, sent_ns)
            return
        faults, delay_ns = self.faults, int(self.faults.delay_s * SECOND_NS)
        due_ns = sent_ns + delay_ns
        if faults.jitter_s:
            due_ns += int(flow._draws.random() * faults.jitter_s * SECOND_NS)
        data, flips = flow.flipped(data, faults)
        self.flip_count += flips
        begin = 0
        for at in list(flow.losses_in(len(data), faults)):
            self.loss_count += 1
            if at > begin:
                flow.flying.append((due_ns, data[begin:at]))
            is_seen = len(data) - at + flow.waiting_bytes > FOLLOWERS * SEGMENT_BYTES
            first_ns = self.round_trip_ns if is_seen else int(faults.rto_s * SECOND_NS)
            due_ns += flow.repetitions_ns(faults, first_ns)
            flow.held_ns = max(flow.held_ns, due_ns - delay_ns)
            begin = at
        flow.flying.append((due_ns, data[begin:]))
        flow.flying_bytes += len(data)

    def due(self, flow: Flow, now_ns: int) -> Piece | None:
        """What of this connection is to come out next, if it is time."""
        if not flow.flying or flow.flying[0][0] > now_ns or self.is_held(now_ns):
            return None
        return flow.flying[0][1]

    def sent(self, flow: Flow, size: int) -> None:
        """So many bytes of what was due are out (all of it, or what its receiver took), or its end is."""
        due_ns, piece = flow.flying.popleft()
        flow.flying_bytes -= size
        if not isinstance(piece, End) and size < len(piece):
            flow.flying.appendleft((due_ns, piece[size:]))

    def next_ns(self, now_ns: int) -> int | None:
        """When something is to be done next, unless something else happens before: None, if nothing is."""
        if self.is_cut:
            return None
        if now_ns < self._held_ns:
            return self._held_ns
        self._busy -= {flow for flow in self._busy if flow.is_empty and flow.held_ns <= now_ns}
        times = [flow.held_ns for flow in self._busy if flow.held_ns > now_ns]
        times += [flow.flying[0][0] for flow in self._busy if flow.flying and flow.flying[0][0] > now_ns]
        if self._turns and (rate := self.faults.rate):
            times.append(self._sent_ns(self._next_turn().waiting[0], rate))
        return min(times, default=None)

    def _sent_ns(self, first: Waiting, rate: int) -> int:
        size = min(len(first.data), self._turn_bytes(rate))
        return max(self._wire_free_ns, first.ready_ns) + size * SECOND_NS // rate

    @staticmethod
    def _turn_bytes(rate: int) -> int:
        return max(SEGMENT_BYTES, rate * TURN_NS // SECOND_NS)
