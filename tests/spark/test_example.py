"""The windows of examples/pipeline, on rows whose answer is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pipeline"
#: A whole minute: where a window of two seconds begins.
BEGIN_NS = 1_790_000_040 * 1_000_000_000
S, MS = 1_000_000_000, 1_000_000


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's module, as its programs import it."""
    monkeypatch.syspath_prepend(EXAMPLE)
    import windows

    return windows


def actions(spark: SparkSession, windows: Any, *rows: tuple[int, int, int, str]) -> DataFrame:
    """Recorded actions: ns since the begin, waited, took, operation."""
    return spark.createDataFrame([(BEGIN_NS + row[0], *row[1:]) for row in rows], windows.ACTION)


def test_what_is_slow_while_the_host_is_busy_is_an_alert(spark: SparkSession, windows: Any) -> None:
    """Both, in the same window, and searches alone: an alert for less is soon ignored, and then so is the right one."""
    searched = actions(
        spark, windows,
        (0, MS, 2 * MS, "query.search"), (2 * S - 1_000, 0, MS, "query.search"),     # slow, busy
        (S, 0, 900 * MS, "query.ingest"),                                           # not a search
        (2 * S, 4 * MS, MS, "query.search"),                                        # slow, idle
        (4 * S, 0, MS, "query.search"),                                             # fast, busy
        (6 * S, 5 * MS, MS, "query.search"),                                        # slow, and nobody knows about the host
    )  # fmt: skip
    percents = ((0, 90.0), (S, 96.0), (2 * S, 10.0), (4 * S, 99.0), (8 * S, 99.0))
    samples = spark.createDataFrame(
        [(BEGIN_NS + at, f'{{"cpu_percent": {percent}, "cpus": 2}}') for at, percent in percents], windows.SAMPLE
    )
    both = windows.both(windows.searches(searched, "2 seconds"), windows.cpu(samples, "2 seconds"))
    assert both.count() == 3
    assert [row.asDict() for row in windows.alerts(both, 3.0, 80.0).collect()] == [
        {"since_ns": BEGIN_NS, "searches": 2, "p99_ms": 3.0, "cpu_percent": 93.0}
    ]


def test_phases_are_told_apart(spark: SparkSession, windows: Any) -> None:
    """By when a search began; what is in neither is in none. The figures are exact: they are held against each other."""
    searched = actions(
        spark, windows,
        *((at * MS, 0, at * MS, "query.search") for at in range(1, 102)),
        (S, MS, MS, "query.search"), (2 * S, 0, S, "query.search"),
    )  # fmt: skip
    phases = spark.createDataFrame(
        [("before", BEGIN_NS, BEGIN_NS + S), ("meanwhile", BEGIN_NS + S, BEGIN_NS + 2 * S)],
        "phase string, since_ns long, until_ns long",
    )
    found = {row["phase"]: row for row in windows.phases(searched, phases).collect()}
    assert found["before"].asDict() == {
        "phase": "before", "searches": 101, "p50_ms": 51.0, "p90_ms": 91.0, "p99_ms": 100.0,
    }  # fmt: skip
    assert (found["meanwhile"]["searches"], found["meanwhile"]["p99_ms"]) == (1, 2.0)
