"""Streaming: sends the items of stream actions (stream_action.py) to their readers, and hands them the readers' credit."""

from __future__ import annotations

from collections.abc import Callable

from appbackplane.transport import codec
from appbackplane.transport.batching import Outbox
from appbackplane.transport.envelope import Envelope
from appbackplane.transport.errors import Busy

from ..objects.action import LOCAL, AcceptedCalls
from .outgoing_calls import OutgoingCalls
from .remote_routes import RemoteRoutes
from .stream_action import AwaitedCredit, StreamAction


class Streaming:
    """Items and credit of the streams of one backplane. Used under the lead."""

    def __init__(
        self, *, accepted: AcceptedCalls, outbox: Outbox, encoder: codec.Encoder, outgoing: OutgoingCalls,
        remote: RemoteRoutes, receive: Callable[[bytes, Envelope, int], None],
    ) -> None:  # fmt: skip
        """`receive`: dispatches an envelope of this backplane to itself (peer, envelope, now_ns)."""
        self._accepted = accepted
        self._outbox = outbox
        self._encoder = encoder
        self._outgoing = outgoing
        self._remote = remote
        self._receive = receive

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
            packed = self._encoder.items(action.call_id, items, action.sent_count - len(items), is_blocked=is_blocked)
            if peer is LOCAL:
                self._receive(LOCAL, codec.decode(codec.batch([packed]))[0], now_ns)
            elif not self._outbox.add(peer, packed):
                action.give_up(
                    Busy(f"{action.name}: its reader does not read its messages: no room for more", retry_after=0.1)
                )
            if is_blocked:
                break
        if isinstance(request, AwaitedCredit) and action.has_room:  # credit came while the slice ended
            request.is_set = True

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
