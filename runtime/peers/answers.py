"""Answers: what goes back to those who asked, other nodes and processes of this system. None is lost without a word.

Every call ends. The queue of one who does not read is full at 32 MB; what would be beyond that is replaced by a word that says
so, for which there is a reserve (transport/batching.py). Should that be used up as well, the line is given up with all that
waits in it: once it stands again its node is told that answers may be lost, and ends its calls (breaks.py). So it is where
an answer finds no line. Held here and nowhere else; the price is work that was done for an answer that nobody took.
"""

from __future__ import annotations

from collections.abc import Callable

from appbackplane.transport import codec
from appbackplane.transport.envelope import REPLY, STATUS, Envelope, instead, status
from appbackplane.transport.errors import BackplaneError, text_of
from appbackplane.transport.peers.lines import Lines
from appbackplane.transport.peers.node import PeerNode

from .breaks import Breaks

#: Of a status that found no room, so much of its message is said all the same.
MESSAGE_MAX = 160

#: To processes of this system: who, which of his calls, the answer packed.
Packed = list[tuple[bytes, int, bytes]]


class Answers:
    """Of one endpoint, whose thread it belongs to."""

    def __init__(self, node: PeerNode, lines: Lines, breaks: Breaks, deliver: Callable[[Packed], None]) -> None:
        """`deliver`: has the backplane send what is packed to peers of its own link."""
        self._node, self._lines, self._breaks = node, lines, breaks
        self._deliver = deliver
        self._encoder = codec.Encoder()
        self._gathered: Packed = []
        #: Answers that found no room, or no line.
        self.unsaid_count = 0

    def to_process(self, peer: bytes, envelope: Envelope) -> None:
        """To a process of this system, at the end of the turn."""
        self._gathered.append((peer, envelope.id, self._packed(envelope)))

    def to_node(self, name: str, envelope: Envelope, is_bulk: bool) -> None:
        """To a node, by its name, on the line for bulk or not."""
        peer = self._node.membership.view.get(name)
        if peer is None:
            return  # what it asked has ended there with its line, which was hung up on
        lines, address = self._lines, peer.address
        if lines.say(address, self._packed(envelope), is_bulk=is_bulk):
            return
        self.unsaid_count += 1
        if not lines.stands(address):
            self._breaks.owe(address)
        elif not lines.say_instead(address, self._encoder.encode(_short(envelope)), is_bulk=is_bulk):
            lines.give_up(address, "it does not read its answers")

    def deliver(self) -> None:
        """Let go what was gathered for processes of this system."""
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            self._deliver(gathered)

    def _packed(self, envelope: Envelope) -> bytes:
        """Of an answer that came but cannot go on (packed again it may be larger) the reason."""
        try:
            return self._encoder.encode(envelope)
        except BackplaneError as error:
            if envelope.kind != REPLY:
                raise
            return self._encoder.encode(status(envelope.id, error))


def _short(envelope: Envelope) -> Envelope:
    """What is said in the place of an answer: that it did not fit; of a status its essence."""
    if envelope.kind != STATUS:
        return instead(envelope.id, "the node that asked")
    code, message, retry_after, _ = envelope.body
    return Envelope(
        STATUS, envelope.id, route=envelope.route, body=[code, text_of(message, MESSAGE_MAX), retry_after, None]
    )
