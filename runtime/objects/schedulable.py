"""Schedulable: the scheduler's state of an object, in slots of the object itself.

A dictionary beside 100,000 objects would cost more than the objects. Separate from `AppObject`, which is for users: the hot
path reads and writes these fields some twenty times an action. The class is compiled (docs/decisions/compiled.md), and
compiled code accesses its fields like those of a struct.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from .action import Action
    from .app_object import AppObject


@mypyc_attr(allow_interpreted_subclasses=True)
class Schedulable:
    """An object with a queue of actions. `AppObject.__new__` fills the slots, so no `__init__` need be called."""

    __slots__ = (
        "_counts", "_head", "_load", "_number", "_priority", "_stale", "_state", "_tail", "_tails", "_twins", "_waits",
    )  # fmt: skip

    _head: Action | None
    _tail: Action | None
    _state: int
    #: The ready queue it belongs to while it has work.
    _priority: int
    #: Actions by priority, only while priorities are mixed.
    _counts: list[int] | None
    #: Of an object that interleaves its requests: the last queued action of each priority. None: it does not interleave.
    _tails: list[Action | None] | None
    #: Dead entries, by ready queue, left behind when its priority changed (scheduling/ready_queues.py).
    _stale: dict[int, int] | None
    #: Actions that wait: coroutines that await a reply, and parked actions.
    _waits: int
    #: Actions queued, running or waiting.
    _load: int
    #: Number of its name in the current recorder segment; below the segment's first: not written yet.
    _number: int
    #: The queues of an object with `concurrency`: itself and its twins (twins.py), in one list for all; None: it has one queue.
    _twins: list[AppObject] | None
