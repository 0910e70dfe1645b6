"""Scheduler: chooses the next action of this process. Composes queues, quotas, ticks and budget; keeps laws 1 to 6.

Pure: the owner of the lead calls it with `now_ns` and runs the chosen action. `post` adds work, `next` chooses an action,
`finished` reports its outcome. An object is in exactly one of four places; `_place` implements this rule:

| place | while |
|---|---|
| RUNNING | a worker has one of its actions |
| READY | it may run: it has work, and either awaits nothing or the first action of its queue may run meanwhile |
| WAITING | it awaits a reply |
| IDLE | it has nothing to do |

Cost: about 0.5 us for post + next + finished (scripts/bench inproc).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from appbackplane.transport.errors import FailedPrecondition

from ..objects.action import DONE, Action, Outcome
from ..objects.app_object import AppObject
from ..objects.schedulable import Schedulable
from . import object_queue
from .cpu_budget import CpuBudget
from .object_queue import IDLE, READY, RUNNING, WAITING
from .quotas import Quotas, quotas_from
from .ready_queues import Ready, ReadyQueues
from .timers import Timers, earlier


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The scheduling settings that the components of one backplane share (seed 002, "policy domain")."""

    priorities: int = 8
    #: Empty: the default rule.
    quotas: Sequence[int] = ()
    tick_ns: int = 1_000_000_000
    #: Percent of one core.
    cpu_limit: int | None = None
    #: Priorities, from the top, that run although the CPU budget is spent.
    cpu_exempt: int = 0


