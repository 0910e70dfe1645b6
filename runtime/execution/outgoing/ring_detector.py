"""Ring detector: deadlock detection among calls. The call that closes a ring is refused, and the error names the whole ring.

Two kinds: a call returns to an object that waits in its own chain, visible in the call's `chain`; or two chains cross, each
waiting behind the other's object, and neither names the other. So a call that an object makes and that queues behind an
awaiting action starts a search for itself: along the awaited calls, here or in other backplanes (a BOOST with a `chain`), up
to work that can go on. The newest call of a ring finds it, because all others were waiting when it was queued. Searches of
older calls stop there, so only one call is refused. Cost: a small envelope for each backplane on the way, only for such
calls. A call that waits for the work of another by its idempotency key searches as well. Not followed: locks, digesters,
blocking calls, and other nodes.
"""

from __future__ import annotations

from typing import Final

from appbackplane.transport.calls import OutstandingCalls
from appbackplane.transport.envelope import Envelope, search
from appbackplane.transport.errors import FailedPrecondition

from ...objects.action import LOCAL, AcceptedCalls, Action
from ...scheduling.scheduler import Scheduler
from ..actions.coroutines import CallRequest, Gather, Pause
from ..actions.inheritance import Inheritance, callee_of
from ..actions.method_action import MethodAction
from ..intake.idempotency_cache import IdempotencyCache
from ..intake.withdrawal import Withdrawal
from ..workers.clock import Clock
from .call_cycles import Path, spelled
from .sender import Sender

#: Steps of a search. In a ring that does not contain its own call it would go round for ever. No chain of calls written by
#: people has been seen to have more than a dozen steps.
STEPS_MAX: Final = 64


class RingDetector:
    """Searches for rings of calls. Used under the lead. In each path the call that began the search comes first."""

    def __init__(
        self, *, clock: Clock, scheduler: Scheduler, sender: Sender, accepted: AcceptedCalls,
        calls: OutstandingCalls[CallRequest | Pause], inheritance: Inheritance, replays: IdempotencyCache,
        withdrawal: Withdrawal,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._scheduler = scheduler
        self._sender = sender
        self._accepted = accepted
        self._calls = calls
        self._inheritance = inheritance
        self._replays = replays
        self._withdrawal = withdrawal

    def queued(self, action: Action) -> None:  # hot: scripts/bench call_pipelined
        """A call made by an object has been queued: search for a ring that it closes, and break it."""
        if not action.continues and self._inheritance.awaiting(action.object):
            # Not the time of the drain that received it: it must be later than that of every call queued before.
            action.posted_ns = self._clock.now_ns()
            self._follow(action, [], action.posted_ns)

    def attached(self, action: Action, peer: bytes, id: int) -> None:
        """A call made by an object waits for the work of an earlier one, by its idempotency key: search as in `queued`."""
        self._follow(action, [], self._replays.running[action].waiters[peer, id].since_ns)

    def heard(self, peer: bytes, envelope: Envelope) -> None:
        """Continue a search of the backplane `peer`, which has followed its waiting actions to a call that it made here."""
        action, path = self._accepted.get((peer, envelope.id)), envelope.chain
        if action is None or not path:
            return
        following = self._reached(peer, envelope.id, action, path, envelope.body)
        if following is not None:
            self._follow(following, path, envelope.body)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _follow(self, action: Action, path: Path, since: int) -> None:
        """Search along the actions that `action` waits for, directly or not. `path`: the actions that wait for `action`."""
        pending = [(action, path)]
        seen: set[int] = set()  # actions that wait for several calls make many paths, and one to each action is enough
        while pending:
            each, before = pending.pop()
            if id(each) in seen:
                continue
            seen.add(id(each))
            way = [*before, [each.object.name, each.name]]
            if len(way) > STEPS_MAX:
                continue
            if isinstance(each, MethodAction) and isinstance(each.request, (CallRequest, Gather)):
                for call in each.open_calls():
                    awaited = self._awaited(each, call, way, since)
                    if awaited is not None:
                        awaited = self._reached(LOCAL, call.id, awaited, way, since)
                    if awaited is not None:
                        pending.append((awaited, way))
            elif not each.started_ns and not each.continues and each.posted_ns <= since:
                pending += [(waiting, way) for waiting in self._inheritance.awaiting(each.object)]

    def _awaited(self, action: MethodAction, request: CallRequest, way: Path, since: int) -> Action | None:
        """The callee of a call, if it is here; another backplane is asked to continue the search, and the result is None."""
        id = request.id
        peer = callee_of(self._calls, id)
        if peer is None:
            return None  # the call is yet to be sent, or sent again: then it will be the newest
        if peer is LOCAL:
            return self._accepted.get((LOCAL, id))
        priority = self._inheritance.call_priority(action, request.spec.priority)
        # A peer that does not read gets no envelope: then the ring ends with the first deadline in it.
        self._sender.say(peer, search(id, priority, since, way), self._clock.now_ns())
        return None

    def _reached(self, peer: bytes, id: int, action: Action, way: Path, since: int) -> Action | None:
        """A search has reached this call: break the ring if the call began it. Returns the action to follow, if any."""
        record = self._replays.running.get(action)
        waiter = None if record is None else record.waiters.get((peer, id))
        if record is None or waiter is None:
            if action.posted_ns != since or action.started_ns or not _starts_with(action, way):
                return action  # not the call that began the search, or it has run
            self._break(action, way)
        elif waiter.since_ns == since and _starts_with(action, way):
            error = FailedPrecondition(
                f"call ring: {spelled([*way, way[0]])}, each of which waits for the next; {action.name} has begun with "
                f"idempotency_key {record.scope[2]!r}: call it without waiting (cast)"
            )
            now_ns = self._clock.now_ns()
            self._replays.refuse_waiter(action, peer, id, error, now_ns)
            self._inheritance.settle([action], now_ns)
        elif waiter.since_ns <= since:  # a newer one finds the ring by itself
            return action
        return None

    def _break(self, action: Action, way: Path) -> None:
        """Refuse the call that has closed a ring; a reentrant one runs at once, although its object awaits a reply."""
        now_ns = self._clock.now_ns()
        is_reentrant = isinstance(action, MethodAction) and action.spec is not None and action.spec.mark.reentrant
        if is_reentrant and action.object._waits and self._scheduler.withdraw(action):
            own, action.wait_ns = action.priority_own, action.wait_ns + now_ns - action.posted_ns
            action.continues = True
            self._scheduler.post(action, now_ns)
            action.priority_own = own
            return
        error = FailedPrecondition(
            f"call ring: {spelled([*way, way[0]])}, each of which waits for the next; "
            f"declare {action.name} reentrant=True, or call without waiting (cast)"
        )
        self._withdrawal.take_out(action, error, now_ns)


def _starts_with(action: Action, way: Path) -> bool:
    object, route = way[0]
    return (action.object.name, action.name) == (object, route)
