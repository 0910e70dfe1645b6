"""Scheduler: what runs next in this process. Composes queues, quotas, ticks and budget; keeps laws 1 to 6.

Pure: the owner of the lead calls it with `now_ns` and does what it says. `post` puts work in, `next` chooses, `finished`
says what became of the object. An object is in exactly one of four places: idle, in a ready queue, with a worker, or in
the wait queue; `MOVES` below is that rule, and nothing else may change `_state`.

| from | post | post_first (reply) | next | finished |
|---|---|---|---|---|
| IDLE | READY | - | - | - |
| READY | READY, raised if more urgent | READY | RUNNING | - |
| RUNNING | RUNNING | RUNNING | - | READY, WAITING or IDLE |
| WAITING | WAITING; READY if reentrant | READY | - | - |

Cost: about 0.5 us for post + next + finished (scripts/bench inproc).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from appbackplane.transport.errors import FailedPrecondition

from ..objects.action import Action, Outcome
from ..objects.app_object import AppObject
from . import object_queue
from .cpu_budget import CpuBudget
from .object_queue import IDLE, READY, RUNNING, WAITING
from .quotas import Quotas, quotas_from
from .ready_queues import ReadyQueues
from .ticks import Ticks
from .timers import Timers


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What the components of one backplane have agreed on (seed 002, "policy domain")."""

    priorities: int = 8
    #: Empty: the default rule.
    quotas: Sequence[int] = ()
    tick_ns: int = 1_000_000_000
    #: Percent of one core.
    cpu_limit: int | None = None
    #: Priorities, from the top, that run although the CPU budget is spent.
    cpu_exempt: int = 0


class Scheduler:
    """The laws of one backplane. Not thread-safe: whoever holds the lead owns it."""

    def __init__(self, policy: Policy, now_ns: int) -> None:
        self.priorities = policy.priorities
        self.ready = ReadyQueues(policy.priorities)
        self.quotas = Quotas(quotas_from(policy.quotas, policy.priorities))
        self.ticks = Ticks(policy.tick_ns, now_ns)
        self.budget = CpuBudget(policy.cpu_limit, policy.tick_ns, policy.cpu_exempt)
        self.timers = Timers()
        self.tick_count = 0
        self.virtual_tick_count = 0
        #: Objects in the wait queue.
        self.waiting_count = 0
        #: Actions queued in all objects.
        self.queued_count = 0

    def post(self, action: Action, now_ns: int) -> None:  # hot: scripts/bench inproc
        """Queue a request behind what its object has (law 1); the object is raised to it if need be (law 2)."""
        object = action.object
        action.posted_ns = now_ns
        object._load += 1
        self.queued_count += 1
        if action.continues and object._state == WAITING:
            self._put_first(object, action)
            return
        old_priority = object._priority
        object_queue.append(object, action, self.priorities)
        state = object._state
        if state == IDLE:
            object._state = READY
            self.ready.push(object)
        elif state == READY and object._priority < old_priority:
            self.ready.move(object, old_priority)

    def resume(self, action: Action, now_ns: int) -> None:
        """The reply that a waiting action awaited has come: it goes to the front, its object back to ready (law 6)."""
        object = action.object
        assert object._waits > 0, "a reply for an object that awaits none"
        object._waits -= 1
        action.posted_ns = now_ns
        action.continues = True
        self.queued_count += 1
        self._put_first(object, action)

    def requeue(self, actions: list[Action]) -> None:
        """Put actions that were popped and set aside (deferred) back in front, in their order, as if never popped."""
        for action in reversed(actions):
            action.object._load += 1
            self.queued_count += 1
            self._put_first(action.object, action)

    def _put_first(self, object: AppObject, action: Action) -> None:
        old_priority = object._priority
        object_queue.prepend(object, action, self.priorities)
        state = object._state
        if state == READY:
            if object._priority < old_priority:
                self.ready.move(object, old_priority)
        elif state != RUNNING:
            if state == WAITING:
                self.waiting_count -= 1
            object._state = READY
            self.ready.push(object)

    def next(self, now_ns: int, below: int | None = None) -> Action | None:  # hot: scripts/bench inproc
        """The next action, its object marked running; None if nothing may run now.

        The search starts at the highest priority each time (law 3). `below`: only priorities more urgent than this, for a
        relief worker. When every queue with work has spent its quota and CPU budget is left, quotas are reset: a virtual
        tick (law 4).
        """
        if now_ns >= self.ticks.next_ns:
            self._tick(now_ns)
        if not self.ready.count:
            return None
        end = self.priorities if below is None else below
        if self.budget.is_spent:
            end = min(end, self.budget.exempt)
        action = self._search(end)
        if action is None and end == self.priorities and self.ready.count:
            self.quotas.reset()
            self.virtual_tick_count += 1
            action = self._search(end)
        return action

    def _search(self, end: int) -> Action | None:
        left = self.quotas.left
        for priority, queue in enumerate(self.ready.queues[:end]):
            if queue and left[priority] > 0:
                object = self.ready.pop(priority)
                if object is not None:
                    left[priority] -= 1
                    object._state = RUNNING
                    self.queued_count -= 1
                    return object_queue.pop(object)
        return None

    def finished(self, action: Action, outcome: Outcome, now_ns: int) -> None:  # hot: scripts/bench inproc
        """The worker is through with an action for now: back to a ready queue, to the wait queue, or idle."""
        object = action.object
        assert object._state == RUNNING, "finished without having been chosen"
        if outcome is Outcome.DONE:
            object._load -= 1
        elif outcome is Outcome.WAITING:
            object._waits += 1
        else:
            action.posted_ns = now_ns
            action.continues = True
            self.queued_count += 1
            object_queue.prepend(object, action, self.priorities)
        head = object._head
        if head is None:
            if object._waits:
                object._state = WAITING
                self.waiting_count += 1
            else:
                object._state = IDLE
        elif object._waits and not head.continues:
            object._state = WAITING
            self.waiting_count += 1
        else:
            object._state = READY
            self.ready.push(object)

    def withdraw(self, action: Action) -> bool:
        """Take a queued action back (cancelled, or shed to make room). False if it is not queued."""
        object = action.object
        old_priority = object._priority
        if not object_queue.remove(object, action):
            return False
        object._load -= 1
        self.queued_count -= 1
        if object._state == READY:
            head = object._head
            if head is None or (object._waits and not head.continues):
                self.ready.discard(object, old_priority)
                object._state = WAITING if object._waits else IDLE
                self.waiting_count += bool(object._waits)
            elif object._priority != old_priority:
                self.ready.move(object, old_priority)
        return True

    def check_removable(self, object: AppObject) -> None:
        """Raises `FailedPrecondition` while the object has work or awaits a reply (law 6)."""
        if object._waits:
            raise FailedPrecondition(f"{object.name} awaits a reply: it cannot be removed from the wait queue")
        if object._state != IDLE:
            raise FailedPrecondition(f"{object.name} has {object._load} actions outstanding: it cannot be removed")

    def _tick(self, now_ns: int) -> None:
        passed = self.ticks.advance(now_ns)
        self.tick_count += 1
        self.quotas.reset()
        for _ in range(min(passed, 64)):  # a debt is paid off a period at a time; beyond 64 none is left
            self.budget.reset()

    def next_wake_ns(self) -> int | None:
        """When to look again although nothing has come: a timer, or the tick that frees a spent budget."""
        timer_ns = self.timers.next_ns()
        if self.ready.count and self.budget.is_spent:
            return self.ticks.next_ns if timer_ns is None else min(self.ticks.next_ns, timer_ns)
        return timer_ns
