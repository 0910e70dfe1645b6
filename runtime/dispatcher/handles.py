"""Handles: what waits in the queue is not the message but a handle, which becomes the message when its turn has come.

Seed 003, section 3.2: so an event is cancelled without a trace (a timer that was stopped resolves to nothing, though it had
fired already), and a large body stays in its source's memory until somebody looks at it. A message that is simply there needs
no handle. `is_cancelled` is asked again when the locks are held: whoever cancels while he holds a datum that the handler
shares can be sure that it does not run.
"""

from __future__ import annotations

from .message import Message, MessageSpec


class Handle:
    """Subclass it for a source whose messages can be taken back, or are made when they are needed."""

    __slots__ = ("is_cancelled", "spec")

    def __init__(self, spec: MessageSpec) -> None:
        self.spec = spec
        self.is_cancelled = False

    def resolve(self) -> Message | None:
        """The message; None: there is none any more, and nobody is called. Called once, before any lock, in any thread."""
        raise NotImplementedError

    def release(self) -> None:
        """The message has been handled, or will not be: let go of its memory. Called once."""

    def cancel(self) -> None:
        """No handler begins with it any more."""
        self.is_cancelled = True
