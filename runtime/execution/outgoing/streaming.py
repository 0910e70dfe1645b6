"""Streaming: sends the items of stream actions (stream_action.py) to their readers, and hands them the readers' credit.

In the other direction it hands the items of streamed arguments to the actions that read them (reading_action.py), and returns
their credit.
"""

from __future__ import annotations

from appbackplane.transport.envelope import ARGUMENT_ITEMS, CREDIT, ITEMS, Envelope, argument_credit
from appbackplane.transport.errors import Busy

from ...objects.action import AcceptedCalls
from ..actions.reading_action import AwaitedItems, ReadingAction
from ..actions.stream_action import AwaitedCredit, StreamAction
from ..intake.remote_routes import RemoteRoutes
from .outgoing_calls import OutgoingCalls
from .sender import Sender


class Streaming:
    """Items and credit of the streams of one backplane. Used under the lead."""

    def __init__(
        self, *, accepted: AcceptedCalls, sender: Sender, outgoing: OutgoingCalls, remote: RemoteRoutes
    ) -> None:
        self._accepted = accepted
        self._sender = sender
        self._outgoing = outgoing
        self._remote = remote

    def send(self, action: StreamAction, now_ns: int) -> None:  # hot: scripts/bench streams
        """Send the items that a slice has yielded. Call it before the outcome of the slice is booked."""
        peer, request = action.peer, action.request
        is_waiting = isinstance(request, AwaitedCredit)
        while True:
            items = action.take()
            is_blocked = is_waiting and not action.has_unsent
            if not items and not is_blocked:
                break
            if peer is None:
                if is_blocked:
                    break
                continue
            packed = self._sender.encoder.items(
                action.call_id, items, action.sent_count - len(items), is_blocked=is_blocked
            )
            if not self._sender.say_packed(peer, packed, now_ns):
                action.give_up(
                    Busy(f"{action.name}: its reader does not read its messages: no room for more", retry_after=0.1)
                )
            if is_blocked:
                break
        if isinstance(request, AwaitedCredit) and action.has_room:  # credit came while the slice ended
            request.is_set = True

    def hear(self, peer: bytes, envelope: Envelope, now_ns: int) -> None:  # hot: scripts/bench streams
        """Handle items, or credit for them, of either direction."""
        kind = envelope.kind
        if kind == ITEMS:
            self._outgoing.items(peer, envelope, now_ns)
        elif kind == CREDIT:
            self.credit(peer, envelope, now_ns)
        elif kind == ARGUMENT_ITEMS:
            self.argument_items(peer, envelope, now_ns)
        else:
            self._outgoing.credited(peer, envelope, now_ns)

    def credit(self, peer: bytes, envelope: Envelope, now_ns: int) -> None:
        """The reader of a stream has read on. Credit for a call that has ended crossed with its end."""
        action = self._accepted.get((peer, envelope.id))
        if isinstance(action, StreamAction):
            action.receive_credit(envelope.body)
            request = action.request
            if isinstance(request, AwaitedCredit) and action.has_room:
                self._outgoing.set(request, now_ns)
        elif action is None and self._remote.take is not None:
            self._remote.take(peer, envelope, now_ns)

    def argument_items(self, peer: bytes, envelope: Envelope, now_ns: int) -> None:
        """Items of a streamed argument have come. Those for a call that has ended crossed with its end."""
        action = self._accepted.get((peer, envelope.id))
        if isinstance(action, ReadingAction):
            buffer = action.buffer
            if buffer.put(envelope.body, envelope.number, envelope.is_blocked) and envelope.is_last:
                buffer.end(envelope.number + len(envelope.body))
            request = action.request
            if isinstance(request, AwaitedItems) and self.give_credit(action, now_ns):
                self._outgoing.set(request, now_ns)
            elif buffer.is_ready:
                action.open_gate()
        elif action is None and self._remote.take is not None:
            self._remote.take(peer, envelope, now_ns)

    def await_items(self, action: ReadingAction, now_ns: int) -> None:
        """An action is about to wait. If it waits for items, return the credit that is due. They may have come meanwhile."""
        request = action.request
        if isinstance(request, AwaitedItems) and self.give_credit(action, now_ns):
            request.is_set = True

    def give_credit(self, action: ReadingAction, now_ns: int) -> bool:
        """The operation has read all items that have come: return credit, if it is due. Returns whether there are more now."""
        buffer, peer = action.buffer, action.peer
        credit = 0 if peer is None else buffer.credit_due()
        if (
            credit
            and peer is not None
            and self._sender.say_surely(peer, argument_credit(action.call_id, credit), now_ns)
        ):
            buffer.gave(credit)
        return buffer.is_ready
