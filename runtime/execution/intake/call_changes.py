"""CallChanges: what a caller says about a call that it has made: that it is cancelled, or that its priority has changed."""

from __future__ import annotations

from collections.abc import Sequence

from appbackplane.transport.envelope import Envelope, cancel
from appbackplane.transport.errors import Cancelled

from ...objects.action import LOCAL, AcceptedCalls, Action, ParkableAction
from ...observation.statistics import Statistics
from ...scheduling.scheduler import Scheduler
from ..actions.completion import Completion
from ..actions.inheritance import Inheritance
from ..actions.method_action import MethodAction
from ..actions.parked_actions import ParkedActions
from ..outgoing.outgoing_calls import OutgoingCalls
from ..outgoing.ring_detector import RingDetector
from .awaiting_calls import AwaitingCall, AwaitingCalls
from .deferring import Deferring, is_deferred
from .digest import route_of
from .idempotency_cache import IdempotencyCache
from .remote_routes import RemoteRoutes


class CallChanges:
    """Cancellations and new priorities of accepted calls. Used under the lead."""

    def __init__(
        self, *, scheduler: Scheduler, statistics: Statistics, accepted: AcceptedCalls, replays: IdempotencyCache,
        rings: RingDetector, completion: Completion, inheritance: Inheritance, parking: ParkedActions, deferring: Deferring,
        outgoing: OutgoingCalls, remote: RemoteRoutes, awaiting: AwaitingCalls,
    ) -> None:  # fmt: skip
        self._scheduler = scheduler
        self._statistics = statistics
        self._accepted = accepted
        self._replays = replays
        self._rings = rings
        self._completion = completion
        self._inheritance = inheritance
        self._parking = parking
        self._deferring = deferring
        self._outgoing = outgoing
        self._remote = remote
        self._awaiting = awaiting

    def cancel(self, peer: bytes, id: int, now_ns: int) -> None:
        """Cancel a call: take it out of its queue, end its wait, or notify it at its next step.

        The calls to this backplane that it awaits are cancelled with it, one after the other: they may be as many as objects.
        """
        if self._remote.take is not None and (peer, id) not in self._accepted:
            self._remote.take(peer, cancel(id), now_ns)
        callers = [(peer, id)]
        while callers:
            caller = callers.pop()
            action = self._accepted.get(caller)
            if action is None:  # the answer and the cancellation crossed
                continue
            if self._replays.running and self._replays.taken_back(action, *caller):
                self._inheritance.settle([action], now_ns)
            else:
                callers += [(LOCAL, awaited) for awaited in self._cancel(action, now_ns)]

    def interrupt(self, action: Action, now_ns: int) -> None:
        """Cancel an action that nobody has called, such as one of a timer, with the calls that it awaits."""
        for awaited in self._cancel(action, now_ns):
            self.cancel(LOCAL, awaited, now_ns)

    def change_priority(self, peer: bytes, envelope: Envelope, now_ns: int) -> None:
        """The caller changes the priority of a call: a more urgent one waits for it, or no longer does (law 10)."""
        id, priority = envelope.id, envelope.priority
        assert priority is not None
        found = self._accepted.get((peer, id))
        if envelope.chain is not None:
            self._rings.heard(peer, envelope)
        elif isinstance(found, AwaitingCall):
            if priority >= 0:
                found.reprioritise(min(priority, self._scheduler.priorities - 1))
        elif found is None:
            if self._remote.take is not None:
                self._remote.take(peer, envelope, now_ns)
        elif priority >= 0:
            action = self._inheritance.reprioritise(peer, id, min(priority, self._scheduler.priorities - 1))
            assert action is not None
            self._inheritance.changed(action, now_ns)

    def _cancel(self, action: Action, now_ns: int) -> Sequence[int]:
        """Cancel one action. Returns the ids of the calls to this backplane that it awaited."""
        name = route_of(action)
        self._statistics.of(name).cancelled_count += 1
        if isinstance(action, AwaitingCall):
            self._awaiting.drop(action, Cancelled(f"{name}: cancelled before its operands came"), now_ns)
            return ()
        if isinstance(action, MethodAction) and action.coroutine is not None:
            action.cancel()
            self._inheritance.unwanted(action, now_ns)
            return self._outgoing.give_up(action, now_ns) if action.is_awaiting else ()
        error = Cancelled(f"{name}: cancelled before it began")
        if isinstance(action, ParkableAction):
            if self._parking.take_back(action, error, now_ns):
                return ()
            # An action that has begun completes its handlers: half of a message's handlers is worse than an unwanted answer.
            if action.has_begun:
                self._inheritance.unwanted(action, now_ns)
                return ()
        if self._scheduler.withdraw(action):
            self._completion.refuse(action, error, now_ns)
        elif isinstance(action, MethodAction) and is_deferred(action):
            self._deferring.drop(action, Cancelled(f"{action.name}: cancelled before it was accepted"), now_ns)
        else:  # it runs: if it is about to wait, or to await a call, it is told there
            if isinstance(action, ParkableAction):
                action.taken_back = error
            elif isinstance(action, MethodAction):
                action.cancel()
            self._inheritance.unwanted(action, now_ns)
        return ()
