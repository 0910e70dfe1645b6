"""Exactly once, with real processes: drivers and backplanes are killed, and what was told is what happened."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest

from tests.figures import IS_LONG

from .killing import kill_all_the_time

#: Of drivers. A seed to replay: python -m tests.spark.stream.killing 10 SEED
KILLS = 3 if IS_LONG else 0


@pytest.mark.timeout(600)
def test_the_counts_are_the_truth_whoever_is_killed() -> None:
    """No window twice, no action lost. A driver is a JVM, so that in each run one alone sees a backplane die; that a driver may
    end at any write is tested without Spark (test_program.py).
    """
    pytest.importorskip("pyspark")
    with tempfile.TemporaryDirectory(prefix="ab-") as folder:
        found = kill_all_the_time(Path(folder), KILLS, random.randrange(1 << 30))
    assert found["twice"] == [], found
    assert found["differs"] == [], found
    assert found["exit"] == 0, found
    assert found["actions"] >= found["answered"] > 0, found
    assert found["windows"] > 3, found
