"""One Spark session for all tests of this folder: starting one takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from appbackplane.spark.session import SHORT_LIVED, session_with
from tests.waiting import LIMIT_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Python is waited for as long as a hang may take: with Spark's 15 s, results were lost on a machine that did much else.
SETTINGS = {
    **{name.replace("_", "."): value for name, value in SHORT_LIVED.items()},
    "spark.python.authenticate.socketTimeout": f"{LIMIT_S:g}s",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark with two tasks at a time, in a process beside this one."""
    pytest.importorskip("pyspark", reason="the extra is not installed: pip install 'appbackplane[spark]'")
    started = session_with(SETTINGS, "local[2]", "tests")
    yield started
    started.stop()
