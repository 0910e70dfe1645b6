"""Fair order: within one priority each key of the work (`fair_by`: who asks, say) gets its share, however much it sends.

Start-time fair queuing (Goyal, Vin and Cheng, 1996), with run times in the place of packet lengths. A queued action is tagged
with the time at which it would begin if its flow had a backplane of its own, as fast as its weight says; the lowest tag goes
first. A flow that was idle begins at the present tag, so nobody saves up, and one that waits is overtaken by each other flow
for one action. What an action costs its flow is the flow's usual run time as a multiple of that of all flows: a ratio, so tags
given before anything was known are as good as later ones.

Priorities, quotas, inheritance, and what continues stay as they are (laws 3, 4, 6, 10). Actions of one flow keep their order
(law 1); in the queue of an object an action passes only those of other flows, of its own priority. It is in classes of its
own, so the default order pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..objects.action import DONE, Action, Outcome
from ..objects.schedulable import Schedulable
from . import object_queue
from .object_queue import READY
from .ranked_queues import RankedQueues
from .scheduler import Policy, Scheduler

#: The cost of an action of usual length for a flow of weight 1.
COST: Final = 1 << 20
#: A flow's actions count as so many times longer or shorter than those of others at most: what is measured is also preempted.
RATIO_MAX: Final = 64
#: A run time counts for this part in what is usual.
PART: Final = 1 / 32
#: Flows remembered, unless more have something outstanding.
FLOWS_MAX: Final = 1_024


class FairFlow:
    """The actions of one key at one priority. `finish`: the tag of its next action, unless it is idle until later."""

    __slots__ = ("finish", "level", "outstanding_count", "typical_ns", "unused", "weight")

    def __init__(self, level: int, weight: int) -> None:
        self.level = level
        self.weight = weight
        self.finish = 0
        self.typical_ns = 0.0
        self.outstanding_count = 0
        #: What it was charged for actions that were withdrawn. It gets that back when nothing of it is queued: until then later
        #: actions must not have lower tags than earlier ones.
        self.unused = 0

    def leaves(self) -> None:
        """One action is no longer outstanding."""
        self.outstanding_count -= 1
        if not self.outstanding_count:
            self.finish -= self.unused
            self.unused = 0


class Ticket:
    """The place of a queued action: its flow, its tag, and what the flow was charged for it."""

    __slots__ = ("charged", "flow", "tag")

    def __init__(self, flow: FairFlow, tag: int, charged: int) -> None:
        self.flow = flow
        self.tag = tag
        self.charged = charged


class FairQueues(RankedQueues):
    """Ready queues in the order of tags; equal tags in the order of arrival."""

    def rank(self, object: Schedulable) -> int:
        head = object._head
        assert head is not None, "a ready object has work"
        ticket: Ticket | None = head.ticket
        return 0 if ticket is None else ticket.tag


class FairScheduler(Scheduler):
    """A `Scheduler` that serves the flows of one priority by their weights."""

    def __init__(self, policy: Policy, now_ns: int, weight_of: Callable[[str], int]) -> None:
        """`weight_of`: the weight of a flow, by its key."""
        super().__init__(policy, now_ns)
        self.ready = self._queues = FairQueues(policy.priorities)
        self._weight_of = weight_of
        self._flows: dict[tuple[int, str], FairFlow] = {}
        self._flows_max = FLOWS_MAX
        #: By priority, the tag of the action that began last.
        self._present = [0] * policy.priorities
        #: The usual run time of an action, by priority.
        self._typical_ns = [0.0] * policy.priorities

    def post(self, action: Action, now_ns: int) -> None:
        ticket = self._ticket(action)
        action.ticket = ticket
        object: Schedulable = action.object
        tail = object._tail
        if action.continues or tail is None or not _passes(action, tail):
            super().post(action, now_ns)
            return
        action.posted_ns = now_ns
        action.priority_own = action.priority
        object._load += 1
        self.queued_count += 1
        object_queue.insert_after(object, _last_not_passed(action), action, self.priorities)
        if object._head is action and object._state == READY:
            self._queues.changed(object)

    def next(self, now_ns: int, below: int | None = None) -> Action | None:
        action = super().next(now_ns, below)
        if action is not None:
            ticket: Ticket | None = action.ticket
            if ticket is not None and ticket.tag > self._present[ticket.flow.level]:
                self._present[ticket.flow.level] = ticket.tag
        return action

    def finished(self, action: Action, outcome: Outcome, now_ns: int) -> None:
        super().finished(action, outcome, now_ns)
        ticket: Ticket | None = action.ticket
        if outcome is DONE and ticket is not None:
            action.ticket = None
            flow, run_ns, typical_ns = ticket.flow, action.run_ns, self._typical_ns
            flow.leaves()
            flow.typical_ns = _nearer(flow.typical_ns, run_ns)
            typical_ns[flow.level] = _nearer(typical_ns[flow.level], run_ns)

    def withdraw(self, action: Action) -> bool:
        is_queued = super().withdraw(action)
        ticket: Ticket | None = action.ticket
        if is_queued and ticket is not None:
            ticket.flow.unused += ticket.charged
            ticket.flow.leaves()
            action.ticket = None
        return is_queued

    def _place(self, object: Schedulable, old_priority: int) -> None:
        super()._place(object, old_priority)
        if object._state == READY:
            self._queues.changed(object)

    def _ticket(self, action: Action) -> Ticket:
        level = action.priority
        flow = self._flows.get((level, action.fair_key))
        if flow is None:
            if len(self._flows) >= self._flows_max:
                self._flows = {key: flow for key, flow in self._flows.items() if flow.outstanding_count}
                self._flows_max = max(FLOWS_MAX, 2 * len(self._flows))
            flow = self._flows[level, action.fair_key] = FairFlow(level, self._weight_of(action.fair_key))
        tag = max(self._present[level], flow.finish)
        charged = self._cost(flow)
        flow.finish = tag + charged
        flow.outstanding_count += 1
        return Ticket(flow, tag, charged)

    def _cost(self, flow: FairFlow) -> int:
        usual_ns = self._typical_ns[flow.level]
        ratio = flow.typical_ns / usual_ns if usual_ns and flow.typical_ns else 1.0
        return int(COST * min(RATIO_MAX, max(1 / RATIO_MAX, ratio))) // flow.weight


def _nearer(typical_ns: float, run_ns: int) -> float:
    return typical_ns + (run_ns - typical_ns) * PART if typical_ns else float(run_ns)


def _passes(action: Action, other: Action) -> bool:
    """Whether `action`, which is queued later, goes first."""
    mine: Ticket | None = action.ticket
    others: Ticket | None = other.ticket
    return mine is not None and others is not None and mine.tag < others.tag and other.priority == action.priority


def _last_not_passed(action: Action) -> Action | None:
    """The last action of the object's queue that stays before `action`; None: none does.

    Where all have one priority, which is usual, they are in the order of their tags: the first that is passed ends the search.
    """
    last: Action | None = None
    object: Schedulable = action.object
    is_sorted = object._counts is None
    here = object._head
    while here is not None:
        if not _passes(action, here):
            last = here
        elif is_sorted:
            break
        here = here.next
    return last
