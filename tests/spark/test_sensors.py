"""The aggregates of examples/sensors, on reports whose answer is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "sensors"
MINUTE, DAY = 60 * 10**9, 86_400 * 10**9


@pytest.fixture
def aggregates(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's module, as its program imports it."""
    monkeypatch.syspath_prepend(EXAMPLE)
    pytest.importorskip("pyspark", reason="the extra is not installed: pip install 'appbackplane[spark]'")
    from sensornet import aggregates

    return aggregates


def reports(spark: SparkSession, aggregates: Any, *rows: tuple[int, str, int, int, float, float]) -> DataFrame:
    """Reports: run, node, sequence, time_ns, temperature, battery. A node a is in the zone A, b in B."""
    return spark.createDataFrame(
        [
            (run, node, node.upper(), "room", sequence, time_ns, celsius, 40.0, 1.0, battery)
            for run, node, sequence, time_ns, celsius, battery in rows
        ],
        aggregates.REPORT,
    )


def test_zones_and_minutes_are_kept_apart(spark: SparkSession, aggregates: Any) -> None:
    """And so are runs: a field that was started again begins with its first minute once more."""
    found = reports(
        spark, aggregates,
        (1, "a", 1, 0, 20.0, 9.0), (1, "a", 2, MINUTE - 1, 23.0, 9.0),
        (1, "a", 3, MINUTE, 30.0, 9.0), (1, "b", 1, 5, 10.0, 9.0), (2, "a", 1, 0, 40.0, 9.0),
    )  # fmt: skip
    rows = aggregates.by_zone_and_minute(found).collect()
    assert {(row.run, row.zone, row.minute): row.reports for row in rows} == {
        (1, "A", 0): 2, (1, "A", 1): 1, (1, "B", 0): 1, (2, "A", 0): 1,
    }  # fmt: skip
    first = next(row for row in rows if row.reports == 2)
    assert (first.temperature_mean, first.temperature_min, first.temperature_max) == (21.5, 20.0, 23.0)
    assert (first.humidity_mean, first.light_max) == (40.0, 1.0)


def test_missing_numbers_are_lost_messages(spark: SparkSession, aggregates: Any) -> None:
    """Those before the first received one as well."""
    found = reports(
        spark, aggregates,
        (1, "a", 2, 0, 20.0, 9.0), (1, "a", 5, 1, 20.0, 9.0),
        (1, "b", 1, 0, 20.0, 9.0), (2, "a", 1, 0, 20.0, 9.0),
    )  # fmt: skip
    rows = {(row.run, row.node): (row.sent, row.lost, row.share) for row in aggregates.losses(found).collect()}
    assert rows == {(1, "a"): (5, 3, 0.6), (1, "b"): (1, 0, 0.0), (2, "a"): (1, 0, 0.0)}


def test_days_left_follow_from_what_a_day_took(spark: SparkSession, aggregates: Any) -> None:
    """In the order of time, not of rows; after one report nobody knows."""
    found = reports(
        spark, aggregates,
        (1, "a", 3, 2 * DAY, 20.0, 60.0), (1, "a", 1, 0, 20.0, 80.0), (1, "a", 2, DAY, 20.0, 70.0),
        (1, "b", 1, DAY, 20.0, 50.0), (2, "a", 1, DAY, 20.0, 100.0),
    )  # fmt: skip
    rows = {(row.run, row.node): (row.battery, row.days_left) for row in aggregates.batteries(found).collect()}
    assert rows == {(1, "a"): (60.0, 6.0), (1, "b"): (50.0, None), (2, "a"): (100.0, None)}
