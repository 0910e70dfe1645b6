"""Presence: what this backplane has to do, shown on the board; and what anybody has to do, asked for by who could wait.

Written under the lead whenever a worker has chosen, so that the row of the board is never older than one choice. Keeps the
part of law 10 that crosses processes. The kernel is told the same: while there is work, every busy worker has the nice of
the highest priority that runs or is ready here, because they share one GIL, and whoever holds it stands in the way of the
most urgent. An idle worker, which is to hear what comes next, is as urgent as anything. A backplane that calls another
which is busy with less urgent work lends it its priority, because that one may not get a CPU to hear of it (TRAPS 24:
558 ms without). The loan ends when the call has come, or by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from appbackplane.transport.directory import Place

from ..objects.schedulable import Schedulable
from .board import OwnSlot
from .os_priority import OsPriority

if TYPE_CHECKING:
    from .engine import Engine
    from .worker import Worker


class Presence:
    """Part of the engine: whoever holds the lead owns it; `has_work_above` is for running actions, without the lead."""

    def __init__(self, engine: Engine, slot: OwnSlot | None, os_priority: OsPriority | None) -> None:
        self._engine = engine
        self._slot = slot
        self._os = os_priority
        self._felt: int | None = None  # the priority that all busy workers have been given

    def show(self, worker: Worker) -> None:  # hot: scripts/bench call_rtt
        """Show the highest priority among what is ready and what runs, now that `worker` has chosen."""
        slot = self._slot
        if slot is None:
            return
        engine = self._engine
        highest = engine.scheduler.ready.highest()
        for each in engine.watch.team:
            action = each.action
            if action is not None and not each.is_blocked:
                if highest is None or action.priority < highest:
                    highest = action.priority
                # What has queued behind it, for the same object, waits for nothing else.
                object: Schedulable = action.object
                if object._head is not None and object._priority < highest:
                    highest = object._priority
        slot.present(highest)
        os = self._os
        if os is None:
            return
        felt = highest
        if lent := slot.lent():
            felt = self._with_loan(highest, lent)
        if felt != self._felt:
            self._felt = felt
            os.set_group(0 if felt is None else felt)
            for each in engine.watch.team:
                os.set_thread(each.tid, 0 if felt is None or each.action is None else felt)
        else:
            os.set_thread(worker.tid, 0 if felt is None or worker.action is None else felt)

    @property
    def moves_threads(self) -> bool:
        """Whether the kernel is told of each change, so that none may be left out."""
        return self._os is not None and self._os.mechanism() != "none"

    def lend(self, place: Place, priority: int, now_ns: int) -> None:
        """A call of this priority goes to another backplane: see to it that it gets a CPU to hear of it."""
        slot, os = self._slot, self._os
        if slot is None or os is None or place.slot < 0 or not slot.is_busy_below(place.slot, priority):
            return
        slot.lend(place.slot, priority, now_ns)
        os.boost(place.pid, place.cgroup, priority)

    def left(self, worker: Worker) -> None:
        """A worker has ended."""
        if self._os is not None:
            self._os.forget_thread(worker.tid)

    def has_work_above(self, worker: Worker) -> bool:  # hot: scripts/bench requests
        """Whether work of higher priority than what `worker` runs is present, here or in any backplane. For that action.

        Nobody looks after the link while the only worker runs, so this does, now and then; and an action that asks often
        enough, and goes on only when it is told that it may, needs nobody else to.
        """
        action = worker.action
        if action is None:
            return False
        priority = action.priority
        if self._slot is not None and self._slot.has_above(priority):
            return True
        engine = self._engine
        now_ns = engine.now_ns()
        if engine.watch.poller is None and engine.lead.acquire(blocking=False):
            try:
                engine.drain_if_due(now_ns)
            finally:
                engine.lead.release()
        # Read without the lead: an entry left behind by a raised object may say yes too often, never no.
        if engine.scheduler.ready.has_above(priority):
            return True
        worker.has_looked(now_ns)
        return False

    def _with_loan(self, highest: int | None, lent: int) -> int | None:
        slot, os = self._slot, self._os
        assert slot is not None and os is not None
        loan = slot.borrowed(lent, self._engine.clock.now_ns())
        if loan is not None and (highest is None or loan < highest):
            return loan
        slot.repay()  # the call has come, or never will
        os.distrust()  # our threads have been moved: from here on each is set again
        self._felt = None
        return highest
