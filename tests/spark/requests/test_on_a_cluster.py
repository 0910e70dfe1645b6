"""On a cluster: modules are sent there, Spark's own tries are made, and in the end nothing of it is left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra is not installed: pip install 'appbackplane[spark]'")

from ..cluster import LIMIT_S, cluster

#: What a user has, in a folder that no worker searches.
APP = {
    "neighbour.py": "def double(number):\n    return 2 * number\n",
    "app.py": """
import os
from pathlib import Path
from appbackplane.runtime.requests import RequestKernel, Runnable
from neighbour import double

class Double(Runnable):
    def execute(self, request: tuple[str, int], kernel) -> tuple[int, str]:
        folder, number = request
        if number < 0:
            with Path(folder, "tries").open("a") as file:
                file.write("x")
            os._exit(3)
        return double(number), __file__

class App(RequestKernel):
    runnables = (Double,)
""",
}
RUN = """
import json, logging, sys, threading
import psutil
sys.path.insert(0, sys.argv[2])
from app import App, Double
from tests.spark.requests.made import office
from appbackplane.spark.session import SHORT_LIVED
JAVA = SHORT_LIVED["spark_driver_extraJavaOptions"]
logging.disable(logging.CRITICAL)
settings = {"master": sys.argv[1], "spark.executor.memory": "512m"} | {"spark.driver.extraJavaOptions": JAVA}
with office(cls=App, **settings) as opened:
    done = opened.done([(sys.argv[3], number) for number in range(100)], Double)
    results = [element.result or (element.error, "") for element in done]
    (lost,) = opened.done([(sys.argv[3], -1)], Double)
left = [process.name() for process in psutil.Process().children(recursive=True) if process.status() != "zombie"]
threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("spark")]
print(json.dumps({"results": results, "lost": lost.error, "left": left, "threads": threads}))
"""


@pytest.mark.timeout(300)  # three JVMs: 20 s, but on a machine that does much else
def test_a_cluster_executes_what_was_sent_there(tmp_path: Path) -> None:
    """A runnable that leans on this machine's folders works until somebody has more than one machine."""
    app, tries = tmp_path / "app", tmp_path / "tries"
    app.mkdir()
    tries.mkdir()
    for name, text in APP.items():
        app.joinpath(name).write_text(text)
    with cluster(tmp_path) as master:
        ran = subprocess.run(
            [sys.executable, "-c", RUN, master, str(app), str(tries)],
            cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=3 * LIMIT_S, check=False,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert [result[0] for result in told["results"]] == [2 * number for number in range(100)]
    assert all(result[1].endswith(".zip/app.py") for result in told["results"])
    assert told["lost"] == "lost worker: Python worker exited unexpectedly (crashed)"
    assert len((tries / "tries").read_text()) == 4, "Spark tries a task four times"
    assert told["left"] == told["threads"] == []
