"""overload_curve: goodput and p99 of the services of `overload`, from half of what they can serve to three times as much.

The figures of `overload` are of one load; here are the curves. Each load is offered to the three services in turn, between
two looks at the peak, which is what goodput is compared with. What counts was sent after a while of that load. The picture is
`overload.svg` among the plots; `--plots docs/concepts` renews that of docs/concepts/overload.md. A surprise would be a curve
with the aim that bends anywhere past 1.
"""

from __future__ import annotations

import asyncio
import statistics
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from appbackplane.transport import connect_async

from .harness.case import Case, Figures, Requirement, Sides, ours
from .harness.panels import Look, Panel, svg
from .harness.plots import PLOTS
from .harness.systems import System
from .harness.timing import percentile
from .overload import AIM_MS, offered, peak, services

LOADS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
QUICK_LOADS = (0.5, 1.0, 3.0)
#: Seconds of a load before what counts, and of what counts.
SETTLE_S, MEASURED_S = 1.5, 2.0
NAMES = (f"aim of {AIM_MS} ms", "fixed limit of 100", "nothing but 10,000 places")
LOOKS = {
    NAMES[0]: Look("#1b7f5c", "", "circle"),
    NAMES[1]: Look("#b4501e", "8 4", "square"),
    NAMES[2]: Look("#1f2933", "2 4", "triangle"),
}


class Curves:
    """What was found in all rounds: by service and load, goodput in percent of the peak, and p99 in ms."""

    def __init__(self, loads: tuple[float, ...]) -> None:
        self.loads = loads
        self.goodput: dict[tuple[str, float], list[float]] = defaultdict(list)
        self.p99: dict[tuple[str, float], list[float]] = defaultdict(list)

    def measure(self, systems: tuple[System, System, System]) -> Figures:
        """One more round."""
        for load in self.loads:
            for name, system in zip(NAMES, systems, strict=True):
                goodput, p99 = asyncio.run(measured(system, load))
                self.goodput[name, load].append(goodput)
                self.p99[name, load].append(p99)
        PLOTS.add_svg("overload", self.picture())
        past = [load for load in self.loads if load > 1]
        return {
            "goodput_past_peak_percent": min(self.goodput[NAMES[0], load][-1] for load in past),
            "p99_past_peak_ms": max(self.p99[NAMES[0], load][-1] for load in past),
            **{
                f"{kind}_{load:g}_{unit}": found[NAMES[0], load][-1]
                for kind, unit, found in (("goodput", "percent", self.goodput), ("p99", "ms", self.p99))
                for load in self.loads
            },
        }

    def picture(self) -> str:
        """The medians of all rounds."""
        return svg(
            "offered load, in parts of what the service can do", [0.5, 1.0, 1.5, 2.0, 2.5, 3.0], LOOKS,
            [
                Panel("answered within 1 s, % of the peak", self._curves(self.goodput), [0, 20, 40, 60, 80, 100, 120]),
                Panel(
                    "p99 of the answered, ms (priority 4)", self._curves(self.p99), [1, 3, 10, 30, 100, 300, 1_000, 3_000],
                    is_logarithmic=True,
                ),
            ],
        )  # fmt: skip

    def _curves(self, found: dict[tuple[str, float], list[float]]) -> dict[str, dict[float, float]]:
        return {
            name: {load: statistics.median(values) for load in self.loads if (values := found[name, load])}
            for name in NAMES
        }


async def measured(system: System, load: float) -> tuple[float, float]:
    """Goodput in percent of the peak, and the p99 in ms of the calls that are not of priority 0."""
    pid = system.pids()["desk"]
    async with await connect_async(system.run_dir) as client:
        before_per_s, _ = await peak(client, pid)
        urgent, others = await offered(client, load * before_per_s, SETTLE_S + MEASURED_S)
        after_per_s, _ = await peak(client, pid)
        peak_per_s = (before_per_s + after_per_s) / 2
        began = min(at for answers in (urgent, others) for at, _ in answers.answered)
        counted = [
            [took for at, took in answers.answered if at >= began + SETTLE_S] for answers in (urgent, others)
        ]  # fmt: skip
        goodput = 100.0 * sum(map(len, counted)) / MEASURED_S / peak_per_s
        return goodput, percentile(counted[1], 0.99) * 1e3 if counted[1] else float("nan")


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    curves = Curves(QUICK_LOADS if is_quick else LOADS)
    with services() as systems:
        yield Sides(lambda: curves.measure(systems))


CASE = Case(
    name="overload_curve",
    what="the same services as of overload, from half of what they can serve to three times as much; draws overload.svg",
    requirements=(
        Requirement(
            "least goodput past the peak", ours("goodput_past_peak_percent"), at_least=95, unit="% of the peak"
        ),
        Requirement("highest p99 past the peak", ours("p99_past_peak_ms"), at_most=2 * AIM_MS, unit="ms"),
    ),
    open=both,
    rounds=3,
    quick_rounds=1,
    is_warmed_up=False,
)
