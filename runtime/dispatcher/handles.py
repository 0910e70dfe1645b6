"""Handles: a source may queue a handle instead of a message; it is resolved to the message when its turn has come.

Seed 003, section 3.2: so an event can be cancelled without a trace (a stopped timer resolves to nothing, even if it had fired),
and a large body stays in its source's memory until a handler needs it. A message that exists already needs no handle.
`is_cancelled` is checked again once the locks are held: a handler that cancels while it holds a datum shared with the
message's handler can be sure that the latter does not run.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable

from .locking import Lock
from .message import Message, MessageSpec

#: Guards `is_cancelled` and `has_begun` of all handles: two threads may cancel and begin at once, and one of them is first.
#: Held for two steps, 0.1 us; a lock per handle would cost 60 bytes.
_first = threading.Lock()


class Handle:
    """Subclass it for a source whose messages can be cancelled, or are made only when they are needed."""

    __slots__ = ("has_begun", "is_cancelled", "is_dispatched", "lock", "ordering_key", "spec")

    def __init__(self, spec: MessageSpec, *, ordering_key: Hashable = None, lock: Lock | None = None) -> None:
        """`ordering_key`: handles with the same key are handled one after the other, in the order of dispatch (law 1).

        None: it keeps no order. A `ReadyHandle` whose message has a key of its own goes by that (`ordering_key_of`).
        `lock`: the lock of a protected source, held from before `resolve` until after `release`.
        """
        self.spec = spec
        self.ordering_key = ordering_key
        self.lock = lock
        self.is_cancelled = False
        #: It was dispatched, and cannot be again: it is resolved and released once.
        self.is_dispatched = False
        #: A handler has been called with its message.
        self.has_begun = False

    def resolve(self) -> Message | None:
        """The message; None: there is none any more, and no handler is called. Called once, in any thread, with `lock` held."""
        raise NotImplementedError

    def release(self) -> None:
        """The message has been handled, or never will be: free its memory. Called once; be quick, and thread-safe.

        A handle refused before its turn (cancelled, drained) is released without `lock`, and with the lead.
        """

    def cancel(self) -> bool:
        """Prevent further handlers from beginning with it; False if one has begun before."""
        with _first:
            self.is_cancelled = True
            return not self.has_begun

    def begin(self) -> bool:
        """For deliveries: call it before each handler. False: it was cancelled, and the handler must not be called."""
        with _first:
            if self.is_cancelled:
                return False
            self.has_begun = True
            return True


class ReadyHandle(Handle):
    """An existing message of a source that must know when it was handled, or that is locked meanwhile."""

    __slots__ = ("message",)

    def __init__(self, message: Message, *, ordering_key: Hashable = None, lock: Lock | None = None) -> None:
        spec = type(message).__message__
        super().__init__(spec, ordering_key=ordering_key if spec.key is None else ordering_key_of(message), lock=lock)
        self.message = message

    def resolve(self) -> Message | None:
        return self.message


def ordering_key_of(message: Message) -> Hashable:
    """(Type, key) of a message: messages with the same ordering key keep their order. None: it has no key."""
    spec = type(message).__message__
    key = None if spec.key is None else getattr(message, spec.key)
    return None if key is None else (spec.type, key)
