"""Presence: what this backplane has to do, shown on the board; and what anybody has to do, asked for by who could wait.

Written under the lead whenever a worker has chosen, so that the row of the board is never older than one choice; a write
happens only when the highest priority changes (board.py). Keeps the part of law 10 that a running action sees:
`should_yield` and `checkpoint` ask here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .board import OwnSlot

if TYPE_CHECKING:
    from .engine import Engine


class Presence:
    """Part of the engine: whoever holds the lead owns it; `has_work_above` is for running actions, without the lead."""

    def __init__(self, engine: Engine, slot: OwnSlot | None) -> None:
        self._engine = engine
        self._slot = slot

    def show(self) -> None:  # hot: scripts/bench call_rtt
        """Show the highest priority among what is ready and what runs."""
        slot = self._slot
        if slot is None:
            return
        engine = self._engine
        highest = engine.scheduler.ready.highest()
        watch = engine.watch
        for worker in watch.workers if watch.relief is None else (*watch.workers, watch.relief):
            action = worker.action
            if action is not None and (highest is None or action.priority < highest):
                highest = action.priority
        slot.present(highest)

    def has_work_above(self, priority: int) -> bool:
        """Whether work of higher priority than this is present, here or in any backplane. For a running action.

        Nobody looks after the link while the only worker runs, so this does, now and then.
        """
        if self._slot is not None and self._slot.has_above(priority):
            return True
        engine = self._engine
        if engine.watch.poller is None and engine.lead.acquire(blocking=False):
            try:
                engine.drain_if_due(engine.clock.now_ns())
            finally:
                engine.lead.release()
        # Read without the lead: an entry left behind by a raised object may say yes too often, never no.
        return any(engine.scheduler.ready.queues[:priority])
