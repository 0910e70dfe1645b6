"""Inheritance: what stands in the way of more urgent work takes over its priority, and hands it on (law 10).

Three things stand in the way of a request that has queued behind them: the action its object runs (presence.py gives its
thread the nice), the action its object has suspended until a reply comes, and whoever works on that reply: here or in
another backplane, which is told (BOOST), tells the next, and so on to the end of the chain. An action keeps what it has
inherited until it ends. Nothing is sent where nothing changes, so a chain costs one small envelope a link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from appbackplane.transport.envelope import BOOST, Envelope

from ..objects.action import LOCAL, Action, ParkableAction
from ..objects.app_object import AppObject
from .coroutines import CallRequest
from .method_action import MethodAction

if TYPE_CHECKING:
    from .engine import Engine


class Inheritance:
    """Part of the engine: whoever holds the lead owns it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # By identity: an object may compare equal to others, or be unhashable (a dataclass).
        self._awaiting: dict[int, list[Action]] = {}
        #: Those that wait in their threads, among those that await.
        self.blocked_count = 0
        #: Actions that have inherited a priority.
        self.count = 0

    def awaits(self, action: Action) -> None:
        """`action` is about to await something: with whatever has queued behind it since it began."""
        object = action.object
        if object._head is not None and object._priority < action.priority:
            action.priority = object._priority
            self.count += 1
        self._awaiting.setdefault(id(object), []).append(action)

    def goes_on(self, action: Action) -> None:
        """It awaits no more."""
        waiting = self._awaiting.get(id(action.object))
        if waiting is not None and action in waiting:
            waiting.remove(action)
            if not waiting:
                del self._awaiting[id(action.object)]

    def waiting(self, object: AppObject) -> Action | None:
        """What of an object has been waiting longest for something, be it a reply."""
        waiting = self._awaiting.get(id(object))
        return waiting[0] if waiting else None

    def queued(self, action: Action, now_ns: int) -> None:  # hot: scripts/bench call_pipelined
        """Something has been posted: perhaps its object awaits something, and it has queued behind that."""
        if (action.object._waits or self.blocked_count) and not action.continues:
            for waiting in tuple(self._awaiting.get(id(action.object), ())):  # one that is boosted may go on
                self.boost(waiting, action.priority, now_ns)

    def boost(self, action: Action, priority: int, now_ns: int) -> None:
        """`action` stands in the way of work of this priority, and with it whatever it waits for.

        Here one after the other, since a chain may be as long as there are objects.
        """
        in_the_way: list[Action] = [action]
        while in_the_way:
            each = in_the_way.pop()
            if each.priority <= priority:
                continue
            self._engine.scheduler.boost(each, priority)
            self.count += 1
            if isinstance(each, MethodAction) and each.awaiting_id:
                in_the_way += self._hand_on(each, priority, now_ns)
            elif isinstance(each, ParkableAction):
                each.boosted()
                in_the_way += each.waits_for()
                in_the_way += self._awaiting.get(id(each.object), ())
            else:
                in_the_way += self._awaiting.get(id(each.object), ())

    def _hand_on(self, action: MethodAction, priority: int, now_ns: int) -> list[Action]:
        """Hurry what `action` awaits: another backplane is told; what is here is for the caller."""
        engine, id = self._engine, action.awaiting_id
        peer = engine.outgoing.calls.peer_of(id)
        if peer is None or not isinstance(action.request, CallRequest):
            return []  # the clock cannot be hurried
        if engine.outgoing.is_nobody(peer):
            return []  # its next attempt will say so
        if peer is LOCAL:
            awaited = engine.intake.accepted.get((LOCAL, id))
            return [] if awaited is None else [awaited]
        engine.say(peer, Envelope(BOOST, id, priority), now_ns)
        place = engine.outgoing.place_of(peer)
        if place is not None:
            engine.presence.lend(place, priority, now_ns)
        return []
