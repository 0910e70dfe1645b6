"""Progress: what waits for nothing but a worker, and when a worker last began or ended something.

The two together tell a backplane that is wedged from one that works, waits or has nothing to do; the supervisor judges
(supervisor/direction/health.py). The sentinel looks at each heartbeat, without the lead but for a glance at the link: what
it reads are single references and integers of others, and a look too early or too late does no harm. So the hot path counts
nothing for this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..objects.action import Action
from ..scheduling.scheduler import Scheduler
from .method_action import MethodAction

if TYPE_CHECKING:
    from .engine import Engine
    from .worker import Worker


class Progress:
    """Compared from look to look."""

    def __init__(self, now_ns: int) -> None:
        self._before: tuple[int, ...] = ()
        self._since_ns = now_ns

    def look(self, engine: Engine, now_ns: int) -> tuple[int, int]:
        """What is ready, and since when no worker has begun or ended anything.

        A worker that runs what was declared to take long (`is_long`) is as good as one that ends things: whoever waits behind
        it was told so.
        """
        workers = list(engine.watch.workers)
        # A step of a coroutine is a beginning, too: it gives way to others, so the scheduler does its work.
        now = (engine.statistics.actions_count, *[worker.started_ns for worker in engine.watch.team])
        if now != self._before or any(is_long(worker.action) for worker in workers):
            self._before, self._since_ns = now, now_ns
        return ready_count(engine.scheduler, workers) + _has_unseen(engine), self._since_ns


def ready_count(scheduler: Scheduler, workers: Sequence[Worker]) -> int:
    """Objects that may run now, and, while no worker is free, what has queued behind the very actions that run.

    With a worker free, the latter wait for their object alone, which may take its time: everybody else is served.
    Relief workers are not asked: they take only what is more urgent. Nothing is ready while the CPU budget is spent (law 5).
    """
    count = scheduler.ready.count if scheduler.has_work() else 0
    actions = [worker.action for worker in workers if worker.started_ns]
    if len(actions) == len(workers):
        for action in actions:
            if action is not None and action.object._head is not None:
                count += max(1, action.object._load - action.object._waits - 1)
    return count


def _has_unseen(engine: Engine) -> bool:
    """Whether something has come that nobody takes in, because every worker runs and there is no relief (`preempt`)."""
    watch = engine.watch
    if watch.poller is not None or not all(worker.started_ns for worker in watch.team if not worker.is_relief):
        return False
    with engine.lead:
        return watch.poller is None and engine.link.has_input()


def is_long(action: Action | None) -> bool:
    """Whether it was declared to take as long as it likes."""
    if isinstance(action, MethodAction):
        return action.spec is not None and action.spec.mark.is_long
    return action is not None and action.is_long
