"""CallerThrottle: callers of an overloaded service refuse a share of their calls themselves, so that it need not.

A refusal costs a service of short calls a twelfth of the work. So a caller keeps, for each instance, route and priority that
overload control has refused, how many calls were asked for, sent and refused, and sends `MARGIN` times as many as were
accepted: the adaptive throttling of Google's SRE book ("Handling Overload"), with an interval of 50 ms to 1 s in the place of its
two minutes. Three differences. An interval without a refusal doubles the share, and a second without one ends the throttling,
because `MARGIN` alone needs ten intervals to recover. A call leaves every 100 ms in any case. And what is less urgent than
refused calls is admitted at most at their rate, as in DAGOR (Zhou et al., SoCC 2018). Priority 0 is never refused.

"Accepted" are the calls with another answer, or those sent and not refused, whichever are more: the answers of long calls come
late, and refusals from far away do. Pure: `now_ns` and randomness come in. One a process, owned like the call table; a caller
whose services have never refused pays one attribute check a call (`is_used`).
"""

from collections.abc import Callable
from typing import Final

from .errors import Busy

#: Calls of this priority and above are never refused (runtime/scheduling/adaptive_limit.py).
EXEMPT: Final = 0
#: How many calls are sent for one that is accepted. The service refuses one in six of them, which keeps its estimate correct
#: and costs it 2 % of its work; with less, an interval without a refusal would be common, and the share rise for nothing.
MARGIN: Final = 1.2
#: Growth of the share after an interval without a refusal.
GROWTH: Final = 2.0
#: Shortest interval, and the calls sent in it that are enough; the longest, and the time without a refusal after which all
#: calls are sent.
INTERVAL_MIN_NS: Final = 50_000_000
SENT_MIN: Final = 20
INTERVAL_MAX_NS: Final = 1_000_000_000
#: One call leaves after this time, whatever the share: the service may have room again.
PROBE_NS: Final = 100_000_000
#: Gates beyond which those without a recent refusal are removed. Programs call few routes; a caller may ask for any.
_GATES_MAX: Final = 4_096


class Gate:
    """The calls of one priority to one route of one instance that has refused some of them."""

    __slots__ = ("answered", "asked", "began_ns", "refused", "refused_ns", "retry_after", "sent", "sent_ns", "share")

    def __init__(self, now_ns: int) -> None:
        #: The part of the calls that is sent, above 0 to 1.
        self.share = 1.0
        #: Of this interval.
        self.began_ns = now_ns
        self.asked = self.sent = self.refused = self.answered = 0
        #: When the last call was sent, and the last refused; and the wait that the service asked for then, s.
        self.sent_ns = self.refused_ns = now_ns
        self.retry_after: float | None = None

    def measure(self, now_ns: int) -> None:
        """End the interval, unless it is too short to tell anything."""
        interval_ns = now_ns - self.began_ns
        if interval_ns < INTERVAL_MAX_NS and (interval_ns < INTERVAL_MIN_NS or self.sent < SENT_MIN):
            return
        if self.refused:
            accepted = max(self.answered, self.sent - self.refused)
            self.share = min(1.0, MARGIN * accepted / max(self.asked, 1))
        else:
            self.share = 1.0 if interval_ns >= INTERVAL_MAX_NS else min(1.0, GROWTH * self.share)
        self.began_ns = now_ns
        self.asked = self.sent = self.refused = self.answered = 0

    def is_over(self, now_ns: int) -> bool:
        """Whether all calls are sent, and none has been refused for a second."""
        return self.share >= 1.0 and now_ns - self.refused_ns >= INTERVAL_MAX_NS


class _Callee:
    """One route of one instance."""

    __slots__ = ("declared", "gates")

    def __init__(self) -> None:
        #: By the priority of the calls.
        self.gates: dict[int, Gate] = {}
        #: The priority that the service gives to calls without one; None: not known yet.
        self.declared: int | None = None


class CallerThrottle:
    """The calls of one process that it refuses itself."""

    def __init__(self, random: Callable[[], float]) -> None:
        """`random`: returns 0 up to 1."""
        #: Whether some service has refused calls lately. Without that, nothing else needs to be called.
        self.is_used = False
        #: Calls that were refused here, since the start.
        self.refused_count = 0
        self._random = random
        self._callees: dict[tuple[bytes, str], _Callee] = {}

    def refusal(self, peer: bytes, route: str, priority: int | None, now_ns: int) -> Busy | None:
        """Count a call that is about to be sent to `peer`. Returns the error in which it ends instead; None: send it."""
        callee = self._callees.get((peer, route))
        if callee is None:
            return None
        if priority is None:
            priority = callee.declared
        gate = None if priority is None else callee.gates.get(priority)
        if gate is None or priority is None:
            return None
        gate.measure(now_ns)
        if gate.is_over(now_ns):
            self._remove((peer, route), priority)
            return None
        gate.asked += 1
        share = gate.share
        for urgent, other in callee.gates.items():
            if urgent < priority and other.share < share and now_ns - other.refused_ns < INTERVAL_MAX_NS:
                share = other.share
        if share >= 1.0 or now_ns - gate.sent_ns >= PROBE_NS or self._random() < share:
            gate.sent += 1
            gate.sent_ns = now_ns
            return None
        self.refused_count += 1
        error = Busy(
            f"{route}: refused here: it is overloaded, and {share:.0%} of the calls of priority {priority} are sent",
            retry_after=gate.retry_after,
        )
        error.is_refused, error.overloaded_at = True, priority
        return error

    def refused(
        self, peer: bytes, route: str, priority: int | None, told: int, retry_after: float | None, now_ns: int
    ) -> None:
        """The overload control of `peer` has refused a call. `told`: the priority that the call had there."""
        callee = self._callees.get((peer, route))
        if priority is None:
            priority = told
            if callee is not None:
                callee.declared = told
        if priority <= EXEMPT:
            return
        if callee is None:
            if len(self._callees) >= _GATES_MAX:
                self._sweep(now_ns)
            callee = self._callees[peer, route] = _Callee()
            callee.declared = told
            self.is_used = True
        gate = callee.gates.get(priority)
        if gate is None:
            gate = callee.gates[priority] = Gate(now_ns)
        gate.refused += 1
        gate.refused_ns, gate.retry_after = now_ns, retry_after

    def answered(self, peer: bytes, route: str, priority: int | None) -> None:
        """A call has ended in any other answer of `peer`."""
        callee = self._callees.get((peer, route))
        if callee is not None:
            gate = callee.gates.get(callee.declared if priority is None else priority)  # type: ignore[arg-type]
            if gate is not None:
                gate.answered += 1

    def lost(self, peer: bytes) -> None:
        """A peer has ended: its next incarnation begins anew."""
        for at in [at for at in self._callees if at[0] == peer]:
            del self._callees[at]
        self.is_used = bool(self._callees)

    def _remove(self, at: tuple[bytes, str], priority: int) -> None:
        gates = self._callees[at].gates
        del gates[priority]
        if not gates:
            del self._callees[at]
            self.is_used = bool(self._callees)

    def _sweep(self, now_ns: int) -> None:
        for at, callee in [*self._callees.items()]:
            if all(now_ns - gate.refused_ns >= INTERVAL_MAX_NS for gate in callee.gates.values()):
                del self._callees[at]
