"""Outbox: all that is bound for one peer at the end of a loop turn leaves as one frame.

Coalescing is where throughput comes from (one frame a call 100-130 k/s, coalesced 660 k/s: DESIGN section 5), and
nothing waits for a batch to fill: the owner flushes whenever it would otherwise wait or start long work. A peer whose
socket is full keeps its frames here, in order, up to a bound in bytes; beyond it `flush` hands envelopes back
and the owner says so to whoever sent them. Nothing is dropped in this file.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from . import codec
from .envelope import Envelope
from .errors import InvalidArgument

#: Envelopes coalesced into one frame at most: beyond a few hundred the gain is flat, and a long frame delays its peer.
BATCH_MAX = 512
#: Bytes kept for one peer whose socket is full: beyond it a slow reader costs its senders a status, not our memory.
BACKLOG_BYTES_MAX = 32 << 20


class Sent(Enum):
    """What became of a frame offered to a link."""

    SENT = "sent"
    FULL = "full"  # the peer does not read: try later
    UNREACHABLE = "unreachable"  # no such peer, or it has gone


class Undelivered(NamedTuple):
    """Envelopes that did not leave, and why: `error` for one that cannot be encoded, else `sent` tells."""

    peer: bytes
    envelopes: list[Envelope]
    sent: Sent
    error: InvalidArgument | None = None


class _Backlog:
    __slots__ = ("bytes", "frames")

    def __init__(self) -> None:
        self.frames: deque[tuple[bytes, list[Envelope]]] = deque()
        self.bytes = 0


class Outbox:
    """Envelopes waiting for the end of the turn, a list a peer."""

    def __init__(self) -> None:
        self._pending: dict[bytes, list[Envelope]] = {}
        self._backlogs: dict[bytes, _Backlog] = {}

    def __bool__(self) -> bool:
        return bool(self._pending)

    @property
    def has_backlog(self) -> bool:
        """Whether some peer's socket was full at the last flush: the owner flushes again soon."""
        return bool(self._backlogs)

    def add(self, peer: bytes, envelope: Envelope) -> None:
        """Put one envelope behind all others for `peer`."""
        pending = self._pending.get(peer)
        if pending is None:
            self._pending[peer] = [envelope]
        else:
            pending.append(envelope)

    def forget(self, peer: bytes) -> None:
        """Drop what waits for a peer that is known to be dead; its calls have been failed by whoever says so."""
        self._pending.pop(peer, None)
        self._backlogs.pop(peer, None)

    def flush(self, send: Callable[[bytes, bytes], Sent]) -> list[Undelivered]:
        """Offer everything to `send(peer, frame)`; returns what did not leave and is not kept. Usually empty."""
        undelivered: list[Undelivered] = []
        for peer in list(self._backlogs):
            self._send_backlog(peer, send, undelivered)
        pending, self._pending = self._pending, {}
        for peer, envelopes in pending.items():
            if len(envelopes) <= BATCH_MAX:
                self._send_batch(peer, envelopes, send, undelivered)
            else:
                for start in range(0, len(envelopes), BATCH_MAX):
                    self._send_batch(peer, envelopes[start : start + BATCH_MAX], send, undelivered)
        return undelivered

    def _send_batch(
        self, peer: bytes, envelopes: list[Envelope], send: Callable[[bytes, bytes], Sent], undelivered: list[Undelivered]
    ) -> None:
        try:
            frame = codec.encode(envelopes)
        except InvalidArgument as error:
            if len(envelopes) == 1:
                undelivered.append(Undelivered(peer, envelopes, Sent.SENT, error))
            else:  # find the one that cannot travel, or halve a batch that is too large together
                middle = len(envelopes) // 2
                self._send_batch(peer, envelopes[:middle], send, undelivered)
                self._send_batch(peer, envelopes[middle:], send, undelivered)
            return
        backlog = self._backlogs.get(peer)
        sent = Sent.FULL if backlog else send(peer, frame)
        if sent is Sent.SENT:
            return
        if sent is Sent.FULL:
            backlog = backlog or _Backlog()
            if backlog.bytes + len(frame) <= BACKLOG_BYTES_MAX:
                backlog.frames.append((frame, envelopes))
                backlog.bytes += len(frame)
                self._backlogs[peer] = backlog
                return
        undelivered.append(Undelivered(peer, envelopes, sent))

    def _send_backlog(self, peer: bytes, send: Callable[[bytes, bytes], Sent], undelivered: list[Undelivered]) -> None:
        backlog = self._backlogs[peer]
        while backlog.frames:
            frame, envelopes = backlog.frames[0]
            sent = send(peer, frame)
            if sent is Sent.FULL:
                return
            backlog.frames.popleft()
            backlog.bytes -= len(frame)
            if sent is Sent.UNREACHABLE:
                undelivered.append(Undelivered(peer, envelopes, sent))
        del self._backlogs[peer]