class Scheduler:
    """The scheduler of one backplane. Not thread-safe: every caller must hold the lead."""

    def __init__(self, policy: Policy, now_ns: int) -> None:
        self.priorities = policy.priorities
        self.ready: Ready = ReadyQueues(policy.priorities)
        self.quotas = Quotas(quotas_from(policy.quotas, policy.priorities))
        self.ticks = Ticks(policy.tick_ns, now_ns)
        self.budget = CpuBudget(policy.cpu_limit, policy.tick_ns, policy.cpu_exempt)
        self.timers = Timers()
        self.tick_count = 0
        self.virtual_tick_count = 0
        #: When a tick last renewed a budget that was spent.
        self.renewed_ns = 0
        #: Objects in the wait queue.
        self.waiting_count = 0
        #: Actions queued in all objects.
        self.queued_count = 0

    def change_tick(self, period_ns: int, now_ns: int) -> None:
        """Change the integration period of ticks and budget, in force at once. Raises ValueError for 0 or less."""
        self.ticks.change(period_ns, now_ns)
        self.budget.change_period(period_ns)

    def post(self, action: Action, now_ns: int) -> None:  # hot: scripts/bench inproc
        """Queue a request last at its object (law 1), which moves up if the request is more urgent (law 2).

        A reentrant call (`continues`) goes before all actions that wait for the object's reply; otherwise the two would
        wait for each other. If the object awaits nothing (any more), it is queued like any other request.
        """
        object: Schedulable = action.object
        action.posted_ns = now_ns
        action.priority_own = action.priority
        object._load += 1
        self.queued_count += 1
        old_priority = object._priority
        if action.continues:
            if object._waits and object._tails is None:
                object_queue.insert(object, action, self.priorities)
                if object._state != RUNNING:
                    self._place(object, old_priority)
                return
            action.continues = False
        object_queue.append(object, action, self.priorities)
        state = object._state
        if state == IDLE:
            object._state = READY
            self.ready.push(object)
        elif state == READY and object._priority < old_priority:
            self.ready.move(object, old_priority)
        elif state == WAITING and object._tails is not None:
            self._place(object, old_priority)

    def post_first(self, action: Action, now_ns: int) -> None:
        """Queue an action before all other actions of its object."""
        object: Schedulable = action.object
        action.posted_ns = now_ns
        object._load += 1
        self._put_first(action)

    def resume(self, action: Action, now_ns: int) -> None:
        """Requeue a waiting action, first at its object, because its reply has arrived (law 6)."""
        object: Schedulable = action.object
        assert object._waits > 0, "a reply for an object that awaits none"
        object._waits -= 1
        action.posted_ns = now_ns
        action.continues = True
        self._put_first(action)

    def resume_first(self, action: Action, now_ns: int) -> None:
        """`resume`, for an action that others wait for: its object goes first in its ready queue.

        At the end of the queue it would delay all those waiters by the length of the queue. With a quarter of the messages
        after one datum and four workers, the rest was done in 83 ms, that quarter only in 190 (docs/decisions/parking.md).
        """
        object: Schedulable = action.object
        if object._state != WAITING:  # another action of the object runs or may run
            self.resume(action, now_ns)
            return
        assert object._waits > 0, "resumed, and did not wait"
        object._waits -= 1
        object._state = READY
        self.waiting_count -= 1
        self.queued_count += 1
        action.continues = True
        action.posted_ns = now_ns
        object_queue.prepend(object, action, self.priorities)
        self.ready.push_first(object)

    def requeue(self, actions: list[Action]) -> None:
        """Put set-aside actions of one object back, in their order, before all that came later.

        Actions that continue (a received reply, one that yielded) stay in front of them. An object that interleaves queues them
        by its own order.
        """
        object: Schedulable = actions[0].object
        old_priority = object._priority
        for action in actions:
            action.continues = action.continues and object._waits > 0
        going_on = [action for action in actions if action.continues]
        others = [action for action in actions if not action.continues]
        if object._tails is None:
            others.reverse()
        for action in (*going_on, *others):
            object_queue.insert(object, action, self.priorities)
        self.queued_count += len(actions)
        if object._state != RUNNING:
            self._place(object, old_priority)

    # hot: scripts/bench inproc
    def next(self, now_ns: int, below: int | None = None) -> Action | None:
        """Take the next action and mark its object running; None if nothing may run now.

        The search starts at the highest priority each time (law 3). `below`: only priorities more urgent than this, for a
        relief worker. If every queue with work has spent its quota but CPU budget is left, quotas are reset: a virtual tick
        (law 4).
        """
        if now_ns >= self.ticks.next_ns:
            if self.budget.is_spent:
                self.renewed_ns = now_ns
            self.budget.reset(self.ticks.advance(now_ns))
            self.quotas.reset()
            self.tick_count += 1
        if not self.ready.count:
            return None
        end = self.priorities if below is None else below
        is_spent = self.budget.is_spent
        if is_spent:
            end = min(end, self.budget.exempt)
        left = self.quotas.left
        object = self.ready.take(left, end)
        if object is None:
            if is_spent or not self._are_quotas_spent(end):
                return None
            self.quotas.reset()
            self.virtual_tick_count += 1
            object = self.ready.take(left, end)
            assert object is not None, "a virtual tick that freed nothing"
        object._state = RUNNING
        self.queued_count -= 1
        return object_queue.pop(object)

    def has_work(self, below: int | None = None) -> bool:
        """Whether `next` would find an action. May be wrongly True, never wrongly False."""
        if not self.ready.count:
            return False
        if self.budget.is_spent:
            below = self.budget.exempt if below is None else min(below, self.budget.exempt)
        if below is None:
            return True
        return self.ready.has_above(below, self.quotas.left)

    def _are_quotas_spent(self, end: int) -> bool:
        """Whether no queue with work has quota left, and one above `end` would get some at a virtual tick."""
        highest = self.ready.highest()
        if highest is None or highest >= end:
            return False
        depths, left = self.ready.depths(), self.quotas.left
        return not any(depth and left[priority] for priority, depth in enumerate(depths))

    # hot: scripts/bench inproc
    def finished(self, action: Action, outcome: Outcome, now_ns: int) -> None:
        """Report that a worker's run of an action returned `outcome`; its object becomes ready, waiting or idle."""
        object: Schedulable = action.object
        assert object._state == RUNNING, "finished without having been chosen"
        if outcome is DONE:
            object._load -= 1
            if not object._waits:  # the usual case, without `_place`
                if object._head is None:
                    object._state = IDLE
                else:
                    object._state = READY
                    self.ready.push(object)
                return
        elif outcome is Outcome.WAITING:
            object._waits += 1
        else:
            action.posted_ns = now_ns
            action.continues = True
            self.queued_count += 1
            object_queue.prepend(object, action, self.priorities)
        self._place(object, object._priority)

    def set_aside(self, action: Action, now_ns: int) -> None:
        """Stop a running action; its object keeps it, in no queue, until `requeue` or `drop`.

        It still counts as outstanding, and this time counts as time in queues.
        """
        object: Schedulable = action.object
        action.posted_ns = now_ns
        assert object._state == RUNNING, "set aside without having been chosen"
        self._place(object, object._priority)

    def drop(self, action: Action) -> None:
        """Stop counting an action that was set aside and will not be put back."""
        action.object._load -= 1

    def set_priority(self, action: Action, priority: int) -> None:
        """Change the priority of an action (law 10). A queued one keeps its place; its object's priority follows (law 2)."""
        object: Schedulable = action.object
        old_priority = object._priority
        if object_queue.set_priority(object, action, priority, self.priorities) and object._state == READY:
            self._place(object, old_priority)

    def withdraw(self, action: Action) -> bool:
        """Remove a queued action (cancelled, or shed to make room). False if it is not queued."""
        object: Schedulable = action.object
        old_priority = object._priority
        if not object_queue.remove(object, action):
            return False
        object._load -= 1
        self.queued_count -= 1
        if object._state != RUNNING:
            self._place(object, old_priority)
        return True

    def check_removable(self, object: AppObject) -> None:
        """Raise `FailedPrecondition` while the object has work or awaits a reply (law 6)."""
        if object._waits:
            raise FailedPrecondition(f"{object.name} awaits a reply: it cannot be removed from the wait queue")
        if object._load:
            raise FailedPrecondition(f"{object.name} has {object._load} actions outstanding: it cannot be removed")

    def _put_first(self, action: Action) -> None:
        object: Schedulable = action.object
        old_priority = object._priority
        object_queue.prepend(object, action, self.priorities)
        self.queued_count += 1
        if object._state != RUNNING:
            self._place(object, old_priority)

    def _place(self, object: Schedulable, old_priority: int) -> None:  # hot: scripts/bench inproc
        """Put an object into its place. While it awaits a reply, only actions that continue may run (law 6), unless it
        interleaves.
        """
        before = object._state
        head = object._head
        if head is not None and (head.continues or not object._waits or object._tails is not None):
            object._state = READY
            if before != READY:
                self.ready.push(object)
            elif object._priority != old_priority:
                self.ready.move(object, old_priority)
        else:
            if before == READY:
                self.ready.discard(object, old_priority)
            object._state = WAITING if object._waits else IDLE
            self.waiting_count += object._state == WAITING
        self.waiting_count -= before == WAITING

    def next_wake_ns(self) -> int | None:
        """When a sleeping worker must wake without input: at a timer, or at the tick that renews a spent budget."""
        timer_ns = self.timers.next_ns()
        if self.ready.count and self.budget.is_spent:
            return earlier(self.ticks.next_ns, timer_ns)
        return timer_ns


class Ticks:
    """The end of each integration period (law 4). `advance` counts the periods that passed unnoticed: in an idle process, or in
    a stopped one.
    """

    def __init__(self, period_ns: int, now_ns: int) -> None:
        self.next_ns = now_ns + period_ns
        self.change(period_ns, now_ns)

    def change(self, period_ns: int, now_ns: int) -> None:
        """Change the period. The next tick stays, unless the new period ends earlier. Raises ValueError for 0 or less."""
        if period_ns <= 0:
            raise ValueError(f"tick: {period_ns} ns is no period: expected a time above 0")
        self.period_ns = period_ns
        self.next_ns = min(self.next_ns, now_ns + period_ns)

    def advance(self, now_ns: int) -> int:
        """How many ticks are due. The next one is set after `now_ns`, in step with the first."""
        if now_ns < self.next_ns:
            return 0
        passed = (now_ns - self.next_ns) // self.period_ns + 1
        self.next_ns += passed * self.period_ns
        return passed
