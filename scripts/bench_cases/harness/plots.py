"""Plots: where the charts go that some cases draw, which were written, and which could not be drawn."""

from __future__ import annotations

from pathlib import Path

from .chart import Chart
from .systems import SCRIPTS


class Plots:
    """The charts of one run of the benchmarks."""

    def __init__(self) -> None:
        #: Beside what is built: no part of the sources.
        self.folder = SCRIPTS.parent / "build" / "plots"
        self.written: list[Path] = []
        #: A line for each chart that was not drawn, with the reason. The figures of its case hold all the same.
        self.missing: list[str] = []

    def add(self, name: str, chart: Chart) -> None:
        """Write NAME.svg and NAME.png, or note why they are missing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self.written += chart.write(self.folder / name)
        except ImportError as error:
            self.missing.append(f"no plot of {name}: {error} (it comes with: pip install '.[bench]')")

    def add_svg(self, name: str, picture: str) -> None:
        """Write a picture that is drawn already; once more where a later round has renewed it."""
        self.add_text(f"{name}.svg", picture)

    def add_text(self, name: str, text: str) -> None:
        """Write a file, such as the figures of a picture; once more where a later round has renewed them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        if path not in self.written:
            self.written.append(path)


PLOTS = Plots()
