"""Exchange: calls and messages between one process and those it connects to; which of them is what, it does not know.

Below the session (session.py): connections, numbered calls, packed envelopes, the outbox, and the reading of frames.
What is put leaves at the next `flush`. After whatever touches the link it must be read until empty before it is waited
on, because its descriptor is edge-triggered: `has_more` says when that is due.
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

#: Calls outstanding, and bytes of them, from which on whoever can wait should (client.py). Throughput is flat from 1000
#: calls on. Taking calls in costs the callee about 8 us each: with so many on their way to it, an urgent call of the same
#: client is 33 ms late at the worst. No more than answers are read ahead, or those beyond would be lost with their callee.
#: Bytes: what cannot be taken in yet is kept by both sides.
OUTSTANDING_MAX, OUTSTANDING_BYTES_MAX = ANSWERS_AHEAD_MAX, 64 << 20
#: What its owner wants back; the route; the bytes that it takes; and these themselves, if it may be made again.
Call = tuple[object, str, int, bytes | None]
#: Frames that are read before a directory that has come is followed, while there are more: what four peers have sent ahead
#: (link.READ_AHEAD), since answers of one that has ended may be among them; or four a call that is outstanding, as peers
#: take turns. A flood of topics must not put it off for long.
HELD_FRAMES_MAX: Final = 256
HELD_FRAMES_PER_CALL: Final = 4


class Exchange:
    """The lower half of a session. `token` is whatever the opener of a call wants back when it ends."""

    def __init__(self, link: LinkPort) -> None:
        self.connections = Connections(link)
        self._held_frames = self._held_frames_max = 0
        #: Whether the link must be read before it is waited on.
        self.has_more = False
        #: Envelopes put since the last flush.
        self.gathered_count = 0
        #: Frames and envelopes that made no sense and were dropped.
        self.malformed_count = 0
        self.calls: OutstandingCalls[Call] = OutstandingCalls()
        #: Calls that have failed and wait to be made again: they take their place.
        self.waiting_count = 0
        #: Of the frame that was received last: whose it is, and how many bytes an envelope.
        self.sender = b""
        self.share_bytes = 0
        #: The envelopes of that frame that its reader has not done with yet, the next one last.
        self.unread: list[Envelope] = []
        self._received: tuple[bytes, Frame] | None = None
        #: Peers of which a frame has been lost; None: of one that is not known.
        self._lost_from: list[bytes | None] = []
        self._outstanding_bytes = 0
        self._link = link
        self._outbox = Outbox()
        self._encoder = Encoder()

    @property
    def is_stalled(self) -> bool:
        """Whether somebody does not read what is bound for them."""
        return bool(self._outbox.stalled)

    @property
    def is_full(self) -> bool:
        """Whether so much is outstanding that more should wait."""
        return (
            len(self.calls) + self.waiting_count >= OUTSTANDING_MAX or self._outstanding_bytes >= OUTSTANDING_BYTES_MAX
        )

    def waits(self, size: int) -> None:
        """A call of so many bytes has failed, and waits to be made again: it takes its place all the same."""
        self.waiting_count += 1
        self._outstanding_bytes += size

    def waits_no_more(self, size: int) -> None:
        """It is made again, or has ended."""
        self.waiting_count -= 1
        self._outstanding_bytes -= size

    def connected(self, name: str, place: Place) -> bytes:
        """The peer that a place is, connected if need be."""
        peer = self.connections.peer(name)
        if peer is None:
            peer = self.connections.connect(name, place)
            self.has_more = True
        return peer

    def open(self, peer: bytes, token: object, spec: CallSpec) -> int:  # hot: scripts/bench call_rtt
        """Begin a call; returns its id. Raises `InvalidArgument`, `Busy`; then nothing has begun."""
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
        """Begin one again that has been packed before. Raises `Busy`."""
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
        """A call as it travels. Raises `InvalidArgument`."""
        try:
            return self._encoder.call(id, spec)
        except InvalidArgument as error:
            raise InvalidArgument(f"{spec.route}: {error.message}") from error

    def end(self, id: int, peer: bytes | None = None) -> object | None:  # hot: scripts/bench call_rtt
        """An answer has come: the token of its call, or None for one that had ended, or that `peer` does not hold."""
        ended = self.calls.end(id, peer)
        if ended is None:
            return None
        self._outstanding_bytes -= ended[2]
        return ended[0]

    def end_call(self, id: int, peer: bytes) -> Call | None:
        """`end`, with all there is to know of the call."""
        ended = self.calls.end(id, peer)
        if ended is not None:
            self._outstanding_bytes -= ended[2]
        return ended

    def put(self, peer: bytes, envelope: Envelope) -> None:
        """Let an envelope leave at the next flush. Raises `InvalidArgument`, `Busy`."""
        self.put_packed(peer, self.pack(envelope))

    def pack(self, envelope: Envelope) -> bytes:  # hot: scripts/bench call_rtt
        """An envelope as it travels, for one peer or many. Raises `InvalidArgument`."""
        try:
            return self._encoder.encode(envelope)
        except InvalidArgument as error:
            raise InvalidArgument(f"{envelope.route}: {error.message}") from error

    def put_packed(self, peer: bytes, packed: bytes) -> None:  # hot: scripts/bench call_rtt
        """Let what `pack` gave leave at the next flush. Raises `Busy`."""
        if not self._outbox.add(peer, packed):
            raise Busy(f"{self.connections.name(peer)} does not read its messages: no room for more", retry_after=0.1)
        self.gathered_count += 1

    def say_farewell(self, names: Iterable[str]) -> None:
        """These are drained: from now on we ask elsewhere. It comes there after all that we have asked."""
        for name in names:
            peer = self.connections.peer(name)
            if peer is not None:
                route = backplane_route(name, FAREWELL)
                with suppress(Busy):  # it does not read; then it waits for us for a while
                    self.put(peer, cast(CallSpec(route, {})))

    def cancel(self, id: int) -> object | None:
        """Take a call back; returns its token, or None when it has ended."""
        peer = self.calls.peer_of(id)
        if peer is None:
            return None
        token = self.end(id)
        self._say_cancel(peer, id)
        return token

    def boost(self, id: int, priority: int) -> None:
        """Have a call that is outstanding done at this priority from now on."""
        peer = self.calls.peer_of(id)
        # Full: then it is done at the priority that it has, as it would be without.
        if peer is not None and self._outbox.add(peer, self._encoder.encode(boost(id, priority))):
            self.gathered_count += 1

    def expire(self, now_ns: int) -> list[tuple[object, DeadlineExceeded]]:
        """End what is overdue, and tell those who were to do it."""
        ended = []
        for id, peer, (token, route, size, _) in self.calls.expire(now_ns):
            self._outstanding_bytes -= size
            because = f"{route}: no answer from {self.connections.name(peer)} before the deadline"
            ended.append((token, DeadlineExceeded(because)))
            self._say_cancel(peer, id)
        return ended

    def lose(self, name: str) -> tuple[bytes | None, list[tuple[int, Call]]]:
        """A place is dead: (the peer that it was, the ids and the calls that it held)."""
        peer = self.connections.drop(name)
        if peer is None:
            return None, []
        self._outbox.forget(peer)
        self.has_more = True
        return peer, self._fail(peer)

    def abandon(self, name: str) -> list[tuple[int, Call]]:
        """The ids and the calls that a place holds; they end here, and it is not told."""
        peer = self.connections.peer(name)
        return [] if peer is None else self._fail(peer)

    def flush(self) -> list[str]:  # hot: scripts/bench call_rtt
        """Offer all that was put to the link. Returns the places that cannot be reached; usually none."""
        if not self._outbox:
            self.gathered_count = 0
            return []
        if len(self.calls) > self.connections.answers_ahead:
            self.connections.expect_answers(len(self.calls))
        unreachable = self._outbox.flush(self._link.send)
        self.gathered_count = 0
        return [self.connections.name(peer) for peer in unreachable]

    def receive(self) -> bool:  # hot: scripts/bench call_rtt
        """Have `unread` hold the envelopes of the next frame, which is from `sender`. False: there is no frame left.

        Of a malformed frame there are none, and it is counted. Should a signal's exception strike, the same frame is next.
        """
        if self.unread:
            return True
        self.has_more = True
        try:
            received = self._received
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
            self._received = None
            return True
        self.share_bytes = len(received[1]) // max(1, len(envelopes))
        envelopes.reverse()
        self.sender, self.unread, self._received = received[0], envelopes, None
        return True

    def take_unanswered(self) -> list[tuple[int, Call]]:
        """End the calls whose answers may have been in a frame that is lost: all that its sender held. Their ids, and they."""
        if not self._lost_from:
            return []
        peers = set(self.connections.peers() if None in self._lost_from else self._lost_from)
        calls = [call for peer in peers if peer is not None for call in self._fail(peer)]
        self._lost_from.clear()
        return calls

    @property
    def ahead_frames_max(self) -> int:
        """Frames after which all answers that have come are read, if the peers have sent little else."""
        return max(HELD_FRAMES_MAX, HELD_FRAMES_PER_CALL * len(self.calls))

    def has_read_on(self, frames: int) -> bool:
        """Asked after each turn of so many `frames` since a directory came: whether what came with it has been read, and so
        what a place answered before it ended.
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
