"""Session: somebody else's stays theirs, and what goes wrong in Spark is told in our own words where there are any."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra is not installed: pip install 'appbackplane[spark]'")

from pyspark.sql import SparkSession

from appbackplane.spark import session as of_session
from appbackplane.spark.master import NoMaster, parsed
from appbackplane.spark.session import SETTLE_S, _await_executors, _set_environment, in_a_line, session

STREAM_FAILED = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_\
RUNTIME_ERROR] Failed when Python streaming data source perform latestOffset: Traceback (most recent call last):
  File "/lib/appbackplane/spark/source/stream.py", line 165, in _lose
    raise DataLoss(f"{self._where}: {what}; option failOnDataLoss=false continues with the records that are left")
appbackplane.spark.source.stream.DataLoss: /srv/run: web: segment 1 was removed before it was read
. SQLSTATE: 38000"""


def test_an_error_of_ours_is_told_and_not_the_first_line_of_a_traceback() -> None:
    """A stream that retention has overtaken ends: why is on the last line of two pages."""
    assert in_a_line(RuntimeError(STREAM_FAILED)) == "/srv/run: web: segment 1 was removed before it was read"
    assert in_a_line(RuntimeError("first\nsecond")) == "first"


def test_a_session_of_somebody_elses_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a notebook times are told in another zone from then on, and large joins are made by two tasks."""
    theirs = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=object()))  # no `conf`: setting anything fails
    monkeypatch.setattr(SparkSession, "_instantiatedSession", theirs)
    assert session("local[2]") is theirs


@pytest.mark.parametrize(
    ("variable", "settings", "expected"),
    [
        (None, {}, sys.executable),
        ("/opt/python/bin/python3", {}, "/opt/python/bin/python3"),
        ("/opt/python/bin/python3", {"spark.pyspark.python": "python3.11"}, "python3.11"),
    ],
)
def test_workers_have_the_python_that_the_user_names(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, settings: dict[str, str], expected: str
) -> None:
    """On a cluster whose machines have no Python at the driver's path, every task would fail."""
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "jupyter")
    monkeypatch.setenv("PYSPARK_PYTHON", variable or "")
    if variable is None:
        monkeypatch.delenv("PYSPARK_PYTHON")
    _set_environment(parsed("local[2]"), settings)
    assert os.environ["PYSPARK_PYTHON"] == expected
    assert os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable, "a notebook is no interpreter for what runs beside it"


class Cluster:
    """A master whose executors register at these times; also the clock by which they do."""

    def __init__(self, *registered_s: float) -> None:
        self.now_s = 0.0
        self.is_stopped = False
        self._registered_s = registered_s
        self.spark: Any = SimpleNamespace(
            sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: self)), stop=self._stop
        )

    def getExecutorMemoryStatus(self) -> Any:
        """Spark's own name: the driver, and the executors."""
        return SimpleNamespace(size=lambda: 1 + sum(each <= self.now_s for each in self._registered_s))

    def _stop(self) -> None:
        self.is_stopped = True

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Cluster]:
    def made(*registered_s: float) -> Cluster:
        found = Cluster(*registered_s)
        monkeypatch.setattr(of_session, "time", SimpleNamespace(monotonic=lambda: found.now_s, sleep=found.sleep))
        return found

    return made


def test_all_executors_are_waited_for_and_not_the_first_alone(cluster: Callable[..., Cluster]) -> None:
    """A report on eight machines was cut for the cores of the first one that had registered."""
    found = cluster(2.0, 2.1, 2.6, 3.5)
    _await_executors(found.spark, parsed("spark://h:7077"))
    assert found.getExecutorMemoryStatus().size() == 5
    assert 3.5 + SETTLE_S <= found.now_s < 3.5 + 2 * SETTLE_S


def test_a_cluster_without_a_core_to_spare_is_told(cluster: Callable[..., Cluster]) -> None:
    """The first job would wait for ever."""
    found = cluster()
    with pytest.raises(NoMaster, match="no worker there had a free core within 30 s"):
        _await_executors(found.spark, parsed("spark://h:7077"))
    assert found.is_stopped
