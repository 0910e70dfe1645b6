"""Deferring: calls that a state machine does not accept in its state, kept beside its queue until the next change of state.

A deferred call keeps its place in the component's limit, and ends at its deadline.
"""

from __future__ import annotations

from collections.abc import Sequence

from appbackplane.transport.calls import OutstandingCalls
from appbackplane.transport.errors import BackplaneError, DeadlineExceeded

from ...objects.action import LOCAL, Action
from ...objects.state_machine import StateMachine
from ...observation.statistics import Statistics
from ...scheduling.scheduler import Scheduler
from ..actions.completion import Completion
from ..actions.method_action import MethodAction


class Deferring:
    """The deferred actions of all state machines. Used under the lead."""

    def __init__(self, *, scheduler: Scheduler, statistics: Statistics, completion: Completion) -> None:
        self._scheduler = scheduler
        self._statistics = statistics
        self._completion = completion
        #: Deferred actions that have a deadline.
        self._calls: OutstandingCalls[MethodAction] = OutstandingCalls()

    def next_deadline_ns(self) -> int | None:
        """When the next deferred action ends; None: none has a deadline."""
        return self._calls.next_deadline_ns()

    def defer(self, action: MethodAction, now_ns: int) -> None:
        """A state machine does not accept this action now: keep it beside the queue."""
        action.is_deferred = False
        self._scheduler.set_aside(action, now_ns)
        machine = action.object
        assert isinstance(machine, StateMachine) and action.spec is not None
        if machine._machine_state in (action.spec.mark.accepted_in or ()):
            self._scheduler.requeue([action])  # the state has changed since
        else:
            machine._deferred.append(action)
            if action.throttle is not None:
                action.throttle.may_be_refused(action.priority)
            if action.deadline_ns is not None:
                action.deferred_id = self._calls.open(LOCAL, action.deadline_ns, action)

    def requeue(self, actions: Sequence[Action]) -> None:
        """A state machine has changed its state: its deferred actions are tried again."""
        for action in actions:
            if isinstance(action, MethodAction) and action.deferred_id:
                self._calls.end(action.deferred_id)
                action.deferred_id = 0
        self._scheduler.requeue([*actions])

    def expire(self, now_ns: int) -> None:
        """End deferred actions at their deadlines: no caller waits for them, and they would keep their places for ever."""
        for _, _, action in self._calls.expire(now_ns):
            if is_deferred(action):  # if not, it is on its way to the queue, and ends there
                self._statistics.of(action.name).expired_count += 1
                late = f"{action.name}: the deadline passed before {action.object.name} accepted it"
                self.drop(action, DeadlineExceeded(late), now_ns)

    def drop(self, action: MethodAction, error: BackplaneError, now_ns: int) -> None:
        machine = action.object
        assert isinstance(machine, StateMachine)
        machine._deferred.remove(action)
        self._calls.end(action.deferred_id)
        action.wait_ns += now_ns - action.posted_ns
        self._scheduler.drop(action)
        self._completion.refuse(action, error, now_ns)


def is_deferred(action: Action) -> bool:
    """Whether a state machine has deferred this action."""
    machine = action.object
    return isinstance(action, MethodAction) and isinstance(machine, StateMachine) and action in machine._deferred
