"""Alerts: shows what the pipeline has found. It knows nothing of Spark: its operations are called, by whom it need not know."""

from __future__ import annotations

import logging
from collections import deque
from operator import itemgetter
from typing import TypedDict

from appbackplane.runtime import Component, operation

log = logging.getLogger("pipeline.alerts")
#: Who looks is interested in the last ones; the log has the others.
KEPT_MAX = 100


class Alert(TypedDict):
    """Searches were slow while the host was busy: in the window that began then (Unix time)."""

    since_ns: int
    searches: int
    p99_ms: float
    cpu_percent: float


#: (Inside of `Alerts`, `list` is an operation.)
Shown = list[Alert]


class Alerts(Component):
    """The last alerts: in the log, on the topic `alerts.shown`, and for whoever asks."""

    def __init__(self) -> None:
        self._alerts: deque[Alert] = deque(maxlen=KEPT_MAX)

    @operation(priority=1)
    def show(self, since_ns: int, searches: int, p99_ms: float, cpu_percent: float) -> None:
        """Show one."""
        alert = Alert(since_ns=since_ns, searches=searches, p99_ms=p99_ms, cpu_percent=cpu_percent)
        self._alerts.append(alert)
        log.warning("searches are slow (p99 %.1f ms of %d) while the CPU is at %.0f %%", p99_ms, searches, cpu_percent)
        self.publish("alerts.shown", **alert)

    @operation(priority=1)
    def list(self, limit: int = 20) -> Shown:
        """The last ones, the latest window at the end."""
        return sorted(self._alerts, key=itemgetter("since_ns"))[-limit:] if limit > 0 else []
