"""Inheritance: priority inheritance along chains of waiting actions, within and across backplanes (law 10).

Three actions may block a request: the running one of its object (priority_publisher.py sets its thread's nice), one that its
object has suspended until a reply, and the callee that works on that reply. A callee in another backplane gets a BOOST
envelope, and passes the priority on in the same way. When the request is cancelled, each of these actions falls back to the
most urgent priority that still waits for it; the chain is notified again. Nothing is sent where no priority changes, so a
chain costs one small envelope a link and change.
"""

from __future__ import annotations

from collections.abc import Sequence

from appbackplane.transport.calls import OutstandingCalls
from appbackplane.transport.envelope import boost
from appbackplane.transport.pulling import UNSENT
from appbackplane.transport.retrying import WAITING

from ...objects.action import LOCAL, AcceptedCalls, Action, ParkableAction, lent, own_priority
from ...objects.app_object import AppObject
from ...scheduling.scheduler import Scheduler
from ..intake.digest import Digest
from ..intake.idempotency_cache import IdempotencyCache
from ..outgoing.routing import Routing
from ..outgoing.sender import Sender
from ..urgency.priority_publisher import PriorityPublisher
from ..workers.poll_leader import PollLeader
from .coroutines import CallRequest, Pause
from .method_action import MethodAction


