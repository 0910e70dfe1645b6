"""Drawing: lines, dots and words, written as SVG and as PNG from the same list, with nothing but the standard library.

The SVG has its words as text. The PNG is painted pixel by pixel, each covered as far as a line of that width covers it, and
twice as large, since it cannot be scaled.
"""

from __future__ import annotations

import itertools
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from .glyphs import HEIGHT, Point, strokes

#: Pixels of the PNG for one of the drawing.
SCALE = 2
WHITE = "#ffffff"
#: Of the letters: a capital's share of the font size, and the strokes' width.
CAPITAL, STROKE = 0.70, 0.085


@dataclass(frozen=True, slots=True)
class Line:
    """From point to point."""

    points: Sequence[Point]
    color: str
    width: float = 1.0
    #: Lengths drawn and left out, by turns; empty: all is drawn.
    dashes: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Dot:
    """A disc; with `rim`, one of white with a rim of its colour."""

    at: Point
    radius: float
    color: str
    is_hollow: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """One line of text. `anchor`: which end of it is at `at`, or "middle"."""

    at: Point
    text: str
    size: float
    color: str
    anchor: str = "start"
    is_bold: bool = False
    is_upright: bool = False


Shape = Line | Dot | Words


def write(shapes: Sequence[Shape], width: int, height: int, file: Path) -> list[Path]:
    """`file` with the endings .svg and .png; what was written."""
    svg, png = file.with_suffix(".svg"), file.with_suffix(".png")
    svg.write_text(as_svg(shapes, width, height), encoding="utf-8")
    png.write_bytes(as_png(shapes, width, height))
    return [svg, png]


# -- SVG ------------------------------------------------------------------------------------------------------------------


def as_svg(shapes: Sequence[Shape], width: int, height: int) -> str:
    """The drawing as text."""
    font = "Inter, 'Helvetica Neue', Helvetica, Arial, sans-serif"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="{font}">'
    ground = f'<rect width="{width}" height="{height}" fill="{WHITE}"/>'
    return "\n".join([head, ground, *(_element(shape) for shape in shapes), "</svg>\n"])


def _element(shape: Shape) -> str:
    if isinstance(shape, Line):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.points)
        dashes = f' stroke-dasharray="{shape.dashes[0]:g} {shape.dashes[1]:g}"' if shape.dashes else ""
        return (
            f'<polyline points="{points}" fill="none" stroke="{shape.color}" stroke-width="{shape.width:g}" '
            f'stroke-linejoin="round" stroke-linecap="round"{dashes}/>'
        )
    if isinstance(shape, Dot):
        x, y = shape.at
        fill, rim = (WHITE, shape.color) if shape.is_hollow else (shape.color, WHITE)
        return (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{shape.radius:g}" fill="{fill}" stroke="{rim}" stroke-width="1.5"/>'
        )
    x, y = shape.at
    turned = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if shape.is_upright else ""
    bold = ' font-weight="600"' if shape.is_bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{shape.size:g}" fill="{shape.color}" text-anchor="{shape.anchor}"'
        f"{bold}{turned}>{escape(shape.text)}</text>"
    )


# -- PNG ------------------------------------------------------------------------------------------------------------------


def as_png(shapes: Sequence[Shape], width: int, height: int) -> bytes:
    """The drawing as an image of eight bits a colour."""
    canvas = _Canvas(width * SCALE, height * SCALE)
    for shape in shapes:
        if isinstance(shape, Line):
            for part in _dashed(shape.points, shape.dashes):
                canvas.line(_scaled(part), shape.width * SCALE, shape.color)
        elif isinstance(shape, Dot):
            ((x, y),) = _scaled([shape.at])
            inner, rim = (WHITE, shape.color) if shape.is_hollow else (shape.color, WHITE)
            canvas.line([(x, y), (x, y)], 2 * (shape.radius + 0.75) * SCALE, rim)
            canvas.line([(x, y), (x, y)], 2 * (shape.radius - 0.75) * SCALE, inner)
        else:
            for part in _lettered(shape):
                canvas.line(_scaled(part), shape.size * STROKE * SCALE * (1.5 if shape.is_bold else 1), shape.color)
    return canvas.png()


