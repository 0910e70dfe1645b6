"""The queue of one object: its actions in order, and the highest priority among them (laws 1 and 2).

A linked list through `Action.next`, with its ends in the object's slots: an idle object owns no queue (a deque would cost
760 bytes an object). Usually all queued actions have one priority: then `_counts` is None and `_priority` is theirs. The
first action of another priority makes a count per priority, for which the queue is walked once. The counts stay until the
queue is empty, so no action is counted twice by walking.

The queue of an object that interleaves (interleaving.py) is in the order of priorities; `_tails` is set, and `_counts` is None.
"""

from __future__ import annotations

from typing import Final

from ..objects.action import Action
from ..objects.schedulable import Schedulable
from . import interleaving

#: Object states. IDLE: nothing to do. READY: in a ready queue. RUNNING: with a worker. WAITING: in the wait queue (law 6).
IDLE: Final = 0
READY: Final = 1
RUNNING: Final = 2
WAITING: Final = 3


def append(object: Schedulable, action: Action, priorities: int) -> None:  # hot: scripts/bench inproc
    """Put an action last, in constant time but for the first one of another priority."""
    if object._tails is not None:
        interleaving.join(object, object._tails, action)
        return
    action.next = None
    tail = object._tail
    if tail is None:
        object._head = object._tail = action
        object._priority = action.priority
    else:
        tail.next = action
        object._tail = action
        _note(object, action.priority, priorities)


def prepend(object: Schedulable, action: Action, priorities: int) -> None:
    """Put an action first, before those that continue, too. An object that interleaves has an order of its own."""
    if object._tails is not None:
        interleaving.join(object, object._tails, action)
        return
    head = object._head
    action.next = head
    object._head = action
    if head is None:
        object._tail = action
        object._priority = action.priority
    else:
        _note(object, action.priority, priorities)


def insert(object: Schedulable, action: Action, priorities: int) -> None:
    """Put an action behind those that continue and before all others. Linear in those that continue, which are few."""
    if object._tails is not None:
        interleaving.join(object, object._tails, action)
        return
    before: Action | None = None
    here = object._head
    while here is not None and here.continues:
        before, here = here, here.next
    if before is None:
        prepend(object, action, priorities)
    elif here is None:
        append(object, action, priorities)
    else:
        insert_after(object, before, action, priorities)


def insert_after(object: Schedulable, before: Action | None, action: Action, priorities: int) -> None:
    """Put an action behind `before`, one of the queue; None: first."""
    if object._tails is not None:
        interleaving.insert_after(object, object._tails, before, action)
    elif before is None:
        prepend(object, action, priorities)
    elif before.next is None:
        append(object, action, priorities)
    else:
        before.next, action.next = action, before.next
        _note(object, action.priority, priorities)


def pop(object: Schedulable) -> Action:  # hot: scripts/bench inproc
    """Take the first action. The queue must not be empty."""
    action = object._head
    assert action is not None
    object._head = action.next
    action.next = None
    if object._head is None:
        object._tail = None
        object._counts = None
    elif object._counts is not None:
        _unnote(object, action.priority)
    if object._tails is not None:
        interleaving.left(object, object._tails, action, None)
    return action


def remove(object: Schedulable, action: Action) -> bool:
    """Remove an action; False if it is not queued. Linear in the length of this queue."""
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
    if object._counts is not None:
        _unnote(object, action.priority)
    if object._tails is not None:
        interleaving.left(object, object._tails, action, before)
    return True


def set_priority(object: Schedulable, action: Action, priority: int, priorities: int) -> bool:
    """Change the priority of an action, which keeps its place; False if it is not queued. Linear in the length of the queue."""
    here = object._head
    while here is not None and here is not action:
        here = here.next
    if object._tails is not None and here is not None:
        remove(object, action)
        action.priority = priority
        interleaving.join(object, object._tails, action)
        return True
    old_priority, action.priority = action.priority, priority
    if here is None:
        return False
    if object._head is object._tail:
        object._priority, object._counts = priority, None  # a single action: older counts are no longer needed
        return True
    if object._counts is not None:
        object._counts[old_priority] -= 1
    _note(object, priority, priorities)
    _raise_to_first(object)
    return True


def _note(object: Schedulable, priority: int, priorities: int) -> None:
    """Count an action of this priority that has joined others in the queue."""
    counts = object._counts
    if counts is not None:
        counts[priority] += 1
    elif priority == object._priority:
        return
    else:
        counts = object._counts = [0] * priorities
        here = object._head
        while here is not None:
            counts[here.priority] += 1
            here = here.next
    if priority < object._priority:
        object._priority = priority


def _unnote(object: Schedulable, priority: int) -> None:
    """Subtract an action of this priority that has left; the queue must not be empty."""
    counts = object._counts
    assert counts is not None
    counts[priority] -= 1
    _raise_to_first(object)


def _raise_to_first(object: Schedulable) -> None:
    """Set the object's priority to the highest one that is left in its queue."""
    counts = object._counts
    while counts is not None and not counts[object._priority]:
        object._priority += 1
