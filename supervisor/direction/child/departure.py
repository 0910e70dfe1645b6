"""Departure: the ordered end of a backplane's process while the system stays up, and the conditions of its next start."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Departure:
    """The pending departure of one backplane."""

    #: It goes down, in order, to be restarted (or removed): with another that died, or by an order.
    is_leaving: bool = False
    #: Its restart was ordered: it is restarted whatever its `restart.type`, and the restart is not counted.
    is_ordered: bool = False
    #: It is removed from the configuration and does not come back.
    is_removed: bool = False
    #: The backplanes that must have exited before it is spawned.
    spawns_after: frozenset[str] = frozenset()
    #: This node must stop being primary, and this backplane still is; at `gone_by_ns` it is killed.
    is_stepping_down: bool = False
    gone_by_ns: int | None = None

    def begin(self, spawns_after: frozenset[str]) -> None:
        """Begin to leave; its next process is spawned after all these have exited."""
        self.is_leaving, self.spawns_after = True, spawns_after

    def spawn_after(self, others: frozenset[str]) -> None:
        """Set the backplanes that must have exited before it is spawned; it has no process that would have to leave."""
        self.spawns_after = others

    def order(self) -> None:
        """Note that its restart, or its end, was ordered."""
        self.is_ordered = True

    def remove(self) -> None:
        """Note that it is no longer in the configuration."""
        self.is_removed = True

    def step_down(self, gone_by_ns: int | None) -> None:
        """Begin to step down; at `gone_by_ns` it is killed (None: it may take the time that it needs)."""
        self.is_stepping_down, self.gone_by_ns = True, gone_by_ns

    def end_step_down(self) -> None:
        """Note that nothing of a primary is left in it."""
        self.is_stepping_down, self.gone_by_ns = False, None

    def exited(self) -> None:
        """Note that its process is dead: it has left. An order counts until the next process is spawned."""
        self.is_leaving = False
        self.end_step_down()

    def respawned(self) -> None:
        """Note that its next process is spawned: the order is carried out."""
        self.spawns_after, self.is_ordered = frozenset(), False
