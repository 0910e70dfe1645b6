"""Curves: each architecture is offered more and more work. One picture shows the part that is served, and the wait of commands.

Each station has one core, and the driver another, so that the architecture makes the difference, not the number of processes.
Load 1 is as many frames as one core can inspect. `python show.py --curves` measures for some minutes; `scripts/bench
architectures` does the same for longer, several times.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from registry import ARCHITECTURES, HERE, Architecture

sys.path.append(str(HERE.parents[1] / "scripts"))
sys.path.append(str(HERE / "station"))
from bench_cases.harness.machine import apart
from bench_cases.harness.panels import Look, Panel, svg
from bench_cases.harness.systems import up
from offered_load import CAPACITY_PER_S, arrivals, offer, settled

from appbackplane.transport import connect_async

LOADS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
#: Other programs on the driver's core make it send requests late and at once. On a quiet machine it is late by 5 ms.
LAG_MS_MAX, TRIES_MAX = 20.0, 3
#: Told apart without colors, too: with 4 dashes and 3 marks, twelve curves have twelve pairs.
COLORS = ("#1f2933", "#b4501e", "#0b66a8", "#1b7f5c", "#7a3f98", "#8a6d00")
DASHES = ("", "8 4", "2 4", "10 3 2 3")
MARKS = ("circle", "square", "triangle")
LOOKS = {
    each.label: Look(COLORS[number % 6], DASHES[number % 4], MARKS[number % 3])
    for number, each in enumerate(ARCHITECTURES)
}


@dataclass(frozen=True, slots=True)
class Step:
    """One architecture under one load, in one sweep."""

    architecture: str
    load: float
    #: Frames, in percent of what one core can inspect.
    served_percent: float
    refused_percent: float
    command_p99_ms: float
    commands_failed: int
    #: How late the driver sent a request at the worst. If that is most of the p99, the driver was measured, not the station.
    driver_lag_ms: float


def sweep(
    architectures: Sequence[Architecture], loads: Sequence[float], settle_s: float, measured_s: float,
    say: Callable[[Step], Any], seed: int = 0,
) -> list[Step]:  # fmt: skip
    """Bring up each station in turn, and offer it each load: first for `settle_s`, then for `measured_s`, which count."""
    steps: list[Step] = []
    for architecture in architectures:
        with station(architecture) as run_dir:
            for load in loads:
                steps.append(undisturbed(partial(measured, architecture, run_dir, load, settle_s, measured_s, seed)))
                say(steps[-1])
    return steps


def undisturbed(measure: Callable[[], Coroutine[Any, Any, Step]]) -> Step:
    """Measure until the driver was never late by more than `LAG_MS_MAX`, at most `TRIES_MAX` times: the step of least lag."""
    tries: list[Step] = []
    while not tries or (tries[-1].driver_lag_ms > LAG_MS_MAX and len(tries) < TRIES_MAX):
        tries.append(asyncio.run(measure()))
    return min(tries, key=lambda step: step.driver_lag_ms)


@contextmanager
def station(architecture: Architecture) -> Iterator[Path]:
    """The station of an architecture on the last core, and this process on another; its run directory."""
    with tempfile.TemporaryDirectory(prefix="ab-") as folder, apart() as step_aside:
        toml = Path(folder) / "station.toml"
        lines = architecture.station.read_text().replace("[system]\n", '[system]\nrun_dir = "run"\n')
        toml.write_text(lines)
        (Path(folder) / "stations").symlink_to(architecture.module.parent)
        with up(toml) as run_dir:
            step_aside()
            yield run_dir


async def measured(
    architecture: Architecture, run_dir: Path, load: float, settle_s: float, measured_s: float, seed: int
) -> Step:
    """One step, which ends when all that was offered is done."""
    due = arrivals(load, settle_s + measured_s, seed)
    async with await connect_async(run_dir) as client:
        answers = await offer(client, due, architecture.key_of, settle_s, measured_s)
        await settled(client)
    full = measured_s * CAPACITY_PER_S
    return Step(
        architecture.name, load, 100 * answers.frames_served / full, 100 * answers.frames_refused / full,
        answers.command_p99_ms(), answers.commands_failed, answers.driver_lag_s * 1e3,
    )  # fmt: skip


def picture(steps: Sequence[Step]) -> str:
    """An SVG of two panels; of several sweeps, the medians."""
    return svg(
        "frames offered, in parts of what one core can inspect", [0, 1, 2, 3], LOOKS,
        [
            Panel("frames served, % of what one core can inspect", served(steps), [0, 20, 40, 60, 80, 100]),
            Panel(
                "p99 of the operators' commands, ms", command_p99(steps), [1, 3, 10, 30, 100, 300, 1_000, 3_000],
                is_logarithmic=True,
            ),
        ],
        is_labelled=True,
    )  # fmt: skip


def served(steps: Sequence[Step]) -> dict[str, dict[float, float]]:
    """Frames served in percent, by label of the architecture and load."""
    return _medians(steps, lambda step: step.served_percent)


def command_p99(steps: Sequence[Step]) -> dict[str, dict[float, float]]:
    """The p99 of the commands in ms, by label of the architecture and load."""
    return _medians(steps, lambda step: step.command_p99_ms)


def _medians(steps: Sequence[Step], value: Callable[[Step], float]) -> dict[str, dict[float, float]]:
    found: dict[str, dict[float, float]] = {}
    for each in ARCHITECTURES:
        loads = sorted({step.load for step in steps if step.architecture == each.name})
        if loads:
            found[each.label] = {
                load: statistics.median(
                    value(step) for step in steps if step.architecture == each.name and step.load == load
                )
                for load in loads
            }
    return found


def as_json(steps: Sequence[Step], settle_s: float, measured_s: float) -> str:
    """All steps of all sweeps, and how they were measured."""
    rows = [{name: getattr(step, name) for name in Step.__slots__} for step in steps]
    return json.dumps({"settle_s": settle_s, "measured_s": measured_s, "steps": rows}, indent=1) + "\n"


def line(step: Step) -> str:
    """One step, for people."""
    return (
        f"{step.architecture:18} load {step.load:4.2f}  served {step.served_percent:5.1f} %  refused"
        f" {step.refused_percent:5.1f} %  commands p99 {step.command_p99_ms:7.1f} ms, {step.commands_failed} not served"
        f"  (driver {step.driver_lag_ms:.1f} ms late)"
    )
