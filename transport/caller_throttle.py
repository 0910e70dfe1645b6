"""CallerThrottle: callers of an overloaded service refuse part of their calls themselves, so that it need not.

Receiving and refusing a call costs a service too. So a caller counts, by instance, route and priority, how many calls were
asked for, sent, and refused by overload control. Of each priority it sends as many as were accepted, and `MARGIN` of all
accepted besides: the adaptive throttling of Google's SRE book ("Handling Overload"), over 200 to 500 ms. Without any refusal in
200 ms the share of the calls that are sent doubles; without any in 500 ms all are sent. A service that refuses, and is idle at
other times, says so; then the margin grows. Priority 0 is never refused. Of a less urgent priority no larger share is sent than
of a more urgent one that is refused (as in DAGOR: Zhou et al., SoCC 2018).

Accepted are the calls with another answer, or those sent and not refused, whichever are more: answers of long calls come late,
and refusals from far away do. Pure: `now_ns` and randomness come in. One a process, owned like the call table. Where no service
has refused lately, a call costs one look at `is_used`.
"""

from collections.abc import Callable
from typing import Final

from .errors import Busy

#: Calls of this priority and above are never refused (runtime/scheduling/adaptive_limit.py).
EXEMPT: Final = 0
#: A backplane has no more. Another host may name any number, and each one costs memory, and time at each call.
PRIORITIES_MAX: Final = 255
#: Calls of one priority that are sent beyond the accepted ones, as a part of all accepted ones. In a simulation of a service at
#: three times its capacity (test_caller_throttle.py) the service refuses 0.25 calls for each that it serves, instead of 2. With
#: half of it, a service that urgent calls nearly fill is idle for 4 % of the time instead of 2; with twice, it refuses 0.45.
MARGIN: Final = 0.2
#: Its bound, and its growth and decay in an interval, where the service says that it was idle for more than so many thousandths
#: of the time (`AdaptiveLimit.idle`): the load, or the service itself, comes in bursts. A simulated service that has its core
#: half of the time, 50 ms on and 50 off, is else idle for 40 % of what it has, as requests that come meanwhile are late.
MARGIN_MAX: Final = 4.0
MARGIN_GROWTH: Final = 1.5
MARGIN_DECAY: Final = 0.9
IDLE_MAX: Final = 10
#: Growth of the share after an interval without a refusal.
GROWTH: Final = 2.0
#: Shortest interval: twice the delay of refusals from another continent; with 50 ms, the refusals of calls sent before a share
#: fell would lower it again. It ends once so many calls were sent, and at its longest. Without a refusal for so long, all calls
#: are sent again.
INTERVAL_MIN_NS: Final = 200_000_000
SENT_MIN: Final = 10
INTERVAL_MAX_NS: Final = 500_000_000
#: A call leaves if none has for this long, whatever the share: the service may have room again.
PROBE_NS: Final = 100_000_000
#: Weight of the last interval in the rate of accepted calls.
WEIGHT: Final = 0.3
#: Routes of instances that are throttled at the same time. Calls beyond them are sent, and refused there.
CALLEES_MAX: Final = 4_096


class _Gate:
    """The calls of one priority to one route of one instance."""

    __slots__ = ("answered", "asked", "began_ns", "refused", "refused_ns", "retry_after", "sent", "sent_ns", "share")

    def __init__(self, now_ns: int) -> None:
        #: The part of the calls that is sent, up to 1.
        self.share = 1.0
        #: Of this interval.
        self.began_ns = now_ns
        self.asked = self.sent = self.refused = self.answered = 0
        #: When a call was last sent, and when the service last refused one; and the wait that it asked for then, s.
        self.sent_ns = self.refused_ns = now_ns
        self.retry_after: float | None = None

    def measure(self, now_ns: int, beyond_per_s: float) -> None:
        """End the interval, unless it is too short to tell anything. `beyond_per_s`: calls to send beyond the accepted."""
        interval_ns = now_ns - self.began_ns
        if interval_ns < INTERVAL_MAX_NS and (interval_ns < INTERVAL_MIN_NS or self.sent < SENT_MIN):
            return
        if self.refused:
            accepted = max(self.answered, self.sent - self.refused)
            may_send = accepted + beyond_per_s * interval_ns / 1e9
            self.share = min(1.0, may_send / max(self.asked, 1))
        else:
            self.share = min(1.0, GROWTH * self.share)
        self.began_ns = now_ns
        self.asked = self.sent = self.refused = self.answered = 0

    def is_over(self, now_ns: int) -> bool:
        """Whether the service has refused none of late, so that all are sent."""
        return now_ns - self.refused_ns >= INTERVAL_MAX_NS


class _Callee:
    """One route of one instance."""

    __slots__ = ("accepted_per_s", "answered", "began_ns", "declared", "gates", "idle", "margin", "refused", "sent")

    def __init__(self, now_ns: int) -> None:
        #: The priority that the service gives to calls without one; None: it has refused none of these yet.
        self.declared: int | None = None
        #: By priority, of those that the service has refused.
        self.gates: dict[int, _Gate] = {}
        #: Calls of all priorities that were accepted in a second: smoothed.
        self.accepted_per_s = 0.0
        #: Calls to send beyond the accepted ones, as a part of these; and how long the service is idle, in thousandths, as
        #: it said last.
        self.margin = MARGIN
        self.idle = 0
        #: Of this interval, of all priorities.
        self.began_ns = now_ns
        self.sent = self.refused = self.answered = 0

    def measure(self, now_ns: int) -> None:
        """End the interval, unless it is too short."""
        interval_ns = now_ns - self.began_ns
        if interval_ns < INTERVAL_MIN_NS:
            return
        rate = max(self.answered, self.sent - self.refused) * 1e9 / interval_ns
        if self.idle > IDLE_MAX:
            self.margin = min(MARGIN_MAX, MARGIN_GROWTH * self.margin)
        else:
            self.margin = max(MARGIN, MARGIN_DECAY * self.margin)
        weight = min(1.0, WEIGHT * interval_ns / INTERVAL_MIN_NS)
        self.accepted_per_s += (rate - self.accepted_per_s) * weight if self.accepted_per_s else rate
        self.began_ns = now_ns
        self.sent = self.refused = self.answered = 0

    def share(self, gate: _Gate, priority: int, now_ns: int) -> float:
        """The part of the calls of `gate` that is sent: no more than of a more urgent priority that is refused."""
        share = gate.share
        for urgent, other in self.gates.items():
            if urgent < priority and other.share < share and not other.is_over(now_ns):
                share = other.share
        return share


