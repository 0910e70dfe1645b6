"""Forwarding: sends the result of a call straight to another call, which awaits it as an argument (docs/concepts/dataflow.md).

The caller of both has asked for that while the first call was outstanding here. Its reply tells the caller how many of these
wishes were carried out, the first ones first; the caller sends the other values itself. So a wish that comes too late, or that
there is no room for, needs no answer. Only values are sent on: a failure is the caller's to tell, who may retry the call.
"""

from __future__ import annotations

from typing import Final

from appbackplane.transport.envelope import Envelope, operand
from appbackplane.transport.errors import InvalidArgument

from ...objects.action import LOCAL, AcceptedCalls, Action
from .routing import Routing
from .sender import Sender

#: Wishes kept for all calls together: 150 bytes each. Beyond it the caller sends the values itself.
WANTED_MAX: Final = 65_536


class Forwarding:
    """Results of this backplane's actions that other calls await. Used under the lead."""

    def __init__(self, backplane: str, *, accepted: AcceptedCalls, routing: Routing, sender: Sender) -> None:
        self._backplane = backplane
        self._accepted = accepted
        self._routing = routing
        self._sender = sender
        #: The FORWARDs for each call, by its caller and id, the oldest first. Empty: nobody has asked for any. Others hold this
        #: dictionary, too, so it is never replaced by another.
        self.wanted: dict[tuple[bytes, int], list[Envelope]] = {}
        self._count = 0
        #: Values that were sent on.
        self.forwarded_count = 0

    def want(self, peer: bytes, envelope: Envelope) -> None:
        """The caller of a call wants its result to be sent on. Ignored for a call that has ended, or shares another's work."""
        key = (peer, envelope.id)
        action = self._accepted.get(key)
        # A call that shares the work of another one, by its idempotency key, is answered with that; and a digest is no call.
        if action is None or action.peer != peer or action.call_id != envelope.id or self._count >= WANTED_MAX:
            return
        self.wanted.setdefault(key, []).append(envelope)
        self._count += 1

    def send_on(self, action: Action, now_ns: int) -> int:
        """Send the result of an action on, which has ended well. Returns how many wishes were carried out, the first ones."""
        assert action.peer is not None
        sent_count = 0
        for wish in self.forget(action.peer, action.call_id):
            assert wish.key is not None and wish.route is not None
            peer = self._peer_of(wish.key, wish.number)
            try:
                if peer is None or not self._sender.say(peer, operand(wish.token, wish.route, action.result), now_ns):
                    break
            except InvalidArgument:  # too large with its name, or not to be sent at all: the caller hears of that
                break
            sent_count += 1
        self.forwarded_count += sent_count
        return sent_count

    def forget(self, peer: bytes, id: int) -> list[Envelope]:
        """A call has ended. Returns what was wanted of it."""
        wanted = self.wanted.pop((peer, id), [])
        self._count -= len(wanted)
        return wanted

    def _peer_of(self, backplane: str, generation: int) -> bytes | None:
        """The peer of one generation of a backplane; None: it is down."""
        place = self._routing.directory.backplanes.get(backplane)
        if place is None or not place.is_up or place.generation != generation:
            return None
        return LOCAL if backplane == self._backplane else self._routing.peer_of(backplane)
