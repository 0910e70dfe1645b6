"""Answers: what goes back to those who asked, other nodes and processes of this system. None is lost without a word.

Every call ends. The queue of one who does not read is full at 32 MB; what would be beyond that is replaced by a word that says
so, for which there is a reserve (transport/batching.py). Should that be used up as well, the line is given up with all that
waits in it: once it stands again its node is told that answers may be lost, and ends its calls (breaks.py). So it is where
an answer finds no line. Held here and nowhere else; the price is work that was done for an answer that nobody took.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from appbackplane.transport import codec
from appbackplane.transport.envelope import REPLY, STATUS, Envelope, instead, status
from appbackplane.transport.errors import BackplaneError, text_of
from appbackplane.transport.remote.visitors import is_client

from .breaks import Breaks

#: Of a status that found no room, so much of its message is said all the same.
MESSAGE_MAX = 160

#: To processes of this system: who, which of his calls, the answer packed.
Packed = list[tuple[bytes, int, bytes]]


class NodeLines(Protocol):
    """What answers need of `lines.Lines`, whose words these are."""

    def say(self, address: str, packed: bytes, *, is_bulk: bool = False) -> bool:
        """Put a packed envelope behind those before; False: there is no room, or no line."""

    def say_instead(self, address: str, packed: bytes, *, is_bulk: bool) -> bool:
        """A word in the place of one for which there was no room."""

    def stands(self, address: str) -> bool:
        """Whether there is a line."""

    def give_up(self, address: str, because: str) -> None:
        """Close it, with all that waits in it."""


class Answers:
    """Of one endpoint, whose thread it belongs to."""

    def __init__(
        self,
        address_of: Callable[[str], str | None],
        lines: NodeLines,
        breaks: Breaks,
        *,
        deliver: Callable[[Packed], None],
        say_to_client: Callable[[str, bytes], bool],
    ) -> None:
        """`address_of`: a node, by its name; None: it is not known (any more). `deliver`: has the backplane send what is packed
        to peers of its own link. `say_to_client`: to who is no node, by the name of his connection; False: there is no room.
        """
        self._address_of, self._lines, self._breaks = address_of, lines, breaks
        self._deliver, self._say_to_client = deliver, say_to_client
        self._encoder = codec.Encoder()
        self._gathered: Packed = []
        #: Answers that found no room, or no line.
        self.unsaid_count = 0

    def to_process(self, peer: bytes, envelope: Envelope) -> None:
        """To a process of this system, at the end of the turn."""
        self._gathered.append((peer, envelope.id, self._packed(envelope)))

    def to_node(self, name: str, envelope: Envelope, is_bulk: bool) -> None:
        """To a node, by its name, on the line for bulk or not."""
        if is_client(name):
            self.to_client(name, envelope)
            return
        address = self._address_of(name)
        if address is None:
            return  # what it asked has ended there with its line, which was hung up on
        lines = self._lines
        if lines.say(address, self._packed(envelope), is_bulk=is_bulk):
            return
        self.unsaid_count += 1
        if not lines.stands(address):
            self._breaks.owe(address)
        elif not lines.say_instead(address, self._encoder.encode(_short(envelope)), is_bulk=is_bulk):
            lines.give_up(address, "it does not read its answers")

    def to_client(self, name: str, envelope: Envelope) -> None:
        """To a client of another host, by the name of its connection. Who does not read is hung up on, and knows so."""
        if not self._say_to_client(name, self._packed(envelope)):
            self.unsaid_count += 1

    def deliver(self) -> None:
        """Let go what was gathered for processes of this system."""
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            self._deliver(gathered)

    def _packed(self, envelope: Envelope) -> bytes:
        """Pack an answer, or a status with the reason if it cannot be packed: what came in another frame may be larger now.

        Any other message that cannot be packed raises `InvalidArgument`.
        """
        try:
            return self._encoder.encode(envelope)
        except BackplaneError as error:
            if envelope.kind != REPLY and envelope.kind != STATUS:
                raise
            return self._encoder.encode(status(envelope.id, error, is_refused=envelope.is_refused))


def _short(envelope: Envelope) -> Envelope:
    """What is said in the place of an answer: that it did not fit; of a status its essence."""
    if envelope.kind != STATUS:
        return instead(envelope.id, "the node that asked")
    code, message, retry_after, _ = envelope.body
    short = [code, text_of(message, MESSAGE_MAX), retry_after, None]
    return Envelope(STATUS, envelope.id, body=short, is_refused=envelope.is_refused)
