"""Session: somebody else's stays theirs, and what goes wrong in Spark is told in our own words where there are any."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark", reason="the extra is not installed: pip install 'appbackplane[spark]'")

from pyspark.sql import SparkSession

from appbackplane.spark.session import in_a_line, session

STREAM_FAILED = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_\
RUNTIME_ERROR] Failed when Python streaming data source perform latestOffset: Traceback (most recent call last):
  File "/lib/appbackplane/spark/source/stream.py", line 165, in _lose
    raise DataLoss(f"{self._where}: {what}; option failOnDataLoss=false goes on with what is there")
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
