"""Batching: which requests are served together, and how long the first of them waits for others.

"You can aggregate work together even though it came in at different times" (seed 002). The scheduler chooses a request like
any other. Those of its operation directly behind it, in the queue of its object, go with it, so the order of an object holds
(law 1). A request of another operation ends the batch, and the wait for more. While it waits, its object is in the wait queue
(law 6), with a timer. The batch runs at the priority of its most urgent request.
"""

from __future__ import annotations

from typing import Final

from ...objects.action import WAITING
from ...scheduling.scheduler import Scheduler
from ..actions.batch_action import BatchAction
from ..actions.completion import Completion
from ..actions.coroutines import OneShotEvent
from ..outgoing.outgoing_calls import OutgoingCalls

#: A wait for more ends so long before the nearest deadline of the batch. A worker wakes up to a millisecond late.
DEADLINE_ROOM_NS: Final = 2_000_000


class Batching:
    """The batches of one backplane. Used under the lead."""

    def __init__(self, *, scheduler: Scheduler, completion: Completion, outgoing: OutgoingCalls) -> None:
        self._scheduler = scheduler
        self._completion = completion
        self._outgoing = outgoing
        #: First requests that wait for more, by their identity.
        self.waiting: dict[int, BatchAction] = {}

    def gather(self, action: BatchAction, now_ns: int) -> bool:
        """Give a chosen request its companions. False: it waits for more, and is not to run now."""
        if not action.arrived_ns:
            action.arrived_ns = action.posted_ns
        if action.thrown is None:
            companions, is_complete = self._companions(action, now_ns)
            age_ns = now_ns - action.arrived_ns
            wait_ns = action.wait_max_ns - age_ns
            for one in (action, *companions):
                if one.deadline_ns is not None:  # it would begin too late
                    wait_ns = min(wait_ns, one.deadline_ns - now_ns - DEADLINE_ROOM_NS)
            if not is_complete and wait_ns > 0:
                self._await_more(action, wait_ns, len(companions) + 1, now_ns)
                return False
            for each in companions:
                self._scheduler.withdraw(each)
                each.is_companion = True
                if each.limit is not None:
                    each.limit.begins(each)
                action.priority = min(action.priority, each.priority)
            action.companions = companions
        action.wait_ns += action.posted_ns - action.arrived_ns
        return True

    def look(self, now_ns: int) -> None:
        """End the waits for more requests where no more can come."""
        for key, action in [*self.waiting.items()]:
            if not action.is_awaiting:
                del self.waiting[key]
            elif self._ends_wait(action, now_ns):
                del self.waiting[key]
                assert isinstance(action.request, OneShotEvent)
                self._outgoing.set(action.request, now_ns)

    def end(self, action: BatchAction, now_ns: int, run_ns: int, cpu_ns: int) -> None:
        """A batch has been served: answer and book the companions. Each took as long as all, and its share of the CPU time."""
        count = len(action.companions) + 1
        for each in action.companions:
            each.account = action.account
            each.started_ns, each.queued_ns = action.started_ns, each.posted_ns
            each.wait_ns += action.started_ns - each.posted_ns
            each.run_ns, each.cpu_ns = run_ns, cpu_ns // count
            if each.peer is not None or each.error is not None:
                self._completion.answer(each, now_ns)
            self._completion.book(each, now_ns)
        action.cpu_ns -= cpu_ns - cpu_ns // count
        action.companions = []

    # -- steps --------------------------------------------------------------------------------------------------------

    def _companions(self, action: BatchAction, now_ns: int) -> tuple[list[BatchAction], bool]:
        """The requests that can go with this one, and whether there will be no more: it is full, or something else follows."""
        found: list[BatchAction] = []
        # A reentrant request: the others wait for the reply that their object awaits (law 6).
        if action.object._waits > action.is_awaiting:
            return found, True
        here = action.object._head
        while here is not None:
            if len(found) + 1 == action.requests_max:
                return found, True
            is_late = (here.deadline_ns is not None and now_ns >= here.deadline_ns) or (
                here.limit is not None and here.limit.is_late(here, now_ns)
            )
            if not isinstance(here, BatchAction) or here.name != action.name or here.continues or is_late:
                return found, True
            found.append(here)
            here = here.next
        return found, len(found) + 1 == action.requests_max

    def _ends_wait(self, action: BatchAction, now_ns: int) -> bool:
        """Whether no more requests can come, or one of them must begin before the wait is over."""
        companions, is_complete = self._companions(action, now_ns)
        ends_ns = action.arrived_ns + action.wait_max_ns
        return is_complete or any(
            each.deadline_ns is not None and each.deadline_ns - DEADLINE_ROOM_NS < ends_ns for each in companions
        )

    def _await_more(self, action: BatchAction, wait_ns: int, count: int, now_ns: int) -> None:
        action.request = OneShotEvent(wait_ns, f"more requests for its batch ({count} of {action.requests_max})")
        self.waiting[id(action)] = action
        self._scheduler.finished(action, WAITING, now_ns)
        self._outgoing.start(action, now_ns)
