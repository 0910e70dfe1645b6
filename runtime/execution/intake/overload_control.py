"""Overload control: which requests are refused so that the others do not queue for longer than their operation's aim.

An operation with `admit` has a limit of its own (scheduling/adaptive_limit.py). All other requests from outside share that of
the backplane, if it has one. Calls that an action of this backplane makes here are part of admitted work, so only the limit
of their own operation applies. `Busy` says when the request may come again: after the aim.
"""

from __future__ import annotations

from appbackplane.transport.errors import Busy

from ...objects.action import LOCAL
from ...objects.registry import Registry
from ...observation.statistics import Statistics
from ...scheduling.adaptive_limit import AdaptiveLimit
from ..actions.completion import too_late
from ..actions.reports import Reports
from ..workers.clock import Clock
from .withdrawal import Withdrawal


class OverloadControl:
    """The adaptive limits of one backplane. Used under the lead."""

    def __init__(
        self, aim_ns: int | None, *, clock: Clock, registry: Registry, statistics: Statistics, reports: Reports,
        withdrawal: Withdrawal, priorities: int,
    ) -> None:  # fmt: skip
        """`aim_ns`: of the backplane; None: only operations have limits."""
        self._clock = clock
        self._registry = registry
        self._statistics = statistics
        self._reports = reports
        self._withdrawal = withdrawal
        self._priorities = priorities
        #: The limits of operations, by route, and of the backplane.
        self.limits: dict[str, AdaptiveLimit] = {}
        self.shared: AdaptiveLimit | None = None if aim_ns is None else self._limit(aim_ns)
        self.is_used = self.shared is not None

    def add_declared(self) -> None:
        """Make the limits of the operations that declare one. Called once, when all routes are known."""
        for name, route in self._registry.routes.items():
            if route.mark.admit is not None:
                self.limits[name] = self._limit(round(route.mark.admit.aim_ms * 1e6))
                self.is_used = True

    def admit(self, route: str, priority: int, peer: bytes, now_ns: int) -> AdaptiveLimit | None:
        """The limit that admits the request, and has to be told of it; None: it has none. Raises `Busy`."""
        limit = self.limits.get(route)
        if limit is None:
            if self.shared is None or peer is LOCAL:
                return None
            limit = self.shared
        while (late := limit.next_late(now_ns)) is not None:
            if self._withdrawal.take_out(late, too_late(late, limit, now_ns), now_ns):
                limit.refused_late()
        if not limit.admits(priority, now_ns):
            account = self._statistics.of(route)
            account.refused_count += 1
            if account.typical_ns > limit.aim_ns:
                self._reports.refused(
                    f"aim {route}", f"{route} runs for {account.typical_ns / 1e6:.1f} ms, longer than the "
                    f"{limit.aim_ns / 1e6:g} ms for which its requests may queue: nearly all are refused; choose a longer aim",
                    now_ns,
                )  # fmt: skip
            error = Busy(
                f"{route}: it would queue for longer than the {limit.aim_ns / 1e6:g} ms aimed at",
                retry_after=limit.aim_ns / 1e9,
            )
            error.overloaded_at, error.idle = priority, limit.idle_thousandths
            raise error
        return limit

    def figures(self) -> dict[str, dict[str, float]]:
        """The figures of each limit, by the route of its operation; of the backplane's own, by ""."""
        found = {name: limit.figures() for name, limit in self.limits.items()}
        return found if self.shared is None else {"": self.shared.figures(), **found}

    def _limit(self, aim_ns: int) -> AdaptiveLimit:
        return AdaptiveLimit(aim_ns, self._priorities, self._clock.now_ns())
