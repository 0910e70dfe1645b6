"""Progress: the number of ready objects, and when a worker last began or ended an action.

The two together tell a wedged backplane from one that works, waits or is idle; the supervisor judges
(supervisor/direction/health.py). The sentinel reads them at each heartbeat, without the lead except for a check of the link.
It reads single references and integers that other threads write; a slightly stale value does no harm. So the hot path pays
nothing for this.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from ...objects.action import Action
from ...observation.statistics import Statistics
from ...scheduling.scheduler import Scheduler
from ..actions.method_action import MethodAction
from ..workers.poll_leader import PollLeader
from ..workers.worker import Worker


class Progress:
    """Detects progress by comparing the counters of consecutive heartbeats."""

    def __init__(
        self, *, lead: threading.RLock, statistics: Statistics, scheduler: Scheduler, poll_leader: PollLeader,
        has_input: Callable[[], bool], now_ns: int,
    ) -> None:  # fmt: skip
        """`has_input`: whether input waits at the link; called under the lead."""
        self._lead = lead
        self._statistics = statistics
        self._scheduler = scheduler
        self._poll_leader = poll_leader
        self._has_input = has_input
        self._before: tuple[int, ...] = ()
        self._since_ns = now_ns

    def look(self, now_ns: int) -> tuple[int, int]:
        """The number of ready objects, and the time since when no worker has begun or ended an action.

        An action declared to take long (`is_long`) counts as progress: its waiting callers know by the declaration.
        """
        workers = list(self._poll_leader.workers)
        # A step of a coroutine counts as a beginning: the coroutine yields between steps, so the scheduler works.
        now = (self._statistics.actions_count, *[worker.started_ns for worker in self._poll_leader.team])
        if now != self._before or any(is_long(worker.action) for worker in workers):
            self._before, self._since_ns = now, now_ns
        return ready_count(self._scheduler, workers) + self._has_unseen(), self._since_ns

    def _has_unseen(self) -> bool:
        """Whether input waits at the link unread, because every worker runs and there is no relief (`preempt = false`)."""
        poll_leader = self._poll_leader
        if poll_leader.poller is not None or not all(
            worker.started_ns for worker in poll_leader.team if not worker.is_relief
        ):
            return False
        with self._lead:
            return poll_leader.poller is None and self._has_input()


def ready_count(scheduler: Scheduler, workers: Sequence[Worker]) -> int:
    """Objects that may run now; while no worker is free, also the actions queued behind running ones.

    While a worker is free, those wait only for their object, which may take long, and all other work is served. Relief
    workers do not count: they take only more urgent work. No object is ready while the CPU budget is spent (law 5).
    """
    count = scheduler.ready.count if scheduler.has_work() else 0
    actions = [worker.action for worker in workers if worker.started_ns]
    if len(actions) == len(workers):
        for action in actions:
            if action is not None and action.object._head is not None:
                count += max(1, action.object._load - action.object._waits - 1)
    return count


def is_long(action: Action | None) -> bool:
    """Whether the action was declared to run without a limit of time; False for None."""
    if isinstance(action, MethodAction):
        return action.spec is not None and action.spec.mark.is_long
    return action is not None and action.is_long
