"""Served: a dispatcher's record of one message type that has handlers; a message finds it by a single lookup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .message import MessageSpec
from .sources.block import has_blocks

if TYPE_CHECKING:
    from .registration import HandlerEntry


class Served:
    """One type of message. Its handlers change under the dispatcher's mutex, the rest is fixed at set-up."""

    __slots__ = ("entries", "has_accessor", "has_blocks", "is_eavesdropped", "priority", "route", "spec")

    def __init__(self, spec: MessageSpec) -> None:
        self.spec = spec
        #: Its handlers in calling order; none if all have been unregistered.
        self.entries: tuple[HandlerEntry, ...] = ()
        #: Whether one of them has, or had, an accessor.
        self.has_accessor = False
        #: Whether it may have bodies in shared memory (blocks).
        self.has_blocks = has_blocks(spec.type)
        self.route = ""
        self.priority = 0
        self.is_eavesdropped = False

    def settle(self, route: str, priority: int, *, is_eavesdropped: bool) -> None:
        """Set its name in statistics, its default priority, and whether its category has an eavesdropper."""
        self.route, self.priority, self.is_eavesdropped = route, priority, is_eavesdropped
