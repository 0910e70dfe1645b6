"""flows: items a second through a source, a stage and a sink, in one process and in three. Texts of 12 bytes become numbers.

The figures are absolute; the rate of a loop that calls the three functions is shown as `bare_per_s`. Beside it: how many items
the source has given when the sink is stopped, against its credits. A surprise would be chunks that stay small although
everything is busy.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from appbackplane.runtime import Flow, sink, source, stage

from .harness.case import Case, Figures, Requirement, Sides, ours
from .harness.systems import System, running

SECONDS, QUICK_SECONDS = 3.0, 1.0
BARE_COUNT = 200_000


@source
def lines(wanted: int) -> list[str]:
    return [f"line {number:07}" for number in range(wanted)]


@stage
def parse(line: str) -> int:
    return int(line[5:])


@sink
def store(number: int) -> None:
    assert number >= 0


ingest = Flow("ingest", lines >> parse >> store)


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    seconds = QUICK_SECONDS if is_quick else SECONDS
    parts = [f"{__name__}:ingest.{part}" for part in ingest.components]
    together = {"main": f"components = {parts!r}"}
    apart = {part: f"components = [{name!r}]" for part, name in zip(ingest.components, parts, strict=True)}

    def measure() -> Figures:
        with running(together) as system:
            one = rate(system, "main", seconds)
        with running(apart) as system:
            three = rate(system, "lines", seconds)
            ahead = given_to_a_stopped_sink(system)
        return {"one_per_s": one, "three_per_s": three, "ahead_items": ahead, "bare_per_s": bare()}

    yield Sides(measure, None)


def rate(system: System, backplane: str, seconds: float) -> float:
    """Items that have ended in a second, as the source sees it."""
    before_ns, before = ended(system, backplane)
    time.sleep(seconds)
    after_ns, after = ended(system, backplane)
    return (after - before) / (after_ns - before_ns) * 1e9


def ended(system: System, backplane: str, source: str = "ingest_lines") -> tuple[int, int]:
    """When the figures were taken, and how many items had ended behind the source."""
    told = system.client.call(f"backplane.{backplane}.statistics")
    return told["at_ns"], told["flows"][source]["edge"]["ended"]


def given_to_a_stopped_sink(system: System) -> float:
    """Items that the source has given and that have not ended, once it gives no more."""
    pid = system.pids()["store"]
    os.kill(pid, signal.SIGSTOP)
    try:
        seen = -1
        while True:
            flow = system.client.call("backplane.lines.statistics")["flows"]["ingest_lines"]
            if flow["taken"] == seen:
                return float(flow["taken"] - flow["edge"]["ended"])
            seen = flow["taken"]
            time.sleep(0.1)
    finally:
        os.kill(pid, signal.SIGCONT)


def bare() -> float:
    """The three functions, called in a loop."""
    began = time.perf_counter()
    for line in lines.function(BARE_COUNT):
        store.function(parse.function(line))
    return BARE_COUNT / (time.perf_counter() - began)


CASE = Case(
    name="flows",
    what="items a second through a source, a stage and a sink, in one process and in three; no reference",
    requirements=(
        Requirement("items/s in one process", ours("one_per_s"), at_least=200_000),
        Requirement("items/s in three", ours("three_per_s"), at_least=60_000),
        Requirement("items ahead of a stopped sink", ours("ahead_items"), at_most=1_024),
    ),
    open=both,
    rounds=5,
    quick_rounds=2,
)
