"""Withdrawal: ends an action that has not begun, wherever it waits."""

from __future__ import annotations

from appbackplane.transport.errors import BackplaneError

from ...objects.action import Action, ParkableAction
from ...scheduling.scheduler import Scheduler
from ..actions.completion import Completion
from ..actions.method_action import MethodAction
from ..actions.parked_actions import ParkedActions
from .awaiting_calls import AwaitingCall, AwaitingCalls
from .deferring import Deferring, is_deferred


class Withdrawal:
    """Takes actions out of queues, lock waits and state machines. Used under the lead."""

    def __init__(
        self, *, scheduler: Scheduler, completion: Completion, parking: ParkedActions, deferring: Deferring,
        awaiting: AwaitingCalls,
    ) -> None:  # fmt: skip
        self._scheduler = scheduler
        self._completion = completion
        self._parking = parking
        self._deferring = deferring
        self._awaiting = awaiting

    def take_out(self, action: Action, error: BackplaneError, now_ns: int) -> bool:
        """Refuse an action that has not begun: queued, parked, deferred by a state machine, or a call that awaits operands.

        False: it is none of these.
        """
        if isinstance(action, AwaitingCall):
            self._awaiting.drop(action, error, now_ns)
            return True
        if self._scheduler.withdraw(action):
            self._completion.refuse(action, error, now_ns)
            return True
        if isinstance(action, ParkableAction):
            return self._parking.take_back(action, error, now_ns)
        if isinstance(action, MethodAction) and is_deferred(action):
            self._deferring.drop(action, error, now_ns)
            return True
        return False
