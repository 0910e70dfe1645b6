"""Served: what a dispatcher knows of a message that has handlers, in one place: it is found in one step when one comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .message import MessageSpec
from .sources.block import has_blocks

if TYPE_CHECKING:
    from .registration import Entry


class Served:
    """One type of message. Its handlers change under the dispatcher's mutex, the rest is settled when that is set up."""

    __slots__ = ("entries", "has_accessor", "has_blocks", "is_eavesdropped", "priority", "route", "spec")

    def __init__(self, spec: MessageSpec) -> None:
        self.spec = spec
        #: Its handlers, in the order in which they are called; none when all have been taken out.
        self.entries: tuple[Entry, ...] = ()
        #: Whether one of them has, or had, an accessor.
        self.has_accessor = False
        #: Whether it may have bodies in shared memory.
        self.has_blocks = has_blocks(spec.type)
        self.route = ""
        self.priority = 0
        self.is_eavesdropped = False

    def settle(self, route: str, priority: int, *, is_eavesdropped: bool) -> None:
        """What its statistics are called, how urgent it is by itself, and whether somebody eavesdrops on it."""
        self.route, self.priority, self.is_eavesdropped = route, priority, is_eavesdropped
