"""Reading action: an operation one of whose arguments arrives item by item, and is read while the operation runs.

The items wait in an `ItemBuffer` (transport/item_buffer.py), like those of a stream at its reader: here the callee reads. While
the operation waits for the next item it is in the wait queue (law 6), and returns the credit that is due. A plain operation
blocks its thread instead, as for any call (blocking.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from appbackplane.transport.errors import Cancelled
from appbackplane.transport.item_buffer import ItemBuffer

from ...objects.app_object import AppObject
from .coroutines import OneShotEvent
from .method_action import MethodAction

#: How long a wait for items may take: longer than any deadline.
_UNTIL_DEADLINE_NS: Final = 8 * 86_400 * 1_000_000_000


class AwaitedItems(OneShotEvent):
    """An operation waits for items of its streamed argument, at most until its deadline."""

    __slots__ = ()

    def __init__(self, what: str) -> None:
        super().__init__(_UNTIL_DEADLINE_NS, what)


class ReadingAction(MethodAction):
    """One run of an operation with a streamed argument."""

    __slots__ = ("_gate", "buffer")

    def __init__(
        self, object: AppObject, name: str, priority: int, function: Callable[..., Any], arguments: tuple[Any, ...],
        deadline_ns: int | None, buffer: ItemBuffer,
    ) -> None:  # fmt: skip
        """`buffer`: of the items that its caller sends."""
        super().__init__(object, name, priority, function, arguments, deadline_ns)
        self.buffer = buffer
        #: Held while a plain operation waits for items; released to wake it. Written under the lead.
        self._gate: threading.Lock | None = None

    def block_at(self, gate: threading.Lock) -> None:
        """A plain operation is about to wait at this gate for items. Needs the lead."""
        self._gate = gate

    def open_gate(self) -> None:
        """Wake a plain operation that waits for items, if it does. Needs the lead."""
        gate, self._gate = self._gate, None
        if gate is not None:
            gate.release()

    def cancel(self) -> None:
        """As of any action. The stream has ended as well, so that a plain operation, which cannot be interrupted, goes on."""
        super().cancel()
        self.buffer.end_in(Cancelled(f"{self.name}: the caller cancelled the call"))
        self.open_gate()
