"""Schedulable: what the scheduler keeps of an object, in slots of the object itself.

A dictionary beside 100,000 objects would cost more than the objects. Apart from `AppObject`, which is for users, because
this is the part that the hot path reads and writes some twenty times an action: it is compiled where the package is
(docs/decisions/compiled.md), and compiled code reaches these fields as one reaches those of a struct.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from .action import Action


@mypyc_attr(allow_interpreted_subclasses=True)
class Schedulable:
    """Whatever has a queue of actions. `AppObject.__new__` fills it in, so that no `__init__` need be called."""

    __slots__ = ("_counts", "_head", "_load", "_number", "_priority", "_stale", "_state", "_tail", "_waits")

    _head: Action | None
    _tail: Action | None
    _state: int
    #: The ready queue it belongs to while it has work.
    _priority: int
    #: Actions by priority, only while priorities are mixed.
    _counts: list[int] | None
    #: Entries left behind in ready queues it has been raised out of.
    _stale: dict[int, int] | None
    #: Suspended coroutines that await a reply.
    _waits: int
    #: Actions queued, running or waiting.
    _load: int
    #: Of its name, for the recorder.
    _number: int
