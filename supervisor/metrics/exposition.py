"""Exposition: all metrics of a system as a table: name, kind, labels, and the place in the status. Pure.

Everything is read from one reply to `supervisor.status`, so it agrees with `status --stats --json`. Names follow Prometheus's
conventions: base units, `_total` for counters. Counters begin anew with each process of a backplane; Prometheus adds those
up. Histograms have a bucket a doubling (ours have eight), the same in all, or they could not be added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from appbackplane.runtime.observation.histogram import Histogram, bucket_of
from appbackplane.runtime.observation.statistics import OTHERS

from ..direction.health import Health
from .metric import Answer, Counted, Labels, Metric, Read, Value
from .request_metrics import REQUESTS

#: Bounds, as powers of two in nanoseconds: 1 us to 69 s. Longer times are in +Inf.
BOUNDS = tuple(range(10, 37))
#: Operations of a backplane with series of their own, some 70 each; further ones are summed into one. Users' own actions may
#: have a new name for each request, and a time series database dies of that.
OPERATIONS_MAX = 500


class Exposition:
    """Converts status replies to samples. Remembers operations with series of their own, so that none joins the shared ones."""

    def __init__(self) -> None:
        self._known: dict[str, set[str]] = {}

    def samples(self, answer: Answer) -> Iterator[tuple[Metric, list[tuple[Labels, Value]]]]:
        """All metrics with their values, from a reply to `supervisor.status` with `buckets`."""
        answer = {**answer, "backplanes": [self._bounded(entry) for entry in answer["backplanes"]]}
        for metric in METRICS:
            system: Labels = (answer["system"],)
            yield metric, [(system + labels, value) for labels, value in metric.read(answer)]

    def _bounded(self, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        statistics = entry["statistics"]
        if statistics is None:
            return entry
        known = self._known.setdefault(entry["name"], set())
        apart, together = {}, []
        for name, account in statistics["operations"].items():
            if name != OTHERS and (name in known or len(known) < OPERATIONS_MAX):
                known.add(name)
                apart[name] = account
            else:
                together.append(account)
        if together:
            apart[OTHERS] = _merged(together)
        return {**entry, "statistics": {**statistics, "operations": apart}}


def counted(told: Mapping[str, Any]) -> Counted:
    """A histogram of ours, with Prometheus's cumulative buckets."""
    histogram = Histogram.from_data(dict(told))
    counts = histogram.counts
    buckets = tuple(
        ((1 << power) / 1e9, sum(count for bucket, count in counts.items() if bucket < bucket_of(1 << power)))
        for power in BOUNDS
    )
    return Counted(buckets, histogram.count, histogram.total_ns / 1e9)


