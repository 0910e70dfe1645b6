"""Deadline order: within one priority, the object with the nearest deadline goes first (`order = "deadline"`).

Earliest deadline first (Liu and Layland, 1973) among objects of one priority; priorities, quotas and the order within an
object stay the same (laws 1 to 3). An object's deadline is the nearest among its first `LOOK_AHEAD_MAX` actions of the
object's priority: the actions before that one delay it. An action without a deadline gets the default one, counted from when
it was queued: it is overtaken for at most that long, so nothing starves.

It is in classes of its own, so the default order pays nothing.
"""

from __future__ import annotations

from appbackplane.transport.call_checks import TIMEOUT_DEFAULT_NS

from ..objects.action import Action
from ..objects.schedulable import Schedulable
from .object_queue import READY
from .ranked_queues import RANK, RankedQueues
from .scheduler import Policy, Scheduler

#: Actions of an object that are scanned: 40 ns each. An action further behind counts once it has moved up.
LOOK_AHEAD_MAX = 32
#: The assumed deadline of an action without one, from when it was queued: the default deadline of calls.
PATIENCE_NS = TIMEOUT_DEFAULT_NS
_NEVER_NS = 1 << 63


class DeadlineQueues(RankedQueues):
    """Ready queues in the order of deadlines."""

    def rank(self, object: Schedulable) -> int:
        return nearest_ns(object)

    def joined(self, action: Action) -> None:
        """Re-sort a ready object that got `action`, if that has a nearer deadline."""
        entry = self.entries.get(id(action.object))
        if entry is not None and due_ns(action) < entry[RANK]:
            self.changed(action.object)


class DeadlineScheduler(Scheduler):
    """A `Scheduler` with ready queues in the order of deadlines; about 1 us more an action."""

    def __init__(self, policy: Policy, now_ns: int) -> None:
        super().__init__(policy, now_ns)
        self.ready = self._queues = DeadlineQueues(policy.priorities)

    def post(self, action: Action, now_ns: int) -> None:
        was_ready = action.object._state == READY
        super().post(action, now_ns)
        if was_ready:
            self._queues.joined(action)

    def _place(self, object: Schedulable, old_priority: int) -> None:
        super()._place(object, old_priority)
        if object._state == READY:
            self._queues.changed(object)


def due_ns(action: Action) -> int:
    """The monotonic ns by which an action should be done; without a deadline, `PATIENCE_NS` after it was queued."""
    return action.posted_ns + PATIENCE_NS if action.deadline_ns is None else action.deadline_ns


def nearest_ns(object: Schedulable) -> int:  # hot: scripts/bench inproc
    """The nearest deadline (`due_ns`) among the first actions of the object's priority."""
    head = here = object._head
    assert head is not None, "a ready object has work"
    if head.next is None:
        return due_ns(head)
    priority, nearest, left = object._priority, _NEVER_NS, LOOK_AHEAD_MAX
    while here is not None and left:
        if here.priority == priority:
            deadline_ns = here.deadline_ns
            due = here.posted_ns + PATIENCE_NS if deadline_ns is None else deadline_ns
            if due < nearest:
                nearest = due
        here, left = here.next, left - 1
    return due_ns(head) if nearest == _NEVER_NS else nearest
