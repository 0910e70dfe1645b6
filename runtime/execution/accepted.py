"""AcceptedCalls: the calls that this backplane has accepted and not answered yet.

A call is accepted from its arrival, also while a digester computes its object key, until its reply or status is packed.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..objects.action import Action


class AcceptedCalls:
    """Accepted calls by caller and call id, the oldest first. Used under the lead."""

    def __init__(self) -> None:
        self._actions: dict[tuple[bytes, int], Action] = {}

    def __len__(self) -> int:
        return len(self._actions)

    def __iter__(self) -> Iterator[tuple[bytes, int, Action]]:
        for (peer, id), action in self._actions.items():
            yield peer, id, action

    def add(self, peer: bytes, id: int, action: Action) -> None:  # hot: scripts/bench call_pipelined
        """Add call `id` of `peer`, or give it another action."""
        self._actions[peer, id] = action

    def get(self, peer: bytes, id: int) -> Action | None:
        """The action of a call; None: the call has been answered, or was never accepted."""
        return self._actions.get((peer, id))

    def end(self, peer: bytes, id: int) -> None:  # hot: scripts/bench call_pipelined
        """Remove a call, if it is there."""
        self._actions.pop((peer, id), None)

    def clear(self) -> None:
        """Remove all calls."""
        self._actions.clear()

    def ids_of(self, peer: bytes) -> list[int]:
        """The ids of the calls of one caller, the oldest first."""
        return [id for one, id in self._actions if one == peer]

    def peers(self) -> set[bytes]:
        """The callers; LOCAL is among them if objects of this backplane call each other."""
        return {peer for peer, _ in self._actions}
