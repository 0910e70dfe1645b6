"""Draining: this backplane takes nothing new, and finishes what it has, before its components go down.

The directory tells callers to ask elsewhere; who has not heard of it yet is served all the same, until nothing is queued,
runs or waits, nothing new has come for `GRACE_NS`, and all who have called of late have said that they know (`farewell`: it
comes after all that was sent before). Then, or at the limit, intake is closed: what has not begun, and
what still comes, is refused with a hint when to try again, and what has begun may end, with the calls that it makes inside
of this backplane. `@every` methods do not begin while it drains, and what was set by `after` is not waited for. The
sentinel looks, every few milliseconds: calls pay nothing for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from appbackplane.transport.addressing import BACKPLANE

from ..objects.action import LOCAL, Action
from ..objects.app_object import AppObject
from ..objects.state_machine import StateMachine
from .digesting import Digest
from .method_action import MethodAction

if TYPE_CHECKING:
    from .control import Answer
    from .engine import Engine

#: A directory is heard 0.3 ms after it was sent, where nothing else runs; on a machine that is saturated a caller waits some
#: scheduling rounds for its turn, 3 to 4 ms for each that is before it. Its calls take as long to come. Shorter, and calls
#: that are on their way are refused; longer, and each restart takes so much longer.
GRACE_NS = 50_000_000
#: Who has called so shortly before may be calling now. Who has not reads the directory before he calls again.
RECENT_NS = 1_000_000_000
#: How long a farewell is waited for: who does not send one was stopped, or does not read; he hears that his calls were
#: not begun. On two cores with sixteen busy processes it took 0.2 s at most.
FAREWELL_NS = 1_000_000_000
#: Who has gone without a word is found out this often: a frame each.
ASK_NS = 50_000_000
#: Between two looks: 10 us each.
LOOK_NS = 5_000_000
#: Actions that are refused without letting others have the lead: 10 us each.
REFUSED_MAX = 100


class Draining:
    """One drain. Takes the lead where it needs it; `look` is called by the sentinel alone."""

    def __init__(
        self, engine: Engine, *, limit_ns: int, stop_limit_ns: int, because: str, answer: Answer, now_ns: int
    ) -> None:
        """`because`: what those are told who are refused. `answer`: called once, when nothing is left, or at the limits."""
        self._engine = engine
        self._closes_ns, self._stop_limit_ns = now_ns + limit_ns, stop_limit_ns
        self._because, self._answer = because, answer
        self._own = f"{BACKPLANE}.{engine.backplane}"
        self._begun_ns, self._asked_ns = now_ns, 0
        self._quiet_since_ns: int | None = None
        self._ended_count = -1
        self._refused_count = 0
        #: When it answers at the latest; None: intake is open.
        self._ends_ns: int | None = None
        self.is_over = False
        with engine.lead:
            engine.modules.suspend_timers()

    def look(self, now_ns: int) -> None:
        """See how far it is."""
        if self._ends_ns is None:
            with self._engine.lead:
                if not self._is_quiet(now_ns) and now_ns < self._closes_ns:
                    return
                self._engine.intake.closing.close(self._because)
            self._ends_ns = now_ns + self._stop_limit_ns
        with self._engine.lead:
            refused = list(itertools.islice(self._not_begun(), REFUSED_MAX))
            for action in refused:
                self._refuse(action, now_ns)
            if refused:
                self._engine.watch.notify()  # the refusals are to leave
                return
            running = self._running()
            unread = len(self._engine.outbox.stalled)  # it has had the whole limit for them: else it would not be quiet
            is_busy = bool(running) or self._engine.scheduler.queued_count > 0
        if not is_busy or now_ns >= self._ends_ns:
            self.is_over = True
            self._answer({"refused": self._refused_count, "running": sorted(running), "unread": unread}, None)

    def _is_quiet(self, now_ns: int) -> bool:
        """Whether there is nothing to do, and there has been nothing for a while."""
        ended_count = self._count_ended()
        has_news = ended_count != self._ended_count
        self._ended_count = ended_count
        if has_news or self._running() or self._engine.scheduler.queued_count or self._engine.outbox:
            self._quiet_since_ns = None
            return False
        if self._quiet_since_ns is None:
            self._quiet_since_ns = now_ns
        return now_ns - self._quiet_since_ns >= GRACE_NS and not self._expects_more(now_ns)

    def _expects_more(self, now_ns: int) -> bool:
        """Whether somebody may be calling who does not know yet."""
        callers = self._engine.callers
        unaware = callers.unaware(self._begun_ns - RECENT_NS)
        if not unaware or now_ns - self._begun_ns >= FAREWELL_NS:
            return False
        if now_ns - self._asked_ns >= ASK_NS:
            self._asked_ns = now_ns
            callers.ask(unaware)
            self._engine.watch.notify()
        return True

    def _count_ended(self) -> int:
        """What came from elsewhere and has ended, so far: not our own operations, which people look at us by, and no timers."""
        engine = self._engine
        names = {route.name for route in engine.registry.routes.values() if route.component.component_name != self._own}
        operations = engine.statistics.operations
        return sum(account.run.count for name, account in operations.items() if name in names)

    def _running(self) -> set[str]:
        """What has been admitted and has not ended: called by somebody, run by a worker, or in the middle of itself."""
        engine = self._engine
        found = {action.name for action in engine.intake.accepted.values() if not self._is_own(action)}
        for worker in engine.watch.team:
            if worker.action is not None and not self._is_own(worker.action):
                found.add(worker.action.name)
        if engine.scheduler.waiting_count:
            found |= {action.name for *_, action in engine.outgoing.calls}
            found |= {action.name for action in engine.parking.parked.values()}
        return found

    def _not_begun(self) -> Iterator[Action]:
        """What is queued, parked, or kept by a state machine, and was not begun; but for calls of those who have."""
        for object in self._objects():
            action = object._head
            while action is not None:
                if not (action.has_begun or action.continues or _is_inside(action)):
                    yield action
                action = action.next
            if isinstance(object, StateMachine):
                yield from object._deferred
        yield from (each for each in self._engine.parking.parked.values() if not (each.has_begun or _is_inside(each)))

    def _objects(self) -> Iterator[AppObject]:
        for name, component in self._engine.registry.components.items():
            if name != self._own:
                yield component
                yield from component._objects
        yield from self._engine.intake.digesting.digesters()

    def _refuse(self, action: Action, now_ns: int) -> None:
        intake = self._engine.intake
        if isinstance(action, MethodAction) and action.timer is not None:
            self._engine.scheduler.withdraw(action)  # nobody has asked for it, and its timer is over
            return
        self._refused_count += 1
        name = action.asked.route or "" if isinstance(action, Digest) else action.name
        error = intake.closing.not_begun(name)
        self._engine.endings.take_out(action, error, now_ns)

    def _is_own(self, action: Action) -> bool:
        component = action.object._component
        return component is not None and component.component_name == self._own


def _is_inside(action: Action) -> bool:
    """Whether an action of this very backplane waits for it."""
    if isinstance(action, Digest):
        return action.sender == LOCAL
    return action.peer == LOCAL
