"""Sender: packs envelopes and queues them in the outbox; the engine flushes it.

An envelope to this backplane itself is packed and unpacked, too: whether two objects share a list must not depend on where
they live.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from appbackplane.transport import codec
from appbackplane.transport.batching import Outbox
from appbackplane.transport.envelope import Envelope, reply
from appbackplane.transport.errors import InvalidArgument, MalformedFrame

from ...objects.action import LOCAL


class Sender:
    """The outgoing envelopes of one backplane. Used under the lead."""

    def __init__(self, receive: Callable[[bytes, Envelope, int], None]) -> None:
        """`receive`: dispatches an envelope of this backplane to itself (peer, envelope, now_ns)."""
        self._receive = receive
        self.outbox = Outbox()
        self.encoder = codec.Encoder(has_signals=False)  # workers pack, and handlers run in the main thread
        #: Replies and statuses that found no room in the queue of a peer that does not read.
        self.undelivered_count = 0

    def say(self, peer: bytes, envelope: Envelope, now_ns: int) -> bool:  # hot: scripts/bench call_pipelined
        """Send one envelope. False: the peer's queue is full. Raises `InvalidArgument` if it cannot be packed."""
        if peer is LOCAL:
            self._receive(LOCAL, self.as_received(envelope), now_ns)
            return True
        return self.outbox.add(peer, self._packed(envelope))

    def say_surely(self, peer: bytes, envelope: Envelope, now_ns: int) -> bool:
        """As `say`, for a short envelope without which the peer would work or wait in vain: it may use the reserve."""
        if peer is LOCAL:
            return self.say(LOCAL, envelope, now_ns)
        return self.outbox.add_instead(peer, self.encoder.encode(envelope))

    def say_packed(self, peer: bytes, packed: bytes, now_ns: int) -> bool:
        """As `say`, for an envelope that is packed already."""
        if peer is LOCAL:
            self._receive(LOCAL, codec.decode(codec.batch([packed]))[0], now_ns)
            return True
        return self.outbox.add(peer, packed)

    def reply(self, peer: bytes, id: int, result: Any, now_ns: int) -> bool:  # hot: scripts/bench call_pipelined
        """Send a reply, as `say` does. For a remote peer no `Envelope` is constructed."""
        if peer is LOCAL:
            return self.say(LOCAL, reply(id, result), now_ns)
        return self.outbox.add(peer, self.encoder.reply(id, result))

    def answer(self, peer: bytes, id: int, packed: bytes, now_ns: int) -> None:
        """Send a packed reply or status under another call id. Counts it as undelivered if there is no room."""
        if not self.say_packed(peer, codec.renumbered(packed, id), now_ns):
            self.undelivered_count += 1

    def as_received(self, envelope: Envelope) -> Envelope:
        """The envelope as a peer would receive it: packed and unpacked. Raises `InvalidArgument` if it cannot be packed."""
        try:
            return codec.decode(codec.batch([self._packed(envelope)]))[0]
        except MalformedFrame as error:  # too complicated: as a peer would refuse it
            raise InvalidArgument(error.message) from error

    def _packed(self, envelope: Envelope) -> bytes:
        try:
            return self.encoder.encode(envelope)
        except InvalidArgument as error:
            if envelope.route is None:
                raise
            raise InvalidArgument(f"{envelope.route}: {error.message}") from error
