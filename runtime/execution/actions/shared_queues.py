"""Shared queues: an idle queue of an object with `concurrency` takes over the request that has waited longest."""

from __future__ import annotations

from ...objects.app_object import AppObject
from ...scheduling.object_queue import IDLE
from ...scheduling.scheduler import Scheduler
from .inheritance import Inheritance


def take_over(idle: AppObject, scheduler: Scheduler, inheritance: Inheritance, now_ns: int) -> None:
    """Move the first request that waits in the object's own queue to its twin `idle`, if that has nothing to do. The caller
    holds the lead.
    """
    if idle._state != IDLE or idle._twins is None:
        return
    action = idle._twins[0]._head
    while action is not None and action.continues:
        action = action.next
    if action is None or not scheduler.withdraw(action):
        return
    inheritance.left(action, now_ns)
    action.object, action.priority = idle, action.priority_own
    action.wait_ns += now_ns - action.posted_ns
    inheritance.post(action, now_ns)
