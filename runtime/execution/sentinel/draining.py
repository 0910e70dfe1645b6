"""Draining: graceful shutdown of this backplane. It finishes its work before its components go down.

The directory sends callers elsewhere. A caller that does not know yet is served, until three conditions hold: no action is
queued, runs or waits; no call has come for `GRACE_NS`; every recent caller has sent `farewell`, behind its last call.
Then, or at the limit, the intake closes. Actions that have not begun, and later calls, are refused with a retry hint.
Begun actions may end, and make calls inside this backplane. `@every` methods do not begin during a drain; timers set by
`after` are not waited for. The sentinel checks every few milliseconds, so calls pay nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from appbackplane.transport.addressing import BACKPLANE

from ...objects.action import LOCAL, Action
from ...objects.app_object import AppObject
from ...objects.state_machine import StateMachine
from ..actions.method_action import MethodAction
from ..intake.digest import Digest, route_of
from ..loop.engine import Engine
from .control import Answer

#: Quiet time before the intake closes. A directory arrives 0.3 ms after it was sent on an idle machine. On a saturated one
#: a caller waits for the CPU, 3 to 4 ms for each process before it, and its calls take as long to arrive. If shorter, calls
#: in flight are refused; if longer, each restart takes so much longer.
GRACE_NS = 50_000_000
#: A peer that called this recently may be calling now. Any other peer reads the directory before its next call.
RECENT_NS = 1_000_000_000
#: How long to wait for the farewell of a caller from which nothing comes any more: it was stopped or does not read, and its
#: later calls are refused as not begun. One that goes on calling has not read the directory yet, as where ten share a core.
#: On two cores with sixteen busy processes a farewell took 0.2 s at most.
FAREWELL_NS = 1_000_000_000
#: The same for one that goes on calling. A program that asks for statistics all the time has nothing to say farewell for.
FAREWELL_MAX_NS = 5 * FAREWELL_NS
#: Interval of the probes that find dead callers: one frame each.
ASK_NS = 50_000_000
#: Interval between two checks: 10 us each.
LOOK_NS = 5_000_000
#: Actions refused in one hold of the lead: 10 us each.
REFUSED_MAX = 100


class Draining:
    """One drain. Takes the lead where it needs it; only the sentinel calls `look`."""

    def __init__(
        self, engine: Engine, *, limit_ns: int, stop_limit_ns: int, because: str, answer: Answer, now_ns: int
    ) -> None:
        """`because`: reason in the errors of refused calls. `answer`: called once, when no work is left, or at the limits."""
        self._lead, self._registry, self._scheduler = engine.lead, engine.registry, engine.scheduler
        self._poll_leader, self._statistics, self._callers = engine.poll_leader, engine.statistics, engine.callers
        self._accepted, self._calls, self._digesters = engine.accepted, engine.calls, engine.digesters
        self._outbox, self._parking = engine.outbox, engine.parking
        self._shutdown_gate, self._withdrawal = engine.shutdown_gate, engine.withdrawal
        self._awaiting = engine.awaiting
        self._closes_ns, self._stop_limit_ns = now_ns + limit_ns, stop_limit_ns
        self._because, self._answer = because, answer
        self._own = f"{BACKPLANE}.{engine.backplane}"
        self._begun_ns, self._asked_ns = now_ns, 0
        self._quiet_since_ns: int | None = None
        self._ended_count = -1
        self._refused_count = 0
        #: When it answers at the latest; None: the intake is still open.
        self._ends_ns: int | None = None
        self.is_over = False
        with engine.lead:
            engine.lifecycle.suspend_timers()

    def look(self, now_ns: int) -> None:
        """Advance the drain: close the intake once it is quiet, refuse actions that have not begun, answer at the end."""
        if self._ends_ns is None:
            with self._lead:
                if not self._is_quiet(now_ns) and now_ns < self._closes_ns:
                    return
                self._shutdown_gate.close(self._because)
            self._ends_ns = now_ns + self._stop_limit_ns
        with self._lead:
            refused = list(itertools.islice(self._not_begun(), REFUSED_MAX))
            for action in refused:
                self._refuse(action, now_ns)
            if refused:
                self._poll_leader.notify()  # a worker sends the refusals
                return
            running = self._running()
            unread = len(self._outbox.stalled)  # peers that have not read during the whole limit
            is_busy = bool(running) or self._scheduler.queued_count > 0
        if not is_busy or now_ns >= self._ends_ns:
            self.is_over = True
            self._answer({"refused": self._refused_count, "running": sorted(running), "unread": unread}, None)

    def _is_quiet(self, now_ns: int) -> bool:
        """Whether there has been no work for `GRACE_NS`, and no recent caller may still send some."""
        ended_count = self._count_ended()
        has_news = ended_count != self._ended_count
        self._ended_count = ended_count
        if has_news or self._running() or self._scheduler.queued_count or self._outbox:
            self._quiet_since_ns = None
            return False
        if self._quiet_since_ns is None:
            self._quiet_since_ns = now_ns
        return now_ns - self._quiet_since_ns >= GRACE_NS and not self._expects_more(now_ns)

    def _expects_more(self, now_ns: int) -> bool:
        """Whether a peer that does not know of the drain may be calling; probes such peers every `ASK_NS`."""
        if now_ns - self._begun_ns >= FAREWELL_MAX_NS:
            return False
        is_early = now_ns - self._begun_ns < FAREWELL_NS
        unaware = self._callers.unaware(self._begun_ns - RECENT_NS if is_early else now_ns - FAREWELL_NS)
        if not unaware:
            return False
        if now_ns - self._asked_ns >= ASK_NS:
            self._asked_ns = now_ns
            self._callers.ask(unaware)
            self._poll_leader.notify()
        return True

    def _count_ended(self) -> int:
        """Operations ended so far, without timers and without the backplane's own operations, which operators call."""
        names = {route.name for route in self._registry.routes.values() if route.component.component_name != self._own}
        return sum(account.run.count for name, account in self._statistics.operations.items() if name in names)

    def _running(self) -> set[str]:
        """Names of actions admitted and not ended: they have a caller, run in a worker, or wait in the middle of their work."""
        found = {action.name for action in self._accepted.values() if not self._is_own(action)}
        for worker in self._poll_leader.team:
            if worker.action is not None and not self._is_own(worker.action):
                found.add(worker.action.name)
        if self._scheduler.waiting_count:
            waiting: list[Action] = [request.action for *_, request in self._calls if request.action is not None]
            waiting += self._parking.parked.values()
            found |= {action.name for action in waiting if not self._is_own(action)}
        return found

    def _not_begun(self) -> Iterator[Action]:
        """Actions queued, parked, or deferred by a state machine that have not begun, except calls made by begun actions; and
        calls that await operands.
        """
        for object in self._objects():
            action = object._head
            while action is not None:
                if not (action.has_begun or action.continues or _is_inside(action)):
                    yield action
                action = action.next
            if isinstance(object, StateMachine):
                yield from object._deferred
        for parked in self._parking.parked.values():
            if not (parked.has_begun or _is_inside(parked) or self._is_own(parked)):
                yield parked
        yield from self._awaiting

    def _objects(self) -> Iterator[AppObject]:
        for name, component in self._registry.components.items():
            if name != self._own:
                yield component
                yield from component._objects
                yield from (each for each in component._spawned.values() if each._load)
        yield from self._digesters.values()

    def _refuse(self, action: Action, now_ns: int) -> None:
        if isinstance(action, MethodAction) and action.timer is not None:
            self._scheduler.withdraw(action)  # it has no caller, and its timer is over
            return
        self._refused_count += 1
        self._withdrawal.take_out(action, self._shutdown_gate.not_begun(route_of(action)), now_ns)

    def _is_own(self, action: Action) -> bool:
        component = action.object._component
        return component is not None and component.component_name == self._own


def _is_inside(action: Action) -> bool:
    """Whether the caller is an action of this very backplane."""
    if isinstance(action, Digest):
        return action.sender == LOCAL
    return action.peer == LOCAL
