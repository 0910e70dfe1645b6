"""Exposition: all metrics of a system as a table: name, kind, labels, and the place in the status. Pure.

Everything is read from one reply to `supervisor.status`, so it agrees with `status --stats --json`. Names follow Prometheus's
conventions: base units, `_total` for counters. Counters begin anew with each process of a backplane; Prometheus adds those
up. Histograms have a bucket a doubling (ours have eight), the same in all, or they could not be added.

Of request kernels, the mean wait of an interval is a ratio of two rates, `…_wait_seconds_total` by `…_begun_total`. Workers
come and go; the work of one that has gone is in the totals without that label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from appbackplane.runtime.observation.histogram import Histogram, bucket_of
from appbackplane.runtime.observation.statistics import OTHERS

from ..direction.health import Health

#: Bounds, as powers of two in nanoseconds: 1 us to 69 s. Longer times are in +Inf.
BOUNDS = tuple(range(10, 37))
#: Operations of a backplane with series of their own, some 70 each; further ones are summed into one. Users' own actions may
#: have a new name for each request, and a time series database dies of that.
OPERATIONS_MAX = 500

Labels = tuple[str, ...]
Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Counted:
    """A histogram: (upper bound, count of values up to it), growing, without +Inf; count of all; their sum in seconds."""

    buckets: tuple[tuple[float, int], ...]
    count: int
    sum_s: float


Value = float | Counted
Read = Callable[[Answer], Iterable[tuple[Labels, Value]]]
Items = Callable[[Any], Iterable[tuple[Labels, Value | None]]]


@dataclass(frozen=True, slots=True)
class Metric:
    """One line of the table of metrics."""

    name: str
    help: str
    #: Labels besides `system`, which all metrics have.
    labels: Labels
    read: Read
    is_histogram: bool = False

    @property
    def kind(self) -> Literal["counter", "gauge", "histogram"]:
        """By Prometheus's conventions, the name tells a counter."""
        return "histogram" if self.is_histogram else "counter" if self.name.endswith("_total") else "gauge"


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
        for key in ("count", "errors", "expired", "cancelled", "refused", "slow", "late", "cpu_ms")
    }
    for which in ("wait", "run"):
        histogram = Histogram()
        for account in accounts:
            histogram.merge(Histogram.from_data(dict(account[which])))
        merged[which] = histogram.summary(with_buckets=True)
    return merged


# Each function makes a line of the table below. `value`: a key, or a function; a value of None gives no sample.


def _of(value: str | Callable[[Any], Value | None], told: Any) -> Value | None:
    found: Value | None = told[value] if isinstance(value, str) else value(told)
    return found


def _system(name: str, help: str, value: Callable[[Answer], Value]) -> Metric:
    return Metric(name, help, (), lambda answer: [((), value(answer))])


def _of_backplane(name: str, help: str, labels: Labels, items: Items) -> Metric:
    """`items`: further labels, with values, in the entry of a backplane."""

    def read(answer: Answer) -> Iterator[tuple[Labels, Value]]:
        for entry in answer["backplanes"]:
            for further, value in items(entry):
                if value is not None:
                    yield (entry["name"], *further), value

    return Metric(name, help, ("backplane", *labels), read)


def _backplane(name: str, help: str, value: Callable[[Any], Value | None]) -> Metric:
    return _of_backplane(name, help, (), lambda entry: [((), value(entry))])


def _each(name: str, help: str, labels: Labels, items: Items) -> Metric:
    """Of a backplane's statistics, if it answered; `items` as in `_of_backplane`."""
    return _of_backplane(
        name, help, labels, lambda entry: () if entry["statistics"] is None else items(entry["statistics"])
    )


def _told(name: str, help: str, value: str | Callable[[Any], Value | None]) -> Metric:
    return _each(name, help, (), lambda told: [((), _of(value, told))])


def _priority(name: str, help: str, values: Callable[[Any], Iterable[Value]]) -> Metric:
    """Of each ready queue."""
    return _each(name, help, ("priority",), lambda told: [((str(p),), value) for p, value in enumerate(values(told))])


def _operation(name: str, help: str, value: str | Callable[[Any], Value]) -> Metric:
    return _each(
        name, help, ("operation",), lambda told: [((o,), _of(value, a)) for o, a in told["operations"].items()]
    )


