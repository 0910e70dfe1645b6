"""Answers: replies to other nodes, to clients, and to processes of this system. None is lost silently.

Every call ends. The queue of a receiver that does not read is full at 32 MB; a reply beyond that is replaced by a short error,
for which there is a reserve (transport/batching.py). If that is used up as well, the connection is closed and its queue
discarded. Once it is established again its node is told that replies may be lost, and ends its calls (breaks.py). The same
happens where a reply finds no connection. The rule is kept in this file alone; the price is work done for a lost reply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from appbackplane.transport import codec
from appbackplane.transport.envelope import ITEMS, REPLY, STATUS, Envelope, instead, status
from appbackplane.transport.errors import BackplaneError, text_of
from appbackplane.transport.remote.visitors import is_client

from .breaks import Breaks

#: Characters of its message that a status keeps if it found no room.
MESSAGE_MAX = 160

#: Replies to processes of this system: the peer, the id of its call, the packed reply.
Packed = list[tuple[bytes, int, bytes]]


class NodeLines(Protocol):
    """The part of `Lines` (transport/peers/lines.py) that answers need."""

    def say(self, address: str, packed: bytes, *, is_bulk: bool = False) -> bool: ...
    def say_instead(self, address: str, packed: bytes, *, is_bulk: bool) -> bool: ...
    def stands(self, address: str) -> bool: ...
    def give_up(self, address: str, because: str) -> None: ...


class Answers:
    """The replies of one endpoint, whose thread owns it."""

    def __init__(
        self,
        address_of: Callable[[str], str | None],
        lines: NodeLines,
        breaks: Breaks,
        *,
        deliver: Callable[[Packed], None],
        say_to_client: Callable[[str, bytes], bool],
    ) -> None:
        """`address_of`: a node's address, by its name; None: not known (any more). `deliver`: has the backplane send packed
        replies to peers of its own link. `say_to_client`: sends to a client, by its connection's name; False: no room.
        """
        self._address_of, self._lines, self._breaks = address_of, lines, breaks
        self._deliver, self._say_to_client = deliver, say_to_client
        self._encoder = codec.Encoder()
        self._gathered: Packed = []
        #: Replies that found no room, or no connection.
        self.unsaid_count = 0

    def to_process(self, peer: bytes, envelope: Envelope) -> None:
        """Reply to a process of this system, at the end of the iteration."""
        self._gathered.append((peer, envelope.id, self._packed(envelope)))

    def to_node(self, name: str, envelope: Envelope, is_bulk: bool) -> bool:
        """Reply to a node or a client, by its name; to a node as bulk or not. False: a short error was sent, or nothing."""
        if is_client(name):
            return self.to_client(name, envelope)
        address = self._address_of(name)
        if address is None:
            return False  # its calls have ended there with its connection, which was closed
        lines = self._lines
        if lines.say(address, self._packed(envelope), is_bulk=is_bulk):
            return True
        self.unsaid_count += 1
        if not lines.stands(address):
            self._breaks.owe(address)
        elif not lines.say_instead(address, self._encoder.encode(_short(envelope)), is_bulk=is_bulk):
            lines.give_up(address, "it does not read its answers")
        return False

    def to_client(self, name: str, envelope: Envelope) -> bool:
        """Reply to a client of another host, by its connection's name. A client that does not read is disconnected."""
        is_said = self._say_to_client(name, self._packed(envelope))
        self.unsaid_count += not is_said
        return is_said

    def deliver(self) -> None:
        """Send the replies gathered for processes of this system."""
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            self._deliver(gathered)

    def _packed(self, envelope: Envelope) -> bytes:
        """Pack a reply, or a status with the reason if it cannot be packed: a body from another frame may be larger now.

        Any other message that cannot be packed raises `InvalidArgument`.
        """
        try:
            return self._encoder.encode(envelope)
        except BackplaneError as error:
            if envelope.kind not in (REPLY, STATUS, ITEMS):
                raise
            return self._encoder.encode(status(envelope.id, error, is_refused=envelope.is_refused))


def _short(envelope: Envelope) -> Envelope:
    """The short error in the place of a reply that did not fit; of a status its code and part of its message."""
    if envelope.kind != STATUS:
        return instead(envelope.id, "the node that asked")
    code, message, retry_after, _ = envelope.body
    short = [code, text_of(message, MESSAGE_MAX), retry_after, None]
    return Envelope(
        STATUS, envelope.id, envelope.priority, body=short, is_refused=envelope.is_refused, number=envelope.number
    )
