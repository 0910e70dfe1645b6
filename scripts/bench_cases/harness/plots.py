"""Plots: where the charts go that some cases draw, and which were written."""

from __future__ import annotations

from pathlib import Path

from .chart import Chart
from .systems import SCRIPTS


class Plots:
    """Of one run of the benchmarks."""

    def __init__(self) -> None:
        #: Beside what is built: no part of the sources.
        self.folder = SCRIPTS.parent / "build" / "plots"
        self.written: list[Path] = []

    def add(self, name: str, chart: Chart) -> None:
        """As NAME.svg and NAME.png."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.written += chart.write(self.folder / name)


PLOTS = Plots()