def _scaled(points: Sequence[Point]) -> list[Point]:
    return [(x * SCALE, y * SCALE) for x, y in points]


def _lettered(words: Words) -> list[list[Point]]:
    unit = words.size * CAPITAL / HEIGHT
    width, found = strokes(words.text)
    begin = {"start": 0.0, "middle": -width / 2, "end": -width}[words.anchor]
    x0, y0 = words.at
    if words.is_upright:
        return [[(x0 - y * unit, y0 - (begin + x) * unit) for x, y in part] for part in found]
    return [[(x0 + (begin + x) * unit, y0 - y * unit) for x, y in part] for part in found]


def _dashed(points: Sequence[Point], dashes: tuple[float, float] | None) -> list[list[Point]]:
    """The parts that are drawn."""
    if dashes is None:
        return [list(points)]
    parts: list[list[Point]] = []
    is_on, left = True, dashes[0]
    part = [points[0]]
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        length = math.hypot(x1 - x0, y1 - y0)
        gone = 0.0
        while length - gone > left:
            gone += left
            at = (x0 + (x1 - x0) * gone / length, y0 + (y1 - y0) * gone / length)
            if is_on:
                parts.append([*part, at])
            is_on, part = not is_on, [at]
            left = dashes[0] if is_on else dashes[1]
        left -= length - gone
        part.append((x1, y1))
    return [*parts, part] if is_on else parts


class _Canvas:
    """Pixels."""

    def __init__(self, width: int, height: int) -> None:
        self._width, self._height = width, height
        self._rows = [bytearray(b"\xff" * width * 3) for _ in range(height)]

    def line(self, points: Sequence[Point], width: float, color: str) -> None:
        """With round ends; where its parts meet, a pixel is painted once."""
        covered: dict[tuple[int, int], float] = {}
        for begin, end in itertools.pairwise(points):
            self._cover(covered, begin, end, max(width, 1.0) / 2)
        ink = bytes.fromhex(color[1:])
        for (x, y), share in covered.items():
            row, at = self._rows[y], 3 * x
            for number in range(3):
                row[at + number] = round(row[at + number] + (ink[number] - row[at + number]) * share)

    def _cover(self, covered: dict[tuple[int, int], float], begin: Point, end: Point, radius: float) -> None:
        (x0, y0), (x1, y1) = begin, end
        dx, dy = x1 - x0, y1 - y0
        square = dx * dx + dy * dy
        reach = radius + 1
        for y in range(max(0, math.floor(min(y0, y1) - reach)), min(self._height, math.ceil(max(y0, y1) + reach))):
            # Only what is near the line in this row: all of a long slanted one's box would be a million pixels.
            if abs(dy) > 1e-9:
                shares = sorted(min(1.0, max(0.0, (y + side - y0) / dy)) for side in (-reach, 1 + reach))
                low, high = sorted((x0 + dx * shares[0], x0 + dx * shares[1]))
            else:
                low, high = sorted((x0, x1))
            for x in range(max(0, math.floor(low - reach)), min(self._width, math.ceil(high + reach))):
                px, py = x + 0.5 - x0, y + 0.5 - y0
                along = min(1.0, max(0.0, (px * dx + py * dy) / square)) if square else 0.0
                share = radius + 0.5 - math.hypot(px - along * dx, py - along * dy)
                if share > covered.get((x, y), 0.0):
                    covered[x, y] = min(1.0, share)

    def png(self) -> bytes:
        """The file."""

        def chunk(name: bytes, data: bytes) -> bytes:
            return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

        header = struct.pack(">IIBBBBB", self._width, self._height, 8, 2, 0, 0, 0)
        pixels = zlib.compress(b"".join(b"\0" + row for row in self._rows), 9)
        return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