def _histogram(name: str, help: str, which: Literal["wait", "run"]) -> Metric:
    return replace(_operation(name, help, lambda account: counted(account[which])), is_histogram=True)


def _component(name: str, help: str, key: str) -> Metric:
    return _each(name, help, ("component",), lambda told: [((c,), a[key]) for c, a in told["components"].items()])


def _lock(name: str, help: str, value: Callable[[Any], Value]) -> Metric:
    """Of each lock that a component has given a name."""

    def of_all(told: Any) -> Iterator[tuple[Labels, Value | None]]:
        for component, account in told["components"].items():
            yield from (((component, lock), value(figures)) for lock, figures in account.get("locks", {}).items())

    return _each(name, help, ("component", "lock"), of_all)


def _request_each(name: str, help: str, labels: Labels, items: Items) -> Metric:
    """Of the request kernels among the components; `items`: further labels, with values."""

    def of_all(told: Any) -> Iterator[tuple[Labels, Value | None]]:
        for component, kernel in told["requests"].items():
            yield from (((component, *further), value) for further, value in items(kernel))

    return _each(name, help, ("component", *labels), of_all)


def _request(name: str, help: str, value: str | Callable[[Any], Value | None]) -> Metric:
    return _request_each(name, help, (), lambda kernel: [((), _of(value, kernel))])


def _worker(name: str, help: str, value: str | Callable[[Any], Value]) -> Metric:
    return _request_each(
        name, help, ("worker",), lambda kernel: [((w,), _of(value, a)) for w, a in kernel["by_worker"].items()]
    )


def _flow(name: str, help: str, value: Callable[[Any], Value | None]) -> Metric:
    """Of each part of a flow."""

    def of_all(told: Any) -> Iterator[tuple[Labels, Value | None]]:
        for part in told["flows"].values():
            yield (part["flow"], part["stage"]), value(part)

    return _each(name, help, ("flow", "stage"), of_all)


def _edge(name: str, help: str, key: str) -> Metric:
    """Of each part of a flow that has an edge to a next stage."""
    return _flow(name, help, lambda part: part["edge"] and part["edge"][key])


def _limit(name: str, help: str, labels: Labels, items: Items) -> Metric:
    """Of each adaptive limit: that of an operation, or that of the whole backplane (operation "")."""

    def of_all(told: Any) -> Iterator[tuple[Labels, Value | None]]:
        for operation, limit in told.get("admission", {}).items():
            yield from (((operation, *further), value) for further, value in items(limit))

    return _each(name, help, ("operation", *labels), of_all)


def _cpu_s(entry: Any) -> Value | None:
    if entry["statistics"] is not None:
        return float(entry["statistics"]["cpu"]["process_ms"]) / 1e3
    return None if entry["board"] is None else float(entry["board"]["cpu"])


def _cpu_limit(entry: Any) -> Value | None:
    percent = entry["cpu_limit"]["percent"]
    return None if percent is None else percent / 100


def _events(told: Any) -> list[tuple[Labels, Value]]:
    names = (
        "malformed",
        "undelivered",
        "late",
        "abandoned",
        "refused_casts",
        "topics_lost_here",
        "topics_lost_elsewhere",
    )
    return [((event,), told["links"][event]) for event in names]


def _states(kernel: Any) -> Iterator[tuple[Labels, Value]]:
    for state in ("ready", "executing", "rejoinable"):
        yield from (((str(lane), state), count) for lane, count in enumerate(kernel[state]))


