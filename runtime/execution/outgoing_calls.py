"""Outgoing calls: the calls and casts that objects of this backplane make, and the handling of their answers.

A call carries the running action's priority, the rest of its deadline, its trace, and the chain of objects that wait for it.
It ends once: by an answer, by its deadline, or because the process that held it died.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

from appbackplane.transport.call_checks import check_call
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.calls import OutstandingCalls
from appbackplane.transport.envelope import STATUS, Envelope, call, cancel, cast, credit
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    DeadlineExceeded,
    InternalError,
    PeerDown,
    error_from,
    text_of,
)
from appbackplane.transport.retrying import (
    WAITING,
    Retries,
    RetryAccount,
    RetryBudget,
    StopRetrying,
    after_attempts,
)

from ..objects.action import LOCAL
from ..objects.app_object import AppObject
from ..scheduling.scheduler import Scheduler
from .coroutines import CallRequest, OneShotEvent, Pause, StreamRequest
from .inheritance import Inheritance
from .intake import Intake
from .method_action import MethodAction
from .poll_leader import PollLeader
from .priority_publisher import PriorityPublisher
from .recorders import Recorders
from .routing import Routing
from .sender import Sender

log = logging.getLogger("appbackplane.runtime")

#: The callee of a pause. The table of outstanding calls holds pauses and retries, too, since all of them end at a time.
CLOCK: Final = b"\x00clock"


class OutgoingCalls:
    """Calls of this backplane's objects, and its actions' waits. Used under the lead."""

    def __init__(
        self, *, calls: OutstandingCalls[MethodAction], routing: Routing, scheduler: Scheduler, sender: Sender, intake: Intake,
        inheritance: Inheritance, priority_publisher: PriorityPublisher, recorders: Recorders, poll_leader: PollLeader,
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
        #: Calls among these that other processes hold; the rest are pauses, retries and calls to this backplane.
        self._remote_count = 0
        #: The streams that are being read, by their ids in `calls`; and those that their readers have left, from any thread.
        self._streams: dict[int, StreamRequest] = {}
        self._left: deque[StreamRequest] = deque()
        #: All objects of a backplane share one budget.
        self.retries = Retries(calls, RetryAccount(RetryBudget(), 0), random.random)

    def start(self, action: MethodAction, now_ns: int) -> None:
        """Begin the wait of an action; its object is in the wait queue already."""
        request = action.request
        if action.thrown is not None:  # cancelled while it ran
            self._go_on(action, now_ns)
            return
        if isinstance(request, OneShotEvent):
            if request.is_set:
                self._go_on(action, now_ns)
                return
            request.action = action
        if isinstance(request, StreamRequest) and request.id and self._reads_on(action, request, now_ns):
            return
        self._inheritance.awaits(action)
        if isinstance(request, Pause):
            due_ns = now_ns + request.delay_ns
            if action.deadline_ns is not None and now_ns < action.deadline_ns < due_ns:
                due_ns = action.deadline_ns  # it resumes then, and learns that it is too late
            action.awaiting_id = self.calls.open(CLOCK, due_ns, action)
            self.retries.extra_ids_count += 1
            return
        assert request is not None
        if isinstance(request, StreamRequest) and request.id:
            action.awaiting_id = request.id
        else:
            self._begin(action, request, now_ns)

    def _begin(self, action: MethodAction, request: CallRequest, now_ns: int) -> None:
        try:
            self._call(action, request, now_ns)
        except BaseException as error:  # the edge: a strange call may make a library raise anything
            if not isinstance(error, BackplaneError):
                log.exception("%s could not call %s", action.name, request.spec.route)
                error = InternalError(f"{request.spec.route}: {type(error).__name__}: {text_of(error)}")
            is_placed, peer = action.awaiting_id != 0, self.calls.peer_of(action.awaiting_id)
            # `Busy` of a peer that does not read is not refused: a refused call is retried, and would pile up more there.
            error.is_refused = not is_placed or peer is LOCAL
            if is_placed:
                if peer:  # neither LOCAL, which is empty, nor None
                    self._remote_count -= 1
                self.calls.end(action.awaiting_id)
                if isinstance(request, StreamRequest):
                    self._streams.pop(action.awaiting_id, None)
                    request.id = 0
                action.awaiting_id = 0
            self._failed(action, error, now_ns, is_sent=is_placed)

    def cast(self, caller: AppObject, spec: CallSpec, now_ns: int) -> None:
        """Send a request without a reply. Raises the `BackplaneError` that is known at once."""
        check_call(spec)
        place = self._routing.resolve(spec)
        envelope = cast(spec)
        if place is None:
            self._intake.admit(LOCAL, self._sender.as_received(envelope), now_ns, caller)
        elif not self._sender.say(self._routing.peer_up(place), envelope, now_ns):
            raise Busy(f"{spec.route}: {place} does not keep up with the messages sent to it", retry_after=0.05)

    def answered(self, peer: bytes, envelope: Envelope, now_ns: int) -> None:  # hot: scripts/bench call_rtt
        """Handle a reply or a status; one that no action awaits any more is counted and dropped."""
        action = self.calls.end(envelope.id, peer)
        if action is None:
            return
        if peer is not LOCAL:
            self._remote_count -= 1
        stream = self._streams.pop(envelope.id, None) if self._streams else None
        if envelope.kind == STATUS:
            code, message, retry_after, trace = envelope.body
            error = error_from(code, message, retry_after, trace, is_refused=envelope.is_refused)
            if stream is None:
                self._failed(action, error, now_ns)
            else:
                self._stream_ended(stream, error, now_ns)
        elif stream is not None:
            self._stream_ended(stream, None, now_ns)
        else:
            self._go_on(action, now_ns, result=envelope.body)

    def items(self, peer: bytes, envelope: Envelope, now_ns: int) -> None:
        """Items of a stream have come, or its callee waits for credit."""
        stream = self._streams.get(envelope.id)
        if stream is None or self.calls.peer_of(envelope.id) != peer:
            self.calls.late_count += 1
            return
        stream.buffer.put(envelope.body, envelope.is_blocked)
        action = stream.reader
        assert action is not None
        if action.request is stream and action.awaiting_id == envelope.id:
            if stream.buffer.is_ready:
                self._go_on(action, now_ns)
            else:
                self._give_credit(stream, peer, now_ns)

    def leave(self, stream: StreamRequest) -> None:
        """The reader of a stream has left it; it is cancelled when the link is drained next, before this worker sleeps.

        From any thread, and where the garbage collector runs: so it takes no lock, and wakes nobody.
        """
        self._left.append(stream)

    def expire(self, now_ns: int) -> None:
        """End overdue calls, resume pauses, and make the retries that are due."""
        while self._left:
            self._leave(self._left.popleft(), now_ns)
        for id, peer, action in self.calls.expire(now_ns):
            if peer is CLOCK:
                self._go_on(action, now_ns)
                continue
            if peer == WAITING:
                assert isinstance(action.request, CallRequest)
                action.awaiting_id = 0
                self.retries.waited(id)
                self.retries.extra_ids_count += 1
                self._begin(action, action.request, now_ns)
                continue
            if peer is not LOCAL:
                self._remote_count -= 1
            self._sender.say(peer, cancel(id), now_ns)
            if (stream := self._streams.pop(id, None)) is not None:
                late = DeadlineExceeded(f"{stream.spec.route}: no end of the stream before the deadline")
                self._stream_ended(stream, late, now_ns)
                continue
            assert isinstance(action.request, CallRequest)
            late = DeadlineExceeded(f"{action.request.spec.route}: no answer before the deadline")
            self._failed(action, late, now_ns)

    def give_up(self, action: MethodAction, now_ns: int) -> int:
        """The waiting action has been cancelled: end its wait, and resume it with `Cancelled`.

        Returns the id of the awaited call if it is to this backplane, for the intake to cancel; 0 otherwise.
        """
        id = action.awaiting_id
        peer = self.calls.peer_of(id)
        if peer is None:
            return 0
        self.calls.end(id)
        if (stream := self._streams.pop(id, None)) is not None:
            stream.id = 0
        self.retries.waited(id)
        self._go_on(action, now_ns)
        if peer is LOCAL:
            return id
        if peer is not CLOCK and peer != WAITING:
            self._remote_count -= 1
            self._sender.say(peer, cancel(id), now_ns)
        return 0

    def set(self, signal: OneShotEvent, now_ns: int) -> None:
        """Set a signal, and resume the action that awaits it. An action that awaits it later does not wait."""
        signal.is_set = True
        action = signal.action
        if isinstance(action, MethodAction) and action.request is signal:
            self.calls.end(action.awaiting_id)
            self._go_on(action, now_ns)
            self._poll_leader.notify()

    def fail_peer(self, peer: bytes, now_ns: int, error: PeerDown | None = None) -> None:
        """A peer is dead: the calls it held end in PEER_DOWN."""
        because = "the process that held the call died" if error is None else error.message
        failed = self.calls.fail_peer(peer)
        self._remote_count -= len(failed)
        for id, action in failed:
            if (stream := self._streams.pop(id, None)) is not None:
                self._stream_ended(stream, PeerDown(f"{stream.spec.route}: {because}"), now_ns)
                continue
            assert isinstance(action.request, CallRequest)
            self._failed(action, PeerDown(f"{action.request.spec.route}: {because}"), now_ns)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _reads_on(self, action: MethodAction, stream: StreamRequest, now_ns: int) -> bool:
        """The reader of a stream that has begun awaits more. False: it has to wait."""
        peer = self.calls.peer_of(stream.id)
        if peer is not None:
            self._give_credit(stream, peer, now_ns)
        if not stream.buffer.is_ready:
            return False
        self._go_on(action, now_ns)
        return True

    def _give_credit(self, stream: StreamRequest, peer: bytes, now_ns: int) -> None:
        if items := stream.buffer.credit_due():
            # If there is no room, a later credit makes up for it, or the stream ends by its deadline.
            self._sender.say(peer, credit(stream.id, items), now_ns)

    def _stream_ended(self, stream: StreamRequest, error: BackplaneError | None, now_ns: int) -> None:
        """A stream has left the call table. Its reader learns of it after the last item."""
        action, id, stream.id = stream.reader, stream.id, 0
        assert action is not None
        is_awaited = action.request is stream and action.awaiting_id == id
        if error is not None and is_awaited and not stream.buffer.has_begun:
            self._failed(action, error, now_ns)
            return
        stream.buffer.end(error)
        if is_awaited:
            self._go_on(action, now_ns)

    def _leave(self, stream: StreamRequest, now_ns: int) -> None:
        id, stream.id = stream.id, 0
        peer = self.calls.peer_of(id)
        if self._streams.pop(id, None) is None or peer is None:
            return
        self.calls.end(id)
        if peer is not LOCAL:
            self._remote_count -= 1
        self._sender.say(peer, cancel(id), now_ns)

    def _call(self, action: MethodAction, request: CallRequest, now_ns: int) -> None:
        spec = request.spec
        if not request.attempts_count:
            check_call(spec)
            spec.ends_ns = now_ns + spec.timeout_ns
            if action.deadline_ns is not None and action.deadline_ns < spec.ends_ns:
                spec.ends_ns = action.deadline_ns
        request.attempts_count += 1
        place = self._routing.resolve(spec, action.chain)
        peer = LOCAL if place is None else self._routing.peer_up(place)
        action.awaiting_id = id = self.calls.open(peer, spec.ends_ns, action)
        if isinstance(request, StreamRequest):
            request.id, request.reader, self._streams[id] = id, action, request
        if peer is not LOCAL:
            self._remote_count += 1
            if self._remote_count > self._routing.connections.answers_ahead:
                self._routing.connections.expect_answers(self._remote_count)
        chain: Sequence[Sequence[str]] = (*action.chain, (action.object.name, action.name))
        spec.trace = self._recorders.trace_of(action)
        if spec.principal is None:
            spec.principal = action.principal
        envelope = call(id, spec, -spec.ends_ns, chain)
        envelope.priority = priority = self._inheritance.call_priority(action, spec.priority)
        if peer is LOCAL:
            self._intake.admit(LOCAL, self._sender.as_received(envelope), now_ns, action.object)
        elif not self._sender.say(peer, envelope, now_ns):
            raise Busy(f"{spec.route}: {place} does not keep up with the messages sent to it", retry_after=0.05)
        else:
            assert place is not None
            self._priority_publisher.lend(self._routing.directory.backplanes[place], priority, now_ns)

    def _failed(self, action: MethodAction, error: BackplaneError, now_ns: int, *, is_sent: bool = True) -> None:
        """A call has failed: retry it, or resume its action with the error."""
        request = action.request
        if not isinstance(request, CallRequest) or action.thrown is not None:
            self._go_on(action, now_ns, error=error)
            return
        route = request.spec.route
        is_idempotent = type(route) is str and self._routing.is_idempotent(route)
        count = request.attempts_count or 1
        waiting = self.retries.wait(
            action, request.spec, count, error, now_ns, is_sent=is_sent, is_idempotent=is_idempotent
        )
        if isinstance(waiting, StopRetrying):
            self._go_on(action, now_ns, error=after_attempts(error, count, waiting.because))
        else:
            action.awaiting_id = waiting

    def look_again(self, now_ns: int) -> None:
        """A new routing table: calls that found no instance try again soon, in their order."""
        for id, action in self.retries.hurry(now_ns, attrgetter("posted_ns")):
            action.awaiting_id = id

    def _go_on(
        self, action: MethodAction, now_ns: int, result: Any = None, error: BackplaneError | None = None
    ) -> None:
        action.request, action.awaiting_id = None, 0
        self._inheritance.goes_on(action)
        if action.thrown is None:  # a cancellation or a deadline takes precedence
            action.inbox, action.thrown = result, error
            action.received = error
        self._scheduler.resume(action, now_ns)
