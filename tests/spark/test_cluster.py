"""Cluster: the same questions get the same answers from a master and a worker as from threads of one process.

In every run a kernel's requests go to a cluster (requests/test_on_a_cluster.py), and all jobs to Python workers of one machine
(jobs/test_jobs.py).
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.figures import LONG
from tests.waiting import LIMIT_S

from .cluster import cluster
from .made import names_of, traffic, words_of, write_actions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ASK = """
import json, sys
from pathlib import Path
from appbackplane.spark.session import SHORT_LIVED, session
from tests.spark.test_cluster import answers
spark = session(sys.argv[1], "cluster", spark_executor_memory="512m", **SHORT_LIVED)
print(json.dumps({"workers": spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1,
                  "answers": answers(spark, Path(sys.argv[2]))}))
spark.stop()
"""


def answers(spark: SparkSession, run_dir: Path) -> dict[str, Any]:
    """Of all jobs, in any order of rows."""
    from appbackplane.spark.frames import pieces_frame
    from appbackplane.spark.jobs.critical_paths import critical_paths
    from appbackplane.spark.jobs.deadlines import deadlines
    from appbackplane.spark.jobs.found import found
    from appbackplane.spark.jobs.inversions import inversions
    from appbackplane.spark.jobs.operation_statistics import operation_statistics
    from appbackplane.spark.jobs.slow_actions import slow_actions
    from appbackplane.spark.jobs.throughput import throughput
    from appbackplane.spark.report.overview import overview

    pieces = pieces_frame(spark, run_dir)
    jobs = (found, operation_statistics, throughput, deadlines, inversions, slow_actions, critical_paths)
    told: dict[str, Any] = {job.__name__: job(pieces).toArrow().to_pylist() for job in jobs}
    told["overview"] = overview(pieces).table()[1].tolist()
    return told


def assert_same(one: Any, other: Any, where: str) -> None:
    """Sums of floats differ by the order in which they are added up."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            assert_same(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for number, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            assert_same(mine, theirs, f"{where}[{number}]")
    elif isinstance(one, float) and isinstance(other, float):
        assert math.isclose(one, other, rel_tol=1e-9), where
    else:
        assert one == other, where


@LONG
@pytest.mark.timeout(400)  # three JVMs and thirty small jobs: 30 s, but on a machine that does much else
def test_a_cluster_answers_as_one_machine_does(spark: SparkSession, tmp_path: Path) -> None:
    """What leans on threads, on this process, or on its memory, works until somebody has more than one machine."""
    run_dir = tmp_path / "run"
    for place, backplane in enumerate(("front", "index")):
        for number in (1, 2):
            columns = traffic(20_000, seed=10 * place + number)
            columns["span"] = columns["trace_low"] = columns["span"] + (10 * place + number) * 10**6
            columns["start"] = columns["start"] + (number - 1) * 21 * 10**9
            words = words_of(20_000, columns)
            if number == 2:
                words[7, 3] ^= 1  # a record that is damaged
            write_actions(
                run_dir,
                backplane,
                number,
                words,
                names_of(),
                sealed=number == 1,
                limits={"threads": 2, "cpu_limit": 50.0},
            )
    with cluster(tmp_path) as master:
        ran = subprocess.run(
            [sys.executable, "-c", ASK, master, str(run_dir)],
            cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=3 * LIMIT_S, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["workers"] == 1
    assert sum(row["records"] or 0 for row in told["answers"]["found"]) == 4 * 20_000 - 2
    assert_same(told["answers"], json.loads(json.dumps(answers(spark, run_dir))), "answers")
