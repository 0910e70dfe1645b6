"""Board file: the supervisor's side of the shared page; a slot a backplane, in the order of the TOML.

The layout is the runtime's (runtime/execution/board.py). Here it is made, read for `status`, and cleared for the dead,
whose "urgent work is present" would otherwise stay for ever (DESIGN 12.9): between two generations, never beside one.
"""

from __future__ import annotations

from collections.abc import Iterable

from appbackplane.runtime.execution.board import SLOTS_MAX, Board, BoardSlot


class BoardFile:
    """One board and who sits where on it."""

    def __init__(self, backplanes: Iterable[str]) -> None:
        self.slots = {name: slot for slot, name in enumerate(backplanes)}
        self._board = Board.create(len(self.slots))

    def add(self, backplane: str) -> None:
        """One more sits there. Raises ValueError when there is no slot left."""
        self.slots[backplane] = min(set(range(SLOTS_MAX)) - set(self.slots.values()))

    def remove(self, backplane: str) -> None:
        """It has gone, and its slot was cleared."""
        del self.slots[backplane]

    @property
    def fd(self) -> int:
        """To be inherited."""
        return self._board.fd

    def read(self, backplane: str) -> BoardSlot | None:
        """What it says of itself; None when nobody sits there."""
        slot = self._board.read(self.slots[backplane])
        return slot if slot.pid else None

    def clear(self, backplane: str) -> None:
        """Its owner is dead."""
        self._board.clear_slot(self.slots[backplane])

    def close(self) -> None:
        """Let go of it; it lives on in those who have it mapped."""
        self._board.close()
