"""Outbox: all envelopes for one peer at the end of a turn leave as one frame.

Coalescing brings the throughput (one frame a call 100-130 k/s, coalesced 660 k/s: DESIGN section 5). Nothing waits for a
batch to fill: the owner flushes before it waits or starts long work. Envelopes arrive packed (codec.Encoder), so a batch is a
header and a join. Envelopes for a peer that does not read stay here, in order, up to a bound in bytes; there `add` returns
False, and the owner refuses the call at once (backpressure). A reserve beyond the bound holds the statuses that replace
answers. Only envelopes for a dead peer are dropped (`forget`).
"""

from collections.abc import Callable
from enum import Enum
from typing import Final

from . import codec

#: Envelopes coalesced into one frame at most: beyond a few hundred the gain is flat, and a long frame delays its peer.
BATCH_MAX: Final = 512
#: Bytes in one frame before it is cut, for the same reason; one larger envelope travels alone.
BATCH_BYTES_MAX: Final = 1 << 20
#: Bytes kept for one peer that does not read: beyond them the sender is refused, and our memory stays flat.
PEER_BYTES_MAX: Final = 32 << 20
#: Reserve for the statuses that replace answers without room: some hundred bytes each, for twice the calls that one client
#: has outstanding.
RESERVE_BYTES: Final = 2 << 20


class SendResult(Enum):
    """Result of offering a frame to a link."""

    SENT = "sent"
    FULL = "full"  # the peer does not read: try later
    UNREACHABLE = "unreachable"  # no such peer, or it has gone


# Looking up a member of an enum costs as much as looking up the envelope's queue.
_SENT: Final = SendResult.SENT
_FULL: Final = SendResult.FULL
_UNREACHABLE: Final = SendResult.UNREACHABLE


class _Pending:
    """Packed envelopes waiting for one peer, oldest first, and their bytes."""

    __slots__ = ("bytes", "envelopes", "frame", "frame_bytes", "frame_count")

    def __init__(self) -> None:
        self.envelopes: list[bytes] = []
        self.bytes = 0
        #: The frame being offered; how many of the envelopes it holds, from the oldest on, and their bytes.
        self.frame: bytes | None = None
        self.frame_count = self.frame_bytes = 0


class Outbox:
    """Packed envelopes waiting for the end of the turn, one queue per peer."""

    def __init__(self) -> None:
        self._pending: dict[bytes, _Pending] = {}
        #: An empty queue, for the next peer.
        self._spare: _Pending | None = None
        #: The peer to which a frame is being offered. It stays set if a signal's exception strikes meanwhile.
        self._offered: bytes | None = None
        #: Peers whose socket was full at the last flush: flush again soon.
        self.stalled: set[bytes] = set()

    def __bool__(self) -> bool:
        return bool(self._pending)

    def add(self, peer: bytes, packed: bytes) -> bool:  # hot: scripts/bench call_pipelined
        """Append one packed envelope to the queue of `peer`. False: the peer is at its bound, and nothing was kept."""
        pending = self._pending.get(peer)
        if pending is None:
            spare, self._spare = self._spare, None
            pending = self._pending[peer] = spare or _Pending()
        elif pending.bytes + len(packed) > PEER_BYTES_MAX:
            return False
        pending.envelopes.append(packed)
        pending.bytes += len(packed)
        return True

    def add_instead(self, peer: bytes, packed: bytes) -> bool:
        """Append a short envelope in place of an answer for which `add` had no room. False: the reserve is used up, too."""
        pending = self._pending.get(peer)
        if pending is None:
            return self.add(peer, packed)
        if pending.bytes + len(packed) > PEER_BYTES_MAX + RESERVE_BYTES:
            return False
        pending.envelopes.append(packed)
        pending.bytes += len(packed)
        return True

    def room(self, peer: bytes) -> int:
        """Bytes for which `add` has room."""
        pending = self._pending.get(peer)
        return PEER_BYTES_MAX if pending is None else PEER_BYTES_MAX - pending.bytes

    def forget(self, peer: bytes) -> None:
        """Drop the envelopes for a dead peer. The code that reports its death fails its calls."""
        self._pending.pop(peer, None)
        self.stalled.discard(peer)

    def flush(self, send: Callable[[bytes, bytes], SendResult], *, with_stalled: bool = True) -> list[bytes]:
        """Offer everything to `send(peer, frame)`. Returns the peers that cannot be reached; usually none.

        `with_stalled=False` skips peers whose socket was full the last time. A frame for a frozen peer takes 380 us to make
        (11 for another's), so an owner that flushes all the time includes them only now and then.

        A signal's exception (Ctrl-C) may leave `send` at any point. The next flush then offers the same frame, the same
        object, before all others: only `send` knows how much of it has left (link.py).
        """
        unreachable: list[bytes] = []
        for peer in self._peers():
            pending = self._pending.get(peer)
            if pending is None or (not with_stalled and peer in self.stalled):
                continue
            self._offered = peer
            sent = _send_all(peer, pending, send)
            self._offered = None
            if sent is _FULL:
                self.stalled.add(peer)
                continue
            del self._pending[peer]
            if self.stalled:
                self.stalled.discard(peer)
            if sent is _UNREACHABLE:
                unreachable.append(peer)
            else:
                self._spare = pending
        return unreachable

    def _peers(self) -> list[bytes]:
        """Peers with waiting envelopes; first the peer that was being offered a frame when a signal's exception struck."""
        peers = list(self._pending)
        if self._offered is not None:
            peers.insert(0, self._offered)
        return peers


def _send_all(peer: bytes, pending: _Pending, send: Callable[[bytes, bytes], SendResult]) -> SendResult:
    envelopes = pending.envelopes
    while envelopes:
        frame = pending.frame
        if frame is None:
            frame = _make_frame(pending)
        sent = send(peer, frame)
        # Call nothing from here until the envelopes are out of the queue: a signal's exception would strike at the call, and
        # they would be sent again.
        pending.frame = None
        if sent is not _SENT:
            return sent
        del envelopes[: pending.frame_count]
        pending.bytes -= pending.frame_bytes
    return _SENT


def _make_frame(pending: _Pending) -> bytes:
    envelopes, size = pending.envelopes, pending.bytes
    count = len(envelopes)
    if count > BATCH_MAX or size > BATCH_BYTES_MAX:  # usually one frame takes it all
        size = count = 0
        for packed in envelopes:
            if count and (size + len(packed) > BATCH_BYTES_MAX or count == BATCH_MAX):
                break
            size += len(packed)
            count += 1
        envelopes = envelopes[:count]
    frame = codec.batch(envelopes)
    pending.frame_count, pending.frame_bytes, pending.frame = count, size, frame
    return frame
