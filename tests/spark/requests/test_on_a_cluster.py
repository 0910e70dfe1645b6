"""On a cluster: a kernel of a running system by its policy alone; and at length a program that reads, streams and writes.

Nothing of the kernel is left when the system is down. In every run the session of the tests reads, streams and writes, with
Python workers of one machine (source/test_datasource.py, test_writer.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

pytest.importorskip("pyspark", reason="the extra is not installed: pip install 'appbackplane[spark]'")

from appbackplane.spark.records.found import Found
from appbackplane.spark.records.pieces import pieces, read_all
from appbackplane.transport import connect
from tests.figures import LONG
from tests.waiting import LIMIT_S

from ..cluster import cluster
from ..made import names_of, traffic, words_of, write_actions
from ..systems import messages, running

#: What a user has, in a folder that no worker searches.
NEIGHBOUR = "def double(number):\n    return 2 * number\n"
APP = """
import os
from pathlib import Path
from appbackplane.runtime import AppObject, operation
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

class Asked(AppObject):
    def __init__(self, app):
        self.app = app

    @operation(priority=1)
    async def run(self, folder: str, numbers: list[int]) -> list:
        kernel = self.app.kernel
        await kernel.apost_all([(folder, number) for number in numbers], Double)
        return [[done.request[1], done.result, done.error] async for done in kernel.ajoined()]

class App(RequestKernel):
    runnables = (Double,)

    def setup(self):
        self.add(Asked(self))
"""
TOML = """
[record]
[backplane.app]
components = ["app:App"]
[backplane.app.settings.App.policy]
kernel = "spark"
workers = 2
ready = 1000
[backplane.app.settings.App.policy.spark]
master = "{master}"
"spark.executor.memory" = "512m"
"spark.cores.max" = "2"
"spark.driver.extraJavaOptions" = "{java}"
"spark.executor.extraJavaOptions" = "{java}"
"""
#: Where a program writes.
TOLD = """
[topic."told"]
record = true
[backplane.receiver]
components = ["app:Receiver"]
"""
RECEIVER = "from appbackplane.runtime import Component\nclass Receiver(Component): ...\n"
#: Its arguments: the master, recorded actions, the run directory of the system, a folder for a checkpoint, and for how many
#: seconds it waits for the cluster: other JVMs of this test use the machine meanwhile.
PROGRAM = """
import json, os, sys
from appbackplane.spark.datasource import register
from appbackplane.spark import session
master, recorded, run_dir, checkpoint, limit_s = sys.argv[1:]
settings = {"spark.executor.memory": "512m", "spark.cores.max": "1"}
settings["spark.executor.extraJavaOptions"] = os.environ["SPARK_SUBMIT_OPTS"]
settings |= {name.replace("_", "."): value for name, value in session.SHORT_LIVED.items()}
session.EXECUTOR_LIMIT_S = float(limit_s)
spark = session.session_with(settings, master, "program", limit_s=float(limit_s))
register(spark)
few = spark.read.format("backplane").load(recorded).where("index < 50").selectExpr("span as id")
few.write.format("backplane").mode("append").option("topic", "told").save(run_dir)
stream = spark.readStream.format("backplane").load(recorded).where("index >= 50").selectExpr("span as id")
stream = stream.writeStream.format("backplane").option("topic", "told").option("group", "streamed")
stream = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
stream.start(run_dir).awaitTermination()
told = spark.read.format("backplane").option("topic", "told").load(run_dir)
print(json.dumps({"read": few.count(), "told": told.count()}))
spark.stop()
"""


@pytest.mark.timeout(600)  # four JVMs and a system: a quarter of a minute, longer on a busy machine
def test_a_cluster_executes_what_a_kernel_is_told_to(tmp_path: Path) -> None:
    """What leans on this machine's folders, or on this process, works until somebody has more than one machine."""
    logs, tries = tmp_path / "logs", tmp_path / "tries"
    logs.mkdir()
    tries.mkdir()
    with cluster(logs) as master:
        toml = TOML.format(master=master, java=os.environ["SPARK_SUBMIT_OPTS"])
        with running(tmp_path, toml, app=APP, neighbour=NEIGHBOUR) as run_dir, connect(str(run_dir)) as client:
            done = client.call("app.run", folder=str(tries), numbers=list(range(100)), timeout=240)
            results = {number: result for number, result, _ in done}
            assert {number: result and result[0] for number, result in results.items()} == {
                number: 2 * number for number in range(100)
            }, done[:3]
            assert all(result[1].endswith(".zip/app.py") for result in results.values())
            lost = client.call("app.run", folder=str(tries), numbers=[-1], timeout=240)
            assert lost == [[-1, None, "lost worker: Python worker exited unexpectedly (crashed)"]]
            assert len((tries / "tries").read_text()) == 4, "Spark tries a task four times"
            (driver,) = (process for process in psutil.process_iter(["cmdline"]) if is_driver(process, master))
        assert not driver.is_running()
    check_records(run_dir)


@LONG
@pytest.mark.timeout(600)
def test_a_program_reads_streams_and_writes_on_a_cluster(tmp_path: Path) -> None:
    """What tasks need of the source and of the writer goes to executors, which share nothing with the program."""
    logs, recorded = tmp_path / "logs", tmp_path / "recorded"
    logs.mkdir()
    write_actions(recorded, "main", 1, words_of(200, traffic(200)), names_of(), sealed=True)
    with cluster(logs, cores=1) as master, running(tmp_path, TOLD, app=RECEIVER) as run_dir:
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM, master, recorded, run_dir, tmp_path / "checkpoint", f"{LIMIT_S:g}"],
            cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=3 * LIMIT_S, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr[-3000:]
        assert json.loads(ran.stdout) == {"read": 50, "told": 200}
        assert sorted(row["id"] for row in messages(run_dir, "told")) == list(range(1, 201))


def check_records(run_dir: Path) -> None:
    """What tasks executed is recorded as of a backplane beside the kernel's, with as many threads as there are cores."""
    several = pieces(run_dir, backplanes=["app.spark"])
    read = list(read_all(several, ("start", "wait", "run", "cpu", "took", "operation"), Found()))
    assert {name for actions in read for _, name in actions.names} >= {"app.Double"}
    assert sum(len(actions) for actions in read) == 100, "each once; what was lost with its worker, not at all"
    headers = [actions.header for actions in read if actions.header is not None]
    assert {header.backplane for header in headers} == {"app.spark"}
    assert all(header.limits["threads"] >= 2 and header.limits["executed_by"] == "spark" for header in headers)
    kernel = list(read_all(pieces(run_dir, backplanes=["app"]), ("start", "took"), Found()))
    first, last = (
        (int(each["start"].min()) for each in kernel),
        (int((each["start"] + each["took"]).max()) for each in kernel),
    )
    begin_ns, end_ns = min(first), max(last)
    for actions in read:
        assert (actions["start"] >= begin_ns).all() and (actions["start"] + actions["took"] <= end_ns).all(), (
            "they are not within what the operation that awaited them took"
        )
        assert (actions["run"] > 0).all() and (actions["cpu"] <= actions["run"]).all()


def is_driver(process: psutil.Process, master: str) -> bool:
    """Whether it is the JVM of a session with this master."""
    words = process.info["cmdline"] or ()
    return "org.apache.spark.deploy.SparkSubmit" in words and f"spark.master={master}" in words
