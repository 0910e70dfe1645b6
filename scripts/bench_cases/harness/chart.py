"""Chart: curves over a number of threads or shards, both axes logarithmic: what scales is a straight line downwards."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .drawing import Dot, Line, Shape, Words, write
from .glyphs import Point

WIDTH, HEIGHT = 900, 560
LEFT, RIGHT, TOP, BOTTOM = 80, 250, 88, 64
INK, GREY, GRID = "#1f2933", "#66727f", "#e3e7eb"
#: Between the names of two curves that end at one height.
LABEL_GAP = 19.0


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of the chart."""

    name: str
    #: Number to figure.
    points: Mapping[int, float]
    color: str
    #: Dashed, and without dots: something to compare with.
    is_reference: bool = False
    is_hollow: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """All of it."""

    title: str
    subtitle: str
    across: str
    up: str
    curves: Sequence[Curve]

    def write(self, file: Path) -> list[Path]:
        """As SVG and as PNG; the files."""
        return write(self._shapes(), WIDTH, HEIGHT, file)

    def _shapes(self) -> list[Shape]:
        xs = sorted({x for curve in self.curves for x in curve.points})
        ys = [y for curve in self.curves for y in curve.points.values()]
        low, high = _decade_part(min(ys), is_up=False), _decade_part(max(ys) * 1.05, is_up=True)
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

        def place(x: float, y: float) -> Point:
            across = math.log(x / xs[0]) / math.log(xs[-1] / xs[0])
            up = math.log(y / low) / math.log(high / low)
            return LEFT + across * (right - LEFT), bottom - up * (bottom - TOP)

        shapes: list[Shape] = [
            Words((LEFT, 36), self.title, 19, INK, is_bold=True),
            Words((LEFT, 60), self.subtitle, 13, GREY),
            Words(((LEFT + right) / 2, HEIGHT - 20), self.across, 13, GREY, "middle"),
            Words((28, (TOP + bottom) / 2), self.up, 13, GREY, "middle", is_upright=True),
        ]
        for y in _ticks(low, high):
            (x0, at), (x1, _) = place(xs[0], y), place(xs[-1], y)
            shapes += [Line([(x0, at), (x1, at)], GRID), Words((LEFT - 12, at + 4), f"{y:g}", 12, GREY, "end")]
        for x in xs:
            (at, y0), (_, y1) = place(x, low), place(x, high)
            shapes += [Line([(at, y0), (at, y1)], GRID), Words((at, bottom + 22), str(x), 12, GREY, "middle")]
        shapes.append(Line([place(xs[0], low), place(xs[-1], low)], GREY, 1.2))
        labels = []
        for curve in self.curves:
            points = [place(x, y) for x, y in sorted(curve.points.items())]
            dashes = (7.0, 6.0) if curve.is_reference else None
            shapes.append(Line(points, curve.color, 1.6 if curve.is_reference else 2.6, dashes))
            if not curve.is_reference:
                shapes += [Dot(at, 4.2, curve.color, curve.is_hollow) for at in points]
            labels.append((points[-1], curve))
        return shapes + _named(labels, right)


def _named(ends: Sequence[tuple[Point, Curve]], right: float) -> list[Shape]:
    """A curve's name at the edge, apart from others; below its end where it ends before."""
    shapes: list[Shape] = []
    last = -math.inf
    for (x, y), curve in sorted(ends, key=lambda end: end[0][1]):
        if x < right - 1:
            shapes.append(Words((x, y + 26), curve.name, 13, curve.color, "middle", is_bold=True))
            continue
        at = max(y, last + LABEL_GAP)
        last = at
        shapes.append(Words((right + 14, at + 5), curve.name, 13, curve.color, is_bold=not curve.is_reference))
    return shapes


def _ticks(low: float, high: float) -> list[float]:
    found = [digit * 10.0**power for power in range(-4, 6) for digit in (1, 2, 5)]
    return [each for each in found if low * 0.999 <= each <= high * 1.001]


def _decade_part(value: float, *, is_up: bool) -> float:
    """The nearest of 1, 2, 5, 10, … that lies beyond."""
    all_ticks = _ticks(1e-4, 1e5)
    if is_up:
        return next(each for each in all_ticks if each >= value)
    return next(each for each in reversed(all_ticks) if each <= value)
