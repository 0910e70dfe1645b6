"""Inheritance: what stands in the way of more urgent work takes over its priority, hands it on, and gives it back (law 10).

Three things stand in the way of a request that has queued behind them: the action its object runs (presence.py gives its
thread the nice), the action its object has suspended until a reply comes, and whatever works on that reply: here or in
another backplane, which is told (BOOST), tells the next, and so on to the end of the chain. When the request is taken back,
each of them falls back to the most urgent of what still waits for it, and the chain is told in the same way. Nothing is sent
where nothing changes, so a chain costs one small envelope a link and change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from appbackplane.transport.envelope import boost

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
        #: How often an action has inherited a priority.
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

    def awaiting(self, object: AppObject) -> tuple[Action, ...]:
        """The actions of an object that await something, the oldest first."""
        return tuple(self._awaiting.get(id(object), ()))

    def queued(self, action: Action, now_ns: int) -> None:  # hot: scripts/bench call_pipelined
        """Something has been posted: perhaps its object awaits something, and it has queued behind that."""
        if (action.object._waits or self.blocked_count) and not action.continues:
            for waiting in self.awaiting(action.object):  # one that is boosted may go on
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
            self._engine.scheduler.set_priority(each, priority)
            self.count += 1
            awaited = self._awaited(each, now_ns)
            in_the_way += self.awaiting(each.object) if awaited is None else awaited

    def changed(self, action: Action, now_ns: int) -> None:
        """What `action` has by its caller has changed: it becomes more urgent, or less, and so does whatever it waits for."""
        due = self._due(action)
        if due < action.priority:
            self.boost(action, due, now_ns)
        else:
            self.settle([action], now_ns)

    def left(self, action: Action, now_ns: int) -> None:
        """`action` has left the queue of its object without having run: what it has lent its priority to may fall back."""
        if self.count:  # else nobody has ever inherited anything
            begun = self._begun(action.object)
            self.settle([each for each in begun if action.priority <= each.priority < each.priority_own], now_ns)

    def settle(self, actions: Sequence[Action], now_ns: int) -> None:
        """Less may wait for `actions` than before: each falls back to the most urgent that still does, and hands it on."""
        falling = [*actions]
        while falling:
            each = falling.pop()
            due = self._due(each)
            if due <= each.priority:
                continue
            self._engine.scheduler.set_priority(each, due)
            if each.throttle is not None:
                each.throttle.may_be_refused(due)
            falling += self._awaited(each, now_ns) or ()
            falling += self._begun(each.object)

    def call_priority(self, action: Action, explicit: int | None) -> int:
        """The priority that a call of `action` carries, where the operation has given it an `explicit` one or None.

        Once the action has inherited, its call is at least as urgent as itself: whatever waits for it waits for the call, too.
        """
        if explicit is None:
            return action.priority
        has_inherited = action.priority < lent(action.priority_asked, action.object)
        return min(explicit, action.priority) if has_inherited else explicit

    # -- steps --------------------------------------------------------------------------------------------------------

    def _due(self, action: Action) -> int:
        """The priority that an action should have: its own, or that of the most urgent which waits for it."""
        due, replays = action.priority_own, self._engine.intake.replays
        for behind in (action.urgency_behind(), replays.urgency_behind(action) if replays.running else None):
            if behind is not None and behind < due:
                due = behind
        here, most_urgent = action.object._head, action.object._priority
        if here is None or most_urgent >= due or not self._has_begun(action):
            return due
        if not here.continues:
            return most_urgent
        while here is not None:  # its priority may be that of an action which goes on, and waits for nothing
            if not here.continues and here.priority < due:
                due = here.priority
            here = here.next
        return due

    def _begun(self, object: AppObject) -> list[Action]:
        """The actions of an object that have begun and not ended: they await something, are about to go on, or run."""
        begun = [*self.awaiting(object)]
        here: Action | None = object._head
        while here is not None and here.continues:
            begun.append(here)
            here = here.next
        begun += [
            each.action
            for each in self._engine.watch.team
            if each.action is not None and each.action.object is object and each.action not in begun
        ]
        return begun

    def _has_begun(self, action: Action) -> bool:
        return action.continues or any(action is each for each in self._begun(action.object))

    def _awaited(self, action: Action, now_ns: int) -> list[Action] | None:
        """Tell what `action` waits for its new priority. Returns those of it that are here; None: nothing is known of it."""
        if isinstance(action, MethodAction) and action.awaiting_id:
            return self._hand_on(action, now_ns)
        if isinstance(action, ParkableAction):
            action.boosted()
            return [*action.waits_for(), *self.awaiting(action.object)]
        return None

    def _hand_on(self, action: MethodAction, now_ns: int) -> list[Action]:
        """Change the priority of the call that `action` awaits: another backplane is told; what is here is for the caller."""
        engine, id, request = self._engine, action.awaiting_id, action.request
        peer = engine.outgoing.calls.peer_of(id)
        if peer is None or not isinstance(request, CallRequest):
            return []  # the clock cannot be hurried
        if engine.outgoing.is_nobody(peer):
            return []  # its next attempt will say so
        priority = self.call_priority(action, request.spec.priority)
        if peer is LOCAL:
            awaited = engine.intake.reprioritise(LOCAL, id, priority)
            return [] if awaited is None else [awaited]
        engine.say(peer, boost(id, priority), now_ns)
        place = engine.outgoing.place_of(peer)
        if place is not None:
            engine.presence.lend(place, priority, now_ns)
        return []


def lent(priority: int, object: AppObject) -> int:
    """The priority of an action of `object` that is called at `priority`: the object may lend its callers a more urgent one."""
    return priority if object.lends is None else min(priority, object.lends)
