"""Priority publisher: shows this backplane's highest priority on the board and to the kernel; finds more urgent work elsewhere.

Keeps the part of law 10 that crosses processes. Written under the lead at each choice of a worker, so the board's row is
never older than one choice. While there is work, each busy worker has the nice of the highest priority that runs or is ready
here: they share one GIL, and its holder delays the most urgent work. An idle worker has the nice of priority 0, because it
receives the next message. A call to a backplane that is busy with less urgent work lends it the call's priority: else the
callee may get no CPU to receive the call (TRAPS 24: 558 ms without). The loan ends when the call arrives, or expires.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from appbackplane.transport.directory import Place

from ...objects.schedulable import Schedulable
from ...scheduling.scheduler import Scheduler
from ..workers.poll_leader import PollLeader
from ..workers.worker import Worker
from .board import OwnSlot
from .os_priority import OsPriority


class PriorityPublisher:
    """Used under the lead, except `has_work_above`, which running actions call without it."""

    def __init__(
        self, *, lead: threading.RLock, now_ns: Callable[[], int], scheduler: Scheduler, poll_leader: PollLeader,
        drain_if_due: Callable[[int], None], slot: OwnSlot | None, os_priority: OsPriority | None,
    ) -> None:  # fmt: skip
        """`drain_if_due`: receives what has come over the link, unless that was just done; needs the lead."""
        self._lead = lead
        self._now_ns = now_ns
        self._scheduler = scheduler
        self._poll_leader = poll_leader
        self._drain_if_due = drain_if_due
        self._slot = slot
        self._os = os_priority
        self._felt: int | None = None  # the priority whose nice all busy workers have

    def show(self, worker: Worker) -> None:  # hot: scripts/bench call_rtt
        """Publish the highest priority among ready and running actions, now that `worker` has chosen."""
        slot = self._slot
        if slot is None:
            return
        highest = self._scheduler.ready.highest()
        team = self._poll_leader.team
        for each in team:
            action = each.action
            if action is not None and not each.is_blocked:
                if highest is None or action.priority < highest:
                    highest = action.priority
                # Actions queued behind it, for the same object, wait for nothing else.
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
            for each in team:
                os.set_thread(each.tid, 0 if felt is None or each.action is None else felt)
        else:
            os.set_thread(worker.tid, 0 if felt is None or worker.action is None else felt)

    @property
    def moves_threads(self) -> bool:
        """Whether each change sets the nice of threads, so that no call of `show` may be skipped."""
        return self._os is not None and self._os.mechanism() != "none"

    def lend(self, place: Place, priority: int, now_ns: int) -> None:
        """Lend the priority of an outgoing call to its callee, so that the callee gets a CPU to receive it."""
        slot, os = self._slot, self._os
        if slot is None or os is None or place.slot < 0 or not slot.is_busy_below(place.slot, priority):
            return
        slot.lend(place.slot, priority, now_ns)
        os.boost(place.pid, place.cgroup, priority)

    def left(self, worker: Worker) -> None:
        """A worker has ended: its thread id may be reused."""
        if self._os is not None:
            self._os.forget_thread(worker.tid)

    def has_work_above(self, worker: Worker) -> bool:  # hot: scripts/bench requests
        """Whether any backplane has work of higher priority than the action of `worker`. Called by that action.

        No thread polls the link while the only worker runs, so this does, at most every `DRAIN_INTERVAL_NS`. An action that
        calls this often, and goes on only after False, needs no relief worker beside it.
        """
        action = worker.action
        if action is None:
            return False
        priority = action.priority
        if self._slot is not None and self._slot.has_above(priority):
            return True
        now_ns = self._now_ns()
        if self._poll_leader.poller is None and self._lead.acquire(blocking=False):
            try:
                self._drain_if_due(now_ns)
            finally:
                self._lead.release()
        # Read without the lead: a stale entry of an object whose priority rose may give a false yes, never a false no.
        if self._scheduler.ready.has_above(priority):
            return True
        worker.has_looked(now_ns)
        return False

    def _with_loan(self, highest: int | None, lent: int) -> int | None:
        slot, os = self._slot, self._os
        assert slot is not None and os is not None
        loan = slot.borrowed(lent, self._now_ns())
        if loan is not None and (highest is None or loan < highest):
            return loan
        slot.repay()  # the call has come, or never will
        os.distrust()  # the lender has changed the nice of our threads: each must be set again
        self._felt = None
        return highest