def _merged(accounts: list[Mapping[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {
        key: sum(account[key] for account in accounts)
        for key in ("count", "errors", "expired", "cancelled", "refused", "slow", "cpu_ms")
    }
    for which in ("wait", "run"):
        histogram = Histogram()
        for account in accounts:
            histogram.merge(Histogram.from_data(dict(account[which])))
        merged[which] = histogram.summary(with_buckets=True)
    return merged


# Each function returns a reader for the table below. A value of None gives no sample.


def _system(value: Callable[[Answer], Value]) -> Read:
    return lambda answer: [((), value(answer))]


def _backplane(value: Callable[[Any], Value | None]) -> Read:
    def read(answer: Answer) -> Iterator[tuple[Labels, Value]]:
        for entry in answer["backplanes"]:
            found = value(entry)
            if found is not None:
                yield (entry["name"],), found

    return read


def _told(value: Callable[[Any], Value | None]) -> Read:
    """Reader of a backplane's statistics, if it answered."""
    return _backplane(lambda entry: None if entry["statistics"] is None else value(entry["statistics"]))


def _each(items: Callable[[Any], Iterable[tuple[str, Value]]]) -> Read:
    """Reader of the statistics' values that have a further label."""

    def read(answer: Answer) -> Iterator[tuple[Labels, Value]]:
        for entry in answer["backplanes"]:
            if entry["statistics"] is not None:
                for label, value in items(entry["statistics"]):
                    yield (entry["name"], label), value

    return read


def _operation(value: Callable[[Any], Value]) -> Read:
    return _each(lambda told: [(name, value(account)) for name, account in told["operations"].items()])


def _component(value: Callable[[Any], Value]) -> Read:
    return _each(lambda told: [(name, value(one)) for name, one in told["components"].items()])


def _health(answer: Answer) -> Iterator[tuple[Labels, Value]]:
    for entry in answer["backplanes"]:
        for health in Health:
            yield (entry["name"], health.value), float(entry["health"] == health)


def _cpu_s(entry: Any) -> Value | None:
    if entry["statistics"] is not None:
        return float(entry["statistics"]["cpu"]["process_ms"]) / 1e3
    return None if entry["board"] is None else float(entry["board"]["cpu"])


def _cpu_limit(entry: Any) -> Value | None:
    percent = entry["cpu_limit"]["percent"]
    return None if percent is None else percent / 100


_B, _BO, _BC, _BP = ("backplane",), ("backplane", "operation"), ("backplane", "component"), ("backplane", "priority")
_EVENTS = (
    "malformed",
    "undelivered",
    "late",
    "abandoned",
    "refused_casts",
    "topics_lost_here",
    "topics_lost_elsewhere",
)

METRICS: tuple[Metric, ...] = (
    Metric(
        "appbackplane_up",
        "gauge",
        "1 while the system is up, 0 on its way there or down.",
        (),
        _system(lambda a: float(a["state"] == "up")),
    ),
    Metric(
        "appbackplane_uptime_seconds",
        "gauge",
        "How long the supervisor has been running.",
        (),
        _system(lambda a: float(a["uptime"])),
    ),
    Metric(
        "appbackplane_backplane_up",
        "gauge",
        "1 while the backplane is up.",
        _B,
        _backplane(lambda b: float(b["state"] == "up")),
    ),
    Metric(
        "appbackplane_backplane_health",
        "gauge",
        "1 for the present health, 0 for the others.",
        ("backplane", "health"),
        _health,
    ),
    Metric(
        "appbackplane_backplane_answered",
        "gauge",
        "1 if the backplane sent statistics, 0 if only its board is known.",
        _B,
        _backplane(lambda b: float(b["statistics"] is not None)),
    ),
    Metric(
        "appbackplane_backplane_restarts_total",
        "counter",
        "Times the backplane was restarted.",
        _B,
        _backplane(lambda b: b["restarts"]),
    ),
    Metric("appbackplane_cpu_seconds_total", "counter", "CPU time of the whole process.", _B, _backplane(_cpu_s)),
    Metric(
        "appbackplane_cpu_limit_ratio",
        "gauge",
        "Its cpu_limit: 1 is a whole core. Absent without one.",
        _B,
        _backplane(_cpu_limit),
    ),
    Metric("appbackplane_workers", "gauge", "Worker threads.", _B, _told(lambda s: s["threads"])),
    Metric(
        "appbackplane_queued_actions", "gauge", "Actions in all queues.", _B, _told(lambda s: s["queues"]["actions"])
    ),
    Metric(
        "appbackplane_waiting_objects",
        "gauge",
        "Objects that wait for a reply, or for the locks of a message.",
        _B,
        _told(lambda s: s["queues"]["waiting"]),
    ),
    Metric("appbackplane_timers", "gauge", "Timers that are set.", _B, _told(lambda s: s["queues"]["timers"])),
    Metric(
        "appbackplane_outstanding_calls",
        "gauge",
        "Calls of its objects that have no answer yet.",
        _B,
        _told(lambda s: s["links"]["outstanding"]),
    ),
    Metric(
        "appbackplane_ready_objects",
        "gauge",
        "Objects in each ready queue; priority 0 is the most urgent.",
        _BP,
        _each(lambda s: [(str(p), depth) for p, depth in enumerate(s["queues"]["ready"])]),
    ),
    Metric(
        "appbackplane_oldest_ready_seconds",
        "gauge",
        "Age of the oldest object in each ready queue; 0 if it is empty.",
        _BP,
        _each(lambda s: [(str(p), (ms or 0) / 1e3) for p, ms in enumerate(s["queues"]["oldest_ms"])]),
    ),
    Metric(
        "appbackplane_boosts_total",
        "counter",
        "Times it raised another backplane to the priority of its call.",
        _B,
        _told(lambda s: None if s["os_priority"] is None else s["os_priority"]["boosts"]),
    ),
    Metric(
        "appbackplane_link_events_total",
        "counter",
        "Transport problems: messages lost, frames malformed.",
        ("backplane", "event"),
        _each(lambda s: [(event, s["links"][event]) for event in _EVENTS]),
    ),
    Metric(
        "appbackplane_component_requests",
        "gauge",
        "Requests that are outstanding.",
        _BC,
        _component(lambda c: c["outstanding"]),
    ),
    Metric(
        "appbackplane_component_requests_limit",
        "gauge",
        "Its max_requests.",
        _BC,
        _component(lambda c: c["max_requests"]),
    ),
    Metric(
        "appbackplane_component_throttled_total",
        "counter",
        "Requests refused because the component was at its limit.",
        _BC,
        _component(lambda c: c["refused"]),
    ),
    Metric(
        "appbackplane_operation_actions_total",
        "counter",
        "Actions that have ended.",
        _BO,
        _operation(lambda o: o["count"]),
    ),
    Metric(
        "appbackplane_operation_errors_total",
        "counter",
        "Actions that ended in an error.",
        _BO,
        _operation(lambda o: o["errors"]),
    ),
    Metric(
        "appbackplane_operation_refused_total",
        "counter",
        "Actions that were refused: throttled, or not served in the present state.",
        _BO,
        _operation(lambda o: o["refused"]),
    ),
    Metric(
        "appbackplane_operation_expired_total",
        "counter",
        "Actions that were not begun because their deadline had passed.",
        _BO,
        _operation(lambda o: o["expired"]),
    ),
    Metric(
        "appbackplane_operation_cancelled_total",
        "counter",
        "Actions that the caller cancelled.",
        _BO,
        _operation(lambda o: o["cancelled"]),
    ),
    Metric(
        "appbackplane_operation_slow_total",
        "counter",
        "Actions that ran longer than slow_action.",
        _BO,
        _operation(lambda o: o["slow"]),
    ),
    Metric(
        "appbackplane_operation_cpu_seconds_total",
        "counter",
        "CPU time of its actions.",
        _BO,
        _operation(lambda o: o["cpu_ms"] / 1e3),
    ),
    Metric(
        "appbackplane_operation_wait_seconds",
        "histogram",
        "How long actions queued.",
        _BO,
        _operation(lambda o: counted(o["wait"])),
    ),
    Metric(
        "appbackplane_operation_run_seconds",
        "histogram",
        "How long actions ran.",
        _BO,
        _operation(lambda o: counted(o["run"])),
    ),
    *REQUESTS,
)
