"""Panels: curves over one axis in several panels side by side, as an SVG that a page of docs/ shows.

Written here, since a picture of a few lines is smaller, and the same on each machine, than what a library makes of them. Each
curve has a dash and a mark of its own, so that it is told from the others in black and white.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.sax.saxutils import escape

#: Sizes in pixels: of a panel's axes, and what is around them.
WIDTH, HEIGHT, LEFT, GAP, TOP, BOTTOM = 300, 220, 62, 74, 46, 86
#: With the names beside the curves: a panel is higher, has room to its right, and needs no line for a legend below.
LABELLED_HEIGHT, LABELLED_GAP, LABELLED_BOTTOM = 320, 190, 52
#: Between the ends of a curve and its name, and between two names.
LEADER, LINE = 26, 14
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


@dataclass(frozen=True, slots=True)
class Sizes:
    """In pixels: the height of the axes, and the room beside and below them."""

    height: int
    gap: int
    bottom: int


LEGEND = Sizes(HEIGHT, GAP, BOTTOM)
LABELLED = Sizes(LABELLED_HEIGHT, LABELLED_GAP, LABELLED_BOTTOM)


def svg(
    across: str, numbers: Sequence[float], looks: Mapping[str, Look], panels: Sequence[Panel], *, is_labelled: bool = False
) -> str:  # fmt: skip
    """The picture. `numbers`: the ticks of the axis that all panels share, named `across`. `looks`: of each curve, by name.

    `is_labelled`: the names stand beside the curves, in each panel; else in one line below all panels.
    """
    sizes = LABELLED if is_labelled else LEGEND
    width, height = LEFT + len(panels) * (WIDTH + sizes.gap), TOP + sizes.height + sizes.bottom
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12" fill="{GREY}">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for number, panel in enumerate(panels):
        parts += _panel(LEFT + number * (WIDTH + sizes.gap), across, numbers, looks, panel, sizes)
    column = (width - LEFT) / len(looks)
    for number, (name, look) in enumerate(looks.items() if not is_labelled else ()):
        x, y = LEFT + number * column, TOP + HEIGHT + 66
        parts += [_line([(x, y), (x + 40, y)], look), _mark(x + 20, y, look), _text(x + 50, y + 4, name, color=INK)]
    return "\n".join([*parts, "</svg>", ""])


def spread(heights: Sequence[float], apart: float, end: float) -> list[float]:
    """The heights, in the same order, moved so that neighbours are `apart` and none is past `end`.

    They are pushed down from the top, and then, if the last is past the end, up from there.
    """
    order = sorted(range(len(heights)), key=heights.__getitem__)
    placed = dict[int, float]()
    lowest = -math.inf
    for number in order:
        lowest = placed[number] = max(heights[number], lowest + apart)
    highest = end + apart
    for number in reversed(order):
        highest = placed[number] = min(placed[number], highest - apart)
    return [placed[number] for number in range(len(heights))]


def _panel(
    left: float, across: str, numbers: Sequence[float], looks: Mapping[str, Look], panel: Panel, sizes: Sizes
) -> list[str]:  # fmt: skip
    first, last = numbers[0], numbers[-1]
    bottom = TOP + sizes.height

    def point(x: float, value: float) -> tuple[float, float]:
        return left + (x - first) / (last - first) * WIDTH, bottom - sizes.height * panel.height_of(value)

    parts = [_text(left, TOP - 20, panel.title, color=INK, more=' font-weight="bold" font-size="13"')]
    for tick in panel.ticks:
        y = point(first, tick)[1]
        parts.append(f'<path d="M{left:.1f} {y:.1f}h{WIDTH}" stroke="{GRID}"/>')
        parts.append(_text(left - 8, y + 4, f"{tick:,g}", more=' text-anchor="end"'))
    for number in numbers:
        parts.append(_text(point(number, panel.ticks[0])[0], bottom + 18, f"{number:g}", more=' text-anchor="middle"'))
    parts.append(_text(left + WIDTH / 2, bottom + 38, across, more=' text-anchor="middle"'))
    for name, points in panel.curves.items():
        places = [point(x, value) for x, value in sorted(points.items())]
        parts.append(f"<g><title>{escape(name)}</title>")
        parts += [_line(places, looks[name]), *(_mark(x, y, looks[name]) for x, y in places), "</g>"]
    return parts if sizes is LEGEND else [*parts, *_labels(panel, looks, point, bottom)]


def _labels(
    panel: Panel, looks: Mapping[str, Look], point: Callable[[float, float], tuple[float, float]], bottom: float
) -> list[str]:  # fmt: skip
    """The name of each curve, at the end of a thin line from the curve's last point."""
    ends = {name: point(*max(points.items())) for name, points in panel.curves.items()}
    parts: list[str] = []
    for (name, (x, y)), height in zip(ends.items(), spread([y for _, y in ends.values()], LINE, bottom), strict=True):
        color = looks[name].color
        leader = f"M{x + MARK + 2:.1f} {y:.1f}L{x + LEADER - 4:.1f} {height:.1f}"
        parts.append(f'<path d="{leader}" fill="none" stroke="{color}" stroke-width="0.8"/>')
        parts.append(_mark(x + LEADER + 3, height, looks[name]))
        parts.append(_text(x + LEADER + 12, height + 4, name, color=color))
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
