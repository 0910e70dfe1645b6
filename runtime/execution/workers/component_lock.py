"""Component lock: a lock that a component uses for its own data, with a name, its times measured, and a limit.

"A lock is still necessary because an application shares state across Actors, but the lock is controlled by the application"
(seed 004); backplanes differ in their "lock policies" (seed 002). A thread that waits for it is replaced by another one
meanwhile, `why` names the lock and its holder, and the deadline of the waiting action bounds the wait. The figures are written
by the holder, so they need no lock of their own. An uncontended use costs two readings of the clock.

Not compiled: mypyc would word the errors for bad arguments itself.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from appbackplane.transport.call_checks import TIMEOUT_MAX_S, is_number

from ...objects.action import Action
from ...objects.component import Component
from ...observation.histogram import Histogram
from ...observation.rate_limit import RateLimit
from ..actions.blocking import wait_at
from ..logs.log_handler import of_action
from .current import current

#: Between two reports of one lock.
REPORT_INTERVAL_NS = 1_000_000_000

log = logging.getLogger("appbackplane.runtime")


class ComponentLock:
    """A lock of one component: `self.lock = ComponentLock(self, "stock", limit=0.005)`, then `with self.lock:` in operations.

    name: in statistics and reports; one lock of a component has it.
    limit: seconds. A longer hold is counted, and reported at most once a second with the action that held it. None: no limit.

    `with` raises RuntimeError if this very action holds it already, and `DeadlineExceeded` if the action's deadline passes
    while it waits. Never hold it across an `await` or a call: whoever waits for it would wait for that reply, too.
    Raises TypeError or ValueError for a bad argument, or a name that the component has given already.
    """

    def __init__(self, component: Component, name: str, *, limit: float | None = None) -> None:
        given: Any = component
        if not isinstance(given, Component):
            raise TypeError(f"ComponentLock: {given!r} is no component: make the lock in its __init__, with self")
        if not isinstance(name, str) or not name:
            raise TypeError(f"ComponentLock: name={name!r}: expected text")
        if limit is not None and not is_number(limit):
            raise TypeError(f"ComponentLock {name!r}: limit={limit!r}: expected a number of seconds")
        if limit is not None and not limit > 0:
            raise ValueError(f"ComponentLock {name!r}: limit={limit!r}: expected a number of seconds above 0")
        if name in component._locks:
            raise ValueError(f"{component.component_name} has a lock {name!r} already: give this one another name")
        self.name = name
        self._component = component
        self._limit_ns = None if limit is None else round(limit * 1e9)
        self._lock = threading.Lock()
        self._held, self._waited = Histogram(), Histogram()
        self._over_limit_count = 0
        self._reported = RateLimit(REPORT_INTERVAL_NS)
        #: Written by the holder.
        self._holder: Action | None = None
        self._since_ns = 0
        component._locks[name] = self

    def __enter__(self) -> None:
        action, asked_ns = current.action, self._now_ns()
        if not self._lock.acquire(blocking=False):
            holder = self._holder
            if holder is not None and holder is action:
                raise RuntimeError(f"{action.name} holds the lock {self.name!r} already: it is not given twice")
            held = "" if holder is None else f", held by {holder.name} on {holder.object.name}"
            while not wait_at(self._lock, TIMEOUT_MAX_S, what=f"the lock {self.name!r}{held}"):
                pass
        now_ns = self._now_ns()
        self._holder, self._since_ns = action, now_ns
        self._waited.record(now_ns - asked_ns)

    def __exit__(self, *_: object) -> None:
        now_ns, holder = self._now_ns(), self._holder
        held_ns = now_ns - self._since_ns
        self._held.record(held_ns)
        is_over = self._limit_ns is not None and held_ns > self._limit_ns
        left_out = None
        if is_over:
            self._over_limit_count += 1
            left_out = self._reported.admit(self.name, now_ns)
        self._holder = None
        self._lock.release()
        if left_out is not None:
            self._report(holder, held_ns, left_out)

    def figures(self, *, with_buckets: bool = False) -> dict[str, Any]:
        """How long it was held and waited for, and how often it was held for longer than its limit, as data."""
        return {
            "held": self._held.summary(with_buckets=with_buckets),
            "waited": self._waited.summary(with_buckets=with_buckets),
            "limit_ms": None if self._limit_ns is None else self._limit_ns / 1e6,
            "over_limit": self._over_limit_count,
        }

    def _now_ns(self) -> int:
        host = self._component._hosted_by
        return 0 if host is None else host.now_ns()

    def _report(self, holder: Action | None, held_ns: int, left_out: int) -> None:
        assert self._limit_ns is not None
        by = "a thread without an action" if holder is None else f"{holder.name} on {holder.object.name}"
        more = f" ({left_out} more since the last report)" if left_out else ""
        log.warning(
            "lock held for long: %r of %s by %s for %.1f ms, longer than its limit (%g ms)%s",
            self.name, self._component.name, by, held_ns / 1e6, self._limit_ns / 1e6, more,
            extra=None if holder is None else of_action(holder),
        )  # fmt: skip
