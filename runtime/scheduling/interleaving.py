"""Interleaving: the queue of an object that serves other requests while one awaits a reply (`AppObject.interleaves`).

"Now the Actor begins the processing of the high priority message. Next time it picks up a message it can look for the reply
message and resume processing of the low priority message" (seed 004, "Actor + Parallel State Machine Model"). So the queue is
in the order of priorities. Of one priority, actions that go on come before those that begin: work in progress is finished
first. Otherwise it is in the order of arrival.

It is the linked list of object_queue.py. Beside it is a table of the last action of each level, and each priority has two
levels, so an action joins in constant time.
"""

from __future__ import annotations

from ..objects.action import Action
from ..objects.interleaved import LEVELS
from ..objects.schedulable import Schedulable


def join(object: Schedulable, tails: list[Action | None], action: Action) -> None:
    """Queue an action, last of its level."""
    here = level = _level_of(action)
    before = tails[here]
    while before is None and here > 0:
        here -= 1
        before = tails[here]
    if before is None:
        action.next = object._head
        object._head = action
        object._priority = action.priority
    else:
        action.next, before.next = before.next, action
    if action.next is None:
        object._tail = action
    tails[level] = action


def insert_after(object: Schedulable, tails: list[Action | None], before: Action | None, action: Action) -> None:
    """Queue an action before others of its level, behind `before`; None: first. As `join` if nothing comes after it."""
    if before is None and object._head is not None:
        action.next, object._head = object._head, action
    elif before is not None and before.next is not None:
        action.next, before.next = before.next, action
    else:
        join(object, tails, action)


def left(object: Schedulable, tails: list[Action | None], action: Action, before: Action | None) -> None:
    """An action has left the list, in which it came after `before`; None: it was first."""
    level = _level_of(action)
    if tails[level] is action:
        tails[level] = before if before is not None and _level_of(before) == level else None
    if object._head is not None:
        object._priority = object._head.priority


def _level_of(action: Action) -> int:
    return LEVELS * action.priority + (not action.continues)
