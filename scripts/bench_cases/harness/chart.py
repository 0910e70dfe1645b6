"""Chart: curves over a number of threads or shards, both axes logarithmic: what scales is a straight line downwards.

Drawn by matplotlib, which the extra `bench` brings. It is imported when the first chart is written, after the measurement:
importing it costs more than all of this program (docs/decisions/libraries.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Size in inches, and dots per inch of the PNG: 1800 by 1120 pixels.
SIZE_INCHES, DOTS_PER_INCH = (9.0, 5.6), 200
INK, GREY, GRID = "#1f2933", "#66727f", "#e3e7eb"
#: Share of the figure that the axes take: left, bottom, right, top. The titles are above, the names of the curves on the right.
AXES = {"left": 0.09, "bottom": 0.11, "right": 0.70, "top": 0.83}


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    #: Number to figure.
    points: Mapping[int, float]
    color: str
    #: Dashed and without dots: a value to compare with.
    is_reference: bool = False
    is_hollow: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """Curves with their titles and the names of both axes."""

    title: str
    subtitle: str
    across: str
    up: str
    curves: Sequence[Curve]

    def write(self, file: Path) -> list[Path]:
        """Write `file` with the endings .svg and .png, and return both paths. Raises ImportError without matplotlib."""
        import matplotlib
        from matplotlib.figure import Figure
        from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

        figure = Figure(SIZE_INCHES)
        figure.subplots_adjust(**AXES)
        figure.text(AXES["left"], 0.93, self.title, size=15, weight="bold", color=INK)
        figure.text(AXES["left"], 0.88, self.subtitle, size=9.5, color=GREY)
        axes = figure.add_subplot(xscale="log", yscale="log")
        axes.set_xlabel(self.across, color=GREY)
        axes.set_ylabel(self.up, color=GREY)
        axes.set_xticks(sorted({x for curve in self.curves for x in curve.points}))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(NullFormatter())
        axes.tick_params(which="both", length=0, colors=GREY)
        axes.grid(color=GRID)
        axes.set_axisbelow(True)
        axes.spines[["left", "right", "top"]].set_visible(False)
        axes.spines["bottom"].set_color(GREY)
        for curve in self.curves:
            look = {"linestyle": "--", "linewidth": 1.3} if curve.is_reference else {"marker": "o", "linewidth": 2.2}
            numbers = sorted(curve.points)
            axes.plot(
                numbers, [curve.points[number] for number in numbers], color=curve.color, label=curve.name, clip_on=False,
                markerfacecolor="white" if curve.is_hollow else curve.color, **look,
            )  # fmt: skip
        colors = [curve.color for curve in self.curves]
        axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, labelcolor=colors)
        written = [file.with_suffix(".svg"), file.with_suffix(".png")]
        with matplotlib.rc_context({"svg.fonttype": "none"}):  # words stay words, for readers that search
            for path in written:
                figure.savefig(path, dpi=DOTS_PER_INCH)
        return written
