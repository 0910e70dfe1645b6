"""AdaptiveLimit: admission by queueing time, so that a service past saturation stays as fast as below it.

The measure is DAGOR's (Zhou et al., SoCC 2018): the time for which a request queues, and not its run time. Two rules follow:

* A request that has queued for longer than the aim is not begun. Admitted requests that are served have queued for at most
  the aim, however wrong any estimate is.
* A request that would queue for so long is refused at once: if more requests of its priority and above are queued than are
  served within the aim (Little's law). The rate of service is measured. What more urgent requests will take meanwhile,
  by the rate at which they have been admitted, is not counted on.

Late refusals cost a place in the queue, and early ones may leave a worker idle, so each corrects the estimate of the rate: with
many late refusals it falls to the measured rate, without any it grows until some come. The most urgent priority is never
refused here. Pure: `now_ns` comes in; the owner refuses (execution/intake/overload_control.py).
"""

from __future__ import annotations

from collections import deque
from typing import Final

from ..objects.action import Action

#: Requests of this priority and above are never refused for the sake of a queue.
EXEMPT: Final = 0
#: Shortest and longest interval of measurement, and the completions after which the shorter one is enough. Two intervals answer
#: a step of the load; with fewer completions an interval tells more about chance than about the service.
INTERVAL_MIN_NS: Final = 50_000_000
INTERVAL_MAX_NS: Final = 1_000_000_000
COMPLETIONS_MIN: Final = 20
#: Share of late refusals, of all completions, above which the estimate falls to the measured rate. Of a simulated service at
#: three times its capacity it keeps the workers busy, while few of the refused have queued in vain (test_adaptive_limit.py).
LATE_MAX: Final = 0.02
#: Growth of the estimate in an interval with early and without late refusals: doubled within 0.4 s.
GROWTH: Final = 1.1
#: Weight of a new measurement of `INTERVAL_MIN_NS` in the estimates. Longer ones count for more.
WEIGHT: Final = 0.3


