"""Late actions: those that waited longer than the latency contract of their backplane (`max_latency`) before they began.

"AppBackplane is a policy domain. All AppComponents sharing an AppBackplane must agree to abide by the same rules regarding
latency" (seed 002). Each is counted, and reported at most once a second, with the cause in the words of `why`
(observation/waiting.py), unless its priority is one of work that may wait (`BULK_FROM`). The cause is judged when the action
begins, from the budget and from the action before it in the same thread: to look for it while actions wait would cost the
lead. Without a contract it costs one comparison an action.
"""

from __future__ import annotations

import logging

from appbackplane.transport.directory import BULK_FROM

from ...objects.action import Action
from ...observation.rate_limit import RateLimit
from ...observation.statistics import OperationStatistics
from ...observation.waiting import Because
from ...scheduling.scheduler import Scheduler
from ..actions.batch_action import BatchAction
from ..logs.log_handler import of_action
from ..workers.poll_leader import PollLeader

#: Between two reports of a backplane: a person who watches it sees that the contract is being broken, and by what.
REPORT_INTERVAL_NS = 1_000_000_000

log = logging.getLogger("appbackplane.runtime")


class LateActions:
    """Counts and reports actions that begin too late. Used under the lead."""

    def __init__(self, limit_ns: int | None, scheduler: Scheduler, poll_leader: PollLeader) -> None:
        """`limit_ns`: the contract; None: there is none."""
        #: 0: there is no contract.
        self.limit_ns = 0 if limit_ns is None else limit_ns
        self.count = 0
        self._scheduler = scheduler
        self._poll_leader = poll_leader
        self._reported = RateLimit(REPORT_INTERVAL_NS)

    def begins(self, action: Action, last: Action | None, account: OperationStatistics, now_ns: int) -> None:
        """A worker begins `action`, or goes on with it. `last`: the action that it ran before; None: it was idle."""
        if action.started_ns:
            return
        late_count = int(self._waited_ns(action, now_ns) > self.limit_ns)
        if isinstance(action, BatchAction):
            late_count += sum(self._waited_ns(each, now_ns) > self.limit_ns for each in action.companions)
        if not late_count:
            return
        account.late_count += late_count
        self.count += late_count
        if action.priority >= BULK_FROM:
            return  # work that may wait is no alarm
        waited_ns = self._waited_ns(action, now_ns)
        left_out = self._reported.admit("late", now_ns)
        if left_out is None:
            return
        because, text = self._cause(action, last, waited_ns, now_ns)
        more = f" ({left_out} more since the last report)" if left_out else ""
        log.warning(
            "late action: %s on %s waited %.1f ms, longer than max_latency (%g ms): %s: %s%s",
            action.name, action.object.name, waited_ns / 1e6, self.limit_ns / 1e6, because.value, text, more,
            extra=of_action(action),
        )  # fmt: skip

    def _waited_ns(self, action: Action, now_ns: int) -> int:
        """Time in queues, and unread in the socket (`Intake.unread_since_ns`)."""
        return now_ns - action.posted_ns + action.wait_ns

    def _cause(self, action: Action, last: Action | None, waited_ns: int, now_ns: int) -> tuple[Because, str]:
        scheduler = self._scheduler
        if scheduler.renewed_ns > now_ns - waited_ns and action.priority >= scheduler.budget.exempt:
            return (
                Because.CPU_BUDGET,
                f"the CPU budget ({scheduler.budget.limit_percent} % of a core) was spent until the tick",
            )
        if last is None:
            busy = [each.action for each in self._poll_leader.workers if each.action is not None and each.started_ns]
            if not busy:
                return Because.NEXT, "nothing was in its way, but no thread of the backplane ran"
            return Because.WORKERS, f"all workers were busy with others, such as {_named(busy[0])}"
        ran = f"{_named(last)}, which ran for {last.run_ns / 1e6:.1f} ms"
        if last.object is action.object:
            return Because.BEHIND, f"an object's actions run one at a time, and the last before it was {ran}"
        if 2 * last.run_ns >= waited_ns:
            return Because.WORKERS, f"its worker was busy with {ran}"
        if last.priority < action.priority:
            return (
                Because.MORE_URGENT,
                f"objects of higher priority than {action.priority} went first, the last with {ran}",
            )
        if last.priority > action.priority:
            return (
                Because.QUOTA,
                f"priority {action.priority} had spent its quota, and others went first, the last with {ran}",
            )
        return Because.QUEUE, f"objects before it in ready queue {action.priority} went first, the last with {ran}"


def _named(action: Action) -> str:
    return f"{action.name} on {action.object.name} (priority {action.priority})"