class Inheritance:
    """Which actions await something, and the priorities they inherit. Used under the lead."""

    def __init__(
        self, *, scheduler: Scheduler, poll_leader: PollLeader, sender: Sender, accepted: AcceptedCalls, routing: Routing,
        calls: OutstandingCalls[CallRequest | Pause], replays: IdempotencyCache, priority_publisher: PriorityPublisher,
    ) -> None:  # fmt: skip
        self._scheduler = scheduler
        self._poll_leader = poll_leader
        self._sender = sender
        self._accepted = accepted
        self._calls = calls
        self._routing = routing
        self._replays = replays
        self._priority_publisher = priority_publisher
        # By identity: an object may compare equal to others, or be unhashable (a dataclass).
        self._awaiting: dict[int, dict[int, Action]] = {}
        #: How many of the awaiting actions block their threads.
        self.blocked_count = 0
        #: How often an action has inherited a priority.
        self.count = 0

    def awaits(self, action: Action) -> None:
        """`action` is about to wait; it inherits the priority of actions queued behind it since it began."""
        object = action.object
        if object._head is not None and object._priority < action.priority and object._tails is None:
            action.priority = object._priority
            self.count += 1
        self._awaiting.setdefault(id(object), {})[id(action)] = action

    def goes_on(self, action: Action) -> None:
        """The wait of `action` has ended."""
        waiting = self._awaiting.get(id(action.object))
        if waiting is not None and waiting.pop(id(action), None) is not None and not waiting:
            del self._awaiting[id(action.object)]

    def waiting(self, object: AppObject) -> Action | None:
        """The longest waiting action of an object that has begun to wait for a reply or anything else; None: none waits."""
        waiting = self._awaiting.get(id(object))
        return next(iter(waiting.values())) if waiting else None

    def awaiting(self, object: AppObject) -> tuple[Action, ...]:
        """The actions of an object that await something while others queue behind them, the oldest first."""
        waiting = self._awaiting.get(id(object))
        return () if waiting is None or object._tails is not None else tuple(waiting.values())

    def post(self, action: Action, now_ns: int) -> None:
        """Queue an action; the actions behind which it queues inherit its priority."""
        self._scheduler.post(action, now_ns)
        self.queued(action, now_ns)

    def queued(self, action: Action, now_ns: int) -> None:  # hot: scripts/bench call_pipelined
        """An action has been posted: the waiting actions of its object, behind which it has queued, inherit its priority."""
        if (action.object._waits or self.blocked_count) and not action.continues:
            for waiting in self.awaiting(action.object):  # a copy: one of them may go on and leave the list
                self.inherit(waiting, action.priority, now_ns)

    def inherit(self, action: Action, priority: int, now_ns: int) -> None:
        """Raise `action`, which blocks work of this priority, and every action that it waits for.

        A loop instead of recursion, since a chain may be as long as the number of objects.
        """
        in_the_way: list[Action] = [action]
        while in_the_way:
            each = in_the_way.pop()
            if each.priority <= priority:
                continue
            self._scheduler.set_priority(each, priority)
            self.count += 1
            awaited = self._awaited(each, now_ns)
            in_the_way += self.awaiting(each.object) if awaited is None else awaited

    def changed(self, action: Action, now_ns: int) -> None:
        """The priority given by the caller of `action` has changed: raise or lower `action` and everything it waits for."""
        due = self._due(action)
        if due < action.priority:
            self.inherit(action, due, now_ns)
        else:
            self.settle([action], now_ns)

    def left(self, action: Action, now_ns: int) -> None:
        """`action` has left the queue of its object without having run: actions that inherited from it may fall back."""
        if self.count:  # else no action has ever inherited a priority
            begun = self._begun(action.object)
            self.settle([each for each in begun if action.priority <= each.priority < each.priority_own], now_ns)

    def settle(self, actions: Sequence[Action], now_ns: int) -> None:
        """Lower each of `actions` to the most urgent priority that still waits for it, and all that they wait for."""
        falling = [*actions]
        while falling:
            each = falling.pop()
            due = self._due(each)
            if due <= each.priority:
                continue
            self._scheduler.set_priority(each, due)
            if each.throttle is not None:
                each.throttle.may_be_refused(due)
            falling += self._awaited(each, now_ns) or ()
            falling += self._begun(each.object)

    def unwanted(self, action: Action, now_ns: int) -> None:
        """An action that has begun goes on without its caller, and without the priority that its caller has inherited since."""
        alone = action.priority_asked if action.priority_chosen < 0 else action.priority_chosen
        action.priority_own = max(action.priority_own, lent(alone, action.object))
        self.settle([action], now_ns)

    def choose(self, action: Action, priority: int, now_ns: int) -> None:
        """The running action chooses its priority, and has it from now on, unless its caller or other work that waits for it is
        more urgent.
        """
        action.priority_chosen = priority
        action.priority_own = own_priority(action)
        self.changed(action, now_ns)

    def reprioritise(self, peer: bytes, id: int, priority: int) -> Action | None:
        """Note the new priority of a call. Returns the action that is to follow it; None: the call has ended."""
        action = self._accepted.get((peer, id))
        if action is None:
            return None
        if not (self._replays.running and self._replays.reprioritised(action, peer, id, priority)):
            action.priority_boosted = priority
            action.priority_own = own_priority(action)
        if isinstance(action, Digest):
            action.asked.priority = priority
        return action

    def call_priority(self, action: Action, explicit: int | None) -> int:
        """The priority of a call made by `action`. `explicit`: as given by the operation, or None.

        Once the action has inherited a priority, its call is at least as urgent as itself, since its waiters wait for the call.
        """
        if explicit is None:
            return action.priority
        alone = (
            action.priority_asked if action.priority_chosen < 0 else min(action.priority_asked, action.priority_chosen)
        )
        has_inherited = action.priority < lent(alone, action.object)
        return min(explicit, action.priority) if has_inherited else explicit

    # -- steps --------------------------------------------------------------------------------------------------------

    def _due(self, action: Action) -> int:
        """The priority that an action should have: its own, or that of its most urgent waiter."""
        due, replays = action.priority_own, self._replays
        for behind in (action.urgency_behind(), replays.urgency_behind(action) if replays.running else None):
            if behind is not None and behind < due:
                due = behind
        here, most_urgent = action.object._head, action.object._priority
        if here is None or most_urgent >= due:
            return due
        is_interleaved = action.object._tails is not None
        if (is_interleaved or not action.continues) and all(action is not each for each in self._begun(action.object)):
            return due  # it has not begun, or lets others pass: they wait for the queue of its object
        if is_interleaved or not here.continues:
            return most_urgent
        while here is not None:  # the object's priority may come from a resumed action, which waits for nothing
            if not here.continues and here.priority < due:
                due = here.priority
            here = here.next
        return due

    def _begun(self, object: AppObject) -> list[Action]:
        """The actions of an object that have begun and stand in the way of its others: waiting, queued to go on, or running.
        Of one that interleaves: the running one.
        """
        begun = [*self.awaiting(object)]
        here: Action | None = object._head if object._tails is None else None
        while here is not None and here.continues:
            begun.append(here)
            here = here.next
        begun += [
            each.action
            for each in self._poll_leader.team
            if each.action is not None and each.action.object is object and each.action not in begun
        ]
        return begun

    def _awaited(self, action: Action, now_ns: int) -> list[Action] | None:
        """Pass the new priority of `action` on to its callee; returns the actions here that it waits for, None if unknown."""
        if isinstance(action, MethodAction) and action.is_awaiting:
            return [each for call in action.open_calls() for each in self._hand_on(action, call, now_ns)]
        if isinstance(action, ParkableAction):
            action.priority_changed()
            return [*action.waits_for(), *self.awaiting(action.object)]
        return None

    def hand_on(self, action: MethodAction, call: CallRequest, now_ns: int) -> None:
        """Pass the priority of `action` on to the callee of a call, and down the chain of calls behind it."""
        for each in self._hand_on(action, call, now_ns):
            self.changed(each, now_ns)

    def _hand_on(self, action: MethodAction, call: CallRequest, now_ns: int) -> list[Action]:
        """Pass the priority on to the callee of a call: a remote one gets a BOOST envelope, a local one is returned."""
        peer = callee_of(self._calls, call.id)
        priority = self.call_priority(action, call.spec.priority)
        if peer is None:  # it is not sent yet, and will carry the new one
            if self._routing.pulling is not None:
                self._routing.pulling.boost(call.id, priority)
            return []
        if peer is LOCAL:
            awaited = self.reprioritise(LOCAL, call.id, priority)
            return [] if awaited is None else [awaited]
        self._sender.say(peer, boost(call.id, priority), now_ns)
        place = self._routing.place_of(peer)
        if place is not None:
            self._priority_publisher.lend(place, priority, now_ns)
        return []


def callee_of(calls: OutstandingCalls[CallRequest | Pause], id: int) -> bytes | None:
    """The peer that holds call `id`; None: it has ended, or is not sent yet, because it waits for a retry or for room."""
    peer = calls.peer_of(id)
    return None if peer in (WAITING, UNSENT) else peer
