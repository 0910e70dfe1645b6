"""One Spark session for all tests of this folder: starting one takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from appbackplane.spark.session import SHORT_LIVED, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark with two tasks at a time, in a process beside this one."""
    pytest.importorskip("pyspark", reason="the extra is not installed: pip install 'appbackplane[spark]'")
    started = session("local[2]", "tests", **SHORT_LIVED)
    yield started
    started.stop()
