"""Exchange: the call table of one process and its frames; it does not know the roles of its peers.

It is the lower half of a session (session.py): connections, numbered calls, packed envelopes, the outbox, and the reading of
frames. Envelopes leave at the next `flush`. The link's descriptor is edge-triggered, so after each use the link must be read
until empty before it is waited on; `has_more` tells when that is due.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from .addressing import FAREWELL, backplane_route
from .batching import Outbox
from .call_spec import CallSpec
from .calls import OutstandingCalls
from .codec import Encoder, Frame, decode, renumbered
from .connections import ANSWERS_AHEAD_MAX, Connections, LinkPort
from .directory import Place
from .envelope import Envelope, boost, cancel, cast
from .errors import Busy, DeadlineExceeded, FrameLost, InvalidArgument, MalformedFrame
from .salvage import salvage

#: Outstanding calls, and their bytes, from which a caller able to wait should wait (client.py). Throughput is flat from 1000
#: calls on. Accepting a call costs the callee about 8 us: behind so many, an urgent call of the same client is at worst 33
#: ms late. No more than the answers that are read ahead, or those beyond would be lost with their callee. Bytes are bounded
#: because both sides keep the calls that cannot be accepted yet.
OUTSTANDING_MAX, OUTSTANDING_BYTES_MAX = ANSWERS_AHEAD_MAX, 64 << 20
#: A call's token for its owner, its route, its size in bytes, and its packed envelope if it may be retried.
Call = tuple[object, str, int, bytes | None]
#: Frames read before a new routing table is adopted, while there are more: as many as four peers send ahead
#: (link.READ_AHEAD), since answers of a dead one may be among them; or four per outstanding call, as peers take turns. A
#: flood of messages must not delay the table for long.
HELD_FRAMES_MAX: Final = 256
HELD_FRAMES_PER_CALL: Final = 4


class Exchange:
    """The lower half of a session. `token`: any value that the opener of a call wants back when the call ends."""

    def __init__(self, link: LinkPort) -> None:
        self.connections = Connections(link)
        self._held_frames = self._held_frames_max = 0
        #: Whether the link must be read before it is waited on.
        self.has_more = False
        #: Envelopes put since the last flush.
        self.gathered_count = 0
        #: Frames and envelopes dropped because they were malformed.
        self.malformed_count = 0
        self.calls: OutstandingCalls[Call] = OutstandingCalls()
        #: Failed calls that wait for a retry; they count as outstanding.
        self.waiting_count = 0
        #: Of the frame received last: its sender, and its bytes per envelope.
        self.sender = b""
        self.share_bytes = 0
        #: The envelopes of that frame that its reader has not handled yet, the next one last.
        self.unread: list[Envelope] = []
        self._received: tuple[bytes, Frame] | None = None
        #: Senders of lost frames; None: the sender is unknown.
        self._lost_from: list[bytes | None] = []
        self._outstanding_bytes = 0
        self._link = link
        self._outbox = Outbox()
        self._encoder = Encoder()

    @property
    def is_stalled(self) -> bool:
        """Whether a peer does not read its frames."""
        return bool(self._outbox.stalled)

    @property
    def is_full(self) -> bool:
        """Whether so much is outstanding that further calls should wait."""
        return (
            len(self.calls) + self.waiting_count >= OUTSTANDING_MAX or self._outstanding_bytes >= OUTSTANDING_BYTES_MAX
        )

    def waits(self, size: int) -> None:
        """A failed call of `size` bytes waits for a retry; it still counts as outstanding."""
        self.waiting_count += 1
        self._outstanding_bytes += size

    def waits_no_more(self, size: int) -> None:
        """The waiting call is retried, or has ended."""
        self.waiting_count -= 1
        self._outstanding_bytes -= size

    def connected(self, name: str, place: Place) -> bytes:
        """The peer of an instance, connected if necessary."""
        peer = self.connections.peer(name)
        if peer is None:
            peer = self.connections.connect(name, place)
            self.has_more = True
        return peer

    def open(self, peer: bytes, token: object, spec: CallSpec) -> int:  # hot: scripts/bench call_rtt
        """Begin a call; returns its id. Raises `InvalidArgument` or `Busy`; then nothing has begun."""
        packed = self.pack_call(self.calls.next_id, spec)
        size = len(packed)
        id = self.calls.open(peer, spec.ends_ns, (token, spec.route, size, packed if spec.is_retried else None))
        self._outstanding_bytes += size
        try:
            self.put_packed(peer, packed)
        except Busy:
            self.end(id)
            raise
        return id

    def open_again(self, peer: bytes, token: object, ends_ns: int, route: str, packed: bytes) -> int:
        """Begin another attempt of a call from its packed bytes; returns the attempt's id. Raises `Busy`."""
        packed = renumbered(packed, self.calls.next_id)
        id = self.calls.open(peer, ends_ns, (token, route, len(packed), packed))
        self._outstanding_bytes += len(packed)
        try:
            self.put_packed(peer, packed)
        except Busy:
            self.end(id)
            raise
        return id

    def pack_call(self, id: int, spec: CallSpec) -> bytes:  # hot: scripts/bench call_rtt
        """A call in its packed form. Raises `InvalidArgument`."""
        try:
            return self._encoder.call(id, spec)
        except InvalidArgument as error:
            raise InvalidArgument(f"{spec.route}: {error.message}") from error

    def end(self, id: int, peer: bytes | None = None) -> object | None:  # hot: scripts/bench call_rtt
        """An answer has come. Returns the token of its call; None if the call has ended or `peer` is not its callee."""
        ended = self.calls.end(id, peer)
        if ended is None:
            return None
        self._outstanding_bytes -= ended[2]
        return ended[0]

    def end_call(self, id: int, peer: bytes) -> Call | None:
        """As `end`, but returns the whole `Call`."""
        ended = self.calls.end(id, peer)
        if ended is not None:
            self._outstanding_bytes -= ended[2]
        return ended

    def put(self, peer: bytes, envelope: Envelope) -> None:
        """Send an envelope at the next flush. Raises `InvalidArgument`, `Busy`."""
        self.put_packed(peer, self.pack(envelope))

    def pack(self, envelope: Envelope) -> bytes:  # hot: scripts/bench call_rtt
        """An envelope in its packed form, for one peer or many. Raises `InvalidArgument`."""
        try:
            return self._encoder.encode(envelope)
        except InvalidArgument as error:
            raise InvalidArgument(f"{envelope.route}: {error.message}") from error

    def put_packed(self, peer: bytes, packed: bytes) -> None:  # hot: scripts/bench call_rtt
        """Send a packed envelope at the next flush. Raises `Busy`."""
        if not self._outbox.add(peer, packed):
            raise Busy(f"{self.connections.name(peer)} does not read its messages: no room for more", retry_after=0.1)
        self.gathered_count += 1

    def say_farewell(self, names: Iterable[str]) -> None:
        """Tell draining backplanes that no more calls follow. The farewell arrives after all earlier calls."""
        for name in names:
            peer = self.connections.peer(name)
            if peer is not None:
                route = backplane_route(name, FAREWELL)
                with suppress(Busy):  # it does not read, and will wait for the farewell for a while
                    self.put(peer, cast(CallSpec(route, {})))

    def cancel(self, id: int) -> object | None:
        """Cancel a call; returns its token, or None if it has ended."""
        peer = self.calls.peer_of(id)
        if peer is None:
            return None
        token = self.end(id)
        self._say_cancel(peer, id)
        return token

    def boost(self, id: int, priority: int) -> None:
        """Change the priority of an outstanding call."""
        peer = self.calls.peer_of(id)
        # If there is no room, the call keeps the priority that it has.
        if peer is not None and self._outbox.add(peer, self._encoder.encode(boost(id, priority))):
            self.gathered_count += 1

    def expire(self, now_ns: int) -> list[tuple[object, DeadlineExceeded]]:
        """End overdue calls, and cancel them at their callees."""
        ended = []
        for id, peer, (token, route, size, _) in self.calls.expire(now_ns):
            self._outstanding_bytes -= size
            because = f"{route}: no answer from {self.connections.name(peer)} before the deadline"
            ended.append((token, DeadlineExceeded(because)))
            self._say_cancel(peer, id)
        return ended

    def lose(self, name: str) -> tuple[bytes | None, list[tuple[int, Call]]]:
        """A backplane is dead. Returns its former peer, and the (id, call) pairs that it held."""
        peer = self.connections.drop(name)
        if peer is None:
            return None, []
        self._outbox.forget(peer)
        self.has_more = True
        return peer, self._fail(peer)

    def abandon(self, name: str) -> list[tuple[int, Call]]:
        """End the calls that a backplane holds, without notifying it. Returns (id, call) pairs."""
        peer = self.connections.peer(name)
        return [] if peer is None else self._fail(peer)

    def flush(self) -> list[str]:  # hot: scripts/bench call_rtt
        """Offer all envelopes to the link. Returns the backplanes that cannot be reached; usually none."""
        if not self._outbox:
            self.gathered_count = 0
            return []
        if len(self.calls) > self.connections.answers_ahead:
            self.connections.expect_answers(len(self.calls))
        unreachable = self._outbox.flush(self._link.send)
        self.gathered_count = 0
        return [self.connections.name(peer) for peer in unreachable]

    def receive(self) -> bool:  # hot: scripts/bench call_rtt
        """Load `unread` with the envelopes of the next frame, which is from `sender`. False: no frame is left.

        A malformed frame is counted, and yields the envelopes that are in order, with an error in the place of each bad answer.
        After a signal's exception, the same frame is read again.
        """
        if self.unread:
            return True
        self.has_more = True
        received = self._received
        try:
            if received is None:
                received = self._received = self._link.receive()
                if received is None:
                    self.has_more = False
                    return False
            envelopes = decode(received[1])
        except FrameLost as lost:
            self._lost_from.append(lost.sender)
            return True
        except MalformedFrame:
            self.malformed_count += 1
            if received is None:  # a message of another shape
                return True
            envelopes = salvage(received[1]).heard
        self.share_bytes = len(received[1]) // max(1, len(envelopes))
        envelopes.reverse()
        self.sender, self.unread, self._received = received[0], envelopes, None
        return True

    def take_unanswered(self) -> list[tuple[int, Call]]:
        """End the calls whose answers may have been in a lost frame: all calls of its sender. Returns (id, call) pairs."""
        if not self._lost_from:
            return []
        peers = set(self.connections.peers() if None in self._lost_from else self._lost_from)
        calls = [call for peer in peers if peer is not None for call in self._fail(peer)]
        self._lost_from.clear()
        return calls

    @property
    def ahead_frames_max(self) -> int:
        """Frames after which all received answers have been read, if the peers have sent little else."""
        return max(HELD_FRAMES_MAX, HELD_FRAMES_PER_CALL * len(self.calls))

    def has_read_on(self, frames: int) -> bool:
        """Call after each turn of `frames` frames while a new routing table is pending. True once all frames received before
        it have been read (or the bound is reached), so that answers of backplanes that ended are not lost.
        """
        if not self._held_frames:
            self._held_frames_max = self.ahead_frames_max
        self._held_frames += frames
        if self.has_more and self._held_frames <= self._held_frames_max:
            return False
        self._held_frames = 0
        return True

    def _fail(self, peer: bytes) -> list[tuple[int, Call]]:
        failed = self.calls.fail_peer(peer)
        for _, call in failed:
            self._outstanding_bytes -= call[2]
        return failed

    def _say_cancel(self, peer: bytes, id: int) -> None:
        # Full: the callee checks the deadline by itself, so a lost CANCEL costs work, never a second answer.
        if self._outbox.add(peer, self._encoder.encode(cancel(id))):
            self.gathered_count += 1
