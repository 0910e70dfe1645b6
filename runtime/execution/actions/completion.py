"""Completion: answers the caller of an ended action and books it, each exactly once.

An action has run, or it is refused: cancelled, shed to make room, or past its deadline. Users' code may fail here (an
overridden `refuse`, an `on_end` callback); the failure is reported and has no further effect.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from appbackplane.transport.envelope import reply, status
from appbackplane.transport.errors import BackplaneError, Busy, Cancelled, DeadlineExceeded, InternalError

from ...objects.action import AcceptedCalls, Action, Outcome, ParkableAction, QueueLimit
from ...objects.schedulable import Schedulable
from ...objects.state_machine import NotAccepted
from ...observation.statistics import OperationStatistics, Statistics
from ...scheduling.scheduler import Scheduler
from ...scheduling.timers import Timer
from ..intake.grants import Grants
from ..intake.idempotency_cache import IdempotencyCache
from ..intake.shutdown_gate import ShutdownGate
from ..outgoing.forwarding import Forwarding
from ..outgoing.sender import Sender
from .failures import as_error, is_own_bug
from .inheritance import Inheritance
from .method_action import MethodAction
from .recorders import Recorders
from .reports import Reports
from .shared_queues import take_over

#: A timer that has failed this often in a row counts as failing.
FAILING_MIN = 3


class Completion:
    """Completion of actions. Used under the lead."""

    def __init__(
        self, *, lead: threading.RLock, scheduler: Scheduler, statistics: Statistics, reports: Reports, sender: Sender,
        accepted: AcceptedCalls, shutdown_gate: ShutdownGate, inheritance: Inheritance, replays: IdempotencyCache,
        recorders: Recorders, grants: Grants | None, forwarding: Forwarding, is_debug: bool,
    ) -> None:  # fmt: skip
        self._lead = lead
        self._scheduler = scheduler
        self._statistics = statistics
        self._reports = reports
        self._sender = sender
        self._accepted = accepted
        self._shutdown_gate = shutdown_gate
        self._inheritance = inheritance
        self._replays = replays
        self._recorders = recorders
        self._grants = grants
        self._forwarding = forwarding
        #: Its dictionary of wishes: looked at once an action, so without the way through its owner.
        self._wanted = forwarding.wanted
        self._is_debug = is_debug
        #: Repeating timers whose last run raised: no caller learns of it. Cancelled ones are removed at the next query.
        self._failing: set[Timer] = set()
        #: Functions to call once an action has ended, by the identity of the action (`at_end`).
        self._followers: dict[int, list[Callable[[Action], None]]] = {}

    def at_end(self, action: Action, function: Callable[[Action], None]) -> None:
        """Call `function` under the lead when `action` has ended, after its `on_end`. Call this from the action itself.

        Unlike `on_end` it does not count as a receiver of the error: a failure without another receiver is still logged.
        `function` must keep a reference to the action, so that its identity is not used again.
        """
        self._followers.setdefault(id(action), []).append(function)

    def answer(self, action: Action, now_ns: int) -> None:  # hot: scripts/bench call_rtt
        """Send the caller of an action its result or error, and log errors that have no receiver or are our own bugs."""
        sender = self._sender
        peer, error, is_unsendable = action.peer, action.error, False
        if peer is not None:
            self._accepted.pop((peer, action.call_id), None)
            if action.takes_room and self._grants is not None:
                self._grants.rests(action, now_ns)
            if error is None:
                try:
                    if self._wanted:
                        self._reply_and_forward(action, peer, now_ns)
                    elif not sender.reply(peer, action.call_id, action.result, now_ns):
                        sender.undelivered_count += 1
                except BackplaneError as problem:
                    action.error = error = InternalError(f"{action.name} returned what cannot be sent: {problem}")
                    error.__cause__ = problem
                    is_unsendable = True
        if error is not None:
            told = as_error(action, error, is_debug=self._is_debug)
            is_told = peer is not None or action.on_end is not None or self._shutdown_gate.is_closed
            is_told = is_told or (isinstance(error, NotAccepted) and _is_message(action))
            is_bug = is_unsendable or (peer is not None and is_own_bug(action, error, told))
            if is_bug or not (is_told and isinstance(error, BackplaneError)):
                self._reports.failed(action, error, now_ns, is_bug=is_bug or isinstance(told, InternalError))
            if peer is not None:
                if self._wanted:
                    self._forwarding.forget(peer, action.call_id)
                is_refused = action.account is None  # a worker has never chosen it
                if not sender.say(peer, status(action.call_id, told, is_refused=is_refused), now_ns):
                    sender.undelivered_count += 1
        if self._replays.running:
            self._replays.ended(action, now_ns)

    def _reply_and_forward(self, action: Action, peer: bytes, now_ns: int) -> None:
        """Reply to an action, and first send its result to the calls that await it, as far as its caller wants that."""
        forwarded_count = self._forwarding.send_on(action, now_ns)
        if not self._sender.say(peer, reply(action.call_id, action.result, forwarded_count), now_ns):
            self._sender.undelivered_count += 1

    def book(self, action: Action, now_ns: int, has_run: bool = True) -> None:  # hot: scripts/bench call_rtt
        """Count an ended action, release its place in the throttle, and call its `on_end` and followers.

        `has_run` False: its error is not counted as one of the operation; the refusal was counted already.
        """
        statistics, recorder, spans = self._statistics, self._recorders.actions, self._recorders.spans
        account: OperationStatistics = action.account or statistics.of(action.name)
        account.run.record(action.run_ns)
        account.wait.record(action.wait_ns)
        account.cpu_ns += action.cpu_ns
        if action.error is not None and has_run:
            if isinstance(action.error, NotAccepted):
                account.refused_count += 1
            elif not isinstance(action.error, Cancelled):  # counted when the caller cancelled the call
                account.error_count += 1
        statistics.actions_count += 1
        if spans is not None:
            spans.record(action, now_ns)
        if recorder is not None:
            if action.parts is None:
                recorder.record(action, account, now_ns)
            else:
                recorder.record_parts(action, account, now_ns)
        if action.throttle is not None:
            action.throttle.ended(now_ns)
        if action.limit is not None:
            action.limit.ended(action, now_ns)
        if isinstance(action, MethodAction) and action.timer is not None:
            action.timer.is_pending = False
            self._judge(action.timer, action.error)
        action.posted_ns = 0
        queue: Schedulable = action.object
        if queue._twins is not None:
            take_over(action.object, self._scheduler, self._inheritance, now_ns)
        if action.on_end is not None:
            self._guarded(action.on_end, action, action, now_ns)
        if self._followers:
            for function in self._followers.pop(id(action), ()):
                self._guarded(function, action, action, now_ns)

    def refuse(self, action: Action, error: BackplaneError, now_ns: int) -> None:
        """End an action that is in no queue and will not run (again)."""
        if not isinstance(error, Cancelled | DeadlineExceeded):  # these have counters of their own
            self._statistics.of(action.name).refused_count += 1
        self._let_go(action, error, now_ns)
        self._inheritance.left(action, now_ns)
        self.answer(action, now_ns)
        self.book(action, now_ns, has_run=False)

    def never_posted(self, action: Action, error: BackplaneError, now_ns: int) -> None:
        """Refuse an action that was not admitted. Calls `refuse` and `on_end`, since its maker may hold resources for it."""
        self._let_go(action, error, now_ns)
        if action.on_end is not None:
            self._guarded(action.on_end, action, action, now_ns)

    def failing_count(self) -> int:
        """Timers that have failed `FAILING_MIN` times in a row or more. Call it without the lead."""
        return sum(timer.failed_count >= FAILING_MIN for timer in self._still_failing())

    def failures(self) -> dict[str, int]:
        """Failures in a row of each timer, by name; the highest among objects. Call it without the lead."""
        most: dict[str, int] = {}
        for timer in self._still_failing():
            most[timer.name] = max(most.get(timer.name, 0), timer.failed_count)
        return most

    def is_too_late(self, action: Action, now_ns: int) -> bool:
        """The deadline has passed: refuse an action that has not begun (True). A coroutine gets the error at its next step."""
        late = DeadlineExceeded(
            f"{action.name}: the deadline passed {(now_ns - (action.deadline_ns or 0)) / 1e6:.1f} ms ago"
        )
        if isinstance(action, MethodAction) and action.coroutine is not None:
            if action.thrown is None:
                action.thrown = late
            return False
        if isinstance(action, ParkableAction) and action.has_begun:
            return False  # leaving the rest out would not undo the part that is done
        self._statistics.of(action.name).expired_count += 1
        self._turn_back(action, late, now_ns)
        return True

    def has_queued_too_long(self, action: Action, limit: QueueLimit, now_ns: int) -> bool:
        """Its limit does not let it begin any more: refuse it (True)."""
        if not limit.is_late(action, now_ns):
            limit.begins(action)
            return False
        limit.refused_late()
        self._statistics.of(action.name).refused_count += 1
        self._turn_back(action, too_late(action, limit, now_ns), now_ns)
        return True

    def _turn_back(self, action: Action, error: BackplaneError, now_ns: int) -> None:
        """End an action that was just taken from its queue, instead of running it."""
        action.wait_ns += now_ns - action.posted_ns
        self._let_go(action, error, now_ns)
        self.answer(action, now_ns)
        self._scheduler.finished(action, Outcome.DONE, now_ns)
        self.book(action, now_ns, has_run=False)

    def _judge(self, timer: Timer, error: BaseException | None) -> None:
        if error is not None and not timer.is_over:  # a one-shot timer is over once it has fired
            timer.failed_count += 1
            self._failing.add(timer)
        elif timer.failed_count:
            timer.failed_count = 0
            self._failing.discard(timer)

    def _still_failing(self) -> list[Timer]:
        if not self._failing:
            return []
        with self._lead:
            self._failing = {timer for timer in self._failing if not timer.is_over}
            return [*self._failing]

    def _guarded(self, function: Callable[[Any], object], argument: object, action: Action, now_ns: int) -> None:
        """Call a function that may be a user's, or release a user's objects: its failure is reported."""
        try:
            function(argument)
        except BaseException as problem:  # the edge
            self._reports.failed(action, problem, now_ns)

    def _let_go(self, action: Action, error: BackplaneError, now_ns: int) -> None:
        self._guarded(action.refuse, error, action, now_ns)
        action.error = error


def _is_message(action: Action) -> bool:
    """Whether it is a message of a topic that is accepted in some states only."""
    return isinstance(action, MethodAction) and action.spec is not None and action.spec.mark.kind == "topic"


def too_late(action: Action, limit: QueueLimit, now_ns: int) -> Busy:
    """The error for a request that has queued for longer than its limit aims at."""
    queued_ns = now_ns - action.posted_ns + action.wait_ns
    error = Busy(
        f"{action.name}: it has queued for {queued_ns / 1e6:.1f} ms, longer than the {limit.aim_ns / 1e6:g} ms aimed at",
        retry_after=limit.aim_ns / 1e9,
    )
    error.overloaded_at, error.idle = action.priority_asked, limit.idle_thousandths
    return error
