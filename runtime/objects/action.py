"""Action: one piece of work for one object. Calls, replies, topics, timers and state changes are all actions (law 8).

The scheduler knows nothing else: an action has an object, a priority and a deadline; running it says whether the object
is done, awaits a reply, or only steps aside. A foreign protocol becomes work by subclassing `Action` (seed 002, "All
operations are Actions"). Slots and a `next` link: the queue of an object is a linked list of its actions, so that an
idle object owns no queue at all.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from appbackplane.transport.errors import BackplaneError

if TYPE_CHECKING:
    from .app_object import AppObject


class Outcome(Enum):
    """What became of the object when its action stopped running."""

    DONE = "done"
    WAITING = "waiting"  # for one reply, in the wait queue (law 6)
    YIELDED = "yielded"  # stepped aside for higher-priority work; goes on before anything else of its object


class Action:
    """Work for one object. Subclass it and write `run` to bring in work that is not an operation.

    >>> class Greet(Action):
    ...     def run(self) -> Outcome:
    ...         self.object.greet()
    ...         return Outcome.DONE
    """

    __slots__ = ("continues", "deadline_ns", "name", "next", "object", "posted_ns", "priority")

    def __init__(self, object: AppObject, name: str, priority: int, deadline_ns: int | None = None) -> None:
        self.object = object
        #: What statistics and warnings call it; for an operation, its route.
        self.name = name
        #: 0 is highest.
        self.priority = priority
        #: Monotonic ns after which it is not begun; None: never too late.
        self.deadline_ns = deadline_ns
        #: When it was last queued; written by the scheduler.
        self.posted_ns = 0
        #: Whether it may run while its object awaits a reply: the reply itself, or a reentrant call.
        self.continues = False
        self.next: Action | None = None

    def run(self) -> Outcome:
        """Do the work. Called by a worker, never at the same time as another action of the same object."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it does: define run()")

    def refuse(self, error: BackplaneError) -> None:
        """It will not run (again): tell whoever asked for it. The default has nobody to tell."""
