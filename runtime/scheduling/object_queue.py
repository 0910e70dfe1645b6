"""The queue of one object: its actions in order, and the highest priority among them (laws 1 and 2).

A linked list through `Action.next`, its ends in the object's slots: an idle object owns no queue (a deque would cost 760
bytes an object). While all queued actions have one priority, which is nearly always, `_counts` is None and `_priority` is
theirs; the first odd one makes a count a priority, so that the highest is known without looking at the others.
"""

from __future__ import annotations

from ..objects.action import Action
from ..objects.app_object import AppObject

#: Object states. IDLE: nothing to do. READY: in a ready queue. RUNNING: with a worker. WAITING: in the wait queue (law 6).
IDLE, READY, RUNNING, WAITING = range(4)


def append(object: AppObject, action: Action, priorities: int) -> None:  # hot: scripts/bench inproc
    """Put an action last."""
    action.next = None
    tail = object._tail
    if tail is None:
        object._head = object._tail = action
        object._priority = action.priority
        object._queued = 1
    else:
        tail.next = action
        object._tail = action
        _note(object, action.priority, priorities)


def prepend(object: AppObject, action: Action, priorities: int) -> None:
    """Put an action first."""
    head = object._head
    action.next = head
    object._head = action
    if head is None:
        object._tail = action
        object._priority = action.priority
        object._queued = 1
    else:
        _note(object, action.priority, priorities)


def insert(object: AppObject, action: Action, priorities: int) -> None:
    """Put an action behind those that continue and before all others. Those that continue are few: linear in them."""
    before: Action | None = None
    here = object._head
    while here is not None and here.continues:
        before, here = here, here.next
    if before is None:
        prepend(object, action, priorities)
    elif here is None:
        append(object, action, priorities)
    else:
        before.next, action.next = action, here
        _note(object, action.priority, priorities)


def pop(object: AppObject) -> Action:  # hot: scripts/bench inproc
    """Take the first action."""
    action = object._head
    assert action is not None
    object._head = action.next
    action.next = None
    if object._head is None:
        object._tail = None
        object._queued = 0
        object._counts = None
    else:
        object._queued -= 1
        if object._counts is not None:
            _unnote(object, action.priority)
    return action


def remove(object: AppObject, action: Action) -> bool:
    """Take an action out of the middle; False if it is not queued. Linear in the length of this one queue."""
    before: Action | None = None
    here = object._head
    while here is not None and here is not action:
        before, here = here, here.next
    if here is None:
        return False
    if before is None:
        pop(object)
        return True
    before.next = here.next
    here.next = None
    if object._tail is here:
        object._tail = before
    object._queued -= 1
    if object._counts is not None:
        _unnote(object, action.priority)
    return True


def _note(object: AppObject, priority: int, priorities: int) -> None:
    counts = object._counts
    if counts is None:
        if priority == object._priority:
            object._queued += 1
            return
        counts = object._counts = [0] * priorities
        counts[object._priority] = object._queued
    object._queued += 1
    counts[priority] += 1
    if priority < object._priority:
        object._priority = priority


def _unnote(object: AppObject, priority: int) -> None:
    counts = object._counts
    assert counts is not None
    counts[priority] -= 1
    if priority == object._priority and not counts[priority]:
        object._priority = next(p for p, count in enumerate(counts) if count)