METRICS: tuple[Metric, ...] = (
    _system(
        "appbackplane_up", "1 while the system is up, 0 on its way there or down.", lambda a: float(a["state"] == "up")
    ),
    _system("appbackplane_uptime_seconds", "How long the supervisor has been running.", lambda a: float(a["uptime"])),
    _backplane("appbackplane_backplane_up", "1 while the backplane is up.", lambda b: float(b["state"] == "up")),
    _of_backplane(
        "appbackplane_backplane_health",
        "1 for the present health, 0 for the others.",
        ("health",),
        lambda b: [((health.value,), float(b["health"] == health)) for health in Health],
    ),
    _backplane(
        "appbackplane_backplane_answered",
        "1 if the backplane sent statistics, 0 if only its board is known.",
        lambda b: float(b["statistics"] is not None),
    ),
    _backplane("appbackplane_backplane_restarts_total", "Times the backplane was restarted.", lambda b: b["restarts"]),
    _backplane("appbackplane_cpu_seconds_total", "CPU time of the whole process.", _cpu_s),
    _backplane("appbackplane_cpu_limit_ratio", "Its cpu_limit: 1 is a whole core. Absent without one.", _cpu_limit),
    _told("appbackplane_workers", "Worker threads.", "threads"),
    _told("appbackplane_queued_actions", "Actions in all queues.", lambda s: s["queues"]["actions"]),
    _told(
        "appbackplane_waiting_objects",
        "Objects that wait for a reply, or for the locks of a message.",
        lambda s: s["queues"]["waiting"],
    ),
    _told("appbackplane_timers", "Timers that are set.", lambda s: s["queues"]["timers"]),
    _told(
        "appbackplane_outstanding_calls",
        "Calls of its objects that have no answer yet.",
        lambda s: s["links"]["outstanding"],
    ),
    _told("appbackplane_spawned_objects", "Spawned objects that have not ended.", lambda s: s["addresses"]["spawned"]),
    _told("appbackplane_monitors", "Monitors of its objects.", lambda s: s["addresses"]["monitors"]),
    _priority(
        "appbackplane_ready_objects",
        "Objects in each ready queue; priority 0 is the most urgent.",
        lambda s: s["queues"]["ready"],
    ),
    _priority(
        "appbackplane_oldest_ready_seconds",
        "Age of the oldest object in each ready queue; 0 if it is empty.",
        lambda s: [(ms or 0) / 1e3 for ms in s["queues"]["oldest_ms"]],
    ),
    _told(
        "appbackplane_boosts_total",
        "Times it raised another backplane to the priority of its call.",
        lambda s: s["os_priority"] and s["os_priority"]["boosts"],
    ),
    _each(
        "appbackplane_link_events_total", "Transport problems: messages lost, frames malformed.", ("event",), _events
    ),
    _told(
        "appbackplane_spans_exported_total",
        "Spans that its collector has taken. Absent without tracing.",
        lambda s: s["traces"] and s["traces"]["exported"],
    ),
    _told(
        "appbackplane_spans_lost_total",
        "Spans that were lost: too many, or the collector took none.",
        lambda s: s["traces"] and s["traces"]["lost"],
    ),
    _limit(
        "appbackplane_admission_refused_total",
        "Requests refused because they would have queued for longer than the aim (early), or had (late).",
        ("when",),
        lambda told: [((when,), told[f"refused_{when}"]) for when in ("early", "late")],
    ),
    _limit(
        "appbackplane_admission_requests",
        "Admitted requests that are outstanding.",
        (),
        lambda told: [((), told["outstanding"])],
    ),
    _limit(
        "appbackplane_admission_aim_seconds",
        "How long a request may queue.",
        (),
        lambda told: [((), told["aim_ms"] / 1e3)],
    ),
    _told(
        "appbackplane_calls_refused_here_total",
        "Calls and casts of its objects that were refused before they were sent, because the called service is overloaded.",
        lambda s: s["links"]["refused_here"],
    ),
    _component("appbackplane_component_requests", "Requests that are outstanding.", "outstanding"),
    _component("appbackplane_component_requests_limit", "Its max_requests.", "max_requests"),
    _component(
        "appbackplane_component_throttled_total", "Requests refused because the component was at its limit.", "refused"
    ),
    replace(
        _lock("appbackplane_lock_held_seconds", "How long locks were held.", lambda lock: counted(lock["held"])),
        is_histogram=True,
    ),
    _lock(
        "appbackplane_lock_over_limit_total",
        "Times a lock was held for longer than its limit.",
        lambda lock: int(lock["over_limit"]),
    ),
    _operation("appbackplane_operation_actions_total", "Actions that have ended.", "count"),
    _operation("appbackplane_operation_errors_total", "Actions that ended in an error.", "errors"),
    _operation(
        "appbackplane_operation_refused_total",
        "Actions that were refused: throttled, or not served in the present state.",
        "refused",
    ),
    _operation(
        "appbackplane_operation_expired_total",
        "Actions that were not begun because their deadline had passed.",
        "expired",
    ),
    _operation("appbackplane_operation_cancelled_total", "Actions that the caller cancelled.", "cancelled"),
    _operation("appbackplane_operation_slow_total", "Actions that ran longer than slow_action.", "slow"),
    _operation(
        "appbackplane_operation_late_total", "Actions that waited longer than max_latency before they began.", "late"
    ),
    _operation("appbackplane_operation_cpu_seconds_total", "CPU time of its actions.", lambda o: o["cpu_ms"] / 1e3),
    _histogram("appbackplane_operation_wait_seconds", "How long actions queued.", "wait"),
    _histogram("appbackplane_operation_run_seconds", "How long actions ran.", "run"),
    _edge("appbackplane_flow_credits", "Credits of a stage of a flow: items that it may have under way.", "credits"),
    _edge("appbackplane_flow_credits_used", "Items under way behind the stage.", "used"),
    _edge("appbackplane_flow_waiting_items", "Items of the stage that wait for credits.", "waiting"),
    _flow(
        "appbackplane_flow_oldest_seconds",
        "Age of the oldest item that is under way behind the stage, or waits there; 0: there is none.",
        lambda part: part["edge"] and (part["edge"]["oldest_ms"] or 0) / 1e3,
    ),
    _flow(
        "appbackplane_flow_parallel", "Chunks that the stage serves at the same time, at most.", lambda p: p["parallel"]
    ),
    _edge("appbackplane_flow_ended_total", "Items that have ended behind the stage.", "ended"),
    _edge("appbackplane_flow_resent_total", "Items that were sent again, and may have been processed.", "resent"),
    _edge("appbackplane_flow_lost_total", "Items that were lost with the process that had them.", "lost"),
    _flow("appbackplane_flow_dropped_total", "Items that the function of the stage dropped.", lambda p: p["dropped"]),
    _flow(
        "appbackplane_flow_dead_letters_total",
        "Items that the stage could not process, or not send.",
        lambda part: part["dead_letters"],
    ),
    _request_each(
        "appbackplane_requests", "Requests of a kernel: ready, executing, and rejoinable.", ("lane", "state"), _states
    ),
    _request_each(
        "appbackplane_requests_limit",
        "Limits of the pools of a kernel, and of its workers.",
        ("pool",),
        lambda kernel: [((pool,), limit) for pool, limit in kernel["limits"].items()],
    ),
    _request("appbackplane_requests_blocked", "Executing requests that wait for other requests.", "blocked"),
    _request("appbackplane_requests_posting", "Posters that wait for an entry of the ready pool.", "posting"),
    _request("appbackplane_requests_posted_total", "Requests that were posted.", "posted"),
    _request("appbackplane_requests_begun_total", "Executions that have begun.", "begun"),
    _request("appbackplane_requests_ended_total", "Requests that have ended.", "ended"),
    _request("appbackplane_requests_failed_total", "Requests that ended without a result.", "failed"),
    _request("appbackplane_requests_lost_total", "Requests that were lost with their worker.", "lost"),
    _request(
        "appbackplane_requests_withdrawn_total",
        "Requests that were never executed, because their owner failed.",
        "withdrawn",
    ),
    _request(
        "appbackplane_requests_unclaimed_total",
        "Requests that ended without an owner left to rejoin them.",
        "unclaimed",
    ),
    _request("appbackplane_requests_joined_total", "Requests that rejoined their owner.", "joined"),
    _request("appbackplane_requests_refused_total", "Posts that were refused with Busy.", "refused"),
    _request(
        "appbackplane_requests_wait_seconds_total",
        "How long requests were ready before they were begun.",
        lambda r: r["wait_ms"] / 1e3,
    ),
    _request(
        "appbackplane_requests_run_seconds_total",
        "How long requests that have ended were executed.",
        lambda r: r["run_ms"] / 1e3,
    ),
    _worker("appbackplane_requests_worker_ended_total", "Requests that have ended, of each worker.", "ended"),
    _worker(
        "appbackplane_requests_worker_run_seconds_total",
        "How long the requests of each worker were executed.",
        lambda w: w["run_ms"] / 1e3,
    ),
    _request(
        "appbackplane_requests_intervals_lost_total",
        "Records of intervals that could not be written to disk. Absent where recording is off.",
        lambda r: r["recording"] and r["recording"]["lost"],
    ),
)
