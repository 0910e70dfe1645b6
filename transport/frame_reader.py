"""Frame reader: the received envelopes of a session, frame by frame, even if a signal's exception strikes while it reads."""

from typing import Final

from .codec import Frame, decode
from .connections import Connections, LinkPort
from .envelope import Envelope
from .errors import FrameLost, MalformedFrame
from .salvage import salvage

#: Frames read, at most, before a new routing table is adopted, since answers of a dead peer may be among them: what four peers
#: send ahead (link.READ_AHEAD), or four per outstanding call if that is more, as peers take turns. Without a bound, a flood of
#: messages would delay the table for long.
HELD_FRAMES_MAX: Final = 256
HELD_FRAMES_PER_CALL: Final = 4


class FrameReader:
    """Part of a session; it does not know the roles of the peers."""

    def __init__(self, link: LinkPort, connections: Connections) -> None:
        self._link = link
        self._connections = connections
        #: Of the frame received last: its sender, and its bytes per envelope.
        self.sender = b""
        self.share_bytes = 0
        #: The envelopes of that frame that its reader has not handled yet, the next one last.
        self.unread: list[Envelope] = []
        #: Frames and envelopes dropped because they were malformed.
        self.malformed_count = 0
        self._received: tuple[bytes, Frame] | None = None
        #: Senders of lost frames, for the reader to end their calls and clear; None: the sender is unknown.
        self.lost_from: list[bytes | None] = []
        self._held_frames = self._held_frames_max = 0

    def receive(self) -> bool:  # hot: scripts/bench call_rtt
        """Load `unread` with the envelopes of the next frame, which is from `sender`. False: no frame is left.

        A malformed frame is counted, and yields the envelopes that are in order, with an error in the place of each bad answer.
        After a signal's exception, the same frame is read again.
        """
        if self.unread:
            return True
        self._connections.has_more = True
        received = self._received
        try:
            if received is None:
                received = self._received = self._link.receive()
                if received is None:
                    self._connections.has_more = False
                    return False
            envelopes = decode(received[1])
        except FrameLost as lost:
            self.lost_from.append(lost.sender)
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

    def lost_peers(self) -> list[bytes]:
        """The peers whose frames were lost: all, if a sender is unknown."""
        if None in self.lost_from:
            return self._connections.peers()
        return [peer for peer in dict.fromkeys(self.lost_from) if peer is not None]

    def has_read_on(self, frames: int, calls_count: int) -> bool:
        """Call after each turn of `frames` frames while a new routing table is pending. True once all frames received before
        it have been read (or the bound is reached), so that answers of backplanes that ended are not lost.
        """
        if not self._held_frames:
            self._held_frames_max = ahead_frames_max(calls_count)
        self._held_frames += frames
        if self._connections.has_more and self._held_frames <= self._held_frames_max:
            return False
        self._held_frames = 0
        return True


def ahead_frames_max(calls_count: int) -> int:
    """Frames after which all answers received so far have been read, if the peers have sent little else."""
    return max(HELD_FRAMES_MAX, HELD_FRAMES_PER_CALL * calls_count)
