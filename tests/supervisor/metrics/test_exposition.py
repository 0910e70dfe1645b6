"""What Prometheus is told: by its conventions, in agreement with the status, and bounded."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.observation.histogram import Histogram
from appbackplane.supervisor.direction.health import Health
from appbackplane.supervisor.metrics.exposition import BOUNDS, METRICS, OPERATIONS_MAX, Counted, Exposition, counted
from tests.docs.pages import DOCS, table
from tests.supervisor.live.looks import account

DASHBOARD = json.loads((DOCS / "grafana_dashboard.json").read_text())
UNITS = ("_seconds", "_ratio")


#: Of a request kernel.
INDEX: dict[str, Any] = {
    "ready": [0, 20, 20, 60], "executing": [0, 2, 2, 6], "rejoinable": [0, 0, 0, 3], "blocked": 4, "posting": 1,
    "limits": {"workers": 10, "ready": 100, "rejoin": 1000},
    "posted": 900, "begun": 800, "ended": 790, "failed": 5,
    "lost": 2, "withdrawn": 3, "unclaimed": 1, "joined": 780, "refused": 7,
    "wait_ms": 1_500.0, "run_ms": 250.0, "by_worker": {"worker-1": {"ended": 790, "run_ms": 250.0, "has": 1}},
    "recording": None,
}  # fmt: skip


#: Of a flow of two stages.
FLOWS: dict[str, Any] = {
    "orders_lines": {
        "flow": "orders", "stage": "lines", "taken": 90, "made": 0, "dropped": 0, "dead_letters": 0,
        "parallel": None,
        "edge": {"to": "store", "credits": 64, "used": 40, "waiting": 24, "oldest_ms": 1_500.0, "ended": 26, "resent": 8,
                 "lost": 3},
    },
    "orders_store": {
        "flow": "orders", "stage": "store", "taken": 50, "made": 0, "dropped": 2, "dead_letters": 5, "parallel": 3,
        "edge": None,
    },
}  # fmt: skip


def answer(operations: dict[str, Any] | None) -> dict[str, Any]:
    """Of one backplane; None: it told no figures."""
    statistics = None
    if operations is not None:
        events = (
            "malformed",
            "undelivered",
            "late",
            "abandoned",
            "refused_casts",
            "topics_lost_here",
            "topics_lost_elsewhere",
        )
        statistics = {
            "threads": 1, "cpu": {"process_ms": 1_500.0}, "os_priority": None, "traces": None, "operations": operations,
            "addresses": {"spawned": 7, "monitors": 4},
            "queues": {"ready": [0, 3], "oldest_ms": [None, 250.0], "actions": 5, "waiting": 2, "timers": 1},
            "components": {"shop": {"outstanding": 4, "max_requests": 10, "refused": 7}},
            "links": {"outstanding": 2, "refused_here": 4, **dict.fromkeys(events, 0)},
            "requests": {"index": INDEX},
            "flows": FLOWS,
            "admission": {"shop.sell": {"aim_ms": 20.0, "outstanding": 3, "refused_early": 6, "refused_late": 1}},
        }  # fmt: skip
    entry = {
        "name": "main", "state": "up", "health": "busy", "restarts": 2, "cpu_limit": {"percent": 150},
        "board": {"cpu": 1.25}, "statistics": statistics,
    }  # fmt: skip
    return {"system": "demo", "state": "up", "uptime": 12.0, "backplanes": [entry]}


def told(exposition: Exposition, operations: dict[str, Any] | None) -> dict[str, dict[tuple[str, ...], Any]]:
    return {metric.name: dict(samples) for metric, samples in exposition.samples(answer(operations))}


def test_names_follow_the_conventions() -> None:
    """Tools and people know a counter by its name, and a unit."""
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert re.fullmatch(r"appbackplane(_[a-z]+)+", metric.name)
        assert (metric.kind == "counter") is metric.name.endswith("_total")
        if metric.kind == "histogram":
            assert metric.name.endswith("_seconds")
        assert not re.search(r"_(ms|us|ns|percent|milliseconds)\b", metric.name)
        assert metric.help.endswith(".")


def test_figures_are_read_where_they_stand() -> None:
    """Each with the labels it is declared with, and the system before them."""
    found = told(Exposition(), {"shop.sell": account(wait_ns=[1_000], run_ns=[2_000_000, 5], cpu_ms=3.0, errors=1)})
    assert found["appbackplane_cpu_seconds_total"] == {("demo", "main"): 1.5}
    assert found["appbackplane_cpu_limit_ratio"] == {("demo", "main"): 1.5}
    assert found["appbackplane_oldest_ready_seconds"] == {("demo", "main", "0"): 0.0, ("demo", "main", "1"): 0.25}
    assert found["appbackplane_spawned_objects"] == {("demo", "main"): 7}
    assert found["appbackplane_monitors"] == {("demo", "main"): 4}
    refused = found["appbackplane_admission_refused_total"]
    assert refused == {("demo", "main", "shop.sell", "early"): 6, ("demo", "main", "shop.sell", "late"): 1}
    assert found["appbackplane_admission_aim_seconds"] == {("demo", "main", "shop.sell"): 0.02}
    assert found["appbackplane_component_throttled_total"] == {("demo", "main", "shop"): 7}
    assert found["appbackplane_operation_errors_total"] == {("demo", "main", "shop.sell"): 1}
    assert found["appbackplane_backplane_health"][("demo", "main", "busy")] == 1.0
    assert sum(found["appbackplane_backplane_health"].values()) == 1.0
    assert {labels[2] for labels in found["appbackplane_backplane_health"]} == {health.value for health in Health}
    for metric in METRICS:
        assert all(len(labels) == 1 + len(metric.labels) for labels in found[metric.name])


def test_a_request_kernel_has_its_pools_lanes_and_workers() -> None:
    """Where the lanes are full is seen which level of the hierarchy holds up the others."""
    found = told(Exposition(), {})
    states = found["appbackplane_requests"]
    assert states["demo", "main", "index", "2", "executing"] == 2
    assert sum(count for labels, count in states.items() if labels[-1] == "ready") == 100
    assert found["appbackplane_requests_limit"]["demo", "main", "index", "ready"] == 100
    assert found["appbackplane_requests_wait_seconds_total"] == {("demo", "main", "index"): 1.5}
    assert found["appbackplane_requests_begun_total"] == {("demo", "main", "index"): 800}
    assert found["appbackplane_requests_worker_run_seconds_total"] == {("demo", "main", "index", "worker-1"): 0.25}
    assert found["appbackplane_requests_intervals_lost_total"] == {}


def test_a_flow_has_its_edges_and_its_dead_letters() -> None:
    """The last stage has no edge, and no series of one."""
    found = told(Exposition(), {})
    lines, store = ("demo", "main", "orders", "lines"), ("demo", "main", "orders", "store")
    assert found["appbackplane_flow_credits_used"] == {lines: 40}
    assert found["appbackplane_flow_oldest_seconds"] == {lines: 1.5}
    assert found["appbackplane_flow_lost_total"] == {lines: 3}
    assert found["appbackplane_flow_dead_letters_total"] == {lines: 0, store: 5}
    assert found["appbackplane_flow_dropped_total"] == {lines: 0, store: 2}


def test_who_does_not_answer_has_what_the_board_says_and_no_zeros() -> None:
    """A counter that falls to zero for a moment is a restart to Prometheus, and a rate of thousands afterwards."""
    found = told(Exposition(), None)
    assert found["appbackplane_backplane_answered"] == {("demo", "main"): 0.0}
    assert found["appbackplane_cpu_seconds_total"] == {("demo", "main"): 1.25}
    assert found["appbackplane_queued_actions"] == found["appbackplane_operation_actions_total"] == {}


@given(st.lists(st.integers(0, 200_000_000_000), max_size=60))
def test_a_histogram_keeps_its_counts(durations: list[int]) -> None:
    """Each bound has exactly those that are below it: our buckets end at powers of two as well."""
    histogram = Histogram()
    for ns in durations:
        histogram.record(ns)
    found = counted(histogram.summary(with_buckets=True))
    assert found.count == len(durations)
    assert found.sum_s == pytest.approx(sum(durations) / 1e9)
    for power, (bound, count) in zip(BOUNDS, found.buckets, strict=True):
        assert bound == (1 << power) / 1e9
        assert count == sum(ns < 1 << power for ns in durations)


def test_operations_are_bounded_and_none_changes_sides() -> None:
    """A time series database dies of names that are made up a request; a counter that moves to others would fall."""
    exposition = Exposition()
    many = {f"job.{n}": account(wait_ns=[1], run_ns=[1, 1]) for n in range(OPERATIONS_MAX + 20)}
    found = told(exposition, many)["appbackplane_operation_actions_total"]
    assert len(found) == OPERATIONS_MAX + 1
    assert found["demo", "main", "(others)"] == 40
    first = {f"a.{n}": account(wait_ns=[1], run_ns=[1]) for n in range(5)}
    again = told(exposition, {**first, **many})
    assert set(again["appbackplane_operation_actions_total"]) == set(found)
    assert again["appbackplane_operation_actions_total"]["demo", "main", "(others)"] == 45
    others = again["appbackplane_operation_run_seconds"]["demo", "main", "(others)"]
    assert isinstance(others, Counted) and others.count == 45


def test_the_page_lists_all() -> None:
    """docs/operation.md; name, kind, labels and meaning, in the order of the code."""
    rows = table((DOCS / "operation.md").read_text(), "Metrics")
    assert rows == [(metric.name, metric.kind, ", ".join(metric.labels), metric.help) for metric in METRICS]


def exposed() -> set[str]:
    """The names that a query may use."""
    names = set()
    for metric in METRICS:
        suffixes = ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
        names |= {metric.name + suffix for suffix in suffixes}
    return names


def expressions() -> list[str]:
    """All that the dashboard asks for."""
    queries = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return queries + [one["query"]["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"]


def test_the_dashboard_asks_for_what_there_is() -> None:
    """A panel without data looks like a system without trouble."""
    assert len(expressions()) > 20
    labels = {"system", "le"} | {label for metric in METRICS for label in metric.labels}
    for expression in expressions():
        names = re.findall(r"\bappbackplane_\w+", expression)
        assert names, expression
        assert set(names) <= exposed(), expression
        by = {word for group in re.findall(r"by \(([^)]*)\)", expression) for word in re.split(r",\s*", group)}
        matched = set(re.findall(r"(\w+)=~?\"", expression))
        assert by | matched <= labels, expression
        assert expression.count("(") == expression.count(")") and expression.count("{") == expression.count("}")


def test_rates_are_of_counters_and_quantiles_of_histograms() -> None:
    """The rate of a gauge is a number without a meaning."""
    kinds = {metric.name: metric.kind for metric in METRICS}
    for expression in expressions():
        for name in re.findall(r"(?:rate|increase)\((appbackplane_\w+)", expression):
            assert name.endswith("_bucket") or kinds[name] == "counter", expression
        for name in re.findall(r"(?<!rate\()(?<!increase\()\b(appbackplane_\w+)", expression):
            assert kinds.get(name) == "gauge", expression


def test_the_dashboard_can_be_imported_and_its_panels_do_not_overlap() -> None:
    """Grafana takes whatever has these; panels on top of each other it takes, too."""
    assert {"title", "uid", "schemaVersion", "panels", "templating"} <= set(DASHBOARD)
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])
