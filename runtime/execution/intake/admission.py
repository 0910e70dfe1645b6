"""Admission: decides whether a component accepts one more request, and which queued request must make room (law 9).

A component has `max_requests` places, of which one caller gets at most nine tenths. A full component refuses a less urgent
request of any caller to make room; at the bound of one caller, a request of that caller. So urgent work is refused only if no
less urgent request could be, and no caller keeps all others out by begun work. The component decides about its own bound
(`make_room`). A search scans all requests not begun, 1 ms for 10,000; a vain one is not repeated until it might succeed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import chain

from appbackplane.transport.errors import Busy, InternalError, text_of

from ...objects.action import Action
from ...objects.component import Component
from ...objects.state_machine import StateMachine
from ...observation.statistics import Statistics
from ...scheduling.throttle import Share, Throttle
from ..actions.parked_actions import ParkedActions
from ..workers.clock import Clock
from .awaiting_calls import AwaitingCalls
from .component_limits import ComponentLimits
from .digest import Digesters, route_of
from .withdrawal import Withdrawal

log = logging.getLogger("appbackplane.runtime")


class Admission:
    """Applies the limits of all components. Used under the lead."""

    def __init__(
        self, *, clock: Clock, limits: ComponentLimits, statistics: Statistics, digesters: Digesters, parking: ParkedActions,
        withdrawal: Withdrawal, awaiting: AwaitingCalls,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._limits = limits
        self._statistics = statistics
        self._digesters = digesters
        self._parking = parking
        self._withdrawal = withdrawal
        self._awaiting = awaiting

    # hot: scripts/bench call_pipelined
    def count_in(self, action: Action, component: Component, caller: bytes) -> None:
        """Count `action` as outstanding for `component` and for `caller`. Raises `Busy` if there is no room."""
        throttle = self._limits.requests.get(component.component_name)
        if throttle is None:
            return
        share = throttle.share_of(caller)
        if action.object.is_refusable:
            if share.is_full and not self._shed(component, share, action.priority):
                raise self._busy(
                    action, throttle, f"the caller has {share.outstanding} requests outstanding at {component.name}, "
                    f"of {throttle.limit} for all callers (max_requests) and {throttle.share_limit} for each",
                )  # fmt: skip
            if throttle.is_full and not self._makes_room(action, component, throttle):
                has = "1 request" if throttle.outstanding == 1 else f"{throttle.outstanding} requests"
                raise self._busy(
                    action, throttle, f"{component.name} has {has} outstanding (max_requests = {throttle.limit})"
                )
        share.begins(action.priority)
        action.throttle = share

    def shed(self, component: Component, below: int) -> int:
        """Refuse the least urgent request below priority `below` that has not begun, the newest of equals; how many: 0 or 1."""
        return self._shed(component, self._limits.requests[component.component_name], below)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _makes_room(self, action: Action, component: Component, throttle: Throttle) -> bool:
        try:
            component.make_room(action)
        except BaseException as error:
            log.exception("%s.make_room failed", component.name)
            raise InternalError(f"{component.name}.make_room: {type(error).__name__}: {text_of(error)}") from error
        return not throttle.is_full

    def _busy(self, action: Action, throttle: Throttle, because: str) -> Busy:
        throttle.refused_count += 1
        self._statistics.of(action.name).refused_count += 1
        return Busy(f"{action.name}: {because}", retry_after=throttle.retry_after())

    def _shed(self, component: Component, account: Throttle | Share, below: int) -> int:
        if account.barren_below is not None and below >= account.barren_below:
            return 0
        worst: Action | None = None
        for action in self._not_begun(component):
            share = action.throttle
            is_counted = isinstance(share, Share) and (share is account or share.throttle is account)
            is_worst = worst is None or (action.priority, action.posted_ns) >= (worst.priority, worst.posted_ns)
            if is_counted and action.priority > below and is_worst:
                worst = action
        if worst is None or not self._refuse(worst):
            account.barren_below = below
            return 0
        return 1

    def _not_begun(self, component: Component) -> Iterator[Action]:
        """Actions not begun: queued at the objects of a component, deferred by its state machines, parked anywhere; and calls
        that await operands.
        """
        digester = self._digesters.get(component.component_name)
        spawned = (each for each in component._spawned.values() if each._head is not None)
        added = (component, *component._objects, *([] if digester is None else [digester]))
        for object in chain(added, spawned):
            action = object._head
            while action is not None:
                if not action.continues:
                    yield action
                action = action.next
            if isinstance(object, StateMachine):
                yield from object._deferred
        yield from (each for each in self._parking.parked.values() if not each.has_begun)
        yield from self._awaiting

    def _refuse(self, action: Action) -> bool:
        share = action.throttle
        assert isinstance(share, Share)
        throttle = share.throttle
        error = Busy(f"{route_of(action)}: made room for more urgent work", retry_after=throttle.retry_after())
        if not self._withdrawal.take_out(action, error, self._clock.now_ns()):
            return False
        throttle.refused_count += 1
        return True