class AdaptiveLimit:
    """The requests of one operation, or of one backplane, that are outstanding, and the rate at which they are served."""

    def __init__(self, aim_ns: int, priorities: int, now_ns: int) -> None:
        self.aim_ns = aim_ns
        #: Requests that have not begun, by the priority that they asked for.
        self.queued = [0] * priorities
        #: The same in the order of arrival. Those that have begun or ended are removed when they come first.
        self._in_order: list[deque[Action]] = [deque() for _ in range(priorities)]
        #: Estimate of the requests served in a second; 0: none has queued for too long yet, so all are admitted.
        self.rate = 0.0
        #: The part of the time, of late, in which no request was outstanding. Together with refusals it tells that the load is
        #: uneven, or the service: its callers are to send more (transport/caller_throttle.py).
        self.idle = 0.0
        #: Requests refused since the start: at once, and after they had queued.
        self.early_count = self.late_count = 0
        #: Admissions in a second, by priority: smoothed.
        self._arriving = [0.0] * priorities
        self._total = 0
        self._began_ns = now_ns
        #: Of this interval: admissions by priority, completions, refusals, and how long any request was outstanding.
        self._admitted = [0] * priorities
        self._ended = self._early = self._late = 0
        self._busy_ns = self._busy_since_ns = 0

    def admits(self, priority: int, now_ns: int) -> bool:
        """Whether a request of this priority will probably begin within the aim. A refusal is counted."""
        if now_ns - self._began_ns >= INTERVAL_MIN_NS:
            self._measure(now_ns)
        if priority <= EXEMPT or not self.rate or not self._total or self._ahead(priority) < self.room(priority):
            return True
        self._early += 1
        self.early_count += 1
        return False

    def room(self, priority: int) -> float:
        """How many requests of this priority and above are served within the aim."""
        rate = self.rate
        for urgent in range(priority):
            rate -= self._arriving[urgent]
        return rate * self.aim_ns / 1e9

    def admitted(self, action: Action, now_ns: int) -> None:
        """Count an admitted request, which is about to be queued."""
        priority = action.priority_asked
        if not self._total:
            self._busy_since_ns = now_ns
        self._total += 1
        self.queued[priority] += 1
        action.is_queued = True
        self._admitted[priority] += 1
        if priority > EXEMPT:
            self._in_order[priority].append(action)

    def begins(self, action: Action) -> None:
        """An admitted request has been chosen to run. Calling it again changes nothing."""
        if action.is_queued:
            action.is_queued = False
            self.queued[action.priority_asked] -= 1

    def is_late(self, action: Action, now_ns: int) -> bool:
        """Whether a queued request has queued for longer than the aim, and may be refused for that."""
        return (
            action.is_queued and action.priority > EXEMPT and now_ns - action.posted_ns + action.wait_ns > self.aim_ns
        )

    def next_late(self, now_ns: int) -> Action | None:
        """A request to refuse, because it has queued for too long; None: there is none. The caller refuses it."""
        for queue in self._in_order:
            while queue:
                action = queue[0]
                if action.is_queued and action.priority > EXEMPT:
                    if not self.is_late(action, now_ns):
                        break
                    queue.popleft()
                    return action
                queue.popleft()  # it has begun or ended, or has become too urgent to be refused
        return None

    def refused_late(self) -> None:
        """A request was refused because it had queued for too long."""
        self._late += 1
        self.late_count += 1

    def ended(self, action: Action, now_ns: int) -> None:
        """Subtract an admitted request that has ended: done, failed or refused."""
        self.begins(action)
        self._total -= 1
        if action.started_ns:
            self._ended += 1
        if not self._total:
            self._busy_ns += now_ns - self._busy_since_ns
            for queue in self._in_order:
                queue.clear()
        if now_ns - self._began_ns >= INTERVAL_MIN_NS:
            self._measure(now_ns)

    @property
    def idle_thousandths(self) -> int:
        """`idle`, as callers are told it."""
        return round(1_000 * self.idle)

    def figures(self) -> dict[str, float]:
        """Its figures, for the statistics. `rate`: requests a second; 0: not known yet."""
        return {
            "aim_ms": self.aim_ns / 1e6, "rate": round(self.rate, 1), "outstanding": self._total,
            "refused_early": self.early_count, "refused_late": self.late_count,
        }  # fmt: skip

    # -- steps --------------------------------------------------------------------------------------------------------

    def _ahead(self, priority: int) -> int:
        count = 0
        for urgent in range(priority + 1):
            count += self.queued[urgent]
        return count

    def _measure(self, now_ns: int) -> None:
        """End the interval, unless it is too short to tell anything."""
        interval_ns = now_ns - self._began_ns
        if self._ended < COMPLETIONS_MIN and interval_ns < INTERVAL_MAX_NS:
            return
        weight = min(1.0, WEIGHT * interval_ns / INTERVAL_MIN_NS)
        busy_ns = self._busy_ns
        if self._total:
            busy_ns += now_ns - self._busy_since_ns
            self._busy_since_ns = now_ns
        self.idle += (max(0.0, 1.0 - busy_ns / interval_ns) - self.idle) * weight
        if self._ended and busy_ns:
            self._correct(self._ended * 1e9 / busy_ns, weight)
        for priority, admitted in enumerate(self._admitted):
            self._arriving[priority] += (admitted * 1e9 / interval_ns - self._arriving[priority]) * weight
            self._admitted[priority] = 0
        self._began_ns = now_ns
        self._ended = self._early = self._late = self._busy_ns = 0

    def _correct(self, served: float, weight: float) -> None:
        """Correct the estimate by the rate at which requests were served in the interval, and by the refusals in it."""
        if self._late > LATE_MAX * self._ended:
            self.rate += (served - self.rate) * weight if self.rate else served
        elif self.rate:
            self.rate = max(self.rate * GROWTH if self._early else self.rate, served)
