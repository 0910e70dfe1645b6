"""Request metrics: figures of request kernels for Prometheus: pools, lanes and workers, and totals of all events.

The mean wait of an interval is a ratio of two rates, `…_wait_seconds_total` by `…_begun_total`. Workers come and go; the work
of one that has gone is in the totals without that label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .metric import Answer, Labels, Metric, Read, Value


def _request_each(items: Callable[[Any], Iterable[tuple[Labels, Value | None]]]) -> Read:
    """Reader of the request kernels among the components; `items`: further labels, with values."""

    def read(answer: Answer) -> Iterator[tuple[Labels, Value]]:
        for entry in answer["backplanes"]:
            if entry["statistics"] is not None:
                for component, told in entry["statistics"]["requests"].items():
                    for labels, value in items(told):
                        if value is not None:
                            yield (entry["name"], component, *labels), value

    return read


def _request(value: Callable[[Any], Value | None]) -> Read:
    return _request_each(lambda told: [((), value(told))])


def _request_worker(value: Callable[[Any], Value]) -> Read:
    return _request_each(lambda told: [((name,), value(worker)) for name, worker in told["by_worker"].items()])


_request_states = _request_each(
    lambda told: [
        ((str(lane), state), count)
        for state in ("ready", "executing", "rejoinable")
        for lane, count in enumerate(told[state])
    ]
)


_BC = ("backplane", "component")
_BCLS, _BCP, _BCW = (*_BC, "lane", "state"), (*_BC, "pool"), (*_BC, "worker")

REQUESTS: tuple[Metric, ...] = (
    Metric(
        "appbackplane_requests",
        "gauge",
        "Requests of a kernel: ready, executing, and rejoinable.",
        _BCLS,
        _request_states,
    ),
    Metric(
        "appbackplane_requests_limit",
        "gauge",
        "Limits of the pools of a kernel, and of its workers.",
        _BCP,
        _request_each(lambda r: [((pool,), limit) for pool, limit in r["limits"].items()]),
    ),
    Metric(
        "appbackplane_requests_blocked",
        "gauge",
        "Executing requests that wait for other requests.",
        _BC,
        _request(lambda r: r["blocked"]),
    ),
    Metric(
        "appbackplane_requests_posting",
        "gauge",
        "Posters that wait for an entry of the ready pool.",
        _BC,
        _request(lambda r: r["posting"]),
    ),
    Metric(
        "appbackplane_requests_posted_total",
        "counter",
        "Requests that were posted.",
        _BC,
        _request(lambda r: r["posted"]),
    ),
    Metric(
        "appbackplane_requests_begun_total",
        "counter",
        "Executions that have begun.",
        _BC,
        _request(lambda r: r["begun"]),
    ),
    Metric(
        "appbackplane_requests_ended_total",
        "counter",
        "Requests that have ended.",
        _BC,
        _request(lambda r: r["ended"]),
    ),
    Metric(
        "appbackplane_requests_failed_total",
        "counter",
        "Requests that ended without a result.",
        _BC,
        _request(lambda r: r["failed"]),
    ),
    Metric(
        "appbackplane_requests_lost_total",
        "counter",
        "Requests that were lost with their worker.",
        _BC,
        _request(lambda r: r["lost"]),
    ),
    Metric(
        "appbackplane_requests_withdrawn_total",
        "counter",
        "Requests that were never executed, because their owner failed.",
        _BC,
        _request(lambda r: r["withdrawn"]),
    ),
    Metric(
        "appbackplane_requests_unclaimed_total",
        "counter",
        "Requests that ended without an owner left to rejoin them.",
        _BC,
        _request(lambda r: r["unclaimed"]),
    ),
    Metric(
        "appbackplane_requests_joined_total",
        "counter",
        "Requests that rejoined their owner.",
        _BC,
        _request(lambda r: r["joined"]),
    ),
    Metric(
        "appbackplane_requests_refused_total",
        "counter",
        "Posts that were refused with Busy.",
        _BC,
        _request(lambda r: r["refused"]),
    ),
    Metric(
        "appbackplane_requests_wait_seconds_total",
        "counter",
        "How long requests were ready before they were begun.",
        _BC,
        _request(lambda r: r["wait_ms"] / 1e3),
    ),
    Metric(
        "appbackplane_requests_run_seconds_total",
        "counter",
        "How long requests that have ended were executed.",
        _BC,
        _request(lambda r: r["run_ms"] / 1e3),
    ),
    Metric(
        "appbackplane_requests_worker_ended_total",
        "counter",
        "Requests that have ended, of each worker.",
        _BCW,
        _request_worker(lambda w: w["ended"]),
    ),
    Metric(
        "appbackplane_requests_worker_run_seconds_total",
        "counter",
        "How long the requests of each worker were executed.",
        _BCW,
        _request_worker(lambda w: w["run_ms"] / 1e3),
    ),
    Metric(
        "appbackplane_requests_intervals_lost_total",
        "counter",
        "Records of intervals that could not be written to disk. Absent where recording is off.",
        _BC,
        _request(lambda r: None if r["recording"] is None else r["recording"]["lost"]),
    ),
)
