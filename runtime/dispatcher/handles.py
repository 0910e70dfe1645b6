"""Handles: what waits in the queue is not the message but a handle, which becomes the message when its turn has come.

Seed 003, section 3.2: so an event is cancelled without a trace (a timer that was stopped resolves to nothing, though it had
fired already), and a large body stays in its source's memory until somebody looks at it. A message that is simply there needs
no handle. `is_cancelled` is asked again when the locks are held: whoever cancels while he holds a datum that the handler
shares can be sure that it does not run.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable

from .locking import Lock
from .message import Message, MessageSpec

#: Over `is_cancelled` and `has_begun` of all handles: who cancels and who begins may be two threads, and one of them is first.
#: Held for two steps, 0.1 us; a lock for each would be 60 bytes.
_first = threading.Lock()


class Handle:
    """Subclass it for a source whose messages can be taken back, or are made when they are needed."""

    __slots__ = ("has_begun", "is_cancelled", "is_dispatched", "lane", "lock", "spec")

    def __init__(self, spec: MessageSpec, *, lane: Hashable = None, lock: Lock | None = None) -> None:
        """`lane`: what has one is handled in the order in which it came, one after the other (law 1); see `lane_of`.

        `lock`: of the source, where that is protected: held from before it is resolved until after it is released.
        """
        self.spec = spec
        self.lane = lane
        self.lock = lock
        self.is_cancelled = False
        #: It waits in a queue, or has done so: it is resolved and released once.
        self.is_dispatched = False
        #: A handler has been called with its message.
        self.has_begun = False

    def resolve(self) -> Message | None:
        """The message; None: there is none any more, and nobody is called. Called once, in any thread, with `lock` alone."""
        raise NotImplementedError

    def release(self) -> None:
        """The message has been handled, or will not be: let go of its memory. Called once; be quick, and safe for threads:

        what is refused before its turn has come (taken back, drained) is released without `lock`, and with the lead.
        """

    def cancel(self) -> bool:
        """No handler begins with it any more; False if one has begun with it before."""
        with _first:
            self.is_cancelled = True
            return not self.has_begun

    def begin(self) -> bool:
        """For deliveries: a handler is about to be called with its message; False: it was cancelled before."""
        with _first:
            if self.is_cancelled:
                return False
            self.has_begun = True
            return True


class Ready(Handle):
    """A message that is there, of a source that has to know when it was handled, or is locked meanwhile."""

    __slots__ = ("message",)

    def __init__(self, message: Message, *, lane: Hashable = None, lock: Lock | None = None) -> None:
        spec = type(message).__message__
        super().__init__(spec, lane=lane if spec.key is None else lane_of(message), lock=lock)
        self.message = message

    def resolve(self) -> Message | None:
        """As it was given."""
        return self.message


def lane_of(message: Message) -> Hashable:
    """What a message shares with those that it keeps its order with: its type and its key; None without one."""
    spec = type(message).__message__
    key = None if spec.key is None else getattr(message, spec.key)
    return None if key is None else (spec.type, key)
