"""spark_latency: from the end of an action to the row of its window that holds it, told by `pipeline stream` with 1 s triggers.

The system does 100 actions a second; the stream runs beside it, on the same cores. A subscriber in the system adds up what the
rows of open windows (`telemetry.window.open`) have counted: the n-th action is told when they say n. A trigger a second
means 0.5 s on the average, and what is above is work: planning, two tasks, a decision, a call. A surprise would be a p99 above
1.5 s: then a micro-batch takes longer than half of its trigger, and the next one waits for it.
"""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appbackplane.runtime import Component, operation, subscribe
from appbackplane.transport import Client

from .harness.case import Case, Figures, Requirement, Sides, ours
from .harness.systems import environment, running

EVENTS, QUICK_EVENTS = 2_000, 1_000
PAUSE_S = 0.01
#: Spark starts, and compiles its first batches.
START_S_MAX = 120.0


class Shop(Component):
    def setup(self) -> None:
        self.ended: list[int] = []
        self.counts: dict[int, int] = {}
        self.told: list[tuple[int, int]] = []

    @operation()
    def buy(self) -> None:
        self.ended.append(time.time_ns())

    @subscribe("telemetry.window.open")
    def on_row(
        self, window_ns: int, until_ns: int, component: str, operation: str, count: int, errors: int, rate: float,
        wait_ms: dict[str, float], run_ms: dict[str, float], late: bool, step: int,
    ) -> None:  # fmt: skip
        """A row, as the topic has it."""
        if operation == "shop.buy":
            self.counts[window_ns] = count
            self.told.append((sum(self.counts.values()), time.time_ns()))

    @operation()
    def latencies_ms(self) -> list[float]:
        """Of all events so far that were told."""
        found, at = [], 0
        for number, ended_ns in enumerate(self.ended, 1):
            while at < len(self.told) and self.told[at][0] < number:
                at += 1
            if at == len(self.told):
                break
            found.append((self.told[at][1] - ended_ns) / 1e6)
        return found

    @operation()
    def told_count(self) -> int:
        return self.told[-1][0] if self.told else 0


@contextmanager
def beside(is_quick: bool) -> Iterator[Sides]:
    if importlib.util.find_spec("pyspark") is None:
        raise RuntimeError("pyspark is not installed: pip install '.[spark]'")
    count = QUICK_EVENTS if is_quick else EVENTS
    tables = {"shop": f'components = ["{__name__}:Shop"]', "other": f'components = ["{__name__}:Yard"]'}
    recorded = '[record]\n[topic."telemetry.window"]\nrecord = true\n'
    with running(tables, recorded) as system, streaming(system.run_dir):
        events(system.client, 1)
        _until(system.client, 1)

        def slice_() -> Figures:
            before = len(system.client.call("shop.latencies_ms"))
            events(system.client, count)
            _until(system.client, before + count)
            found = sorted(system.client.call("shop.latencies_ms")[before:])
            return {
                "p50_ms": found[len(found) // 2],
                "p99_ms": found[len(found) * 99 // 100],
                "max_ms": found[-1],
            }

        yield Sides(slice_)


class Yard(Component):
    """Another backplane, whose records are read as well."""


@contextmanager
def streaming(run_dir: Path) -> Iterator[None]:
    """`pipeline stream`, as a process of its own."""
    words = [sys.executable, "-m", "appbackplane.spark", "stream", str(run_dir), "--master", "local[2]"]
    with subprocess.Popen(words, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as stream:
        try:
            yield
        finally:
            stream.send_signal(signal.SIGTERM)


def events(client: Client, count: int) -> None:
    """So many, one after the other."""
    for _ in range(count):
        client.call("shop.buy")
        time.sleep(PAUSE_S)


def _until(client: Client, count: int) -> None:
    end_s = time.monotonic() + START_S_MAX
    while client.call("shop.told_count") < count:
        if time.monotonic() > end_s:
            raise RuntimeError(f"of {count} events only {client.call('shop.told_count')} were told")
        time.sleep(0.1)


CASE = Case(
    name="spark_latency",
    what="from an action to its window's row, by pipeline stream with a trigger of 1 s; no reference",
    requirements=(Requirement("p99", ours("p99_ms"), at_most=1_500, unit="ms"),),
    open=beside,
    rounds=3,
    quick_rounds=1,
)
