"""Panels: curves over one axis in several panels side by side, as an SVG that a page of docs/ shows.

Written here, since a picture of a few lines is smaller, and the same on each machine, than what a library makes of them. Each
curve has a dash and a mark of its own, so that it is told from the others in black and white.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.sax.saxutils import escape

#: Sizes in pixels: of a panel's axes, and what is around them.
WIDTH, HEIGHT, LEFT, GAP, TOP, BOTTOM = 300, 220, 62, 74, 46, 86
INK, GREY, GRID = "#1f2933", "#52606d", "#d9dee3"
MARK = 4.5


@dataclass(frozen=True, slots=True)
class Look:
    """How a curve is told from the others. `dash`: as of SVG; empty: a solid line."""

    color: str
    dash: str
    mark: Literal["circle", "square", "triangle"]


@dataclass(frozen=True, slots=True)
class Panel:
    """`curves`: name to points. `ticks`: the values with a line; the first and the last are the ends of the axis."""

    title: str
    curves: Mapping[str, Mapping[float, float]]
    ticks: Sequence[float]
    is_logarithmic: bool = False

    def height_of(self, value: float) -> float:
        """From the bottom of the axes, a part of their height."""
        low, high, at = self.ticks[0], self.ticks[-1], max(self.ticks[0], min(self.ticks[-1], value))
        if self.is_logarithmic:
            return math.log(at / low) / math.log(high / low)
        return (at - low) / (high - low)


def svg(across: str, numbers: Sequence[float], looks: Mapping[str, Look], panels: Sequence[Panel]) -> str:
    """The picture. `numbers`: the ticks of the axis that all panels share, named `across`. `looks`: of each curve, by name."""
    width, height = LEFT + len(panels) * (WIDTH + GAP), TOP + HEIGHT + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12" fill="{GREY}">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for number, panel in enumerate(panels):
        parts += _panel(LEFT + number * (WIDTH + GAP), across, numbers, looks, panel)
    column = (width - LEFT) / len(looks)
    for number, (name, look) in enumerate(looks.items()):
        x, y = LEFT + number * column, TOP + HEIGHT + 66
        parts += [_line([(x, y), (x + 40, y)], look), _mark(x + 20, y, look), _text(x + 50, y + 4, name, color=INK)]
    return "\n".join([*parts, "</svg>", ""])


def _panel(left: float, across: str, numbers: Sequence[float], looks: Mapping[str, Look], panel: Panel) -> list[str]:
    first, last = numbers[0], numbers[-1]

    def point(x: float, value: float) -> tuple[float, float]:
        return left + (x - first) / (last - first) * WIDTH, TOP + HEIGHT * (1 - panel.height_of(value))

    parts = [_text(left, TOP - 20, panel.title, color=INK, more=' font-weight="bold" font-size="13"')]
    for tick in panel.ticks:
        y = point(first, tick)[1]
        parts.append(f'<path d="M{left:.1f} {y:.1f}h{WIDTH}" stroke="{GRID}"/>')
        parts.append(_text(left - 8, y + 4, f"{tick:,g}", more=' text-anchor="end"'))
    for number in numbers:
        parts.append(_text(point(number, 0)[0], TOP + HEIGHT + 18, f"{number:g}", more=' text-anchor="middle"'))
    parts.append(_text(left + WIDTH / 2, TOP + HEIGHT + 38, across, more=' text-anchor="middle"'))
    for name, points in panel.curves.items():
        places = [point(x, value) for x, value in sorted(points.items())]
        parts.append(f"<g><title>{escape(name)}</title>")
        parts += [_line(places, looks[name]), *(_mark(x, y, looks[name]) for x, y in places), "</g>"]
    return parts


def _text(x: float, y: float, text: str, *, color: str = GREY, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}"{more}>{escape(text)}</text>'


def _line(places: Sequence[tuple[float, float]], look: Look) -> str:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    dash = look.dash and f' stroke-dasharray="{look.dash}"'
    return f'<path d="M{path}" fill="none" stroke="{look.color}" stroke-width="2"{dash}/>'


def _mark(x: float, y: float, look: Look) -> str:
    if look.mark == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{MARK}" fill="{look.color}"/>'
    if look.mark == "square":
        path = f"M{x - MARK:.1f} {y - MARK:.1f}h{2 * MARK}v{2 * MARK}h{-2 * MARK}z"
    else:
        path = f"M{x:.1f} {y - MARK:.1f}l{MARK} {2 * MARK}h{-2 * MARK}z"
    return f'<path d="{path}" fill="white" stroke="{look.color}" stroke-width="2"/>'
