"""Outgoing calls: the calls and casts that objects of this backplane make, and the handling of their answers.

A call carries the running action's priority, the rest of its deadline, its trace, and the chain of objects that wait for it.
It ends once: by an answer, by its deadline, or because the process that held it died.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from appbackplane.transport import addressing
from appbackplane.transport.call_checks import check_call
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.caller_throttle import CallerThrottle
from appbackplane.transport.calls import OutstandingCalls
from appbackplane.transport.envelope import STATUS, Envelope, call, cancel, cast, credit
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    Cancelled,
    DeadlineExceeded,
    InternalError,
    PeerDown,
    Unavailable,
    error_from,
    text_of,
)
from appbackplane.transport.pseudo_peers import pseudo_peer
from appbackplane.transport.pulling import UNSENT
from appbackplane.transport.retrying import (
    WAITING,
    Retries,
    RetryAccount,
    RetryBudget,
    StopRetrying,
    after_attempts,
)

from ...objects.action import LOCAL
from ...objects.app_object import AppObject
from ...scheduling.scheduler import Scheduler
from ..actions.coroutines import CallRequest, Gather, LongRequest, OneShotEvent, Pause, SendingRequest, StreamRequest
from ..actions.inheritance import Inheritance
from ..actions.method_action import MethodAction
from ..actions.reading_action import AwaitedItems
from ..actions.recorders import Recorders
from ..actions.stream_action import AwaitedCredit
from ..intake.grants import Grants
from ..intake.intake import Intake
from ..urgency.priority_publisher import PriorityPublisher
from ..workers.poll_leader import PollLeader
from .routing import Routing
from .sender import Sender

log = logging.getLogger("appbackplane.runtime")

#: The callee of a pause. The table of outstanding calls holds pauses and retries, too, since all of them end at a time.
CLOCK: Final = pseudo_peer("clock")
#: Shorter waits of streams have no spans: there would be little else in a trace.
STREAM_WAIT_NS: Final = 1_000_000
#: Callees of calls that have not left yet.
_HERE: Final = (WAITING, UNSENT)


class OutgoingCalls:
    """Calls of this backplane's objects, and its actions' waits. Used under the lead."""

    def __init__(
        self, *, calls: OutstandingCalls[CallRequest | Pause], routing: Routing, scheduler: Scheduler, sender: Sender,
        intake: Intake, inheritance: Inheritance, priority_publisher: PriorityPublisher, recorders: Recorders,
        poll_leader: PollLeader, grants: Grants | None,
    ) -> None:  # fmt: skip
        self.calls = calls
        self._routing = routing
        self._scheduler = scheduler
        self._sender = sender
        self._intake = intake
        self._inheritance = inheritance
        self._priority_publisher = priority_publisher
        self._recorders = recorders
        self._poll_leader = poll_leader
        self._grants = grants
        #: Streams that are being read or sent, by their identity; and those that their actions have left, from any thread.
        self.streams: dict[int, LongRequest] = {}
        self._left: deque[LongRequest] = deque()
        #: All objects of a backplane share one budget.
        self.retries = Retries(calls, RetryAccount(RetryBudget(), 0), random.random)
        #: The shares of their calls that are refused here, because their callees are overloaded.
        self.throttle = CallerThrottle(random.random)

    def start(self, action: MethodAction, now_ns: int) -> None:
        """Begin the wait of an action; its object is in the wait queue already."""
        request = action.request
        action.is_awaiting, action.awaits_since_ns = True, now_ns
        if action.takes_room and self._grants is not None:
            self._grants.rests(action, now_ns)
        if action.thrown is not None or (isinstance(request, OneShotEvent) and request.is_set):
            self._go_on(action, now_ns)  # cancelled while it ran; or nothing to wait for
            return
        if isinstance(request, LongRequest) and self._has_more(action, request, now_ns):
            return
        self._inheritance.awaits(action)
        if isinstance(request, Pause):
            due_ns = now_ns + request.delay_ns
            if action.deadline_ns is not None and now_ns < action.deadline_ns < due_ns:
                due_ns = action.deadline_ns  # it resumes then, and learns that it is too late
            request.action, request.id = action, self.calls.open(CLOCK, due_ns, request)
            self.retries.extra_ids_count += 1
        elif isinstance(request, Gather):
            for each in request.calls:
                each.action = action
            self._begin_ready(request, now_ns)
        elif isinstance(request, LongRequest):
            request.action, request.is_awaited = action, True
            if not request.id:
                self.streams[id(request)] = request
                self._begin(request, now_ns)
            elif request.told_priority != action.priority:  # more urgent work has queued behind this object meanwhile
                request.told_priority = action.priority
                self._inheritance.hand_on(action, request, now_ns)
        else:
            assert request is not None
            request.action = action
            self._begin(request, now_ns)

    def _begin_ready(self, gather: Gather, now_ns: int) -> None:
        """Begin the calls whose operands are there."""
        while ready := gather.take_ready():
            for each in ready:
                if gather.has_ended:
                    return  # an earlier one was refused at once
                self._begin(each, now_ns)

    def _begin(self, request: CallRequest, now_ns: int) -> None:
        try:
            self._call(request, now_ns)
        except BaseException as error:  # the edge: a strange call may make a library raise anything
            self._not_sent(request, error, now_ns)

    def _not_sent(self, request: CallRequest, error: BaseException, now_ns: int) -> None:
        if not isinstance(error, BackplaneError):
            log.exception("%s could not be called", request.spec.route)
            error = InternalError(f"{request.spec.route}: {type(error).__name__}: {text_of(error)}")
        is_placed, peer = request.id != 0, self.calls.peer_of(request.id)
        # `Busy` of a peer that does not read is not refused: a refused call is retried, and would pile up more there.
        error.is_refused = not is_placed or peer is LOCAL
        if is_placed:
            self._forget(request)
        # A call that is refused here for an overloaded callee is retried no more often than one that is refused there.
        self._failed(request, error, now_ns, is_sent=is_placed or error.overloaded_at is not None)

    def cast(self, caller: AppObject, spec: CallSpec, now_ns: int) -> None:
        """Send a request without a reply. Raises the `BackplaneError` that is known at once."""
        check_call(spec)
        place = self._routing.resolve(spec)
        envelope = cast(spec)
        if place is None:
            self._intake.admit(LOCAL, self._sender.as_received(envelope), now_ns, caller)
        else:
            peer = self._routing.peer_up(place)
            if self.throttle.is_used:
                refusal = self.throttle.cast_refusal(peer, spec.route, spec.priority, now_ns)
                if refusal is not None:
                    raise refusal
            if not self._sender.say(peer, envelope, now_ns):
                raise Busy(f"{spec.route}: {place} does not keep up with the messages sent to it", retry_after=0.05)

    def answered(self, peer: bytes, envelope: Envelope, now_ns: int) -> None:  # hot: scripts/bench call_rtt
        """Handle a reply or a status; one that no action awaits any more is counted and dropped."""
        request = self.calls.end(envelope.id, peer)
        if not isinstance(request, CallRequest):
            return
        request.id = 0
        if peer is not LOCAL and (self.throttle.is_used or envelope.priority is not None):
            self._learn(request, peer, envelope, now_ns)
        if envelope.kind == STATUS:
            code, message, retry_after, trace = envelope.body
            error = error_from(
                code,
                message,
                retry_after,
                trace,
                is_refused=envelope.is_refused,
                overloaded_at=envelope.priority,
                idle=envelope.number,
            )
            if not error.is_refused:
                request.may_have_begun = True
            self._failed(request, error, now_ns)
        else:
            self._succeeded(request, envelope.body, now_ns)

    def items(self, peer: bytes, envelope: Envelope, now_ns: int) -> None:
        """Items of a stream have come, or its callee waits for credit."""
        found = self.calls.get(envelope.id)
        if found is None or found[0] != peer or not isinstance(found[2], StreamRequest):
            self.calls.late_count += 1
            return
        stream = found[2]
        if not stream.buffer.put(envelope.body, envelope.number, envelope.is_blocked):
            self._leave(stream, now_ns)
        if stream.is_awaited:
            assert stream.action is not None
            if stream.buffer.is_ready:
                self._go_on(stream.action, now_ns)
            else:
                self._give_credit(stream, peer, now_ns)

    def credited(self, peer: bytes, envelope: Envelope, now_ns: int) -> None:
        """The operation of a call with a streamed argument has asked for items, or read on."""
        found = self.calls.get(envelope.id)
        if found is None or found[0] != peer or not isinstance(found[2], SendingRequest):
            self.calls.late_count += 1
            return
        sending = found[2]
        sending.sender.receive_credit(envelope.body)
        if sending.is_awaited and sending.is_ready:
            assert sending.action is not None
            self._go_on(sending.action, now_ns)

    def leave(self, stream: LongRequest) -> None:
        """The reader or sender of a stream has left it; it is cancelled when the link is drained next, before this worker
        sleeps.

        From any thread, and where the garbage collector runs: so it takes no lock, and wakes nobody.
        """
        self._left.append(stream)

    def grant(self, peer: bytes, may_send: object, now_ns: int) -> None:
        """A replica says how many calls it may have been sent in all (pulling.py)."""
        pulling = self._routing.pulling
        if pulling is not None and type(may_send) is int:
            pulling.credit(peer, may_send)
            self._send_waiting(now_ns)

    def expire(self, now_ns: int, *, is_unread: bool) -> None:
        """End overdue calls, resume pauses, and make the retries that are due. `is_unread`: whether the link has input."""
        while self._left:
            self._leave(self._left.popleft(), now_ns)
        for peer, error in self._routing.connections.overdue(now_ns, is_unread=is_unread):
            self.fail_peer(peer, now_ns, error)
        for id, peer, request in self.calls.expire(now_ns):
            assert request.action is not None
            if isinstance(request, Pause):
                if _is_awaited(request):  # not if its action was cancelled by an earlier one of these
                    self._go_on(request.action, now_ns)
                continue
            request.id = 0
            if peer == WAITING:
                self.retries.waited(id)
                self.retries.extra_ids_count += 1
                if _is_awaited(request):
                    self._begin(request, now_ns)
                continue
            if peer == UNSENT:
                late = DeadlineExceeded(f"{request.spec.route}: no replica had room for it before the deadline")
                self._failed(request, late, now_ns)
                continue
            self._sender.say(peer, cancel(id), now_ns)
            end = "end of the stream" if isinstance(request, StreamRequest) else "answer"
            self._failed(request, DeadlineExceeded(f"{request.spec.route}: no {end} before the deadline"), now_ns)

    def give_up(self, action: MethodAction, now_ns: int) -> list[int]:
        """The waiting action has been cancelled: end its wait, and resume it with `Cancelled`.

        Returns the ids of the awaited calls to this backplane, for the intake to cancel.
        """
        request, here = action.request, []
        if isinstance(request, Pause):
            self.calls.end(request.id)
        for each in action.open_calls():
            peer, id = self._forget(each)
            if peer is LOCAL:
                here.append(id)
            elif peer is not None and peer not in _HERE:
                self._sender.say(peer, cancel(id), now_ns)
        self._go_on(action, now_ns)
        return here

    def set(self, signal: OneShotEvent, now_ns: int) -> None:
        """Set a signal, and resume the action that awaits it. An action that awaits it later does not wait."""
        signal.is_set = True
        action = signal.action
        if action is not None and action.is_awaiting and action.request is signal:
            self.calls.end(signal.id)
            self._go_on(action, now_ns)
            self._poll_leader.notify()

    def retire(self, backplane: str, now_ns: int) -> bytes:
        """An instance has ended. If it had finished its work, its last answers are waited for. Returns its former peer."""
        connections = self._routing.connections
        peer = connections.peer(backplane)
        assert peer is not None
        is_called = any(callee == peer for _, callee, _, _ in self.calls)
        if not is_called or connections.retire(backplane, now_ns) is None:
            connections.drop(backplane)
            self.fail_peer(peer, now_ns)
        if self._routing.pulling is not None:
            self._routing.pulling.lost(peer)
        self.throttle.lost(peer)
        return peer

    def fail_peer(self, peer: bytes, now_ns: int, error: PeerDown | None = None) -> None:
        """A peer is dead: the calls it held end in PEER_DOWN."""
        because = "the process that held the call died" if error is None else error.message
        failed = self.calls.fail_peer(peer)
        for _, request in failed:
            assert isinstance(request, CallRequest)
            request.id, request.may_have_begun = 0, True
            self._failed(request, PeerDown(f"{request.spec.route}: {because}"), now_ns)

    def say_farewell(self, backplane: str, now_ns: int) -> None:
        """Tell a draining backplane that no more calls follow. The farewell arrives after all earlier calls."""
        peer = self._routing.connections.peer(backplane)
        if peer is not None:
            route = addressing.backplane_route(backplane, addressing.FAREWELL)
            self._sender.say(peer, cast(CallSpec(route, {})), now_ns)

    # -- steps --------------------------------------------------------------------------------------------------------

    def reader_ended(self, action: MethodAction, now_ns: int) -> None:
        """An operation has ended: so do the streams that it has not read to their end, whoever holds them."""
        for stream in [each for each in self.streams.values() if each.action is action]:
            stream.end_in(Cancelled(f"{stream.spec.route}: the operation that began it has ended"))
            self._leave(stream, now_ns)

    def _has_more(self, action: MethodAction, stream: LongRequest, now_ns: int) -> bool:
        """The reader or sender of a stream awaits it. False: it has to wait. It may have ended since its action looked."""
        if stream.has_ended:
            self._go_on(action, now_ns)
            return True
        if not stream.id:
            return False
        peer = self.calls.peer_of(stream.id)
        if peer is not None and isinstance(stream, StreamRequest):
            self._give_credit(stream, peer, now_ns)
        elif peer is not None and isinstance(stream, SendingRequest):
            self._send_items(stream, peer, now_ns)
        if not stream.is_ready:
            return False
        self._go_on(action, now_ns)
        return True

    def _send_items(self, sending: SendingRequest, peer: bytes, now_ns: int) -> None:
        sending.sender.put(sending.fetched, is_last=sending.is_complete)
        sending.fetched = []
        for packed in sending.sender.envelopes(sending.id):
            if not self._sender.say_packed(peer, packed, now_ns):
                place = self._routing.backplane_of(peer)
                route = sending.spec.route
                self._leave(sending, now_ns)
                sending.end_in(Busy(f"{route}: {place} does not keep up with the items sent to it", retry_after=0.05))
                return

    def _give_credit(self, stream: StreamRequest, peer: bytes, now_ns: int) -> None:
        if (items := stream.buffer.credit_due()) and self._sender.say_surely(peer, credit(stream.id, items), now_ns):
            stream.buffer.gave(items)

    def _leave(self, stream: LongRequest, now_ns: int) -> None:
        self.streams.pop(id(stream), None)
        peer, call_id = self._forget(stream)
        if peer is not None and peer not in _HERE:
            self._sender.say_surely(peer, cancel(call_id), now_ns)

    def _forget(self, request: CallRequest) -> tuple[bytes | None, int]:
        """Take a call out of the call table. Returns the peer that held it, and its id there; None, 0: it has ended."""
        id, request.id = request.id, 0
        peer = self.calls.peer_of(id)
        if peer is None:
            return None, 0
        self.calls.end(id)
        if peer == WAITING:
            self.retries.waited(id)
        return peer, id

    def _call(self, request: CallRequest, now_ns: int) -> None:
        spec, action = request.spec, request.action
        assert action is not None
        if not request.attempts_count:
            check_call(spec)
            spec.ends_ns = now_ns + spec.timeout_ns
            if request.gather is not None and request.gather.timeout_ns is not None:
                spec.ends_ns = min(spec.ends_ns, now_ns + request.gather.timeout_ns)
            if action.deadline_ns is not None and action.deadline_ns < spec.ends_ns:
                spec.ends_ns = action.deadline_ns
        request.attempts_count += 1
        place = self._routing.resolve(spec, action.chain)
        peer = LOCAL if place is None else self._routing.peer_up(place)
        pulling = self._routing.pulling
        priority = self._inheritance.call_priority(action, spec.priority)
        if pulling is not None and place is not None and not self._routing.is_draining(place):
            peer = pulling.find(spec, priority) or peer
        request.sent_priority = priority
        if self.throttle.is_used and not self._routing.is_pulled(spec):  # none of this backplane is in it
            self._throttle_call(request, peer, priority, now_ns)
        request.id = id = self.calls.open(peer, spec.ends_ns, request)
        if pulling is not None:
            pulling.opened(peer, id, spec, priority, request)
        if peer != UNSENT:
            self._send(request, peer, now_ns)

    def _throttle_call(self, request: CallRequest, peer: bytes, priority: int, now_ns: int) -> None:
        """Raises `Busy` for a call that is refused here, because its callee is overloaded."""
        if request.spec.idempotency_key is not None and request.may_have_begun:
            return  # asked for, and not ordered: the callee has the reply for this key, or will have it
        refusal = self.throttle.refusal(peer, request.spec.route, priority, now_ns)
        if refusal is not None:
            raise refusal

    def _learn(self, request: CallRequest, peer: bytes, answer: Envelope, now_ns: int) -> None:
        """An answer tells whether its callee is overloaded."""
        route = request.spec.route
        if answer.priority is None:
            self.throttle.answered(peer, route, request.sent_priority)
        elif not self._routing.is_pulled(request.spec):
            retry_after, idle = answer.body[2], answer.number
            self.throttle.refused(peer, route, request.sent_priority, answer.priority, retry_after, now_ns, idle)

    def _send(self, request: CallRequest, peer: bytes, now_ns: int) -> None:
        """Send a call that has an id to the peer that is to serve it. Raises `Busy` if there is no room in its queue."""
        spec, action, id = request.spec, request.action, request.id
        assert action is not None
        chain: Sequence[Sequence[str]] = (*action.chain, (action.object.name, action.name))
        spec.trace = self._recorders.trace_of(action)
        if spec.principal is None:
            spec.principal = action.principal
        envelope = call(id, spec, -spec.ends_ns, chain)
        envelope.priority = priority = self._inheritance.call_priority(action, spec.priority)
        if isinstance(request, LongRequest):
            request.told_priority = action.priority
        if peer is LOCAL:
            self._intake.admit(LOCAL, self._sender.as_received(envelope), now_ns, action.object)
        elif not self._sender.say(peer, envelope, now_ns):
            place = self._routing.backplane_of(peer)
            raise Busy(f"{spec.route}: {place} does not keep up with the messages sent to it", retry_after=0.05)
        elif (callee := self._routing.place_of(peer)) is not None:
            self._priority_publisher.lend(callee, priority, now_ns)

    def _succeeded(self, request: CallRequest, result: Any, now_ns: int) -> None:
        """A call has ended in its reply."""
        action, gather = request.action, request.gather
        assert action is not None
        if isinstance(request, LongRequest):
            self.streams.pop(id(request), None)
            request.end(result)
            if request.is_awaited:
                self._go_on(action, now_ns)
        elif _is_awaited(request):
            if gather is None:
                self._go_on(action, now_ns, result=result)
            else:
                self._gathered(action, gather, request, result, now_ns)

    def _gathered(self, action: MethodAction, gather: Gather, request: CallRequest, outcome: Any, now_ns: int) -> None:
        """One of several calls has ended, in a result or an error that is returned: begin those that have waited for it."""
        if gather.put(request, outcome):
            self._go_on(action, now_ns)
        else:
            self._begin_ready(gather, now_ns)

    def _failed(self, request: CallRequest, error: BackplaneError, now_ns: int, *, is_sent: bool = True) -> None:
        """A call has failed: retry it, or resume its action with the error."""
        action, gather = request.action, request.gather
        assert action is not None
        if not (_is_awaited(request) or isinstance(request, LongRequest)):
            return
        has_begun = isinstance(request, LongRequest) and (request.has_begun or not request.is_awaited)
        if action.thrown is None and not has_begun:
            route = request.spec.route
            is_idempotent = type(route) is str and self._routing.is_idempotent(route)
            count = request.attempts_count or 1
            waiting = self.retries.wait(
                request, request.spec, count, error, now_ns, is_sent=is_sent, is_idempotent=is_idempotent
            )
            if not isinstance(waiting, StopRetrying):
                request.id = waiting
                return
            error = after_attempts(error, count, waiting.because)
        if isinstance(request, LongRequest):
            self.streams.pop(id(request), None)
            request.end_in(error)
            if request.is_awaited:
                self._go_on(action, now_ns, error=None if has_begun else error)
        elif gather is None:
            self._go_on(action, now_ns, error=error)
        elif gather.returns_errors:
            self._gathered(action, gather, request, error, now_ns)
        else:
            gather.has_ended = True
            if (
                action.deadline_ns is None or now_ns < action.deadline_ns
            ):  # else it is the operation itself that is late
                error = gather.error_of(request, error)
            for each in gather.calls:
                peer, call_id = self._forget(each)
                if peer is not None and peer not in _HERE:
                    self._sender.say(peer, cancel(call_id), now_ns)
            self._go_on(action, now_ns, error=error)

    def look_again(self, now_ns: int) -> None:
        """A new routing table: calls that found no instance try again soon, in their order."""
        self.calls.pulling = self._routing.pulling
        self._send_waiting(now_ns)
        for id, request in self.retries.hurry(now_ns, _posted_ns):
            assert isinstance(request, CallRequest)
            request.id = id

    def _send_waiting(self, now_ns: int) -> None:
        """Send the calls that waited for room at a replica, and have it now."""
        pulling = self._routing.pulling
        for group in pulling.groups() if pulling is not None else ():
            assert pulling is not None
            try:
                for id, peer, request in pulling.ready(group):
                    self.calls.assign(id, peer)
                    try:
                        self._send(request, peer, now_ns)
                    except BaseException as error:  # the edge: as in `_begin`
                        self._not_sent(request, error, now_ns)
            except Unavailable as error:
                for id in pulling.waiting(group):
                    waiting = self.calls.end(id)
                    assert isinstance(waiting, CallRequest)
                    waiting.id = 0
                    self._failed(waiting, error, now_ns, is_sent=False)

    def _go_on(
        self, action: MethodAction, now_ns: int, result: Any = None, error: BackplaneError | None = None
    ) -> None:
        spans = self._recorders.spans
        if spans is not None and now_ns - action.awaits_since_ns > _unseen_ns(action):
            spans.waited(action, _awaited_by(action), error, action.awaits_since_ns, now_ns)
        if isinstance(action.request, LongRequest):
            action.request.is_awaited = False
        elif isinstance(action.request, Gather):
            action.request.has_ended = True
        action.request, action.is_awaiting = None, False
        self._inheritance.goes_on(action)
        if action.thrown is None:  # a cancellation or a deadline takes precedence
            action.inbox, action.thrown = result, error
            action.received = error
        self._scheduler.resume(action, now_ns)


def _is_awaited(request: CallRequest | Pause) -> bool:
    """Whether its action still waits for it, alone or together with others."""
    action = request.action
    if action is None or not action.is_awaiting:
        return False
    return action.request is request or (isinstance(request, CallRequest) and action.request is request.gather)


def _unseen_ns(action: MethodAction) -> int:
    """The longest wait without a span of its own. An action waits once for each few items of a stream."""
    return STREAM_WAIT_NS if isinstance(action.request, (LongRequest, AwaitedCredit, AwaitedItems)) else 0


def _awaited_by(action: MethodAction) -> str:
    """What an action waits for, as the name of a span."""
    request = action.request
    if isinstance(request, Gather):
        return f"{len(request.calls)} calls"
    if isinstance(request, CallRequest):
        return str(request.spec.route)
    return request.what if isinstance(request, OneShotEvent) else "pause"


def _posted_ns(request: CallRequest | Pause) -> int:
    return 0 if request.action is None else request.action.posted_ns