class CallerThrottle:
    """The calls that one process refuses itself."""

    def __init__(self, random: Callable[[], float]) -> None:
        """`random`: returns 0 up to 1."""
        #: Whether overload control of some service has refused calls of late. Otherwise nothing here needs to be called.
        self.is_used = False
        #: Calls refused here since the start.
        self.refused_count = 0
        self._random = random
        #: By peer and route.
        self._callees: dict[tuple[bytes, str], _Callee] = {}

    def refusal(self, peer: bytes, route: str, priority: int | None, now_ns: int) -> Busy | None:
        """Count a call that would be sent to `peer` now. Returns the error that it ends in instead; None: send it."""
        callee = self._callees.get((peer, route))
        if callee is None:
            return None
        callee.measure(now_ns)
        if priority is None:
            priority = callee.declared
        gate = None if priority is None else callee.gates.get(priority)
        if gate is not None and priority is not None:
            if gate.is_over(now_ns):
                self._open(peer, route, priority)
                return None
            gate.measure(now_ns, callee.margin * callee.accepted_per_s)
            gate.asked += 1
            share = callee.share(gate, priority, now_ns)
            if share < 1.0 and now_ns - gate.sent_ns < PROBE_NS and self._random() >= share:
                self.refused_count += 1
                return _refused_here(route, priority, share, gate.retry_after, callee.idle)
            gate.sent += 1
            gate.sent_ns = now_ns
        callee.sent += 1
        return None

    def cast_refusal(self, peer: bytes, route: str, priority: int | None, now_ns: int) -> Busy | None:
        """As `refusal`, for a cast, which is not counted: no answer would tell whether it was accepted."""
        callee = self._callees.get((peer, route))
        if callee is None:
            return None
        if priority is None:
            priority = callee.declared
        gate = None if priority is None else callee.gates.get(priority)
        if gate is None or priority is None or gate.is_over(now_ns):
            return None
        share = callee.share(gate, priority, now_ns)
        if self._random() < share:
            return None
        self.refused_count += 1
        return _refused_here(route, priority, share, gate.retry_after, callee.idle)

    def refused(
        self,
        peer: bytes,
        route: str,
        priority: int | None,
        told: int,
        retry_after: float | None,
        now_ns: int,
        idle: int = 0,
    ) -> None:
        """Overload control of `peer` has refused a call.

        `priority`: that its caller named; `told`: that it had there. `idle`: how long the service was idle all the same, in
        thousandths of the time.
        """
        asked = told if priority is None else priority
        if not EXEMPT < asked < PRIORITIES_MAX:
            return
        callee = self._callees.get((peer, route))
        if callee is None:
            if len(self._callees) >= CALLEES_MAX and not self._sweep(now_ns):
                return
            callee = self._callees[peer, route] = _Callee(now_ns)
            self.is_used = True
        if priority is None:
            callee.declared = told
        gate = callee.gates.get(asked)
        if gate is None:
            gate = callee.gates[asked] = _Gate(now_ns)
        callee.refused += 1
        callee.idle = idle
        gate.refused += 1
        gate.refused_ns, gate.retry_after = now_ns, retry_after

    def answered(self, peer: bytes, route: str, priority: int | None) -> None:
        """`peer` has answered a call otherwise."""
        callee = self._callees.get((peer, route))
        if callee is not None:
            callee.answered += 1
            if priority is None:
                priority = callee.declared
            gate = None if priority is None else callee.gates.get(priority)
            if gate is not None:
                gate.answered += 1

    def lost(self, peer: bytes) -> None:
        """A peer has ended: its next incarnation is not known to be overloaded."""
        for at in [at for at in self._callees if at[0] == peer]:
            del self._callees[at]
        self.is_used = len(self._callees) > 0

    def _open(self, peer: bytes, route: str, priority: int) -> None:
        """Send all calls of a priority again."""
        gates = self._callees[peer, route].gates
        del gates[priority]
        if not gates:
            del self._callees[peer, route]
            self.is_used = len(self._callees) > 0

    def _sweep(self, now_ns: int) -> bool:
        """Remove the routes without a recent refusal, which are not called any more. False: there is none."""
        count = len(self._callees)
        for at, callee in [*self._callees.items()]:
            if all(gate.is_over(now_ns) for gate in callee.gates.values()):
                del self._callees[at]
        return len(self._callees) < count


def _refused_here(route: str, priority: int, share: float, retry_after: float | None, idle: int) -> Busy:
    error = Busy(
        f"{route}: refused here: its service is overloaded, so {share:.0%} of the calls of priority {priority} are sent to it",
        retry_after=retry_after,
    )
    error.is_refused, error.overloaded_at, error.idle = True, priority, idle
    return error
