"""Board file: the supervisor's side of the shared-memory board; a slot a backplane, in the order of the TOML.

The layout is the runtime's (execution/urgency/board.py). Here the board is made, read for `status`, and cleared for dead
backplanes, whose "urgent work is present" would otherwise stay for ever (DESIGN 12.9): between two generations, never beside
one.
"""

from __future__ import annotations

from collections.abc import Iterable

from appbackplane.runtime.execution.urgency.board import SLOTS_MAX, Board, BoardSlot


class BoardFile:
    """One board, and the slot of each backplane."""

    def __init__(self, backplanes: Iterable[str]) -> None:
        self.slots = {name: slot for slot, name in enumerate(backplanes)}
        self._board = Board.create(len(self.slots))
        #: Descriptor of the board, for children to inherit.
        self.fd = self._board.fd

    def add(self, backplane: str) -> None:
        """Give a new backplane a slot. Raises ValueError when none is left."""
        self.slots[backplane] = min(set(range(SLOTS_MAX)) - set(self.slots.values()))

    def remove(self, backplane: str) -> None:
        """Free the slot of a backplane that is gone; it was cleared before."""
        del self.slots[backplane]

    def read(self, backplane: str) -> BoardSlot | None:
        """The backplane's slot; None: no process owns it."""
        slot = self._board.read(self.slots[backplane])
        return slot if slot.pid else None

    def clear(self, backplane: str) -> None:
        """Clear the slot of a backplane whose process is dead."""
        self._board.clear_slot(self.slots[backplane])

    def close(self) -> None:
        """Unmap the board; it lives on in processes that have it mapped."""
        self._board.close()
