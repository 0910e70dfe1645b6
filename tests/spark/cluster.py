"""A standalone cluster on loopback, from the pip package: a master and a worker, each a process group of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from appbackplane.spark.java import java_home
from tests.waiting import EVERY_S, LIMIT_S, Limit


@contextmanager
def cluster(folder: Path, *, cores: int = 2) -> Iterator[str]:
    """Its name as a master. What it writes goes into `folder`; in the end nothing of it runs any more."""
    import pyspark

    port = _free_port()
    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": os.environ["SPARK_SUBMIT_OPTS"],  # as for all JVMs of the tests: archive.py
        "SPARK_WORKER_DIR": str(folder / "worker"),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "PYSPARK_PYTHON": sys.executable,
    }
    master = f"spark://127.0.0.1:{port}"
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *words: str) -> None:
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *words]
        with (folder / f"{name}.log").open("wb") as log:
            started.append(
                subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder, start_new_session=True)
            )

    try:
        start("master.Master", "--port", str(port), "--webui-port", "0")
        _await_port(port, started[0])
        start("worker.Worker", "--webui-port", "0", "--cores", str(cores), "--memory", "1g", master)
        yield master
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait(LIMIT_S)
        left = [found for process in started for found in _of_group(process.pid)]
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        assert not left, f"still running when the cluster was ended: {left}"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    limit = Limit()
    while process.poll() is None:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        limit.check("the master did not come up", pause_s=EVERY_S)
    raise AssertionError("the master has ended")


def _of_group(group: int) -> list[psutil.Process]:
    """Its processes; an executor is given a moment to follow its worker."""
    limit = Limit()
    while True:
        found = [process for process in psutil.process_iter() if _group_of(process) == group]
        if not found or not limit.left_s:
            return found
        psutil.wait_procs(found, timeout=0.5)


def _group_of(process: psutil.Process) -> int | None:
    try:
        return os.getpgid(process.pid)
    except ProcessLookupError:
        return None
