"""Urgent latency: how long an urgent call takes while bulk work saturates the process that serves both.

Measured: one worker process. A client keeps 1000 bulk calls outstanding, each of them pure computation of a given length
that never yields; another calls something trivial every 20 ms. Against: ProcessPoolExecutor with one worker, the standard
library's way to another process, fed by two threads of one program in the same way. Rounds are interleaved, so that a
noisy machine hits both alike; printed are the medians over the rounds, and the ratio.

A surprise would be a p99 of ours above 5 ms (the default latency contract) on a machine with two free cores, or a bulk rate
more than a tenth below the executor's.

    python scripts/bench_cases/urgent_latency.py [rounds]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, NamedTuple

from bench_system import running

from appbackplane.runtime import AppObject, Component, operation
from appbackplane.transport import connect

OUTSTANDING = 1000
URGENT_EVERY_S = 0.02
ROUND_S = 3.0


def compute(seconds: float) -> None:
    """Pure computation, of so much CPU time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def nothing() -> None:
    """Something trivial, for the executor."""


class Bulk(AppObject):
    """The bulk side."""

    @operation(priority=6)
    def compute(self, seconds: float) -> None:
        compute(seconds)


class Urgent(AppObject):
    """The urgent side."""

    @operation(priority=0)
    def ping(self) -> None: ...


class Work(Component):
    """Both."""

    def setup(self) -> None:
        self.add(Bulk())
        self.add(Urgent())


class Round(NamedTuple):
    """What one round gave."""

    p50_ms: float
    p99_ms: float
    bulk_per_s: float


def measure(urgent: Callable[[], Any], bulk_done: Callable[[], int]) -> Round:
    """Call something urgent again and again while bulk work goes on."""
    taken: list[float] = []
    began, done = time.perf_counter(), bulk_done()
    while time.perf_counter() - began < ROUND_S:
        start = time.perf_counter()
        urgent()
        taken.append(time.perf_counter() - start)
        time.sleep(URGENT_EVERY_S)
    rate = (bulk_done() - done) / (time.perf_counter() - began)
    taken.sort()
    return Round(taken[len(taken) // 2] * 1e3, taken[int(len(taken) * 0.99)] * 1e3, rate)


def ours(seconds: float) -> Round:
    """One backplane; the bulk client is a process of its own."""
    with running("urgent_latency:Work") as (client, run_dir):
        bulk = subprocess.Popen(
            [sys.executable, __file__, "--bulk", str(run_dir), str(seconds)], stdout=subprocess.PIPE
        )
        assert bulk.stdout is not None

        def done() -> int:
            account = client.call("backplane.worker.statistics", timeout=30.0)["operations"]["work.compute"]
            return int(account["count"])

        try:
            bulk.stdout.readline()  # its window is full
            return measure(lambda: client.call("work.ping"), done)
        finally:
            bulk.kill()
            bulk.wait()


def bulk_client(run_dir: str, seconds: float) -> None:
    """Keep the window full until killed."""
    with connect(run_dir) as client:
        window = deque(client.submit("work.compute", seconds=seconds, timeout=600.0) for _ in range(OUTSTANDING))
        client.flush()
        print("full", flush=True)
        while True:
            window.popleft().result()
            window.append(client.submit("work.compute", seconds=seconds, timeout=600.0))


def executor(seconds: float) -> Round:
    """ProcessPoolExecutor with one worker."""
    with ProcessPoolExecutor(1) as pool:
        pool.submit(nothing).result()
        stopping, done = threading.Event(), [0]

        def bulk() -> None:
            window: deque[Future[None]] = deque(pool.submit(compute, seconds) for _ in range(OUTSTANDING))
            while not stopping.is_set():
                window.popleft().result()
                done[0] += 1
                window.append(pool.submit(compute, seconds))

        thread = threading.Thread(target=bulk)
        thread.start()
        try:
            return measure(lambda: pool.submit(nothing).result(), lambda: done[0])
        finally:
            stopping.set()
            thread.join()
            pool.shutdown(cancel_futures=True)


def main(rounds: int) -> None:
    """All rounds, interleaved."""
    for name, seconds in (("200 us", 0.0002), ("20 ms", 0.02)):
        found: dict[str, list[Round]] = {"ours": [], "ProcessPoolExecutor": []}
        for _ in range(rounds):
            found["ours"].append(ours(seconds))
            found["ProcessPoolExecutor"].append(executor(seconds))
        medians = {
            who: Round(*(statistics.median(column) for column in zip(*each, strict=True)))
            for who, each in found.items()
        }
        for who, (p50_ms, p99_ms, per_s) in medians.items():
            print(f"bulk {name:>6}  {who:<20} urgent p50 {p50_ms:9.2f} ms  p99 {p99_ms:9.2f} ms  bulk {per_s:7.0f}/s")
        ratio = medians["ProcessPoolExecutor"].p99_ms / medians["ours"].p99_ms
        print(json.dumps({"bulk": name, "p99_ratio": round(ratio, 1)}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--bulk"]:
        bulk_client(sys.argv[2], float(sys.argv[3]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
